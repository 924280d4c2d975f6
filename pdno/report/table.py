"""A table as plain cells, written as Markdown, LaTeX or HTML.

All three have the same cells. LaTeX needs no package: Greek letters and signs become mathematics.
"""

__all__ = ["MISSING", "Table", "html_note", "number", "summary_text"]

import html
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pdno.evaluation.rows import Summary

MISSING = "–"
LATEX = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "|": "$|$",
    "ξ": r"$\xi$",
    "ν": r"$\nu$",
    "σ": r"$\sigma$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "−": "$-$",
    "–": "--",
    "₁": "$_1$",
    "₂": "$_2$",
    "²": "$^2$",
    "∞": r"$\infty$",
    "…": r"\dots{}",
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

    def markdown(self) -> str:
        """A Markdown table, with its notes."""
        lines = [_markdown_line(self.head), "|" + "---|" * len(self.head)]
        for i, cells in enumerate(self.lines):
            lines.append(
                _markdown_line(
                    [f"**{c}**" if (i, j) in self.strong else c for j, c in enumerate(cells)]
                )
            )
        return "\n".join([*lines, *(f"\n{note}" for note in self.notes)]) + "\n"

    def latex(self) -> str:
        """A LaTeX tabular, with its notes as paragraphs."""
        lines = [r"\begin{tabular}{" + "l" * len(self.head) + "}", r"\hline"]
        lines += [_latex_line([_latex(cell) for cell in self.head]), r"\hline"]
        for i, cells in enumerate(self.lines):
            lines.append(
                _latex_line(
                    [
                        rf"\textbf{{{_latex(c)}}}" if (i, j) in self.strong else _latex(c)
                        for j, c in enumerate(cells)
                    ]
                )
            )
        lines += [r"\hline", r"\end{tabular}", *(f"\n{_latex_note(note)}" for note in self.notes)]
        return "\n".join(lines) + "\n"

    def html(self) -> str:
        """An HTML table that scrolls by itself on a narrow screen."""
        head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in self.head)
        body = []
        for i, cells in enumerate(self.lines):
            row = [
                f"<td><strong>{html.escape(c)}</strong></td>"
                if (i, j) in self.strong
                else f"<td>{html.escape(c)}</td>"
                for j, c in enumerate(cells)
            ]
            body.append(f"<tr>{''.join(row)}</tr>")
        notes = "".join(f'<p class="note">{html_note(note)}</p>\n' for note in self.notes)
        return (
            f'<div class="wide"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
            + "\n".join(body)
            + f"\n</tbody>\n</table></div>\n{notes}"
        )


def _markdown_line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text)


def _latex_note(note: str) -> str:
    """A sentence; what stands between backticks is a command."""
    return re.sub(r"`([^`]*)`", r"\\texttt{\1}", _latex(note))


def html_note(note: str) -> str:
    """A sentence as HTML; what stands between backticks is a command."""
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(note))


def _latex_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"
