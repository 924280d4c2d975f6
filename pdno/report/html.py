"""The report as one HTML file: no network, no script, readable on a phone and on paper.

Pictures are inside the file. Each table and figure has its number in the paper, the command that
makes its data and the budget; what is missing is a visible gap with the command that fills it.
"""

__all__ = ["Section", "page", "picture_tag"]

import base64
import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pdno.report.published import SOURCE
from pdno.report.table import html_note

LINK = "https://arxiv.org/abs/2201.11967"
TITLE = "Pseudo-differential neural operators: report"
STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 1rem/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; margin: 0 auto;
  padding: 1rem; max-width: 62rem; overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.2; }
h2 { font-size: 1.3rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.05rem; margin: 2rem 0 0.5rem; }
a { color: #00558c; }
nav ul { columns: 20rem; padding-left: 1.2rem; font-size: 0.9rem; }
nav li { break-inside: avoid; }
code { background: #f2f2f2; padding: 0.1rem 0.3rem; border-radius: 3px; font-size: 0.9em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; min-width: 40rem; font-size: 0.82rem;
  font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: 0.25rem 0.6rem 0.25rem 0; }
thead th { border-bottom: 2px solid #444; }
tbody td { border-bottom: 1px solid #ddd; }
figure { margin: 0; break-inside: avoid; }
img { max-width: 100%; height: auto; }
figcaption, .note, .origin { font-size: 0.85rem; color: #444; }
.gap { border: 2px dashed #b35900; background: #fff7ee; padding: 0.75rem; margin: 0; }
@media print { body { max-width: none; padding: 0; font-size: 10pt; } nav { display: none; }
  .wide { overflow: visible; } table { font-size: 7pt; min-width: 0; } h3 { break-after: avoid; } }
"""


@dataclass(frozen=True)
class Section:
    """A table or figure of the page.

    Arguments:
        key: Its anchor.
        title: Its heading.
        body: HTML of the table or figure; None for a gap.
        commands: What makes its data; for a gap, each of them would do.
        budget: Of the runs; empty where there is none.
    """

    key: str
    title: str
    body: str | None
    commands: tuple[str, ...]
    budget: str = ""

    def html(self) -> str:
        """The section with its heading and origin, or a gap."""
        known = [f"<code>{html.escape(command)}</code>" for command in self.commands]
        head = f'<section id="{self.key}">\n<h3>{html.escape(self.title)}</h3>\n'
        if self.body is None:
            fill = (
                f"Fill it with {' or '.join(known)}." if known else "No run folder holds its data."
            )
            gap = f'<p class="gap">Gap: the data are not among the runs. {fill}</p>'
            return f"{head}{gap}\n</section>\n"
        budget = f" Budget: {html.escape(self.budget)}." if self.budget else ""
        origin = f"Data: {', '.join(known)}." if known else ""
        return f'{head}{self.body}<p class="origin">{origin}{budget}</p>\n</section>\n'


def picture_tag(path: Path, text: str, caption: str) -> str:
    """A picture inside the page, with the text that a screen reader says."""
    data = base64.b64encode(path.read_bytes()).decode("ascii")
    return (
        f'<figure><img src="data:image/png;base64,{data}" alt="{html.escape(text)}">\n'
        f"<figcaption>{html_note(caption)}</figcaption></figure>\n"
    )


def page(introduction: Sequence[str], chapters: Sequence[tuple[str, Sequence[Section]]]) -> str:
    """The whole file.

    Arguments:
        introduction: Sentences at the top.
        chapters: Titles and sections, in order.
    """
    contents = "".join(
        f'<li><a href="#{section.key}">{html.escape(section.title)}</a>'
        + (" (gap)" if section.body is None else "")
        + "</li>\n"
        for _, sections in chapters
        for section in sections
    )
    body = "".join(
        f"<h2>{html.escape(title)}</h2>\n" + "".join(section.html() for section in sections)
        for title, sections in chapters
    )
    words = "".join(f"<p>{html.escape(sentence)}</p>\n" for sentence in introduction)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<link rel="icon" href="data:,">\n<title>{TITLE}</title>\n<style>{STYLE}</style>\n'
        f"</head>\n<body>\n<h1>{TITLE}</h1>\n"
        f'<p>The paper: <a href="{LINK}">{SOURCE}</a>.</p>\n{words}'
        f"<nav><h2>Contents</h2><ul>\n{contents}</ul></nav>\n<main>\n{body}</main>\n"
        "</body>\n</html>\n"
    )
