"""Tables in four notations, and the metrics of a study as plain text."""

import html
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from pdno.files.metric_table import ERROR, Metric, NetworkMetrics, Summary, by_network

MISSING = "–"
Columns = Mapping[str, tuple[str, str, int | None]]
_MATHEMATICS = {
    **{"ξ": r"\xi", "ν": r"\nu", "σ": r"\sigma", "±": r"\pm", "×": r"\times", "−": "-"},
    **{"≤": r"\le", "≥": r"\ge", "₁": "_1", "₂": "_2", "²": "^2", "∞": r"\infty"},
    **{sign: sign for sign in "<>|"},
}
LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${formula}$" for sign, formula in _MATHEMATICS.items()},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"–": "--", "…": r"\dots{}"},
}


def number(value: float | None, digits: int = 3) -> str:
    """Three digits; small numbers with an exponent, as the paper prints them.

    Example:
        >>> number(0.00252), number(0.1093), number(1234.0), number(None)
        ('2.52e-3', '0.109', '1234', '–')
    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0 or 1e-2 <= abs(value) < 1e3:
        return f"{value:.{digits}g}"
    if 1e3 <= abs(value) < 1e7:
        return f"{value:.0f}"
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def summary_text(summary: Summary | None) -> str:
    """Mean ± deviation over the seeds; the mean alone for one seed."""
    if summary is None:
        return MISSING
    mean = number(summary.mean)
    return mean if summary.count == 1 else f"{mean} ± {number(summary.deviation, digits=2)}"


def _with_code(note: str, form: str) -> str:
    """A sentence with its commands, which stand between backticks, in a form with {}."""
    return re.sub(r"`([^`]*)`", lambda match: form.format(match[1]), note)


def html_note(note: str) -> str:
    """A sentence in HTML; what stands between backticks is code."""
    return _with_code(html.escape(note), "<code>{}</code>")


@dataclass(frozen=True)
class Table:
    """Cells under a head, with notes below, in which commands stand between backticks.

    `strong` are line and column of the cells that stand out, such as the smallest errors.
    """

    head: tuple[str, ...]
    lines: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    strong: frozenset[tuple[int, int]] = frozenset()

    def __post_init__(self) -> None:
        for line in self.lines:
            if len(line) != len(self.head):
                raise ValueError(f"{len(line)} cells under a head of {len(self.head)}: {line}")

    def _styled(self, escape: Callable[[str], str], strong: str) -> list[list[str]]:
        """Head and cells in a notation; `strong` is how a cell stands out, with {} for it."""
        cells = [list(map(escape, line)) for line in (self.head, *self.lines)]
        for line, column in self.strong:
            cells[line + 1][column] = strong.format(cells[line + 1][column])
        return cells

    def text(self) -> str:
        """Columns below each other, without notes."""
        lines = [self.head, *self.lines]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        # the first column is aligned to the left
        form = "  ".join(f"{{:{'>' if k else '<'}{width}}}" for k, width in enumerate(widths))
        return "\n".join(f"  {form.format(*line)}".rstrip() for line in lines)

    def markdown(self) -> str:
        """A Markdown table, with its notes."""
        lines = self._styled(lambda text: text.replace("|", "\\|"), "**{}**")
        head, *rest = [f"| {' | '.join(line)} |" for line in lines]
        notes = [f"\n{note}" for note in self.notes]
        return "\n".join([head, "|" + "---|" * len(self.head), *rest, *notes, ""])

    def latex(self) -> str:
        """A LaTeX tabular, with its notes as paragraphs; it needs no package."""
        signs = str.maketrans(LATEX)
        lines = self._styled(lambda text: text.translate(signs), r"\textbf{{{}}}")
        head, *rest = [" & ".join(line) + r" \\" for line in lines]
        start, rule = r"\begin{tabular}{" + "l" * len(self.head) + "}", r"\hline"
        notes = ["\n" + _with_code(note.translate(signs), r"\texttt{{{}}}") for note in self.notes]
        return "\n".join([start, rule, head, rule, *rest, rule, r"\end{tabular}", *notes, ""])

    def html(self) -> str:
        """An HTML table, whose cells know their heads: on a narrow screen they are lines."""
        names, *lines = self._styled(html.escape, "<strong>{}</strong>")
        head = "".join(f'<th scope="col">{cell}</th>' for cell in names)
        rows = [zip(names, line, strict=True) for line in lines]
        cells = ["".join(f'<td data-head="{n}">{cell}</td>' for n, cell in row) for row in rows]
        body = "\n".join(f"<tr>{line}</tr>" for line in cells)
        notes = "".join(f'<p class="note">{html_note(note)}</p>\n' for note in self.notes)
        table = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        return f'<div class="wide"><table>\n{table}</table></div>\n{notes}'


def summarise(metrics: Sequence[Metric]) -> str:
    """What a command prints: errors, at most ten times, resolutions and the symbol, by network."""
    texts = []
    for experiment in dict.fromkeys(metric.experiment for metric in metrics):
        networks = by_network(metric for metric in metrics if metric.experiment == experiment)
        times = list(dict.fromkeys(t for n in networks for t in n.names("test", f"{ERROR} t=")))
        step = math.ceil(len(times) / 10) or 1
        few = times[step - 1 :: step]
        points = sorted({s for network in networks for s in network.resolutions("zero-shot")})
        splits = product(points, ("zero-shot", "interpolated"))
        other = "train" if experiment == "resources" else "symbol"
        names = dict.fromkeys(name for network in networks for name in network.names(other, ""))
        columns: dict[str, Columns] = {
            "test error at t": {t: ("test", f"{ERROR} t={t}", None) for t in few},
            "other resolutions": {f"{s} {split}": (split, ERROR, s) for s, split in splits},
            "model": {name: (other, name, None) for name in names},
        }
        tables = [_errors(networks), *(_by_network(x, networks, y) for x, y in columns.items())]
        texts.append(f"{experiment}\n" + "\n\n".join(t.text() for t in tables if t.lines))
    return "\n\n".join(texts) if texts else "no finished run"


def _errors(networks: Sequence[NetworkMetrics]) -> Table:
    lines = []
    for network in networks:
        errors = [network.summary("train"), network.summary("test")]
        if any(errors):
            seconds = MISSING if network.seconds is None else f"{network.seconds:.0f}"
            about = (network.model, str(network.resolution), f"{network.parameters or 0:,}")
            lines.append((*about, *map(summary_text, errors), seconds, str(len(network.seeds))))
    head = ("model", "resolution", "parameters", "train", "test", "seconds", "seeds")
    return Table(head, tuple(lines))


def _by_network(first: str, networks: Sequence[NetworkMetrics], columns: Columns) -> Table:
    """Columns of split, metric and resolution; networks with the points of their training."""
    several, lines = len({network.resolution for network in networks}) > 1, []
    for network in networks:
        summaries = [network.summary(*cell[:2], resolution=cell[2]) for cell in columns.values()]
        if any(summaries):
            label = network.model + (f", {network.resolution} points" if several else "")
            lines.append((label, *map(summary_text, summaries)))
    return Table((first, *columns), tuple(lines))
