"""Symbols given by formulas, from one channel to one or to the axes, evaluated in float64."""

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid
from pdno.symbols.base import Symbol, SymbolValues, Time, as_parameters


class AnalyticSymbol(Symbol):
    """A symbol a(ξ) given by a formula, in float64.

    On an even grid the mode N/2 stands for both signs: the value there is the mean of both.
    """

    hermitian = True

    def __init__(self, out_channels: int = 1) -> None:
        super().__init__(1, out_channels)

    @abstractmethod
    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        """a at integers ξ (*N^, d): (*N^), (O, *N^), or (B, *N^) for times t (B, 1, ..., 1)."""

    def space(self, x: Tensor) -> Tensor | None:
        """b at points (*N, d), as values (*N); None for 1."""
        return None

    def evaluate(self, grid: Grid, modes: Modes = None, t: Time = None) -> SymbolValues:
        """The formula on the kept modes, with the mean of both signs at N/2."""
        even = [(axis, n) for axis, n in enumerate(grid.shape) if n % 2 == 0]
        time = self._time(t, grid.dim)
        values = self._mean_of_signs(grid.modes(modes).to(torch.float64), time, even)
        return self._values(values, self.space(grid.points()), grid.dim)

    def evaluate_at(self, x: Tensor, xi: Tensor, t: Time = None) -> SymbolValues:
        """The formula at any frequencies (M, d), by itself."""
        values = self.formula(xi.double(), self._time(t)).to(torch.complex128)
        return self._values(values, self.space(x.double()), 1)

    def _values(self, c: Tensor, b: Tensor | None, dim: int) -> SymbolValues:
        several = self.out_channels > 1
        c = c[None, :, None] if several else c[(..., None, None, None, *[slice(None)] * dim)]
        return SymbolValues(c, None if b is None else b[None, None, None])

    def _time(self, t: Time, dim: int = 0) -> Tensor:
        zero = torch.zeros((), dtype=torch.float64)
        values = as_parameters(t, self, zero)
        if values is None:
            return zero
        return values[:, 0].reshape(-1, *[1] * dim) if values.dim() == 2 else values[0]

    def _mean_of_signs(self, xi: Tensor, t: Tensor, even: list[tuple[int, int]]) -> Tensor:
        if not even:
            return self.formula(xi, t).to(torch.complex128)
        (axis, n), *rest = even
        flipped = xi.clone()
        flipped[..., axis] = xi[..., axis].where(xi[..., axis].abs() != n / 2, -xi[..., axis])
        # halves of pairs, so that the mean of equal values is that value to the last bit
        return 0.5 * (self._mean_of_signs(xi, t, rest) + self._mean_of_signs(flipped, t, rest))


def _norm_squared(xi: Tensor) -> Tensor:
    return 4 * math.pi**2 * xi.square().sum(dim=-1)


def _norm_power(xi: Tensor, power: float) -> Tensor:
    """(4π²|ξ|²)^power, and 0 at ξ = 0."""
    squared = _norm_squared(xi)
    return torch.where(squared == 0, 0.0, squared.where(squared != 0, 1.0) ** power)


def _check_axes(name: str, per_axis: tuple[float, ...], xi: Tensor) -> None:
    if (axes := xi.shape[-1]) != len(per_axis):
        raise ValueError(f"a {name} {per_axis} on a grid of {axes} axes: give one number each")


class HeatSymbol(AnalyticSymbol):
    """e^{-4π²|ξ|²ct}, the solution of u_t = cΔu (eq. 18); of every order for t > 0."""

    takes_time = True

    def __init__(self, diffusivity: float = 0.05) -> None:
        super().__init__()
        self.diffusivity = diffusivity

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        return torch.exp(-self.diffusivity * t * _norm_squared(xi))


class DifferentialOperator(AnalyticSymbol):
    """Σ_α c_α (2πiξ)^α, a differential operator with constant coefficients; of order max |α|.

    Powers α are one number per axis; Δ in the plane has the powers (2, 0) and (0, 2).
    """

    def __init__(
        self, powers: Sequence[Sequence[int]], coefficients: Sequence[float] | None = None
    ) -> None:
        super().__init__()
        self.powers = tuple(tuple(power) for power in powers)
        self.coefficients = (1.0,) * len(powers) if coefficients is None else tuple(coefficients)
        if not powers or len(self.coefficients) != len(powers):
            counts = f"{len(powers)} powers and {len(self.coefficients)} coefficients"
            raise ValueError(f"{counts}: expected one coefficient for each of some powers")
        self.dim, self.class_order = len(self.powers[0]), float(max(map(sum, self.powers)))

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        total = torch.zeros(xi.shape[:-1], dtype=torch.complex128, device=xi.device)
        for power, coefficient in zip(self.powers, self.coefficients, strict=True):
            _check_axes("derivative", power, xi)
            real = (2 * math.pi * xi).pow(xi.new_tensor(power)).prod(dim=-1)
            # powers of i that are exact: what is real stays real
            total = total + coefficient * real * (1, 1j, -1, -1j)[sum(power) % 4]
        return total


class Derivative(DifferentialOperator):
    """(2πiξ)^α, the derivative ∂^α; of order |α|."""

    def __init__(self, order: Sequence[int]) -> None:
        super().__init__([order])
        self.order = tuple(order)


class Gradient(AnalyticSymbol):
    """2πiξ, the gradient ∇ of a field in d dimensions, from one channel to d; of order 1."""

    class_order = 1.0

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        self.dim = dim

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        _check_axes("gradient", (1.0,) * self.out_channels, xi)
        return 2j * math.pi * xi.movedim(-1, 0)


class BiotSavart(AnalyticSymbol):
    """2πi (ξ₂, -ξ₁) / 4π²|ξ|², 0 at ξ = 0: the velocity (∂₂ψ, -∂₁ψ), -Δψ = ω, of a vorticity."""

    class_order, dim = -1.0, 2

    def __init__(self) -> None:
        super().__init__(2)

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        _check_axes("velocity", (1.0, 1.0), xi)
        return 2j * math.pi * torch.stack([xi[..., 1], -xi[..., 0]]) * _norm_power(xi, -1.0)


class FractionalLaplacian(AnalyticSymbol):
    """(4π²|ξ|²)^s, that is (-Δ)^s; of order 2s, zero at ξ = 0 for any s."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power, self.class_order = power, 2 * power

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        return _norm_power(xi, self.power)


class Resolvent(AnalyticSymbol):
    """1/(z + 4π²|ξ|²), that is (z - Δ)⁻¹; of order -2."""

    class_order = -2.0

    def __init__(self, shift: float = 1.0) -> None:
        super().__init__()
        if shift <= 0:
            raise ValueError(f"shift is {shift}; expected z > 0, where z - Δ is invertible")
        self.shift = shift

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        return 1.0 / (self.shift + _norm_squared(xi))


class Advection(AnalyticSymbol):
    """e^{-2πi v·ξ t}, the solution of u_t + v·∇u = 0; bounded, in no class S^m_{1,0}."""

    takes_time = True

    def __init__(self, velocity: Sequence[float]) -> None:
        super().__init__()
        self.velocity, self.dim = tuple(velocity), len(velocity)

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        _check_axes("velocity", self.velocity, xi)
        shift = (xi * torch.tensor(self.velocity, dtype=torch.float64)).sum(dim=-1)
        return torch.exp(-2j * math.pi * t * shift)


class Wave(AnalyticSymbol):
    """cos(2πc|ξ|t): u_tt = c²Δu from rest; bounded, in no class S^m_{1,0}."""

    takes_time = True

    def __init__(self, speed: float = 1.0) -> None:
        super().__init__()
        self.speed = speed

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        return torch.cos(self.speed * t * _norm_squared(xi).sqrt())


class Multiplication(AnalyticSymbol):
    """b(x), a function from points (*N, d) to values (*N); of order 0 for smooth b."""

    depends_on_x = True

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def formula(self, xi: Tensor, t: Tensor) -> Tensor:
        return torch.ones(xi.shape[:-1], dtype=torch.float64)

    def space(self, x: Tensor) -> Tensor:
        return self.function(x)
