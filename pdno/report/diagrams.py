"""The two architecture diagrams, drawn from the specification of a run (figures 2 and 6).

figure 2   K_a[f](x) = a1(x) F⁻¹[ a2(ξ) F[f](ξ) ](x): one operator, one channel
figure 6   a block v ↦ σ(W v + K_a v), K_a(v)_j = Σ_i a1_ij F⁻¹[ a2_ij F[v_i] ]
"""

__all__ = ["plot_block", "plot_operator"]

from typing import TYPE_CHECKING, Any

from pdno.report.groups import Group, Results
from pdno.report.models import is_of_the_paper
from pdno.report.style import COLOURS, figure_style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BLUE, ORANGE, GREEN = COLOURS[0], COLOURS[1], COLOURS[2]
DRAWN_INPUTS, DRAWN_OUTPUTS = 3, 2  # as in the paper
STUDIES = ("navier-stokes", "darcy", "burgers", "heat")
STATIONS = ("f(x)", "F", "×", "F⁻¹", "×", "K f(x)")
AXES = {"heat": 1, "burgers": 1, "darcy": 2, "navier-stokes": 2}


def _specified(results: Results, *kinds: str) -> Group | None:
    """The first run of a PDNO (or lone operator), of the problems in order."""
    groups = [group for study in STUDIES for group in results.shown(study)]
    known = [g for g in groups if g.network.get("kind") in kinds and g.network["depends_on_x"]]
    # the paper's way of training first; the networks are the same
    return min(known, key=lambda group: not is_of_the_paper(group.model), default=None)


def plot_operator(results: Results) -> "Figure | None":
    """Figure 2: f -> F -> times a2(ξ) -> F⁻¹ -> times a1(x), with the networks of a run."""
    from matplotlib.figure import Figure

    group = _specified(results, "pdno", "pdio")
    if group is None:
        return None
    network = group.network
    with figure_style():
        figure = Figure(figsize=(7.2, 2.9))
        axes = _canvas(figure, width=12, height=4.4)
        stations = (
            (0.8, "f(x)"),
            (3.0, "F"),
            (5.4, "×"),
            (7.6, "F⁻¹"),
            (9.6, "×"),
            (11.5, "K f(x)"),
        )
        for (x, text), (following, _) in zip(stations, stations[1:], strict=False):
            _arrow(axes, (x + 0.42, 1.0), (following - 0.42, 1.0))
            _station(axes, x, text)
        _station(axes, *stations[-1])
        for x, title, first in ((5.4, "a2(ξ)", "ξ"), (9.6, "a1(x)", "x")):
            _box(axes, x, 3.0, f"{title}\n{_sizes(group, first)}", BLUE)
            _arrow(axes, (x, 2.25), (x, 1.4))
        modes = network.get("modes")
        kept = "all modes" if modes is None else f"k_max = {modes}"
        axes.text(3.0, 0.1, kept, ha="center", va="center", fontsize=8)
        axes.set_title(_title(group))
        return figure


def plot_block(results: Results) -> "Figure | None":
    """Figure 6: one block with several channels; three inputs and two outputs are drawn."""
    from matplotlib.figure import Figure

    group = _specified(results, "pdno")
    if group is None:
        return None
    network = group.network
    width = int(network["width"])
    inputs, outputs = min(width, DRAWN_INPUTS), min(width, DRAWN_OUTPUTS)
    with figure_style():
        figure = Figure(figsize=(7.2, 4.4))
        axes = _canvas(figure, width=12, height=2.0 * max(inputs, outputs) + 0.8)
        top = 2.0 * max(inputs, outputs) - 0.6
        starts = [top - 2.0 * i for i in range(inputs)]
        ends = [top - (top / outputs) * (j + 0.25) for j in range(outputs)]
        for i, y in enumerate(starts):
            _box(axes, 0.9, y, f"v_{i + 1}", "black")
            _box(axes, 2.8, y, "F", ORANGE)
            _arrow(axes, (1.5, y), (2.3, y))
            for j, end in enumerate(ends):
                _pair(axes, (3.3, y), (9.0, end), f"a2_{i + 1}{j + 1}, F⁻¹, a1_{i + 1}{j + 1}", j)
                _arrow(axes, (1.2, y - 0.35), (8.9, end - 0.3), dashed=True)
        for j, y in enumerate(ends):
            _box(axes, 9.5, y, "Σ, σ", GREEN)
            _box(axes, 11.3, y, f"v_{j + 1}", "black")
            _arrow(axes, (10.1, y), (10.7, y))
        drawn = f"{inputs} of {width} inputs and {outputs} of {width} outputs drawn; dashed: W"
        axes.text(6.0, -0.75, drawn, ha="center", va="center", fontsize=8)
        axes.set_title(f"{_title(group)}: {network['layers']} blocks of {width} channels")
        return figure


def _canvas(figure: "Figure", width: float, height: float) -> Any:
    axes = figure.subplots()
    axes.set_xlim(0, width + 0.2)
    axes.set_ylim(-1.1, height)
    axes.set_axis_off()
    return axes


def _title(group: Group) -> str:
    return f"{group.first.study}: {group.model}"


def _sizes(group: Group, first: str) -> str:
    """The layers of a symbol network: inputs, hidden ones, outputs."""
    network = group.network
    dim = AXES.get(group.first.study, 2) + int(bool(network.get("takes_time")))
    hidden = [int(network["symbol_hidden"])] * (int(network["symbol_layers"]) + 1)
    pairs = int(network.get("width", 1)) ** 2
    chain = " → ".join(map(str, [dim, *hidden, pairs]))
    parts = ", Re and Im" if first == "ξ" else ""
    return f"{chain}\n{network['activation']}{parts}"


def _station(axes: Any, x: float, text: str) -> None:
    _box(axes, x, 1.0, text, ORANGE if "F" in text and "f" not in text else "black")


def _box(axes: Any, x: float, y: float, text: str, colour: str) -> None:
    style = {"boxstyle": "round,pad=0.4", "facecolor": "white", "edgecolor": colour}
    axes.text(x, y, text, ha="center", va="center", fontsize=9, bbox=style, zorder=3)


def _arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], *, dashed: bool = False
) -> None:
    style = {
        "arrowstyle": "->",
        "color": "0.6" if dashed else "black",
        "linestyle": "--" if dashed else "-",
        "linewidth": 0.8,
    }
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=1)


def _pair(
    axes: Any, start: tuple[float, float], end: tuple[float, float], text: str, place: int
) -> None:
    """The symbol a_ij on its way from input i to output j."""
    _arrow(axes, start, end)
    share = 0.2 + 0.42 * place
    x, y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
    box = {"boxstyle": "round,pad=0.2", "facecolor": "white", "edgecolor": BLUE, "linewidth": 0.7}
    axes.text(x, y, text, ha="center", va="center", fontsize=7, bbox=box, zorder=2)
