"""Translation of the package's symbols into expressions for the prover.

Only the classes themselves are known, not those derived from them, which may compute something
else; they can return their own expression by `Symbol.structure`. That an expression has the values
of its symbol is checked each time.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from pdno.symbols.analytic import (
    Advection,
    BiotSavart,
    DifferentialOperator,
    FractionalLaplacian,
    Gradient,
    HeatSymbol,
    Resolvent,
)
from pdno.symbols.base import Symbol
from pdno.symbols.classical import ClassicalSymbol, ParityMLP
from pdno.symbols.mlp import SymbolMLP
from pdno.symbols.network import (
    SCALES,
    LowRankSymbol,
    NetworkSymbol,
    SeparatedSymbol,
    TableSymbol,
    TrunkSymbol,
)
from pdno.theory.expression import (
    Affine,
    Bracket,
    Coordinate,
    Expression,
    Frequency,
    Harmonic,
    Opaque,
    Product,
    Stack,
    Sum,
    affine,
    apply,
    as_expression,
    perceptron,
    riesz,
)


def structure_of(symbol: Symbol, dim: int, t: Tensor | None = None) -> Expression | None:
    """The channel pairs of a symbol as components of one expression, at time and PDE parameters t.

    The symbol is in float64. None where there is no expression for it.
    """
    kinds = (NetworkSymbol, LowRankSymbol, TrunkSymbol, ClassicalSymbol)
    if isinstance(symbol, SeparatedSymbol) and type(symbol) in kinds:
        return _separated(symbol, t)
    if type(symbol) is TableSymbol:
        return _table(symbol)
    own = symbol.structure(t)
    if isinstance(own, Expression):
        return own
    return _formula(symbol, dim, 0.0 if t is None else float(t.flatten()[0]))


def _formula(symbol: Symbol, dim: int, t: float) -> Expression | None:
    xi = [Frequency(axis) for axis in range(dim)]
    match symbol:
        case _ if type(symbol).__module__ != HeatSymbol.__module__:
            return None
        case HeatSymbol():
            square = Sum(tuple(part**2 for part in xi))
            return apply("exp", square * (-4 * math.pi**2 * symbol.diffusivity * t))
        case DifferentialOperator():
            pairs = zip(symbol.powers, symbol.coefficients, strict=True)
            return Sum(tuple(_monomial(power) * c for power, c in pairs))
        case Gradient():
            return Stack(tuple(part * (2j * math.pi) for part in xi))
        case BiotSavart():
            parts = (xi[1] * (0.5j / math.pi), xi[0] * (-0.5j / math.pi))
            return Stack(parts) * riesz(-2.0)
        case FractionalLaplacian():
            return riesz(2 * symbol.power) * float((2 * math.pi) ** (2 * symbol.power))
        case Resolvent():
            bracket = Bracket(math.sqrt(symbol.shift) / (2 * math.pi))
            return bracket**-2 * (0.25 / math.pi**2)
        case Advection():
            phases = [
                part * (-2j * math.pi * t * v) for part, v in zip(xi, symbol.velocity, strict=True)
            ]
            return apply("exp", Sum(tuple(phases)))
    return None


def _monomial(powers: Sequence[int]) -> Expression:
    """(2πiξ)^α."""
    factors = [(Frequency(a) * (2j * math.pi)) ** power for a, power in enumerate(powers)]
    return Product(tuple(factors))


def _table(symbol: TableSymbol) -> Expression:
    def values(x: Tensor, xi: Tensor) -> Tensor:
        here, there = (symbol.evaluate_at(x[:, 0], s * xi[0]).frequency[0] for s in (1, -1))
        share = 0.5 * (1 + xi[0, :, -1].sign())
        return (share * here + (1 - share) * there.conj()).flatten(0, 1).T[None]

    name = f"a table of {symbol.modes} modes"
    return Opaque(values, name, "lemma 8, finitely many modes", -math.inf, lattice=True)


# ---- Networks ----


def _separated(symbol: SeparatedSymbol, t: Tensor | None) -> Expression:
    """Σ_r b_r(x) c_r(ξ)."""
    c = frequency_factor(symbol, t)
    if not symbol.depends_on_x:
        return c
    b, rank, pairs = space_factor(symbol, t), symbol.rank, symbol.pairs
    # b as (R, O or 1, I or 1) and c as (R, O, I): products, then the sum over r
    shape = (rank, symbol.out_channels, symbol.in_channels)
    outputs = b.weight.shape[0] if isinstance(b, Affine) else 1
    if isinstance(symbol, LowRankSymbol):
        rows = torch.arange(outputs).reshape(rank, -1, 1).expand(shape).flatten()
        assert isinstance(b, Affine)
        b = Affine(b.parts, b.weight[rows], b.bias[rows])
    product = b * c
    if rank == 1:
        return product
    total = torch.eye(pairs, dtype=torch.float64).repeat(1, rank)
    return Affine((product,), total, torch.zeros(pairs, dtype=torch.float64))


def _scaled(symbol: SeparatedSymbol) -> list[Expression]:
    """ξ / frequency_scale."""
    scale = symbol.scale.frequency.tolist() if symbol.scale.chosen else [1.0] * symbol.dim
    return [Frequency(axis) * (1 / s) for axis, s in enumerate(scale)]


def _with(parts: Sequence[Expression], t: Tensor | None) -> Expression:
    constants = [] if t is None else [as_expression(value) for value in t.flatten()]
    return Stack((*parts, *constants))


def _network(network: SymbolMLP, inputs: Expression) -> Expression:
    """All outputs, with the parity of a classical symbol."""
    parity = network.parity if isinstance(network, ParityMLP) else "none"
    last = affine(network.linear_out, perceptron(network, inputs))
    if parity == "none":
        return last
    sign = torch.ones(network.linear_in.in_features, dtype=torch.float64)
    assert isinstance(network, ParityMLP)
    sign[1 : 1 + network.dim] = -1.0
    mirror = Affine((inputs,), torch.diag(sign), torch.zeros_like(sign))
    mirrored = perceptron(network, mirror)
    hidden = perceptron(network, inputs) + (1.0 if parity == "even" else -1.0) * mirrored
    return affine(network.linear_out, 0.5 * hidden)


def frequency_factor(symbol: SeparatedSymbol, t: Tensor | None) -> Expression:
    xi = _scaled(symbol)
    if isinstance(symbol, TrunkSymbol):
        scale = tuple(symbol.scale.frequency.tolist()) if symbol.scale.chosen else (1.0,)
        features = [
            part * Bracket(s, scale) ** -1 for s in SCALES for part in (*xi, as_expression(s))
        ]
        values = _network(symbol.trunk, _with(features, t))
        assert isinstance(values, Affine)
        halves = zip(values.weight.chunk(2), values.bias.chunk(2), strict=True)
        real, imaginary = (Affine(values.parts, weight, bias) for weight, bias in halves)
        return real + 1j * imaginary
    if isinstance(symbol, ClassicalSymbol):
        return _classical(symbol, xi, t)
    inputs = _with(xi, t)
    return _network(symbol.real, inputs) + 1j * _network(symbol.imaginary, inputs)


def _classical(symbol: ClassicalSymbol, xi: list[Expression], t: Tensor | None) -> Expression:
    """⟨ξ⟩^m b(ω); with time, or a unitary factor, an exponential of it."""
    scale = tuple(symbol.scale.frequency.tolist()) if symbol.scale.chosen else (1.0,)
    bracket = Bracket(1.0, scale)
    omega = [part * bracket**-1 for part in (as_expression(1.0), *xi)]
    inputs = _with(omega, None if t is None else t.flatten()[-symbol.pde_parameters or None :])
    unitary = symbol.elliptic and not (symbol.self_adjoint or symbol.dissipative)
    if not (symbol.takes_time or unitary):
        return bracket**symbol.order * _matrix(symbol, inputs, omega)

    def values(x: Tensor, at: Tensor) -> Tensor:
        moment = None if t is None else t.reshape(() if t.numel() == 1 else (1, -1))
        return symbol.evaluate_at(x[:1, 0], at[0], moment).frequency[0].flatten(0, 1).T[None]

    name, order = f"⟨ξ⟩^{symbol.order:g} (c + M M*) e^K of networks of ω", symbol.order
    if unitary and not symbol.takes_time:
        return Opaque(values, name, "lemma 9, entire functions of smooth matrices of ω", order)
    assert t is not None
    name = f"e^(tA), A = ⟨ξ⟩^{symbol.order:g} (K - M M*) of networks of ω"
    order = -math.inf if order > 0 and float(t.flatten()[0]) else 0.0
    return Opaque(values, name, "lemma 10, the exponential of a dissipative matrix", order)


def _matrix(symbol: ClassicalSymbol, inputs: Expression, omega: list[Expression]) -> Expression:
    """The entries of N, (N + N*)/2, c + M M*, or K - M M* - c |ξ|²/⟨ξ⟩², K = (N - N*)/2."""
    real, imaginary = _network(symbol.real, inputs), _network(symbol.imaginary, inputs)
    n, size = real + 1j * imaginary, symbol.in_channels
    if not symbol.exact_structure:
        return n
    entries = torch.arange(size**2).reshape(size, size)
    adjoint = _chosen(real, entries.T) - 1j * _chosen(imaginary, entries.T)
    if not (symbol.elliptic or symbol.dissipative):
        return 0.5 * (n + adjoint)
    # (M M*)_ij = Σ_k M_ik conj M_jk, all (i, j, k) and then their sums over k
    left, right = (entries[:, None].expand(size, size, size), entries.expand(size, size, size))
    x, y = _network(symbol.root_real, inputs), _network(symbol.root_imaginary, inputs)
    root = _chosen(x, left) + 1j * _chosen(y, left)
    conjugate = _chosen(x, right) - 1j * _chosen(y, right)
    sums = torch.eye(size**2, dtype=torch.float64).repeat_interleave(size, dim=1)
    matrix: Expression = Affine((root * conjugate,), sums, torch.zeros(size**2).double())
    if symbol.elliptic:
        unit = as_expression(symbol.log_ellipticity.exp().double() * torch.eye(size).double())
        square = Sum(tuple(part**2 for part in omega[1:]))
        matrix = matrix + (unit * square if symbol.dissipative else unit)
    if not symbol.dissipative:
        return matrix
    return -matrix if symbol.self_adjoint else 0.5 * (n - adjoint) - matrix


def _chosen(values: Expression, entries: Tensor) -> Expression:
    """Some components."""
    count = values.weight.shape[0] if isinstance(values, Affine) else int(entries.max()) + 1
    weight = torch.nn.functional.one_hot(entries.flatten(), count).double()
    return Affine((values,), weight, torch.zeros(len(weight)).double())


def space_factor(symbol: SeparatedSymbol, t: Tensor | None) -> Expression:
    assert symbol.space is not None
    if isinstance(symbol, ClassicalSymbol):
        waves = [tuple(int(k == axis) for k in range(symbol.dim)) for axis in range(symbol.dim)]
        parts: list[Expression] = [Harmonic(f, wave) for f in ("cos", "sin") for wave in waves]
        own = (
            None
            if t is None or not symbol.pde_parameters
            else t.flatten()[-symbol.pde_parameters :]
        )
        values = _network(symbol.space, _with(parts, own))
        return apply("exp", values) if symbol.elliptic else values
    scale = symbol.scale.coordinate.tolist()
    return _network(symbol.space, _with([Coordinate(k) * c for k, c in enumerate(scale)], t))
