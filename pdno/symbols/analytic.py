"""Symbols that are known in closed form, one number per mode (I = O = 1).

| class               | symbol                         | operator                       |
|---------------------|--------------------------------|--------------------------------|
| `Heat`        | e^{-4π²|ξ|²ct}                 | solution of u_t = cΔu          |
| `Derivative`  | (2πiξ)^α                       | ∂^α                            |
| `FractionalLaplacian` | (4π²|ξ|²)^s            | (-Δ)^s                         |
| `Resolvent`   | 1/(z + 4π²|ξ|²)                | (z - Δ)⁻¹                      |
| `Advection`   | e^{-2πi v·ξ t}                 | solution of u_t + v·∇u = 0     |
| `Wave`        | cos(2πc|ξ|t)                   | solution of u_tt = c²Δu at rest |
| `Multiplication` | b(x)                        | f -> b f                       |

On an even grid the mode N/2 stands for both signs in equal parts, so a symbol has the mean of its
two values there; that makes the derivative symbol the spectral derivative.
"""

__all__ = [
    "Advection",
    "AnalyticSymbol",
    "Derivative",
    "FractionalLaplacian",
    "Heat",
    "Multiplication",
    "Resolvent",
    "Wave",
]

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pdno.fourier import Modes
from pdno.grid import Grid, kept_per_axis
from pdno.symbols.base import Symbol, SymbolValues


class AnalyticSymbol(Symbol):
    """A symbol a(ξ) given by a formula, in float64."""

    takes_time = False

    def __init__(self) -> None:
        super().__init__(1, 1)

    @abstractmethod
    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """a at integer frequencies ξ (..., d), as real or complex values (...)."""

    def evaluate(
        self, grid: Grid, modes: Modes = None, t: Tensor | float | None = None
    ) -> SymbolValues:
        """The formula on the kept modes, with the mean of both signs at N/2."""
        if self.takes_time != (t is not None):
            raise ValueError(f"{type(self).__name__} {'needs' if self.takes_time else 'has no'} t")
        time = None if t is None else torch.as_tensor(t, dtype=torch.float64)
        xi = grid.modes(modes).to(torch.float64)
        values = self.formula(xi, time).to(torch.complex128)
        kept = kept_per_axis(grid.shape, modes)
        for axis, (n, k) in enumerate(zip(grid.shape, kept, strict=True)):
            holds_nyquist = n % 2 == 0 and (k is None or 2 * k >= n)
            if holds_nyquist:
                flipped = xi.clone()
                flipped[..., axis] = torch.where(
                    xi[..., axis].abs() == n / 2, -xi[..., axis], xi[..., axis]
                )
                values = 0.5 * (values + self.formula(flipped, time))
        return SymbolValues(values[None, None, None])


def _norm_squared(xi: Tensor) -> Tensor:
    return 4 * math.pi**2 * xi.square().sum(dim=-1)


class Heat(AnalyticSymbol):
    """e^{-4π²|ξ|²ct}, of every order for t > 0."""

    takes_time = True

    def __init__(self, diffusivity: float = 0.05) -> None:
        super().__init__()
        self.diffusivity = diffusivity

    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """The symbol at ξ."""
        assert t is not None
        return torch.exp(-self.diffusivity * t * _norm_squared(xi))


class Derivative(AnalyticSymbol):
    """(2πiξ)^α, of order |α|."""

    def __init__(self, order: Sequence[int]) -> None:
        super().__init__()
        self.order = tuple(order)

    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """The symbol at ξ."""
        if xi.shape[-1] != len(self.order):
            raise ValueError(f"a derivative {self.order} on a grid of {xi.shape[-1]} axes")
        factors = [
            (2j * math.pi * xi[..., axis]) ** power for axis, power in enumerate(self.order)
        ]
        return torch.stack(factors).prod(dim=0)


class FractionalLaplacian(AnalyticSymbol):
    """(4π²|ξ|²)^s, of order 2s; zero at ξ = 0 for any s."""

    def __init__(self, power: float) -> None:
        super().__init__()
        self.power = power

    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """The symbol at ξ."""
        squared = _norm_squared(xi)
        return torch.where(
            squared == 0, 0.0, torch.where(squared == 0, 1.0, squared) ** self.power
        )


class Resolvent(AnalyticSymbol):
    """1/(z + 4π²|ξ|²), of order -2."""

    def __init__(self, shift: float = 1.0) -> None:
        super().__init__()
        if shift <= 0:
            raise ValueError(f"shift is {shift}; expected z > 0, where z - Δ is invertible")
        self.shift = shift

    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """The symbol at ξ."""
        return 1.0 / (self.shift + _norm_squared(xi))


class Advection(AnalyticSymbol):
    """e^{-2πi v·ξ t}: translation by vt; bounded, in no class S^m_{1,0}."""

    takes_time = True

    def __init__(self, velocity: Sequence[float]) -> None:
        super().__init__()
        self.velocity = tuple(velocity)

    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """The symbol at ξ."""
        assert t is not None
        velocity = torch.tensor(self.velocity, dtype=torch.float64)
        return torch.exp(-2j * math.pi * t * (xi * velocity).sum(dim=-1))


class Wave(AnalyticSymbol):
    """cos(2πc|ξ|t): u_tt = c²Δu from rest; bounded, in no class S^m_{1,0}."""

    takes_time = True

    def __init__(self, speed: float = 1.0) -> None:
        super().__init__()
        self.speed = speed

    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """The symbol at ξ."""
        assert t is not None
        return torch.cos(self.speed * t * _norm_squared(xi).sqrt())


class Multiplication(AnalyticSymbol):
    """b(x), of order 0 for smooth b.

    Arguments:
        function: b, from points (*N, d) to values (*N).
    """

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def formula(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """1 at every ξ."""
        return torch.ones(xi.shape[:-1], dtype=torch.float64)

    def evaluate(
        self, grid: Grid, modes: Modes = None, t: Tensor | float | None = None
    ) -> SymbolValues:
        """1 in frequency, b in space."""
        values = super().evaluate(grid, modes, t)
        return SymbolValues(values.frequency, self.function(grid.points())[None, None, None])
