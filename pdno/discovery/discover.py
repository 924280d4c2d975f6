"""An equation from trajectories: fit a library of terms, remove negligible ones, assess, write.

1. All terms of a library are fitted to the first trajectories (`pdno.discovery.fit`).
2. Terms are removed one by one, the least significant first, while they lower the sum of squares
   by less than log n each (Schwarz, 1978). The smallest equation whose predictions of the last
   trajectories are as good as the best, to one standard error, is kept.
3. It is fitted to all trajectories, with terms that pay after all, and refused where residuals
   are larger than noise and tolerance explain. Terms that act alike on these data are named.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from scipy.stats import f as f_distribution
from torch import Tensor

from pdno.discovery.equation import NORMAL_95, Equation
from pdno.discovery.fit import Fit, GaussNewton, fit_generator, without
from pdno.discovery.generator import Generator, Terms
from pdno.discovery.terms import field_names, usual_terms
from pdno.discovery.trajectories import Trajectories
from pdno.figures.curves import plot_learned_symbol
from pdno.figures.style import Figure, save_figure
from pdno.files.atomic import write_text

CERTAINTY = 0.999  # of the test of the residuals
MOST_FOR_TERMS = 20  # trajectories by which terms are chosen, as more cost time
SLACK = 1.2  # by what the residuals may be larger, as the noise is not exactly known
VISIBLE = 4.0  # squared: a coefficient of natural size is seen at two standard errors
SHARE = 0.2  # of a direction without information from which on a term counts as part of it
WORTHWHILE = 0.01  # reduction of the prediction error, in units of the expected one, for a term


@dataclass(frozen=True, eq=False)
class Discovery:
    """An equation fitted to trajectories, and how well it fits.

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
        sizes = f"{self.trajectories} trajectories, modes |ξ| <= {self.reach}"
        lines.append(f"{sizes}, windows of {self.window} steps, noise {noise}")
        for group in self.alike:
            acts = "act alike" if len(group) > 1 else "has no visible effect"
            lines.append(f"not identifiable from these data: {', '.join(group)} {acts}")
        return "\n".join(lines)

    def write(self, folder: Path) -> None:
        """Write the files of `pdno discover`.

        equation.txt      the equation, as it is printed
        equation.tex      the equation as LaTeX, where one fits
        discovery.json    coefficients, covariance, noise, residuals, and equations that were tried
        symbol.svg        A(ξ) of the linear terms with its bars, in one dimension
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_text(folder / "equation.txt", f"{self}\n")
        generator, covariance = self.generator, self.generator.covariance
        assert covariance is not None
        record = {key: value for key, value in vars(self).items() if key != "generator"} | {
            "terms": [
                {"field": generator.names[term.field], "term": term.text, "coefficient": c}
                for term, c in generator.pairs()
            ],
            "covariance": covariance.tolist(),
            "period": generator.period,
            "path": [[n, e if e < float("inf") else None] for n, e in self.path],
        }
        text = json.dumps(record, indent=1, ensure_ascii=False)
        write_text(folder / "discovery.json", f"{text}\n")
        if self.accepted:
            write_text(folder / "equation.tex", f"{self.equation().latex}\n")
            if generator.dim == generator.fields == 1:
                save_figure(self.plot(), folder / "symbol.svg")

    def plot(self, exact: Generator | None = None) -> Figure:
        """A(ξ) with bars in one dimension, beside that of an exact equation."""
        xi = torch.arange(max(4, round(1.5 * self.reach)) + 1)[:, None]
        learned, bars = self.generator.symbol_with_bars(xi)
        truth = None if exact is None else exact.symbol_with_bars(xi)[0].numpy()
        return plot_learned_symbol(
            xi[:, 0].numpy(), learned.numpy(), bars.numpy(), self.reach, truth
        )


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
        terms: The library, as for `pdno.Generator`, or a list for all fields; by default
            `usual_terms`.
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
    count = min(len(u), MOST_FOR_TERMS)
    trained = count - max(1, count // 5) if count > 1 else count
    first, train = data.subset(range(count)), data.subset(range(trained))
    library = _library(terms, data, period)
    full = fit_generator(library, train, window)
    validation = data.subset(range(trained, count)) if trained < count else train
    chosen, path = _select(full, validation)
    if full.misfit > _limit(full, data):  # not even all terms together fit
        final = fit_generator(chosen.generator, first, window)
    else:
        final = _settle(chosen.generator, library, first, window)
    if count < len(u):
        final = fit_generator(final.generator, data, window)
    limit = _limit(final, data)
    generator = final.generator.with_coefficients(final.generator.coefficients)
    generator.covariance = final.covariance
    return Discovery(
        generator,
        accepted=final.misfit <= limit,
        misfit=final.misfit,
        limit=limit,
        window=final.window,
        noise=tuple((data.noise / data.scale).tolist()),
        reach=int(data.reach.max()),
        trajectories=len(u),
        alike=_alike(full),
        path=path,
    )


def _library(terms: Terms | None, data: Trajectories, period: float) -> Generator:
    dim, fields = data.grid.dim, data.u.shape[2]
    if not isinstance(terms, Mapping):
        names = field_names(fields)
        terms = dict.fromkeys(names, terms or usual_terms(dim, names))
    if len(terms) != fields:
        raise ValueError(f"terms of {len(terms)} fields for trajectories with {fields}")
    return Generator(terms, dim=dim, period=period)


def _select(full: Fit, validation: Trajectories) -> tuple[Fit, tuple[tuple[int, float], ...]]:
    """The smallest fit on the path from all terms to one that predicts as well as the best."""
    fits = [full]
    while len(fits[-1].generator.terms) > 1:
        fits.append(without(fits[-1], _weakest(fits[-1])[0]))
    problem = GaussNewton(validation, full.window, states_free=False)
    errors = [problem.frame_squares(fit.generator) for fit in fits]
    means = [float(e.mean()) for e in errors]
    best = errors[min(range(len(errors)), key=means.__getitem__)]
    allowed, chosen = WORTHWHILE * validation.modes * validation.u.shape[2], 0
    for k, (fit, e) in enumerate(zip(fits, errors, strict=True)):
        if fit.squares > full.squares + k * _price(full) * full.unit:
            break
        spread = float((e - best).std() / len(e) ** 0.5) if len(e) > 1 else 0.0
        if bool(e.isfinite().all()) and float((e - best).mean()) <= spread + allowed:
            chosen = k
    sizes = [len(fit.generator.terms) for fit in fits]
    return fits[chosen], tuple(zip(sizes, means, strict=True))


def _settle(start: Generator, library: Generator, data: Trajectories, window: int | None) -> Fit:
    """The fit to all data after negligible terms are removed and significant ones are added."""
    names = [(term.field, term.text) for term in library.listed()]
    final = fit_generator(start, data, window)
    for _ in names:
        weak, significance = _weakest(final)
        kept = {(t.field, t.text): c for t, c in final.generator.pairs()}
        if significance < _price(final) and len(kept) > 1:
            final = fit_generator(without(final, weak).generator, data, window)
            continue
        c = torch.tensor([kept.get(name, 0.0) for name in names], dtype=torch.float64)
        absent = [k for k, name in enumerate(names) if name not in kept]
        problem = GaussNewton(data, final.window)
        gains = problem.gains(library.with_coefficients(c), final.states, absent)
        best = max(absent, key=gains.__getitem__, default=0)
        if not absent or gains[best] < 2 * _price(final) * final.unit:
            break
        chosen = [k for k in range(len(names)) if k == best or k not in absent]
        final = fit_generator(library.with_coefficients(c[chosen], chosen), data, window)
    return final


def _price(fit: Fit) -> float:
    """By how much the sum of squares has to fall for a term."""
    return max(math.log(max(fit.freedom, 2)), NORMAL_95**2)


def _weakest(fit: Fit) -> tuple[int, float]:
    """The least significant coefficient, or the most complex of those without significance, and
    its squared ratio to its error."""
    squared = fit.generator.coefficients.detach().square() / fit.covariance.diagonal()
    insignificant = [k for k, value in enumerate(squared.tolist()) if value < 1]
    terms = fit.generator.listed()
    k = max(insignificant, key=lambda k: terms[k].complexity, default=int(squared.argmin()))
    return k, float(squared[k])


def _alike(full: Fit) -> tuple[tuple[str, ...], ...]:
    """Groups of terms whose coefficients could change without a visible effect.

    Natural coefficients are those whose terms alone would move the states as far as they moved.
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
