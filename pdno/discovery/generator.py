"""Generators u_t = A(D)u + Σ_k c_k (a_k(D)u)·(b_k(D)u) + f(x), whose coefficients are learned.

`Sensitivity` is the same equation together with its derivatives by coefficients and initial
states: they solve a linear equation with the same A, so the solver advances them as more fields.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from pdno.discovery.equation import Coefficient, Equation
from pdno.discovery.terms import Term, parse_term
from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
from pdno.spectral.calculus import band_limits, band_mask
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid
from pdno.symbols.analytic import DifferentialOperator

Terms = Sequence[str | Term] | Mapping[str, Sequence[str | Term]]
Pairs = Sequence[tuple[int, int]]
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
        >>> burgers.rate(torch.ones(1, 1, 16)).abs().max()
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
        on_grid = TermsOnGrid(self, grid, device)
        if not on_grid.explicit:
            return Semilinear(on_grid.linear, on_grid.modes, band=on_grid.band)
        rest = on_grid.nonlinear, on_grid.rates, DEFORMATION, on_grid.band
        return Semilinear(on_grid.linear, on_grid.modes, *rest)

    def equation(self) -> Equation:
        """The equation as text and LaTeX, with the error bars of fitted coefficients."""
        errors: Sequence[float | None] = [None] * len(self.terms)
        if self.covariance is not None:
            errors = self.covariance.diagonal().sqrt().tolist()
        values = zip(self.listed(), self.coefficients.tolist(), errors, strict=True)
        return Equation(
            self.names, tuple(Coefficient(t.text, t.field, c, error) for t, c, error in values)
        )

    def linear_symbol(self, field: int = 0) -> DifferentialOperator:
        """A(ξ/L) of one field as a symbol of integer modes, for `pdno.certify` and others."""
        powers, values = [(0,) * self.dim], [0.0]
        for term, c in zip(self.listed(), self.coefficients.tolist(), strict=True):
            if term.diagonal and term.field == field:
                (symbol,) = term.symbols
                if not isinstance(symbol, DifferentialOperator):
                    raise ValueError(f"{term.text} is no polynomial in ξ: take its own symbol")
                for power, part in zip(symbol.powers, symbol.coefficients, strict=True):
                    powers.append(power)
                    values.append(c * part / self.period ** sum(power))
        return DifferentialOperator(powers, values)

    def __repr__(self) -> str:
        pairs = zip(self.coefficients.tolist(), self.listed(), strict=True)
        return f"Generator({', '.join(f'{c:.6g} {term.text}' for c, term in pairs)})"


@dataclass(frozen=True)
class Sensitivity(EvolutionEquation):
    """u_t = G(u; c) with its tangents by c and, if the start of tangents is not 0, by u(0):

        v_t = A v + N'(u) v + T_k(u)  for the k-th coefficient, without T_k(u) for the others.

    Its fields are u and the `tangents` v, each with those of the generator, the coefficients'
    first. Growth rates Re A(ξ) are cut at `growth`, so that bad first guesses do not blow up.
    """

    generator: Generator
    tangents: int
    growth: float

    @property
    def fields(self) -> int:  # type: ignore[override]
        """u and its tangents, each with all fields of the generator."""
        return (1 + self.tangents) * self.generator.fields

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """The linear part is that of the generator, for each of the fields."""
        t, count = TermsOnGrid(self.generator, grid, device), self.generator.fields
        real = t.linear.real if t.linear.is_complex() else t.linear
        linear = t.linear - (real - self.growth).clamp(min=0.0)
        if count > 1:
            linear = linear.repeat(1 + self.tangents, *[1] * grid.dim)

        def nonlinear(u_hat: Tensor) -> Tensor:
            u_hat = u_hat.reshape(len(u_hat), -1, count, *u_hat.shape[2:])
            return t.tangents(u_hat[:, 0], u_hat[:, 1:]).flatten(1, 2)

        def rates(u_hat: Tensor) -> FlowRates:
            return t.rates(u_hat[:, :count])

        return Semilinear(linear, t.modes, nonlinear, rates, DEFORMATION, t.band)


class TermsOnGrid:
    """The terms of a generator on the kept modes of a grid: tables of symbols, and what they do.

    Factors that several products share are transformed once. u_hat is (B, C, *N^), its tangents
    (B, P, C, *N^).
    """

    def __init__(self, generator: Generator, grid: Grid, device: torch.device | None) -> None:
        self.c, self.fields = generator.coefficients.to(device), generator.fields
        self.grid, self.modes = grid, band_limits(grid)
        self.angle = generator.scheme.angle
        xi = grid.modes(device=device)[..., : self.modes[-1], :].double()
        self.band = band_mask(grid, device)[..., : self.modes[-1]]
        self.lowest = xi.abs().amax(dim=-1) <= 1
        self.sources, self.linear_terms = list[tuple[int, int, Tensor]](), list[LinearTerm]()
        self.products: list[Product] = []
        tables, keys = list[Tensor](), dict[tuple[int, bytes], int]()
        for k, term in enumerate(generator.listed()):
            values = term.tables(xi / generator.period, grid.dim)
            if term.source is not None:
                f = term.source.values(grid).to(xi.device)
                self.sources.append((k, term.field, transform(f, grid.dim, self.modes)))
            elif term.linear:
                self.linear_terms.append((k, term.inputs[0], term.field, values[0][0]))
            else:
                pairs = []
                for components in zip(*values, strict=True):
                    pair = []
                    for i, table in zip(term.inputs, components, strict=True):
                        key = (i, table.detach().cpu().numpy().tobytes())
                        if key not in keys:
                            keys[key] = len(tables)
                            tables.append(table)
                        pair.append(keys[key])
                    pairs.append((pair[0], pair[1]))
                self.products.append((k, term.field, pairs))
        self.inputs = torch.tensor([i for i, _ in keys], dtype=torch.long, device=xi.device)
        self.tables = torch.stack(tables) if tables else None
        coupled = any(i != o for _, i, o, _ in self.linear_terms)
        self.explicit = bool(self.products or self.sources or coupled)
        self.linear = self._linear()

    def _linear(self) -> Tensor:
        """A(ξ) of each field, (*N^) for one field, else (C, *N^); real if it can be."""
        zero = torch.zeros_like(self.band, dtype=torch.complex128)
        parts = [zero] * self.fields
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
        return sum_of([f.select(axis, a) * g.select(axis, b) for a, b in pairs])

    def nonlinear(self, u_hat: Tensor) -> Tensor:
        """N(û): products, sources and the coupling of fields."""
        f, sums = self.factors(u_hat), list[list[Tensor]]()
        sums = [[] for _ in range(self.fields)]
        for k, o, pairs in self.products:
            assert f is not None
            sums[o].append(self.c[k] * self._product(pairs, f, f))
        hats = [self._transform(own) for own in sums]
        parts = [torch.zeros_like(u_hat[:, 0]) if hat is None else hat for hat in hats]
        for k, o, f_hat in self.sources:
            parts[o] = parts[o] + self.c[k] * f_hat
        for k, i, o, table in self.linear_terms:
            if i != o:
                parts[o] = parts[o] + self.c[k] * table * u_hat[:, i]
        return torch.stack(parts, dim=1)

    def _transform(self, parts: list[Tensor]) -> Tensor | None:
        return transform(sum_of(parts), self.grid.dim, self.modes) if parts else None

    def tangents(self, u_hat: Tensor, v_hat: Tensor) -> Tensor:
        """N(û) and the right-hand sides of the tangents beside A v, (B, 1 + P, C, *N^)."""
        base = self.nonlinear(u_hat)[:, None]
        if not v_hat.shape[1]:
            return base
        shape = (len(u_hat), v_hat.shape[1], self.fields, *self.grid.shape)
        f, g = self.factors(u_hat), self.factors(v_hat)
        total = torch.zeros(shape, dtype=torch.float64, device=u_hat.device)
        for k, o, pairs in self.products:
            assert f is not None and g is not None
            both = self._product(pairs, f[:, None], g) + self._product(pairs, g, f[:, None])
            total[:, :, o] += self.c[k] * both
            total[:, k, o] += self._product(pairs, f, f)
        hat = transform(total, self.grid.dim, self.modes)
        for k, o, f_hat in self.sources:
            hat[:, k, o] += f_hat
        for k, i, o, table in self.linear_terms:
            hat[:, k, o] += table * u_hat[:, i]
            if i != o:
                hat[:, :, o] += self.c[k] * table * v_hat[:, :, i]
        return torch.cat([base, hat], dim=1)

    def rates(self, u_hat: Tensor) -> FlowRates:
        """How fast products turn the modes, compared with how fast A damps them."""
        c, dim, kept = self.c.detach().abs(), self.grid.dim, self.band > 0
        turn = torch.zeros(len(u_hat), *kept.shape, dtype=torch.float64, device=u_hat.device)
        f = self.factors(u_hat)
        if f is not None and self.tables is not None:
            largest, sizes = f.detach().abs().flatten(2).amax(dim=2), self.tables.detach().abs()
            for k, _, pairs in self.products:
                for a, b in pairs:
                    for one, other in ((a, b), (b, a)):
                        speed = c[k] * largest[:, one]
                        turn = turn + speed[(..., *[None] * dim)] * sizes[other]
        for k, i, o, table in self.linear_terms:
            if i != o:
                turn = turn + c[k] * table.detach().abs()
        turn = turn * kept
        linear = self.linear.detach()
        decay = -(linear.real if linear.is_complex() else linear)
        decay = decay.amin(dim=0) if decay.dim() > dim else decay
        free = (turn * (decay <= 0)).flatten(1).amax(dim=1)
        damped = (turn.square() / decay.clamp(min=1e-300) * (decay > 0)).flatten(1).amax(dim=1)
        moved = (linear * u_hat).abs().flatten(1).norm(dim=1)
        size = u_hat.abs().flatten(1).norm(dim=1).clamp(min=1e-300)
        if (
            linear.is_complex()
        ):  # the error of a step is h⁴ |L⁴ u| for waves, which A does not damp
            fast = (linear.imag.square().square() * u_hat).abs().flatten(1).norm(dim=1) / size
            moved = torch.maximum(moved, fast.sqrt().sqrt() * size)
        low = (turn * self.lowest).flatten(1).amax(dim=1)
        carry = turn.flatten(1).amax(dim=1)
        return FlowRates(carry, torch.maximum(damped, self.angle * free), low + moved / size)


def sum_of(parts: Sequence[Tensor]) -> Tensor:
    """The sum of some tensors."""
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total
