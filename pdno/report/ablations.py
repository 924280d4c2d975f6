"""The ablations of the paper's appendix: kept modes, channels and activation (figures 9, 10, 11).

The paper prints neither the values of these curves nor its lists of k_max and of channels; the
lists are ours.
"""

__all__ = ["baselines_at", "by_setting", "plot_activation", "plot_modes", "plot_width"]

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pdno.report.errors import draw_summaries, panels_for, title_of
from pdno.report.groups import Group, Results, of_family
from pdno.report.models import BASELINES, setting_of
from pdno.report.style import colour_of, figure_style, line_of, logarithmic, shared_legend

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ALL = float("inf")


def by_setting(groups: Sequence[Group], key: str) -> dict[float, Group]:
    """Groups by the value of `key` in the name of the model, in order; "all" comes last."""
    found: dict[float, Group] = {}
    for group in groups:
        value = setting_of(group.model, key)
        if value is not None:
            found[ALL if value == "all" else float(value)] = group
    return dict(sorted(found.items()))


def baselines_at(results: Results, resolution: int) -> list[Group]:
    """The networks that the paper compares with on Darcy, at one resolution."""
    groups = results.by_resolution("darcy").get(resolution, [])
    found = [of_family(groups, family) for family in BASELINES]
    return [group for group in found if group is not None]


def plot_modes(results: Results) -> "Figure | None":
    """Figure 9: test error of PDNO on Darcy against k_max, other networks as lines."""
    shown = results.shown("darcy-modes")
    groups = by_setting(shown, "k_max")
    if not groups:
        return None
    with figure_style():
        figure, (axes,) = panels_for(1)
        for split in ("test", "train"):
            found = {_head(value): group.summary(split) for value, group in groups.items()}
            known = {head: summary for head, summary in found.items() if summary is not None}
            draw_summaries(axes, known, f"PDNO a(x,ξ), {split}", line_of("PDNO a(x,ξ)", split))
        for group in baselines_at(results, shown[0].resolution):
            summary = group.summary()
            if summary is not None:
                style = {"color": colour_of(group.model), "linestyle": "-."}
                axes.axhline(summary.mean, label=f"{group.model}, test", **style)
        logarithmic(axes, "y")
        axes.set_xlabel("k_max")
        axes.set_ylabel("relative L2 error")
        axes.set_title(title_of(shown))
        shared_legend(figure, [axes], columns=2)
        return figure


def plot_width(results: Results) -> "Figure | None":
    """Figure 10: training and test error against channels, all modes kept."""
    shown = results.shown("navier-stokes-width")
    if not by_setting(shown, "width"):
        return None
    with figure_style():
        figure, (axes,) = panels_for(1)
        for family in ("PDNO a(ξ)", "FNO"):
            groups = by_setting([g for g in shown if g.family == family], "width")
            for split in ("test", "train"):
                found = {value: group.summary(split) for value, group in groups.items()}
                known = {head: summary for head, summary in found.items() if summary is not None}
                draw_summaries(axes, known, f"{family}, {split}", line_of(family, split))
        axes.set_xticks([float(width) for width in by_setting(shown, "width")])
        axes.set_xlabel("channels")
        axes.set_ylabel("relative L2 error")
        axes.set_title(title_of(shown))
        shared_legend(figure, [axes], columns=2)
        return figure


def plot_activation(results: Results) -> "Figure | None":
    """Figure 11: training and test error with GELU and with ReLU symbol networks."""
    blocks = results.by_resolution("darcy-activation")
    if not blocks:
        return None
    groups = [group for block in blocks.values() for group in block]
    bars = [(m, split) for m in sorted({g.model for g in groups}) for split in ("train", "test")]
    with figure_style():
        figure, (axes,) = panels_for(1)
        for place, (model, split) in enumerate(bars):
            found = {
                k: summary
                for k, block in enumerate(blocks.values())
                for group in block
                if group.model == model and (summary := group.summary(split)) is not None
            }
            axes.bar(
                [k + (place - (len(bars) - 1) / 2) / (len(bars) + 1) for k in found],
                [summary.mean for summary in found.values()],
                1 / (len(bars) + 1),
                yerr=[s.deviation if s.count > 1 else 0.0 for s in found.values()],
                color=colour_of(model),
                alpha=0.5 if split == "train" else 1.0,
                label=f"{model}, {split}",
            )
        axes.set_xticks(range(len(blocks)), [str(points) for points in blocks])
        axes.set_xlabel("points per axis")
        axes.set_ylabel("relative L2 error")
        axes.set_title(title_of(groups))
        shared_legend(figure, [axes])
        return figure


def _head(value: float) -> str:
    return "all" if value == ALL else f"{value:g}"
