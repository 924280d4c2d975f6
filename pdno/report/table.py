"""A table as plain cells, written as Markdown, LaTeX or HTML.

All three have the same cells. LaTeX needs no package: Greek letters and signs become mathematics.
"""

__all__ = ["MISSING", "Table", "command_of", "html_note", "number", "summary_text"]

import html
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from pdno.evaluation.rows import Summary

MISSING = "–"
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
    if value == 0:
        return "0"
    if 1e-2 <= abs(value) < 1e3:
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


@dataclass(frozen=True)
class Table:
    """Cells under a head.

    Arguments:
        head: Names of the columns.
        lines: Cells, line by line.
        notes: Sentences below the table; commands stand between backticks.
        strong: Line and column of the cells that stand out, such as the smallest errors.
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
        """The cells in a notation; `strong` is how a cell stands out, with {} in place of it."""
        return [
            [strong.format(escape(c)) if (i, j) in self.strong else escape(c) for j, c in cells]
            for i, cells in enumerate(map(enumerate, self.lines))
        ]

    def markdown(self) -> str:
        """A Markdown table, with its notes."""
        lines = [[_markdown(cell) for cell in self.head], *self._styled(_markdown, "**{}**")]
        head, *rest = [f"| {' | '.join(line)} |" for line in lines]
        rule = "|" + "---|" * len(self.head)
        return "\n".join([head, rule, *rest, *(f"\n{note}" for note in self.notes)]) + "\n"

    def latex(self) -> str:
        """A LaTeX tabular, with its notes as paragraphs."""
        lines = [[_latex(cell) for cell in self.head], *self._styled(_latex, r"\textbf{{{}}}")]
        head, *rest = [" & ".join(line) + r" \\" for line in lines]
        start = r"\begin{tabular}{" + "l" * len(self.head) + "}"
        notes = ["\n" + _with_commands(_latex(note), r"\texttt{", "}") for note in self.notes]
        rule, end = r"\hline", r"\end{tabular}"
        return "\n".join([start, rule, head, rule, *rest, rule, end, *notes]) + "\n"

    def html(self) -> str:
        """An HTML table that scrolls by itself on a narrow screen."""
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.head)
        lines = self._styled(html.escape, "<strong>{}</strong>")
        body = ["".join(f"<td>{cell}</td>" for cell in line) for line in lines]
        notes = "".join(f'<p class="note">{html_note(note)}</p>\n' for note in self.notes)
        return (
            f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
            + "\n".join(f"<tr>{line}</tr>" for line in body)
            + f"\n</tbody>\n</table></div>\n{notes}"
        )


def _markdown(text: str) -> str:
    return text.replace("|", "\\|")


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)


def _with_commands(note: str, start: str, end: str) -> str:
    """What stands between backticks is a command."""
    return re.sub(r"`([^`]*)`", lambda found: start + found[1] + end, note)


def html_note(note: str) -> str:
    """A sentence as HTML; what stands between backticks is a command."""
    return _with_commands(html.escape(note), "<code>", "</code>")


SYMBOL_COMMAND = "pdno symbol RUN"
"""Looks into one run; it is no study."""


def command_of(study: str, *, preset: str = "small", resolution: int | None = None) -> str:
    """The command that makes the data of a gap.

    Example:
        >>> command_of("darcy", resolution=64)
        'pdno reproduce darcy --preset small --resolution 64'
    """
    if study == SYMBOL_COMMAND:
        return study
    points = "" if resolution is None else f" --resolution {resolution}"
    return f"pdno reproduce {study} --preset {preset}{points}"
