"""Docstrings of pdno as reStructuredText.

They are written to be read in the source: formulas in Unicode, shapes like (B, C, *N), `code` in
single backticks, tables with bars. Here stars, bars and underscores are escaped, code becomes a
literal or, for names of pdno, a link, and what is laid out (indented after an empty line, in
columns, or drawn with bars) is shown as it stands. Sections (Arguments, Returns, Raises, Example)
are left to napoleon.
"""

__all__ = ["skip_member", "to_restructured_text"]

import re
from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx

SECTION = re.compile(r"(Arguments|Returns|Raises|Example):")
FIELD = re.compile(r"( {4}\w+: )(.*)")
ITEM = re.compile(r"(- |\d+\. )(.*)")
CODE = re.compile(r"`([^`]+)`")
ENUMERATOR = re.compile(r"\(?\w{1,4}[.)]( |$)")
COLUMNS = re.compile(r"\S {3,}\S")


def to_restructured_text(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Rewrite the lines of one docstring in place (event autodoc-process-docstring)."""
    lines[:] = list(_convert(lines))


def skip_member(
    app: Sphinx, what: str, name: str, obj: Any, skip: bool, options: object
) -> bool | None:
    """Leave out what other packages put into our classes (event autodoc-skip-member)."""
    foreign = name.startswith("model_") or "Alias for field number" in (obj.__doc__ or "")
    return True if foreign else None


def _convert(lines: list[str]) -> Iterator[str]:
    section = ""
    for block in _blocks(lines):
        section = block[0] if SECTION.fullmatch(block[0]) else section
        if section == "Example:":
            yield from block
        elif section:
            yield from map(_section_line, block)
        elif _is_laid_out(block):
            yield from ("::", "", *(f"    {line}" for line in block))
        else:
            yield from _text(block)
        yield ""


def _blocks(lines: list[str]) -> Iterator[list[str]]:
    """Runs of lines without an empty one."""
    block: list[str] = []
    for line in [*lines, ""]:
        if line.strip():
            block.append(line)
        elif block:
            yield block
            block = []


def _is_laid_out(block: list[str]) -> bool:
    """Whether line breaks and spaces of a block have a meaning."""
    if any(ITEM.match(line) for line in block):
        return block[0].startswith(" ")
    return block[0].startswith("| ") or any(
        line.startswith(" ") or COLUMNS.search(line) for line in block
    )


def _text(block: list[str]) -> Iterator[str]:
    """Paragraphs and lists; a list needs an empty line before it."""
    in_list = False
    for place, line in enumerate(block):
        item = ITEM.fullmatch(line)
        # a line of a paragraph may start with a minus sign
        if item and (in_list or place == 0 or block[place - 1].endswith(":")):
            yield from () if in_list or place == 0 else ("",)
            in_list = True
            yield item[1] + _escape(item[2])
        else:
            yield _escape(line) if place else _escape_start(line)


def _section_line(line: str) -> str:
    """A line of a section; the name of an argument stays as it is."""
    field = FIELD.fullmatch(line)
    return field[1] + _escape_start(field[2]) if field else _escape(line)


def _escape_start(text: str) -> str:
    """The start of a paragraph: "I." there would be item one of a list with Roman numbers."""
    return ("\\" if ENUMERATOR.match(text) else "") + _escape(text)


def _escape(text: str) -> str:
    """Text with the marks of reStructuredText escaped and code in its form."""
    return "".join(
        _code(piece) if place % 2 else re.sub(r"([\\*_|`])", r"\\\1", piece)
        for place, piece in enumerate(CODE.split(text))
    )


def _code(piece: str) -> str:
    # escaped blanks vanish, and allow letters right before and after
    if re.fullmatch(r"pdno(\.\w+)+", piece):
        return f"\\ :py:obj:`{piece}`\\ "
    return f"\\ ``{piece}``\\ "
