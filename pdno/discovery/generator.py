"""Generators u_t = A(D)u + Σ_k c_k (a_k(D)u)·(b_k(D)u) + f(x), whose coefficients are learned.

`Sensitivity` is the same equation together with its derivatives by coefficients and initial
states: they solve a linear equation with the same A, so the solver advances them as more fields.
"""

import math
from collections.abc import Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from pdno.discovery.equation import NORMAL_95, Coefficient, Equation
from pdno.discovery.terms import Term, parse_term
from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
from pdno.spectral.calculus import band_limits, band_mask
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid
from pdno.symbols.analytic import DifferentialOperator

Terms = Sequence[str | Term] | Mapping[str, Sequence[str | Term]]
Pairs = Sequence[Sequence[int]]
LinearTerm = tuple[int, int, int, Tensor]
"""Number of the coefficient, input, field and a(ξ)."""
Product = tuple[int, int, Pairs]
"""Number of the coefficient, field, and pairs of factors whose products are added."""
DEFORMATION = 0.2


class Generator(nn.Module, EvolutionEquation):
    """u_t = Σ_k c_k T_k(u), terms T_k(u) = a(D)u, (a(D)u)·(b(D)u) or f(x), on the torus.

    a(D) multiplies û by a(ξ/L), L the period; u is kept on the modes |ξ_j| < N_j/3. Symbols are
    polynomials, written as text, or any `pdno.symbols.Symbol` a(ξ) in a `Term`, such as classical
    symbols and networks. Sources are functions on the unit box.

    Arguments:
        terms: Text or `Term` (see `pdno.discovery.terms`); for several fields by their names.
        coefficients: c, one per term in this order; zeros by default.
        dim: Number of space dimensions.
        period: L, the length of the box.
        covariance: That of the coefficients, (K, K), where they were fitted.

    Example:
        >>> burgers = Generator(["u_xx", "u u_x"], [0.1, -1.0])
        >>> burgers.rate(torch.ones(1, 1, 16)).detach().abs().max()
        tensor(0.)
    """

    dim: int

    def __init__(
        self,
        terms: Terms,
        coefficients: Sequence[float] | Tensor | None = None,
        *,
        dim: int = 1,
        period: float = 1.0,
        covariance: Tensor | None = None,
    ) -> None:
        super().__init__()
        by_field = terms if isinstance(terms, Mapping) else {"u": terms}
        self.names, self.dim, self.period = tuple(by_field), dim, float(period)
        self.fields = len(self.names)
        chosen = [
            parse_term(term, dim, self.names, field) if isinstance(term, str) else term
            for field, own in enumerate(by_field.values())
            for term in own
        ]
        self.terms = nn.ModuleList(chosen)
        start = [0.0] * len(chosen) if coefficients is None else coefficients
        c = torch.as_tensor(start, dtype=torch.float64)
        if c.shape != (len(chosen),) or not chosen or not self.period > 0:
            wrong = f"{len(chosen)} terms, {tuple(c.shape)} coefficients, period {period}"
            raise ValueError(f"{wrong}: expected one coefficient per term, and a positive period")
        self.coefficients = nn.Parameter(c.detach().clone())
        self.covariance = covariance

    def listed(self) -> list[Term]:
        """The terms in the order of the coefficients."""
        return [term for term in self.terms if isinstance(term, Term)]

    def pairs(self) -> list[tuple[Term, float]]:
        """Each term with its coefficient."""
        return list(zip(self.listed(), self.coefficients.tolist(), strict=True))

    def with_coefficients(
        self, coefficients: Tensor, keep: Sequence[int] | None = None
    ) -> "Generator":
        """The same terms, or those with the numbers `keep`, with other coefficients."""
        terms = self.listed()
        kept = [terms[k] for k in (range(len(terms)) if keep is None else keep)]
        by_field = {n: [t for t in kept if t.field == f] for f, n in enumerate(self.names)}
        return Generator(by_field, coefficients, dim=self.dim, period=self.period)

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """A(ξ) of the linear terms; products, sources and coupling of fields are N."""
        if grid.dim != self.dim:
            raise ValueError(f"a generator in {self.dim} dimensions on {grid}")
        return TermsOnGrid(self, grid, device).semilinear()

    def equation(self) -> Equation:
        """The equation as text and LaTeX, with the error bars of fitted coefficients."""
        errors: Sequence[float | None] = [None] * len(self.terms)
        if self.covariance is not None:
            errors = self.covariance.diagonal().sqrt().tolist()
        coefficients = [
            Coefficient(term.text, term.field, c, error)
            for (term, c), error in zip(self.pairs(), errors, strict=True)
        ]
        return Equation(self.names, tuple(coefficients))

    def linear_symbol(self, field: int = 0) -> DifferentialOperator:
        """A(ξ/L) of one field as a symbol of integer modes, for `pdno.certify` and others."""
        powers, values = [(0,) * self.dim], [0.0]
        for term, c in self.pairs():
            if term.diagonal and term.field == field:
                (symbol,) = term.symbols
                if not isinstance(symbol, DifferentialOperator):
                    raise ValueError(f"{term.text} is no polynomial in ξ: take its own symbol")
                for power, part in zip(symbol.powers, symbol.coefficients, strict=True):
                    powers.append(power)
                    values.append(c * part / self.period ** sum(power))
        return DifferentialOperator(powers, values)

    def symbol_with_bars(self, xi: Tensor) -> tuple[Tensor, Tensor]:
        """A(ξ/L) of the first field at integers ξ (M, d), and half widths of 95 % intervals.

        Both are complex: bars of the real part are real, those of the imaginary part imaginary.
        """
        tables = torch.zeros(len(self.terms), len(xi), dtype=torch.complex128)
        for k, term in enumerate(self.listed()):
            if term.diagonal and term.field == 0:
                tables[k] = term.tables(xi.double() / self.period, self.dim)[0][0].detach()
        c = self.coefficients.detach()
        learned = torch.einsum("k,km->m", c.to(tables.dtype), tables)
        covariance = torch.zeros(len(c), len(c), dtype=c.dtype)
        covariance = covariance if self.covariance is None else self.covariance
        parts = [
            torch.einsum("km,kl,lm->m", part, covariance, part).clamp(min=0).sqrt()
            for part in (tables.real, tables.imag)
        ]
        return learned, NORMAL_95 * torch.complex(*parts)

    def growth(self, u: Tensor) -> Tensor:
        """The fastest growth of small differences at states u (B, C, *N), at least 0, (B,).

            μ(u) = max_v ⟨v, (A + N'(u)) v⟩ / |v|²,    |w(t)| <= |w(0)| exp ∫ μ(u(s)) ds

        for differences w of two solutions, one of which is u, on the modes of the grid. They may
        be of any size if products keep |u|, as u u_x and v·∇u do. Where μ(0) = 0, up to rounding,
        A is dissipative.
        """

        def rate(state: Tensor) -> Tensor:
            return self.rate(state[None]).flatten()

        rows = [jacobian(rate, state) for state in u.double()]  # type: ignore[no-untyped-call]
        matrices = torch.stack(rows).flatten(2)
        largest: Tensor = torch.linalg.eigvalsh((matrices + matrices.mT) / 2)[:, -1]
        return largest.clamp(min=0.0)

    def __repr__(self) -> str:
        return f"Generator({', '.join(f'{c:.6g} {term.text}' for term, c in self.pairs())})"


class Sensitivity(EvolutionEquation):
    """u_t = G(u; c) with its tangents by c and, if the start of tangents is not 0, by u(0):

        v_t = A v + N'(u) v + T_k(u)  for the k-th coefficient, without T_k(u) for the others.

    Its fields are u and the `tangents` v, each with those of the generator, the coefficients'
    first. Growth rates Re A(ξ) are cut at `growth`, so that bad first guesses do not blow up.
    """

    def __init__(self, generator: Generator, tangents: int, growth: float) -> None:
        self.generator, self.tangents, self.growth = generator, tangents, growth
        self.fields = (1 + tangents) * generator.fields

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """The linear part is that of the generator, for each of the fields."""
        return TermsOnGrid(self.generator, grid, device).semilinear(self.tangents, self.growth)


class TermsOnGrid:
    """The terms of a generator on the kept modes of a grid: tables of symbols, and what they do.

    Factors that several products share are transformed once. u_hat (B, (1 + P) C, *N^) is the
    state with its P tangents.
    """

    def __init__(self, generator: Generator, grid: Grid, device: torch.device | None) -> None:
        self.c, self.fields = generator.coefficients.to(device), generator.fields
        self.grid, self.modes = grid, band_limits(grid)
        self.angle = generator.scheme.angle
        xi = grid.modes(device=device)[..., : self.modes[-1], :].double()
        self.band = band_mask(grid, device)[..., : self.modes[-1]]
        self.lowest = xi.abs().amax(dim=-1) <= 1
        self.sources, self.linear_terms = list[tuple[int, int, Tensor]](), list[LinearTerm]()
        self.products, factors = list[Product](), dict[tuple[int, bytes], tuple[int, Tensor]]()

        def number(field: int, table: Tensor) -> int:
            """The number of a factor."""
            key = field, table.detach().cpu().numpy().tobytes()
            return factors.setdefault(key, (len(factors), table))[0]

        for k, term in enumerate(generator.listed()):
            tables = term.tables(xi / generator.period, grid.dim)
            if term.source is not None:
                f = term.source.values(grid).to(xi.device)
                self.sources.append((k, term.field, transform(f, grid.dim, self.modes)))
            elif term.linear:
                self.linear_terms.append((k, term.inputs[0], term.field, tables[0][0]))
            else:
                components = zip(*tables, strict=True)
                pairs = [list(map(number, term.inputs, pair)) for pair in components]
                self.products.append((k, term.field, pairs))
        self.inputs = torch.tensor([i for i, _ in factors], dtype=torch.long, device=xi.device)
        self.tables = torch.stack([table for _, table in factors.values()]) if factors else None
        self.linear = self._linear()

    def _linear(self) -> Tensor:
        """A(ξ) of each field, (*N^) for one field, else (C, *N^); real if it can be."""
        parts = [torch.zeros_like(self.band, dtype=torch.complex128)] * self.fields
        for k, i, o, table in self.linear_terms:
            if i == o:
                parts[o] = parts[o] + self.c[k] * table
        total = parts[0] if self.fields == 1 else torch.stack(parts)
        return total if bool(total.imag.any()) else total.real

    def factors(self, u_hat: Tensor) -> Tensor | None:
        """The factors of all products at the points, (..., C, *N^) -> (..., F, *N)."""
        if self.tables is None:
            return None
        chosen = u_hat.index_select(-self.grid.dim - 1, self.inputs)
        return inverse(chosen * self.tables, self.grid.shape, self.modes)

    def _product(self, pairs: Pairs, f: Tensor, g: Tensor) -> Tensor:
        """Σ (a u)(b u) over the components of vectors, of factors (..., F, *N)."""
        axis = -self.grid.dim - 1
        return reduce(torch.add, [f.select(axis, a) * g.select(axis, b) for a, b in pairs])

    def semilinear(self, tangents: int = 0, growth: float = math.inf) -> Semilinear:
        """The terms as L and N, for the state and its tangents, with L cut at a growth rate."""
        linear = self.linear - (self.linear.real - growth).clamp(min=0.0)
        if self.fields > 1:
            linear = linear.repeat(1 + tangents, *[1] * self.grid.dim)
        coupled = any(i != o for _, i, o, _ in self.linear_terms)
        if not (self.products or self.sources or coupled or tangents):
            return Semilinear(linear, self.modes, band=self.band)
        return Semilinear(linear, self.modes, self.nonlinear, self.rates, DEFORMATION, self.band)

    def nonlinear(self, u_hat: Tensor) -> Tensor:
        """N(û): products, sources and the coupling of fields, and the same for the tangents."""
        states = u_hat.reshape(len(u_hat), -1, self.fields, *u_hat.shape[2:])
        shape = (*states.shape[:3], *self.grid.shape)
        total = torch.zeros(shape, dtype=torch.float64, device=u_hat.device)
        f, tangents = self.factors(states), states.shape[1] > 1
        for k, o, pairs in self.products:
            assert f is not None
            first, rest = f[:, :1], f[:, 1:]
            value = self._product(pairs, first, first)
            total[:, :1, o] += self.c[k] * value
            if tangents:
                both = self._product(pairs, first, rest) + self._product(pairs, rest, first)
                total[:, 1:, o] += self.c[k] * both
                total[:, 1 + k, o] += value[:, 0]
        hat = transform(total, self.grid.dim, self.modes)
        for k, o, f_hat in self.sources:
            hat[:, 0, o] += self.c[k] * f_hat
            if tangents:
                hat[:, 1 + k, o] += f_hat
        for k, i, o, table in self.linear_terms:
            if i != o:
                hat[:, :, o] += self.c[k] * table * states[:, :, i]
            if tangents:
                hat[:, 1 + k, o] += table * states[:, 0, i]
        return hat.flatten(1, 2)

    def rates(self, u_hat: Tensor) -> FlowRates:
        """How fast products turn the modes, compared with how fast A damps them."""
        u_hat, kept = u_hat[:, : self.fields], self.band > 0
        c, dim = self.c.detach().abs(), self.grid.dim
        turn = torch.zeros(len(u_hat), *kept.shape, dtype=torch.float64, device=u_hat.device)
        f = self.factors(u_hat)
        if f is not None and self.tables is not None:
            largest, sizes = f.detach().abs().flatten(2).amax(dim=2), self.tables.detach().abs()
            for k, _, pairs in self.products:
                for factors in pairs:
                    for a, b in (factors, factors[::-1]):
                        speed = c[k] * largest[:, a]
                        turn = turn + speed[(..., *[None] * dim)] * sizes[b]
        for k, i, o, table in self.linear_terms:
            if i != o:
                turn = turn + c[k] * table.detach().abs()
        turn = turn * kept
        linear = self.linear.detach()
        decay = -linear.real.amax(dim=0) if linear.dim() > dim else -linear.real
        free = (turn * (decay <= 0)).flatten(1).amax(dim=1)
        damped = (turn.square() / decay.clamp(min=1e-300) * (decay > 0)).flatten(1).amax(dim=1)
        size = u_hat.abs().flatten(1).norm(dim=1).clamp(min=1e-300)
        moved = (linear * u_hat).abs().flatten(1).norm(dim=1) / size
        if linear.is_complex():  # a step errs by h⁴ |L⁴ u| for waves, which A does not damp
            fast = (linear.imag.square().square() * u_hat).abs().flatten(1).norm(dim=1) / size
            moved = torch.maximum(moved, fast.sqrt().sqrt())
        low, carry = ((turn * m).flatten(1).amax(dim=1) for m in (self.lowest, kept))
        return FlowRates(carry, torch.maximum(damped, self.angle * free), low + moved)
