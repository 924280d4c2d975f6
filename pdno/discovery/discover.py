"""An equation from trajectories: fit a library of terms, remove negligible ones, assess.

1. All terms of a library are fitted to the first trajectories (`pdno.discovery.fit`).
2. Terms are removed one by one, the least significant first, while they lower the sum of squares
   by less than log n each (Schwarz, 1978). The smallest equation whose predictions of the last
   trajectories are as good as the best, to one standard error, is kept.
3. It is fitted to all trajectories, with terms that pay after all, and refused where residuals
   are larger than noise and tolerance explain. Terms that act alike on these data are named.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from scipy.stats import f as f_distribution
from torch import Tensor

from pdno.discovery.equation import Equation
from pdno.discovery.fit import Fit, GaussNewton, fit_generator, without
from pdno.discovery.generator import Generator, Terms
from pdno.discovery.terms import field_names, usual_terms
from pdno.discovery.trajectories import Trajectories

CERTAINTY = 0.999  # of the test of the residuals
MOST_FOR_TERMS = 20  # trajectories by which terms are chosen, as more cost time
SLACK = 1.2  # by what the residuals may be larger, as the noise is not exactly known
VISIBLE = 4.0  # squared: a coefficient of natural size is seen at two standard errors
SHARE = 0.2  # of a direction without information from which on a term counts as part of it
PAYS = 0.01  # of the expected errors: less does not pay for a term


@dataclass(frozen=True, eq=False)
class Discovery:
    """The equation that was found for trajectories, and how well it fits.

    `generator` is the equation of the library that fits best, with the covariance of its
    coefficients; `accepted` says whether it explains the data. `misfit` is the mean square of its
    residuals in units of the expected errors, at most `limit` if accepted. `alike` are groups of
    terms whose effects these data cannot distinguish, and `path` has the number of terms and the
    prediction error of each equation that was tried, in the same units.
    """

    generator: Generator
    accepted: bool
    misfit: float
    limit: float
    window: int
    noise: tuple[float, ...]
    reach: int
    trajectories: int
    alike: tuple[tuple[str, ...], ...]
    path: tuple[tuple[int, float], ...]

    def equation(self) -> Equation:
        """The equation with 95 % bars; ValueError where none of this form fits."""
        if not self.accepted:
            raise ValueError(self._refusal())
        unclear = {term for group in self.alike for term in group}
        equation = self.generator.equation()
        marked = [replace(c, identified=c.term not in unclear) for c in equation.coefficients]
        return replace(equation, coefficients=tuple(marked))

    def _refusal(self) -> str:
        times = f"{self.misfit**0.5:.3g} times as large as noise and tolerance explain"
        cure = "add terms to the library, or raise the tolerance"
        return f"no equation of this form fits: the best one has residuals {times}; {cure}"

    def __str__(self) -> str:
        lines = [self._refusal()]
        if self.accepted:
            equation = self.equation()
            lines = [str(equation)]
            if (simple := equation.simplified()) != equation:
                lines.append(f"with simple numbers where the bars allow:\n{simple}")
            lines.append(f"residuals are {self.misfit**0.5:.3g} times as large as expected")
        noise = ", ".join(f"{100 * part:.2g} %" for part in self.noise)
        lines.append(
            f"{self.trajectories} trajectories, modes |ξ| <= {self.reach}, windows of "
            f"{self.window} steps, noise {noise}"
        )
        for group in self.alike:
            acts = "act alike" if len(group) > 1 else "has no visible effect"
            lines.append(f"not identifiable from these data: {', '.join(group)} {acts}")
        return "\n".join(lines)


def discover(
    u: Tensor,
    times: Sequence[float],
    terms: Terms | None = None,
    *,
    period: float = 1.0,
    window: int | None = None,
    tolerance: float = 1e-4,
) -> Discovery:
    """Find the evolution equation of trajectories u (B, T, C, *N) on a periodic grid.

    Arguments:
        u: Trajectories. The first 20 decide on the terms, the last fifth of them by validation.
        times: Times of the frames.
        terms: The library, as for `pdno.Generator`; `usual_terms` of each field by default.
        period: Length of the box.
        window: Most steps that are predicted at once; the whole trajectories by default.
        tolerance: Relative error of the numbers besides noise: that of their solver, for example.

    Example:
        >>> import pdno
        >>> grid, smooth = pdno.Grid((32,)), pdno.GaussianField(4e6, tau=7.0, alpha=4.0)
        >>> heat = pdno.Generator(["u_xx"], [0.01])
        >>> u0 = smooth.sample(grid, seed=0, indices=range(3))
        >>> print(discover(pdno.solve(heat, u0, [0, 1, 2]), [0, 1, 2]).equation().simplified())
        u_t = 0.01 u_xx
    """
    data = Trajectories(u, tuple(map(float, times)), tolerance)
    few = data.subset(range(min(len(u), MOST_FOR_TERMS)))
    held = max(1, len(few.u) // 5) if len(u) > 1 else 0
    train = few.subset(range(len(few.u) - held))
    validation = few.subset(range(len(few.u) - held, len(few.u))) if held else train
    library = _library(terms, data, period)
    full = fit_generator(library, train, window)
    chosen, path = _select(full, validation)
    final = _settle(chosen.generator, library, few, window)
    if len(few.u) < len(u):
        final = fit_generator(final.generator, data, window)
    limit = _limit(final, data)
    generator = final.generator.with_coefficients(final.generator.coefficients)
    generator.covariance = final.covariance
    return Discovery(
        generator,
        final.misfit <= limit,
        final.misfit,
        limit,
        final.window,
        tuple((data.noise / data.scale).tolist()),
        int(data.reach.max()),
        len(u),
        _alike(full),
        path,
    )


def _settle(start: Generator, library: Generator, data: Trajectories, window: int | None) -> Fit:
    """The fit to all data after terms that do not pay are removed, and those that do are added."""
    names = [(term.field, term.text) for term in library.listed()]
    final = fit_generator(start, data, window)
    for _ in names:
        weak, significance = _weakest(final)
        kept = {(t.field, t.text): c for t, c in final.generator.pairs()}
        if significance < _price(final) and len(kept) > 1:
            final = fit_generator(without(final, weak).generator, data, window)
            continue
        everything = library.with_coefficients(torch.tensor([kept.get(n, 0.0) for n in names]))
        absent = [k for k, name in enumerate(names) if name not in kept]
        gains = GaussNewton(data, final.window).gains(everything, final.states, absent)
        best = max(absent, key=gains.__getitem__, default=0)
        if not absent or gains[best] < 2 * _price(final) * final.unit:
            break
        rows = [k for k in range(len(names)) if k == best or k not in absent]
        c = everything.coefficients.detach()[rows]
        final = fit_generator(library.with_coefficients(c, rows), data, window)
    return final


def _library(terms: Terms | None, data: Trajectories, period: float) -> Generator:
    dim, fields = data.grid.dim, data.u.shape[2]
    names = field_names(fields)
    if terms is None:
        terms = {name: usual_terms(dim, names) for name in names}
    library = Generator(terms, dim=dim, period=period)
    if library.fields != fields:
        raise ValueError(f"terms of {library.fields} fields for trajectories with {fields}")
    return library


def _select(full: Fit, validation: Trajectories) -> tuple[Fit, tuple[tuple[int, float], ...]]:
    """The smallest fit on the path from all terms to one that predicts as well as the best."""
    fits = [full]
    while len(fits[-1].generator.terms) > 1:
        fits.append(without(fits[-1], _weakest(fits[-1])[0]))
    problem = GaussNewton(validation, full.window, states_free=False)
    errors = [_errors(fit.generator, problem) for fit in fits]
    means = [float(e.mean()) for e in errors]
    best = errors[min(range(len(errors)), key=means.__getitem__)]
    allowed = PAYS * validation.modes * validation.u.shape[2]
    chosen = 0
    for k, (fit, e) in enumerate(zip(fits, errors, strict=True)):
        if fit.squares > full.squares + k * _price(full) * full.unit:
            break  # the terms that are left out pay for the data that they were fitted to
        worse = e - best
        spread = float(worse.std() / len(worse) ** 0.5) if len(worse) > 1 else 0.0
        if bool(e.isfinite().all()) and float(worse.mean()) <= spread + allowed:
            chosen = k
    sizes = [len(fit.generator.terms) for fit in fits]
    return fits[chosen], tuple(zip(sizes, means, strict=True))


def _errors(generator: Generator, problem: GaussNewton) -> Tensor:
    """The squared error of each predicted frame, in units of the expected errors."""
    parts = []
    for segment, first in zip(problem.segments, problem.firsts, strict=True):
        difference = problem.differences(generator, segment, first)
        if difference is None:
            parts.append(torch.full((segment.later.shape[:2].numel(),), torch.inf))
        else:
            parts.append(difference.flatten(2).square().sum(dim=2).flatten())
    return torch.cat(parts).double()


def _weakest(fit: Fit) -> tuple[int, float]:
    """The number of the least significant coefficient, and its squared ratio to its error.

    Of those without significance it is that of the most complex term.
    """
    c = fit.generator.coefficients.detach()
    squared = c.square() / fit.covariance.diagonal()
    insignificant = [k for k, value in enumerate(squared.tolist()) if value < 1]
    terms = fit.generator.listed()
    if insignificant:
        k = max(insignificant, key=lambda k: terms[k].complexity)
    else:
        k = int(squared.argmin())
    return k, float(squared[k])


def _price(fit: Fit) -> float:
    """By how much the sum of squares has to fall for a term, log n (Schwarz, 1978)."""
    return math.log(max(fit.freedom, 2))


def _alike(full: Fit) -> tuple[tuple[str, ...], ...]:
    """Groups of terms whose coefficients of natural size would change nothing that is visible.

    The natural size of a coefficient is that with which its term alone would move the states as
    much as they moved.
    """
    natural = (full.motion / full.single.clamp(min=1e-12 * full.motion)).sqrt()
    natural = torch.where(full.single > 1e-12 * full.motion, natural, 0.0)
    values, vectors = torch.linalg.eigh(full.matrix * natural * natural[:, None])
    groups: list[set[int]] = []
    for value, vector in zip(values.tolist(), vectors.T, strict=True):
        if value < VISIBLE:
            group = {k for k, part in enumerate(vector.abs().tolist()) if part > SHARE}
            for other in [g for g in groups if g & group]:
                groups.remove(other)
                group |= other
            groups.append(group)
    terms = full.generator.listed()
    return tuple(tuple(terms[k].text for k in sorted(group)) for group in groups)


def _limit(fit: Fit, data: Trajectories) -> float:
    """The largest misfit that noise and tolerance explain."""
    quantile = float(f_distribution.ppf(CERTAINTY, max(fit.freedom, 1), data.unexplained))
    return SLACK * quantile
