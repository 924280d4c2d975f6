"""A symbol at any x and ξ in double precision, with differences in ξ and derivatives in x.

What *acts* on real functions is not a itself but its Hermitian completion: a(x, ξ) where ξ_d > 0,
conj a(x, -ξ) where ξ_d < 0, and the mean of both where ξ_d = 0. A table, which is stored for
ξ_d >= 0, is defined by its completion only.
"""

import copy
import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from pdno.symbols.base import FullSymbol, Symbol, Time
from pdno.symbols.network import SeparatedSymbol, TableSymbol
from pdno.symbols.scale import scale_per_axis
from pdno.theory.expression import Expression

MultiIndex = tuple[int, ...]
# a from x (P, 1, d) and ξ (1, M, d) to (P, M) or (O, I, P, M)
Pairs = Callable[[Tensor, Tensor], Tensor]
AnySymbol = Symbol | FullSymbol | Pairs

AT_ONCE = 2**19  # numbers that are worked on at a time
FUNCTIONS = 6  # channel pairs, or random combinations of more
EPSILON = torch.finfo(torch.float64).eps


def multi_indices(dim: int, most: int) -> tuple[MultiIndex, ...]:
    """All α in N^d with |α| <= most, by |α|.

    Example:
        >>> multi_indices(2, 1)
        ((0, 0), (0, 1), (1, 0))
    """
    indices = itertools.product(range(most + 1), repeat=dim)
    return tuple(sorted((i for i in indices if sum(i) <= most), key=lambda i: (sum(i), i)))


def difference_weights(indices: Sequence[MultiIndex]) -> tuple[Tensor, Tensor]:
    """Δ^α a(ξ) = Σ_{γ <= α} (-1)^{|α - γ|} C(α, γ) a(ξ + γ): the γ (G, d), and weights (G, A)."""
    below = [itertools.product(*(range(a + 1) for a in alpha)) for alpha in indices]
    offsets = sorted(set(itertools.chain(*below)))
    weights = [
        [
            math.prod((-1) ** (a + g) * math.comb(a, g) for a, g in zip(alpha, gamma, strict=True))
            for alpha in indices
        ]
        for gamma in offsets
    ]
    return torch.tensor(offsets).double(), torch.tensor(weights).double()


class Probe:
    """A few scalar functions of x and ξ: the channel pairs of a symbol, or combinations of many.

    A combination with fixed coefficients is in S^m if the pairs are, and almost none is if one of
    them is not. On the torus x is taken modulo 1.
    """

    def __init__(
        self,
        symbol: AnySymbol,
        dim: int,
        t: Time,
        generator: torch.Generator,
        *,
        acting: bool,
        torus: bool,
    ) -> None:
        self.symbol, self.dim, self.t, self.generator = symbol, dim, t, generator
        self.acting, self.torus, self.evaluations = acting, torus, 0
        self.channels: Sequence[int] = (1, 1)
        self.depends_on_x = symbol.depends_on_x if isinstance(symbol, Symbol) else True
        self.scale = torch.ones(dim, dtype=torch.float64)  # unit of ξ per axis
        if isinstance(symbol, SeparatedSymbol):
            self.scale = symbol.scale.frequency.double()
        zero = torch.zeros(1, dim, dtype=torch.float64)
        self.pairs = len(self._values(zero, zero, None))
        self.weights = torch.eye(self.pairs, dtype=torch.float64)
        if self.pairs > FUNCTIONS:
            self.weights = self.normal(FUNCTIONS, self.pairs) / math.sqrt(self.pairs)

    def normal(self, *shape: int) -> Tensor:
        """Random numbers of a normal distribution."""
        return torch.randn(*shape, generator=self.generator, dtype=torch.float64)

    def uniform(self, *shape: int) -> Tensor:
        """Random numbers between 0 and 1."""
        return torch.rand(*shape, generator=self.generator, dtype=torch.float64)

    def table(self, x: Tensor, xi: Tensor, *, pairs: bool = False) -> Tensor:
        """The functions, or all `pairs`, at points (P, d) and frequencies (M, d): (K, P, M)."""
        weights = None if pairs else self.weights
        x = x % 1 if self.torus else x
        self.evaluations += len(x) * len(xi)
        if not self.acting:
            return self._values(x, xi, weights)
        here, there = (self._values(x, sign * xi, weights) for sign in (1, -1))
        share = 0.5 * (1 + xi[:, -1].sign())
        return share * here + (1 - share) * there.conj()

    def _values(self, x: Tensor, xi: Tensor, weights: Tensor | None) -> Tensor:
        if isinstance(self.symbol, Symbol):
            values = self.symbol.evaluate_at(x, xi, self.t)
            c = values.frequency.to(torch.complex128).flatten(1, 2)  # (R, Q, M)
            b = torch.ones(len(c), c.shape[1], 1).double()
            if values.space is not None:
                pairs = self.symbol.out_channels, self.symbol.in_channels
                b = values.space.expand(-1, *pairs, -1).flatten(1, 2)  # (R, Q, P)
            if weights is None:
                products = (b[..., None] * c[:, :, None]).sum(dim=0)
            else:
                left = (weights[:, None, :, None] * b).movedim(-1, 1).flatten(2)
                products = left.to(c.dtype) @ c.flatten(0, 1)
            return products.expand(-1, len(x), -1)
        function = self.symbol.function if isinstance(self.symbol, FullSymbol) else self.symbol
        result = torch.as_tensor(function(x[:, None], xi[None])).to(torch.complex128)
        if isinstance(function, Expression) and result.dim() == 3:
            result = result.movedim(-1, 0)[:, None]
        if result.dim() not in (0, 2, 4):
            raise ValueError(
                f"the symbol gave values of shape {tuple(result.shape)} for x of shape (P, 1, d) "
                "and ξ of shape (1, M, d); expected (P, M) or (O, I, P, M)"
            )
        self.channels = channels = result.shape[:2] if result.dim() == 4 else (1, 1)
        result = result.expand(*channels, len(x), len(xi)).flatten(0, 1)
        return result if weights is None else torch.tensordot(weights.to(result.dtype), result, 1)

    def differences(
        self, x: Tensor, xi: Tensor, steps: Tensor, indices: Sequence[MultiIndex]
    ) -> tuple[Tensor, Tensor]:
        """|Δ_h^α a| / h^|α| at ξ (M, d) with steps h (M,), (A, M), and |a| around them, (M,).

        The largest over x and functions.
        """
        offsets, weights = difference_weights(indices)
        rows, around = [], []
        for part in torch.split(
            torch.arange(len(xi)), max(1, AT_ONCE // (len(x) * len(offsets) * FUNCTIONS))
        ):
            points = xi[part, None] + steps[part, None, None] * offsets
            values = self.table(x, points.flatten(0, 1))
            values = torch.unflatten(values, -1, (len(part), -1))
            rows.append((values @ weights.to(values.dtype)).abs().amax(dim=(0, 1)).T)
            around.append(values.abs().amax(dim=(0, 1, 3)))
        orders = torch.tensor([sum(alpha) for alpha in indices])
        sizes = torch.cat(rows, dim=1) / steps ** orders[:, None]
        return sizes.nan_to_num(nan=math.inf), torch.cat(around)


@torch.no_grad()
def evaluate_at(
    symbol: AnySymbol, x: Tensor, xi: Tensor, *, t: Time = None, acting: bool = False
) -> Tensor:
    """a_ij(x, ξ) at all pairs of points (P, d) and frequencies (M, d), (O, I, P, M), complex128.

    Frequencies need not be integers, except for tables; with `acting` it is the part that acts.

    Example:
        >>> from pdno.symbols import FractionalLaplacian
        >>> xi = torch.tensor([[3_000_000.0, 4_000_000.0]])
        >>> evaluate_at(FractionalLaplacian(0.5), torch.zeros(1, 2), xi).real.item() / torch.pi
        10000000.0
    """
    probe = make_probe(symbol, dim=xi.shape[-1], t=t, acting=acting, torus=False)
    values = probe.table(x.double(), xi.double(), pairs=True)
    outputs = symbol.out_channels if isinstance(symbol, Symbol) else probe.channels[0]
    return torch.unflatten(values, 0, (outputs, -1))


def make_probe(
    symbol: AnySymbol,
    *,
    dim: int | None = None,
    t: Time = None,
    acting: bool = False,
    torus: bool = True,
    frequency_scale: float | Sequence[float] | None = None,
    generator: torch.Generator | None = None,
) -> Probe:
    """The probe of a symbol, with the arguments of `certify`; networks become float64 copies."""
    own = symbol.dim if isinstance(symbol, Symbol) else None
    if dim is not None and own is not None and dim != own:
        raise ValueError(f"dim is {dim}, but this symbol has {own} axes: leave dim out")
    axes = own or dim
    if axes is None:
        raise ValueError("this symbol does not know its number of axes: give dim=1, 2 or 3")
    generator = generator or torch.Generator().manual_seed(0)
    if isinstance(symbol, Symbol):
        symbol = copy.deepcopy(symbol).cpu().double().requires_grad_(False)
        if isinstance(symbol, SeparatedSymbol) and not symbol.scale.chosen and frequency_scale:
            symbol.scale.settle(frequency_scale)
    elif t is not None:
        raise ValueError("a function a(x, ξ) has no time: leave t out, or bind it")
    acting = acting or isinstance(symbol, TableSymbol)
    probe = Probe(symbol, axes, t, generator, acting=acting, torus=torus)
    if frequency_scale is not None:
        probe.scale = scale_per_axis(frequency_scale, axes)
    return probe
