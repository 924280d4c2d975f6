"""Judgements of the ablations, of the learned symbols and of the resource table."""

__all__ = [
    "activation_gap",
    "cost_of_pdno",
    "fewer_parameters",
    "modes_beat_baselines",
    "modes_saturate",
    "parameters_without_modes",
    "samples_best",
    "smooth_symbols",
    "width_falls",
    "width_gap",
    "width_lower",
]

from pdno.report.ablations import ALL, baselines_at, by_setting
from pdno.report.fields import choose_sample
from pdno.report.groups import Group, Results, of_family
from pdno.report.judgements import NO_GAP, Finding, gap_of, judge_gap
from pdno.report.models import BASELINES, family_of, is_of_the_paper
from pdno.report.published import TABLE_6
from pdno.report.setting_tables import resource_numbers
from pdno.report.symbols import roughness, symbol_values
from pdno.report.table import number, summary_text

ENOUGH_MODES = 20  # of the paper, figure 9
COMPARABLE = 1.25
"""Ratio of errors up to which we call them comparable."""
MEMORY, PARAMETERS, SECONDS = range(3)
"""Places in `Resources`."""
SMOOTHER = 0.5
"""Ratio of the roughness of PDNO's symbols to FNO's from which on they are no smoother."""


def modes_beat_baselines(results: Results) -> Finding | None:
    """Already the smallest k_max has a lower test error than MWT and FNO."""
    shown = results.shown("darcy-modes")
    groups = by_setting(shown, "k_max")
    others = baselines_at(results, shown[0].resolution) if shown else []
    if not groups or not others:
        return None
    smallest = next(iter(groups.values()))
    errors = {group: group.summary() for group in (smallest, *others)}
    known = {group: error for group, error in errors.items() if error is not None}
    if len(known) < len(errors):
        return None
    holds = known[smallest].mean < min(known[group].mean for group in others)
    text = ", ".join(f"{group.model} {summary_text(error)}" for group, error in known.items())
    return Finding(holds, f"s = {smallest.resolution}: {text}", tuple(known))


def modes_saturate(results: Results) -> Finding | None:
    """From k_max = 20 on the test error is comparable to that of all modes."""
    groups = by_setting(results.shown("darcy-modes"), "k_max")
    every = groups.get(ALL)
    some = {k: g for k, g in groups.items() if ENOUGH_MODES <= k < ALL}
    if every is None or not some or every.summary() is None:
        return None
    full = every.summary()
    assert full is not None
    ratios = {k: s.mean / full.mean for k, g in some.items() if (s := g.summary()) is not None}
    holds = all(1 / COMPARABLE <= ratio <= COMPARABLE for ratio in ratios.values())
    text = ", ".join(f"k_max = {k:g}: {ratio:.2f}" for k, ratio in ratios.items())
    return Finding(holds, f"error / that of all modes: {text}", (every, *some.values()))


def activation_gap(results: Results) -> Finding | None:
    """ReLU symbol networks have a gap between training and test, GELU ones have none."""
    groups = results.study("darcy-activation")
    ratios = {group: ratio for group in groups if (ratio := gap_of(group)) is not None}
    gelu = [ratio for group, ratio in ratios.items() if group.network["activation"] == "gelu"]
    relu = [ratio for group, ratio in ratios.items() if group.network["activation"] == "relu"]
    if not gelu or not relu:
        return None
    text = ", ".join(f"{g.model} (s = {g.resolution}) {r:.2f}" for g, r in ratios.items())
    holds = max(gelu) <= NO_GAP < min(relu)
    return Finding(holds, f"test / train: {text}; limit {NO_GAP}", tuple(ratios))


def _widths(results: Results) -> dict[str, dict[float, Group]]:
    shown = results.shown("navier-stokes-width")
    return {
        family: by_setting([g for g in shown if g.family == family], "width")
        for family in ("PDNO a(ξ)", "FNO")
    }


def width_falls(results: Results) -> Finding | None:
    """The test error falls with the channels, for PDNO a(ξ) and for FNO."""
    curves = {
        family: {w: s.mean for w, g in groups.items() if (s := g.summary()) is not None}
        for family, groups in _widths(results).items()
    }
    if any(len(curve) < 2 for curve in curves.values()):
        return None
    values = [list(curve.values()) for curve in curves.values()]
    holds = all(a > b for curve in values for a, b in zip(curve, curve[1:], strict=False))
    text = "; ".join(
        f"{family}: " + ", ".join(f"{number(e)} at {w:g}" for w, e in curve.items())
        for family, curve in curves.items()
    )
    return Finding(holds, text, tuple(results.shown("navier-stokes-width")))


def width_lower(results: Results) -> Finding | None:
    """PDNO a(ξ) has a lower test error than FNO of the same channels."""
    pdno, fno = _widths(results).values()
    pairs = {
        width: (ours.mean, theirs.mean)
        for width in pdno
        if width in fno
        and (ours := pdno[width].summary()) is not None
        and (theirs := fno[width].summary()) is not None
    }
    if not pairs:
        return None
    holds = all(ours < theirs for ours, theirs in pairs.values())
    text = ", ".join(f"{w:g}: {number(a)} and {number(b)}" for w, (a, b) in pairs.items())
    used = tuple(results.shown("navier-stokes-width"))
    return Finding(holds, f"PDNO a(ξ) and FNO by channels: {text}", used)


def width_gap(results: Results) -> Finding | None:
    """PDNO a(ξ) has almost no gap between training and test whatever the channels, FNO has."""
    return judge_gap(results.shown("navier-stokes-width"))


def parameters_without_modes(results: Results) -> Finding | None:
    """The parameters of PDNO do not depend on k_max."""
    counts: dict[int, set[int]] = {}
    for (kind, modes, width), one in resource_numbers(results).items():
        if kind == "PDNO":
            counts.setdefault(width, set()).add(modes)
            counts.setdefault(-width, set()).add(int(one.parameters))
    several = [width for width in counts if width > 0 and len(counts[width]) > 1]
    if not several:
        return None
    holds = all(len(counts[-width]) == 1 for width in several)
    text = "; ".join(
        f"{width} channels, k_max {_join(counts[width])}: {_join(counts[-width])} parameters"
        for width in several
    )
    return Finding(holds, text, budget="counted, no training")


def fewer_parameters(results: Results) -> Finding | None:
    """PDNO has fewer parameters than FNO of the same channels and k_max."""
    pairs = _resource_pairs(results, PARAMETERS)
    if not pairs:
        return None
    text = ", ".join(f"{label}: {number(a)} and {number(b)}" for label, (a, b) in pairs.items())
    holds = all(ours < theirs for ours, theirs in pairs.values())
    return Finding(holds, f"PDNO and FNO, {text}", budget="counted, no training")


def cost_of_pdno(results: Results) -> Finding | None:
    """PDNO takes more time and more memory than FNO of the same channels and k_max."""
    texts, holds = [], True
    for name, part in (("time", SECONDS), ("memory", MEMORY)):
        pairs = _resource_pairs(results, part)
        if not pairs:
            return None
        holds &= all(ours > theirs for ours, theirs in pairs.values())
        ratios = ", ".join(f"{label}: {a / b:.2f}" for label, (a, b) in pairs.items())
        published = TABLE_6["PDNO", 12, 20][part] / TABLE_6["FNO", 12, 20][part]
        texts.append(
            f"{name} PDNO / FNO {ratios} (paper {published:.1f} at k_max 12, 20 channels)"
        )
    return Finding(holds, "; ".join(texts), budget="one training step on our machine, no GPU")


def _resource_pairs(results: Results, part: int) -> dict[str, tuple[float, float]]:
    """PDNO's and FNO's number by configuration; only those of the paper's table."""
    ours = resource_numbers(results)
    return {
        f"k_max {modes}, {width} channels": (
            ours["PDNO", modes, width][part],
            ours["FNO", modes, width][part],
        )
        for kind, modes, width in TABLE_6
        if kind == "PDNO" and ("PDNO", modes, width) in ours and ("FNO", modes, width) in ours
    }


def smooth_symbols(results: Results) -> Finding | None:
    """The learned symbols of PDNO are smooth in ξ and those of FNO are not."""
    shown = results.shown("navier-stokes")
    pdno, fno = (of_family(shown, family) for family in ("PDNO a(x,ξ)", "FNO"))
    if pdno is None or fno is None:
        return None
    ours, theirs = (
        [roughness(values) for values in symbol_values(group.first)] for group in (pdno, fno)
    )
    if not ours or not theirs:
        return None
    holds = max(ours) < SMOOTHER * min(theirs)
    texts = [", ".join(f"{value:.2f}" for value in values) for values in (ours, theirs)]
    text = f"roughness by block: {pdno.model} {texts[0]}; {fno.model} {texts[1]} (1 is noise)"
    return Finding(holds, text, (pdno, fno))


def samples_best(results: Results) -> Finding | None:
    """PDNO is the best at all shown steps of the samples with the lowest and highest error."""
    groups = [g for g in results.shown("navier-stokes") if is_of_the_paper(g.model)]
    texts, holds = [], True
    for choice in ("lowest", "highest"):
        sample = choose_sample(groups, choice)
        if sample is None:
            return None
        pdno = [m for m in sample.predictions if family_of(m) == "PDNO a(x,ξ)"]
        others = [m for m in sample.predictions if family_of(m) in BASELINES]
        if not pdno or not others:
            return None
        frames = range(len(sample.target))
        best = sum(
            sample.frame_error(pdno[0], k) < min(sample.frame_error(m, k) for m in others)
            for k in frames
        )
        holds &= best == len(frames)
        texts.append(f"{choice}: sample {sample.index}, best at {best} of {len(frames)} times")
    return Finding(holds, "; ".join(texts), tuple(groups))


def _join(values: set[int]) -> str:
    return ", ".join(map(str, sorted(values)))
