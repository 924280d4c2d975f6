"""Calculus of symbols, and operators in phase space.

T_a f(x) = Σ_ξ a(x, ξ) f̂(ξ) e^{2πi ξ·x}. A symbol is a function of x (P, 1, d) and ξ (1, M, d) with
values (P, M) for one channel, or (O, I, P, M): products are then those of matrices. With
`differences`, Newton's series takes the place of Taylor's, for symbols that are defined at
integers only: Δ_j a(ξ) = a(ξ + e_j) - a(ξ) that of ∂_ξj, and D_j (D_j - 1) ... (D_j - α_j + 1)
that of D_j^α_j with D = ∂_x / 2πi (Ruzhansky and Turunen, 2010, theorem 4.7.10).
"""

import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pdno.spectral.fourier import transform, whole_spectrum
from pdno.spectral.grid import Grid
from pdno.symbols.base import FullSymbol
from pdno.theory.norms import LinearMap
from pdno.theory.probe import MultiIndex, multi_indices

SymbolFunction = Callable[[Tensor, Tensor], Tensor]
FAR = 2.0**20  # λ of the limit of a principal symbol; errors of the next order are that much less


def compose(
    a: SymbolFunction, b: SymbolFunction, *, dim: int, terms: int, differences: bool = False
) -> SymbolFunction:
    """T_a T_b = T_c, c ~ Σ_α (1/α!) ∂_ξ^α a · D^α b, by the terms |α| < `terms`.

    Term α is of order m + n - |α| for a of order m and b of order n.

    Example:
        >>> half = compose(lambda x, xi: xi[..., 0], lambda x, xi: x[..., 0], dim=1, terms=2)
        >>> half(torch.ones(1, 1, 1), torch.ones(1, 1, 1)).imag * 2 * math.pi  # x ξ + 1/2πi
        tensor([[-1.]])
    """
    return _products(a, b, dim, range(terms), differences)


def adjoint(
    a: SymbolFunction, *, dim: int, terms: int, differences: bool = False
) -> SymbolFunction:
    """T_a* = T_c in L2, c ~ Σ_α (1/α!) ∂_ξ^α D^α conj a, by the terms |α| < `terms`."""

    def conjugate(x: Tensor, xi: Tensor) -> Tensor:
        values = _as_complex(a(x, xi)).conj().resolve_conj()
        return values.transpose(0, 1) if values.dim() == 4 else values

    return _sum(
        _in_xi(_in_x(conjugate, alpha, differences), alpha, differences)
        for alpha in multi_indices(dim, terms - 1)
    )


def parametrix(
    a: SymbolFunction, *, dim: int, terms: int, differences: bool = False
) -> SymbolFunction:
    """T_a T_p = 1 + an operator of order -N for an elliptic a, p = p_0 + ... + p_{N-1}.

    p_0 = 1/a and p_k = -p_0 Σ_{l<k, |α|=k-l} (1/α!) ∂_ξ^α a · D^α p_l with N = `terms`.
    """

    def inverse(x: Tensor, xi: Tensor) -> Tensor:
        values = _as_complex(a(x, xi))
        if values.dim() == 4:
            matrices: Tensor = torch.linalg.inv(values.movedim((0, 1), (-2, -1)))
            return matrices.movedim((-2, -1), (0, 1))
        return 1 / values

    parts: list[SymbolFunction] = [inverse]
    for k in range(1, terms):
        rest = [_products(a, p, dim, [k - j], differences) for j, p in enumerate(parts)]
        parts.append(_times(lambda x, xi: -inverse(x, xi), _sum(rest)))
    return _sum(parts)


def commutator(
    a: SymbolFunction, b: SymbolFunction, *, dim: int, terms: int, differences: bool = False
) -> SymbolFunction:
    """T_a T_b - T_b T_a = T_c, by the terms 1 <= |α| <= `terms`; those of 0 cancel."""
    lengths = range(1, terms + 1)
    ab, ba = (_products(*pair, dim, lengths, differences) for pair in ((a, b), (b, a)))
    return lambda x, xi: ab(x, xi) - ba(x, xi)


def poisson_bracket(a: SymbolFunction, b: SymbolFunction, *, dim: int) -> SymbolFunction:
    """{a, b} = Σ_j ∂_ξj a ∂_xj b - ∂_xj a ∂_ξj b; over 2πi the leading symbol of [T_a, T_b]."""
    leading = commutator(a, b, dim=dim, terms=1)
    return lambda x, xi: 2j * math.pi * leading(x, xi)


def as_full_symbol(a: SymbolFunction) -> FullSymbol:
    """The symbol as one that `pdno.apply_symbol` takes, for small grids."""

    def values(x: Tensor, xi: Tensor) -> Tensor:
        numbers = _as_complex(a(x, xi))
        numbers = numbers if numbers.dim() == 4 else numbers[None, None]
        return numbers.expand(*numbers.shape[:2], len(x), xi.shape[1])

    return FullSymbol(values)


def measured_order(values: Tensor, xi: Tensor) -> float:
    """The order m of values(x, ξ) = O(⟨ξ⟩^m), (..., *K^) at ξ (*K^, d): the slope of log sup.

    The supremum is over everything but ξ and over the shells k <= |ξ| < k + 1; the line is that of
    least squares through the shells of the upper half of |ξ|, on the logarithmic scale.
    """
    dim = xi.shape[-1]
    size = values.abs().reshape(-1, *values.shape[values.dim() - dim :]).amax(dim=0).flatten()
    radius = xi.to(torch.float64).square().sum(dim=-1).sqrt().flatten()
    # the shells beyond are cut by the corners of the kept modes
    last = int(xi.abs().reshape(-1, dim).amax(dim=0).min())
    shells = [(radius >= k) & (radius < k + 1) for k in range(math.isqrt(last), last + 1)]
    largest = torch.stack([torch.where(shell, size, -1.0).argmax() for shell in shells])
    y, z = size[largest].log(), radius[largest].square().log1p() / 2
    z = z - z.mean()
    return float((z @ y) / (z @ z))


def _products(
    a: SymbolFunction, b: SymbolFunction, dim: int, lengths: Sequence[int], differences: bool
) -> SymbolFunction:
    """Σ_α (1/α!) ∂_ξ^α a · D^α b over all α with |α| in `lengths`."""

    pairs = (
        _times(_in_xi(a, alpha, differences), _in_x(b, alpha, differences))
        for alpha in multi_indices(dim, max(lengths))
        if sum(alpha) in lengths
    )
    return _sum(pairs)


def _sum(parts: Iterable[SymbolFunction]) -> SymbolFunction:
    terms = list(parts)
    return lambda x, xi: functools.reduce(torch.add, (term(x, xi) for term in terms))


def _in_xi(a: SymbolFunction, alpha: MultiIndex, differences: bool) -> SymbolFunction:
    """(1/α!) ∂_ξ^α a, or (1/α!) Δ^α a."""
    for axis, power in enumerate(alpha):
        for _ in range(power):
            a = _difference(a, axis) if differences else _slope(a, axis)
    return lambda x, xi: _as_complex(a(x, xi)) / math.prod(map(math.factorial, alpha))


def _in_x(a: SymbolFunction, alpha: MultiIndex, differences: bool) -> SymbolFunction:
    """D^α a, or its counterpart D_j (D_j - 1) ... in Newton's series."""
    for axis, power in enumerate(alpha):
        for k in range(power):
            a = _slope(a, axis, less=k if differences else 0)
    return a


def _slope(a: SymbolFunction, axis: int, *, less: int | None = None) -> SymbolFunction:
    """∂a/∂ξ_j, or (D_j - less) a, by forward differentiation."""

    def derived(x: Tensor, xi: Tensor) -> Tensor:
        at = xi if less is None else x

        def function(at: Tensor) -> Tensor:
            return _as_complex(a(x, at) if less is None else a(at, xi))

        unit = torch.eye(at.shape[-1]).to(at)[axis].expand_as(at)
        value, slope = torch.func.jvp(function, (at,), (unit,))  # type: ignore[misc]
        result: Tensor = slope if less is None else slope / (2j * math.pi) - less * value
        return result

    return derived


def _difference(a: SymbolFunction, axis: int) -> SymbolFunction:
    """Δ_j a."""
    return lambda x, xi: a(x, xi + torch.eye(xi.shape[-1]).to(xi)[axis]) - a(x, xi)


def _times(a: SymbolFunction, b: SymbolFunction) -> SymbolFunction:
    """The product of numbers (P, M) or of matrices (O, I, P, M), or of both."""

    def product(x: Tensor, xi: Tensor) -> Tensor:
        left, right = a(x, xi), b(x, xi)
        both = left.dim() == 4 and right.dim() == 4
        return torch.einsum("ijpm,jkpm->ikpm", left, right) if both else left * right

    return product


def _as_complex(values: Tensor) -> Tensor:
    return values if values.is_complex() else torch.complex(values, torch.zeros_like(values))


# ---- Phase space ----


def principal_symbol(a: SymbolFunction, order: float) -> SymbolFunction:
    """a_m(x, ω) = lim λ^{-m} a(x, λω), λ -> ∞, at ω of any length but 0, homogeneous in it.

    Richardson's rule removes the term of order m - 1: 2 f(2λ) - f(λ) with f(λ) = λ^{-m} a(x, λω).

    Example:
        >>> bessel = lambda x, xi: (1 + xi.square().sum(dim=-1)).sqrt() + 3
        >>> leading = principal_symbol(bessel, 1.0)
        >>> values = leading(torch.zeros(1, 1, 2), torch.tensor([[[3.0, 4.0]]]).double())
        >>> round(float(values), 9)
        5.0
    """

    def leading(x: Tensor, xi: Tensor) -> Tensor:
        size = xi.norm(dim=-1)
        unit = xi / size[..., None]
        near, far = (a(x, r * unit) * r**-order for r in (FAR, 2 * FAR))
        values: Tensor = (2 * far - near) * size**order
        return values

    return leading


def characteristic_set(
    leading: SymbolFunction, x: Tensor, directions: Tensor, *, tolerance: float = 1e-3
) -> Tensor:
    """Whether (x, ω) is characteristic: |a_m| below a share of its maximum, (P, M) bool.

    Elsewhere the operator keeps every singularity and has a parametrix. For points (P, d) and
    directions (M, d); matrices (O, I, P, M) count by their smallest singular value.
    """
    unit = directions / directions.norm(dim=-1, keepdim=True)
    values = leading(x[:, None], unit[None])
    if values.dim() == 4:
        sizes: Tensor = torch.linalg.svdvals(values.movedim((0, 1), (-2, -1)))
        return torch.le(sizes[..., -1], tolerance * sizes[..., 0].max())
    return values.abs() <= tolerance * values.abs().max()


def wave_packet(
    grid: Grid, at: Sequence[float], frequency: Sequence[float], width: float = 0.08
) -> Tensor:
    """e^{2πi ξ₀·x} exp(-|x - x₀|²/2 width²), periodic, (1, 1, *N) complex128."""
    x, start = grid.points().double(), torch.tensor(at, dtype=torch.float64)
    away = (x - start + 0.5) % 1 - 0.5
    phase = 2j * math.pi * (away @ torch.tensor(frequency, dtype=torch.float64))
    packet = torch.exp(phase - away.square().sum(dim=-1) / (2 * width**2))
    return packet[None, None]


@dataclass(frozen=True)
class PacketOut:
    """Where a packet comes out: its mean position and frequency, and its size."""

    position: tuple[float, ...]
    frequency: tuple[float, ...]
    factor: float  #: ‖A p‖ / ‖p‖
    spread: float  #: root mean square distance from the position


@torch.no_grad()
def send_packet(operator: LinearMap, grid: Grid, packet: Tensor) -> PacketOut:
    """The image of a wave packet under any linear map of real fields (B, 1, *N).

    A pseudo-differential operator leaves it where it is, times a(x₀, ξ₀); an operator of waves or
    transport moves it along its bicharacteristics.
    """
    parts = operator(torch.cat([packet.real, packet.imag])).double()[:, 0]
    out = torch.complex(*parts)
    weight = out.abs().square() / out.abs().square().sum()
    x = grid.points().double()
    mean = (weight[..., None] * torch.exp(2j * math.pi * x)).flatten(0, -2).sum(dim=0)
    position = (mean.angle() / (2 * math.pi)) % 1
    away = ((x - position + 0.5) % 1 - 0.5).square().sum(dim=-1)
    real, imaginary = (whole_spectrum(transform(part, grid.dim), grid) for part in parts)
    power = (real + 1j * imaginary).abs().square()
    xi = grid.modes(half=False).double()
    frequency = (power[..., None] * xi).flatten(0, -2).sum(dim=0) / power.sum()
    factor = float(out.norm() / packet.norm())
    spread = float((weight * away).sum().sqrt())
    return PacketOut(tuple(position.tolist()), tuple(frequency.tolist()), factor, spread)
