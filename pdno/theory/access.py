"""From every kind of symbol to values at any points.

| symbol                             | c(ξ)                   | b(x)                |
|------------------------------------|------------------------|---------------------|
| networks, low rank, classical      | the networks, at any ξ | the networks        |
| formulas (`pdno.symbols.analytic`) | the formula            | of `Multiplication` |
| tables                             | R(ξ), zero outside     |                     |
| `FullSymbol`, functions a(x, ξ)    | not separated          | not separated       |

What *acts* on real functions is not a itself but its Hermitian completion: only ξ_d >= 0 is used,

    a(x, ξ) where ξ_d > 0,   conj a(x, -ξ) where ξ_d < 0,   the mean of both where ξ_d = 0,

which equals a if and only if a(x, -ξ) = conj a(x, ξ). In more than one dimension it jumps along
the hyperplane ξ_d = 0 otherwise. A table is stored for ξ_d >= 0 and known by its completion only.
"""

__all__ = ["AnySymbol", "evaluate_at", "make_probe"]

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from pdno.symbols.analytic import Advection, AnalyticSymbol, Derivative, Multiplication
from pdno.symbols.base import Symbol
from pdno.symbols.direct import FullSymbol
from pdno.symbols.low_rank import LowRankSymbol
from pdno.symbols.network import NetworkSymbol
from pdno.symbols.separated import SeparatedSymbol, check_time
from pdno.symbols.table import TableSymbol
from pdno.theory.direct_probe import DirectProbe
from pdno.theory.probe import Probe
from pdno.theory.separated_probe import SeparatedProbe

AnySymbol = Symbol | FullSymbol | Callable[[Tensor, Tensor], Tensor]
OfFrequency = Callable[[Tensor], Tensor]


@torch.no_grad()
def evaluate_at(
    symbol: AnySymbol,
    x: Tensor,
    xi: Tensor,
    *,
    t: float | None = None,
    acting: bool = False,
) -> Tensor:
    """a_ij(x, ξ) at all pairs of points (P, d) and frequencies (M, d), (O, I, P, M), complex128.

    Arguments:
        symbol: Any symbol, or a function from x (P, 1, d) and ξ (1, M, d) to (P, M) or
            (O, I, P, M).
        x: Points of the torus.
        xi: Frequencies; also no integers, except for tables.
        t: Time, for symbols that depend on it.
        acting: Whether to take the part that acts on real functions.

    Example:
        >>> from pdno.symbols import FractionalLaplacian
        >>> xi = torch.tensor([[3_000_000.0, 4_000_000.0]])
        >>> evaluate_at(FractionalLaplacian(0.5), torch.zeros(1, 2), xi).real.item() / torch.pi
        10000000.0
    """
    probe = make_probe(symbol, dim=xi.shape[-1], t=t, acting=acting)
    x, xi = x.double(), xi.double()
    if isinstance(probe, DirectProbe):
        return probe.table(x, xi)
    assert isinstance(symbol, Symbol) and isinstance(probe, SeparatedProbe)
    c = probe.values(xi)[..., None, :]
    b = torch.ones(1, 1, len(x)) if probe.space is None else probe.space(x)
    values = (b[..., None] * c).sum(dim=0)
    return values.reshape(symbol.out_channels, symbol.in_channels, len(x), len(xi))


def make_probe(
    symbol: AnySymbol,
    *,
    dim: int | None = None,
    t: float | None = None,
    acting: bool = False,
    generator: torch.Generator | None = None,
) -> Probe:
    """The probe of a symbol; learned ones are copied to double precision.

    Arguments:
        symbol: Any symbol, or a function.
        dim: d, for symbols that do not know it.
        t: Time, for symbols that depend on it.
        acting: Whether to take the part that acts on real functions.
        generator: Draws the points x.
    """
    draw = generator or torch.Generator().manual_seed(0)
    known = _known_dim(symbol)
    if dim is not None and known is not None and dim != known:
        raise ValueError(f"dim is {dim}, but this symbol has {known} axes: leave dim out")
    axes = known if known is not None else dim
    if axes is None:
        raise ValueError("this symbol does not know its number of axes: give dim=1, 2 or 3")
    if isinstance(symbol, SeparatedSymbol):
        return _network_probe(symbol, t, acting, draw)
    if isinstance(symbol, TableSymbol):
        return _table_probe(symbol, draw)
    if isinstance(symbol, AnalyticSymbol):
        return _analytic_probe(symbol, axes, t, acting, draw)
    if isinstance(symbol, Symbol):
        raise ValueError(
            f"{type(symbol).__name__} cannot be asked away from a grid: give a function "
            "a(x, ξ) instead"
        )
    if t is not None:
        raise ValueError("a function a(x, ξ) has no time: leave t out, or bind it")
    function = symbol.function if isinstance(symbol, FullSymbol) else symbol
    shown = _complete_pairs(function) if acting else function
    return DirectProbe(shown, axes, generator=draw, only_integers=acting)


def _known_dim(symbol: AnySymbol) -> int | None:
    if isinstance(symbol, SeparatedSymbol):
        return symbol.scale.dim
    if isinstance(symbol, TableSymbol):
        return len(symbol.modes)
    if isinstance(symbol, Derivative):
        return len(symbol.order)
    return len(symbol.velocity) if isinstance(symbol, Advection) else None


def _network_probe(
    symbol: SeparatedSymbol, t: float | None, acting: bool, generator: torch.Generator
) -> SeparatedProbe:
    exact = copy.deepcopy(symbol).cpu().double().requires_grad_(False)
    nowhere = torch.zeros(1, exact.scale.dim, dtype=torch.float64)

    def frequency(xi: Tensor) -> Tensor:
        return exact.evaluate_at(nowhere, xi, t).frequency.flatten(1, 2)

    def space(x: Tensor) -> Tensor:
        b = exact.evaluate_at(x, nowhere, t).space
        assert b is not None
        return b.expand(-1, exact.out_channels, exact.in_channels, -1).flatten(1, 2)

    return SeparatedProbe(
        _complete(frequency) if acting else frequency,
        space if exact.depends_on_x else None,
        exact.scale.dim,
        generator=generator,
        terms=len(frequency(nowhere)),
        scale=exact.scale.frequency,
        only_integers=acting,
        planes=_first_layer(exact, t),
    )


def _first_layer(symbol: SeparatedSymbol, t: float | None) -> Tensor | None:
    """Rows (w, b) of the units w·ξ/s + b of networks that see ξ itself."""
    if not isinstance(symbol, (NetworkSymbol, LowRankSymbol)):
        return None
    layers = (symbol.real.linear_in, symbol.imaginary.linear_in)
    weight = torch.cat([layer.weight for layer in layers])
    bias = torch.cat([layer.bias for layer in layers])
    dim = symbol.scale.dim
    if t is not None:
        bias = bias + t * weight[:, dim]
    return torch.cat([weight[:, :dim], bias[:, None]], dim=1)


def _analytic_probe(
    symbol: AnalyticSymbol,
    dim: int,
    t: float | None,
    acting: bool,
    generator: torch.Generator,
) -> SeparatedProbe:
    time = check_time(t, symbol.takes_time, torch.zeros((), dtype=torch.float64))

    def frequency(xi: Tensor) -> Tensor:
        return symbol.formula(xi, time).to(torch.complex128)[None, None]

    def space(x: Tensor) -> Tensor:
        assert isinstance(symbol, Multiplication)
        return symbol.function(x).double()[None, None]

    return SeparatedProbe(
        _complete(frequency) if acting else frequency,
        space if isinstance(symbol, Multiplication) else None,
        dim,
        generator=generator,
        only_integers=acting,
    )


def _table_probe(symbol: TableSymbol, generator: torch.Generator) -> SeparatedProbe:
    whole = torch.view_as_complex(symbol.table.detach().cpu().double())
    lowest = torch.tensor([-k for k in symbol.modes[:-1]] + [0])
    highest = torch.tensor(symbol.modes) - 1
    sizes = torch.tensor(whole.shape[2:])
    strides = torch.tensor(whole[0, 0].contiguous().stride())
    table = whole.flatten(2).flatten(0, 1)

    def stored(xi: Tensor) -> Tensor:
        places = xi.round().long()
        inside = ((places >= lowest) & (places <= highest)).all(dim=-1)
        found = table[:, ((places % sizes) * strides).sum(dim=-1)]
        return torch.where(inside, found, 0.0)[None]

    return SeparatedProbe(
        _complete(stored),
        None,
        len(symbol.modes),
        generator=generator,
        only_integers=True,
        support=max(symbol.modes),
    )


def _complete(frequency: OfFrequency) -> OfFrequency:
    """The part of c that acts on real functions."""

    def acting(xi: Tensor) -> Tensor:
        return _halves(xi[:, -1], frequency(xi), frequency(-xi))

    return acting


def _complete_pairs(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    """The part of a that acts on real functions."""

    def acting(x: Tensor, xi: Tensor) -> Tensor:
        here, there = torch.as_tensor(function(x, xi)), torch.as_tensor(function(x, -xi))
        return _halves(xi[0, :, -1], here, there)

    return acting


def _halves(last: Tensor, here: Tensor, there: Tensor) -> Tensor:
    share = 0.5 * (1 + last.sign())
    return share * here + (1 - share) * there.conj()
