"""Is a symbol in S^m_{1,0}? Evidence for it, or the ray that speaks against.

    |Δ_ξ^α ∂_x^β a(x, ξ)| <= C_αβ ⟨ξ⟩^{m-|α|},     x ∈ T^n, ξ ∈ Z^n,     ⟨ξ⟩ = (1 + |ξ|²)^{1/2}

For the boundedness of the operator |α| <= k, the least integer above n/2, is enough (theorem 2);
|α| <= k + 1 and |β| <= 2 are judged. A refusal comes with a witness. An acceptance is no proof: it
says that nothing was found where it was looked for. `symbols.classical` has symbols with a proof.

    growth        |a|, or an x-derivative of it, grows faster than |ξ|^m
    differences   Δ^α a does not decay as it should along some ray
    kink in ξ     a is not smooth as a function on R^n
    kink in x     a is not smooth in x
    seam          a does not fit together at x = 0 and x = 1, so it is not smooth on the torus

By theorem 1 a function on the lattice is in the class if and only if *some* smooth symbol on R^n
has its values there. So a ReLU network of one frequency, whose kinks are finitely many, passes on
the lattice and fails on R. Networks are judged on R^n unless asked otherwise, because that is
where the claim about them is made; formulas, tables and functions on the lattice.
"""

__all__ = ["Certificate", "certify"]

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import torch
from torch import Tensor

from pdno.symbols.base import Symbol
from pdno.symbols.scale import scale_per_axis
from pdno.symbols.separated import SeparatedSymbol
from pdno.theory.access import AnySymbol, make_probe
from pdno.theory.differences import MultiIndex, multi_indices
from pdno.theory.judgement import Witness, find_violations, judge_smoothness
from pdno.theory.measurement import Measurement, measure
from pdno.theory.probe import Probe
from pdno.theory.rays import RATIO

if TYPE_CHECKING:
    from pdno.report.style import Figure

Indices = tuple[MultiIndex, MultiIndex]


@dataclass(frozen=True)
class Certificate:
    """The verdict on a symbol, with what it rests on.

    Arguments:
        accepted: Whether nothing speaks against S^m_{1,0}.
        asked: m.
        order: The exponent of |a| itself, fitted; -inf for faster decay than every power.
        dim: n.
        seminorms: sup |Δ^α ∂_x^β a| ⟨ξ⟩^{|α|-m} over all points that were visited, by (α, β).
        growth: Fitted exponents of |Δ^α ∂_x^β a|, by (α, β); -inf where nothing is seen.
        periodic: Whether a fits together at x = 0 and 1; None for symbols without x.
        smooth: Whether no kink or jump was found inside.
        witnesses: Everything that speaks against it, the first of each kind.
        reasons: The verdict in words.
        radii: |ξ| in the middle of each shell.
        curves: The largest |Δ^α a| ⟨ξ⟩^{|α|-m} in each shell, by |α|; nan where unseen.
    """

    accepted: bool
    asked: float
    order: float
    dim: int
    seminorms: Mapping[Indices, float]
    growth: Mapping[Indices, float]
    periodic: bool | None
    smooth: bool
    witnesses: tuple[Witness, ...]
    reasons: tuple[str, ...]
    radii: tuple[float, ...]
    curves: Mapping[int, tuple[float, ...]]

    @property
    def witness(self) -> Witness | None:
        """The first thing that speaks against it."""
        return self.witnesses[0] if self.witnesses else None

    def plot(self) -> "Figure":
        """Weighted differences against |ξ|: level or falling curves are those of the class."""
        from pdno.report.figures_symbols import plot_certificate

        return plot_certificate(
            f"{'In' if self.accepted else 'Not in'} S^{self.asked:g}, n = {self.dim}",
            self.radii,
            self.curves,
            witness=[
                (math.hypot(*point), value)
                for witness in self.witnesses[:1]
                if witness.kind in ("growth", "differences")
                for point, value in zip(witness.points, witness.values, strict=True)
            ],
        )

    def __str__(self) -> str:
        """The verdict and its reasons, one a line."""
        verdict = "accepted" if self.accepted else "refused"
        title = f"S^{self.asked:g}_{{1,0}}, n = {self.dim}: {verdict}; order {self.order:.2f}"
        return "\n- ".join([title, *self.reasons])


@torch.no_grad()
def certify(
    symbol: AnySymbol,
    order: float | None = None,
    *,
    dim: int | None = None,
    t: float | None = None,
    space: Literal["torus", "box"] = "torus",
    frequencies: Literal["integer", "real"] | None = None,
    acting: bool = False,
    frequency_scale: float | Sequence[float] | None = None,
    shells: int = 10,
    generator: torch.Generator | None = None,
) -> Certificate:
    """Judge whether a symbol is in S^m_{1,0}(T^n x Z^n).

    Arguments:
        symbol: Any symbol, or a function a(x, ξ) from x (P, 1, d) and ξ (1, M, d) to (P, M) or
            (O, I, P, M). All channel pairs are judged at once.
        order: m; None takes the order that is fitted.
        dim: n, for functions and formulas that do not know it.
        t: Time, for symbols that depend on it.
        space: "torus", or "box" to judge smoothness inside of the box only.
        frequencies: "real" asks for smoothness on R^n as well, "integer" does not. None means
            "real" for networks, else "integer".
        acting: Whether to judge the part that acts on real functions (see `theory.access`).
        frequency_scale: Unit of ξ, for functions; networks bring their own.
        shells: J: frequencies go up to 4^(J + 1) units.
        generator: Draws points and directions; the same by default.

    Example:
        >>> from pdno.symbols import Resolvent
        >>> certificate = certify(Resolvent(), order=-2, dim=2)
        >>> certificate.accepted, round(certificate.order, 2)
        (True, -2.0)
    """
    if shells < 4:
        raise ValueError(f"shells is {shells}; expected at least 4 to see growth")
    draw = generator or torch.Generator().manual_seed(0)
    probe = make_probe(symbol, dim=dim, t=t, acting=acting, generator=draw)
    if frequency_scale is not None:
        probe.scale = scale_per_axis(frequency_scale, probe.dim)
    highest = probe.dim // 2 + 2  # k + 1
    measurements = measure(probe, highest, shells=shells, generator=draw)
    real = _judged_on_reals(symbol, probe, frequencies)
    rough, smooth, periodic = judge_smoothness(
        probe, real=real, torus=space == "torus", generator=draw
    )
    fitted = measurements[0].growth[0, 0].exponent
    asked = order if order is not None else fitted if math.isfinite(fitted) else 0.0
    broken = max((find_violations(each, asked) for each in measurements), key=len)
    witnesses = (*broken, *rough)
    return Certificate(
        not witnesses,
        asked,
        fitted,
        probe.dim,
        _seminorms(measurements[0], asked),
        _exponents(measurements[0]),
        periodic,
        smooth,
        witnesses,
        (*(witness.reason for witness in witnesses), *_remarks(symbol, probe, measurements[0])),
        tuple(float(2 * RATIO**j * probe.scale.mean()) for j in range(1, shells + 1)),
        _curves(measurements[-1], asked),
    )


def _judged_on_reals(
    symbol: AnySymbol, probe: Probe, frequencies: Literal["integer", "real"] | None
) -> bool:
    if frequencies == "real" and probe.only_integers:
        raise ValueError(
            "this symbol lives on the lattice: give frequencies='integer', or leave it out"
        )
    by_default = isinstance(symbol, SeparatedSymbol) and not probe.only_integers
    return frequencies == "real" or (frequencies is None and by_default)


def _seminorms(measurement: Measurement, order: float) -> dict[Indices, float]:
    known = {
        (a, b): measurement.seminorm(row, column, order)
        for row, a in enumerate(measurement.alphas)
        for column, b in enumerate(measurement.betas)
    }
    # a symbol without x has no x-derivatives
    every = multi_indices(len(measurement.alphas[0]), 2)
    return {(a, b): known.get((a, b), 0.0) for a in measurement.alphas for b in every}


def _exponents(measurement: Measurement) -> dict[Indices, float]:
    every = multi_indices(len(measurement.alphas[0]), 2)
    known = {
        (measurement.alphas[row], measurement.betas[column]): growth.exponent
        for (row, column), growth in measurement.growth.items()
    }
    return {(a, b): known.get((a, b), -math.inf) for a in measurement.alphas for b in every}


def _curves(measurement: Measurement, order: float) -> dict[int, tuple[float, ...]]:
    curves: dict[int, Tensor] = {}
    for row, alpha in enumerate(measurement.alphas):
        weighted, _ = measurement.weighted(row, 0, order)
        shown = weighted.amax(dim=0)
        shown[measurement.growth[row, 0].last + 1 :] = math.nan
        other = curves.get(sum(alpha), shown)
        curves[sum(alpha)] = torch.fmax(shown, other)
    return {total: tuple(curve.tolist()) for total, curve in curves.items()}


def _remarks(symbol: AnySymbol, probe: Probe, measurement: Measurement) -> list[str]:
    """What a reader of the verdict should know besides."""
    remarks = []
    if probe.support is not None:
        remarks.append(_about_table(probe.support, measurement))
    elif measurement.growth[0, 0].exponent == -math.inf:
        remarks.append("a decays faster than every power of |ξ|, so it is of every order")
    acts = isinstance(symbol, Symbol) and probe.dim > 1 and not probe.only_integers
    if acts and not _is_hermitian(probe):
        remarks.append(
            "a(x, -ξ) is not conj a(x, ξ): on real functions its Hermitian completion acts, which "
            "jumps at ξ_n = 0; judge that with acting=True"
        )
    return remarks


def _about_table(support: int, measurement: Measurement) -> str:
    largest = measurement.core[:, 0].amax(dim=-1)
    steepest = max(
        float(largest[row] / largest[0])
        for row, alpha in enumerate(measurement.alphas)
        if sum(alpha) == 1
    )
    return (
        f"a table: zero where some |ξ_j| > {support}, so it is of every order, with constants "
        f"that hold for these modes only. Neighbours differ by up to {steepest:.2g} times the "
        f"largest entry; for a smooth function of ξ/{support} that is {math.pi / support:.2g}"
    )


def _is_hermitian(probe: Probe) -> bool:
    xi = (probe.scale * torch.tensor([[1.0, 2.0, -3.0], [5.0, -1.0, 2.0]])[:, : probe.dim]).round()
    here, there = probe.values(xi), probe.values(-xi).conj()
    return bool((here - there).abs().max() <= 1e-9 * here.abs().max())
