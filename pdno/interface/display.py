"""How objects show themselves: in a line, as a table in a notebook, and as figures of the report.

The report is a layer above data, training and theory, which may not import it. So `pdno`, which is
imported before any of its modules, hands in where its figures are.
"""

__all__ = ["draw", "html_facts", "line_of_facts"]

import html
from collections.abc import Mapping
from importlib import import_module
from typing import Any


def draw(name: str, *given: Any, **options: Any) -> Any:
    """The figure that a function of the report makes, by its name."""
    return getattr(import_module("pdno.figures.views"), name)(*given, **options)


def line_of_facts(title: str, facts: Mapping[str, str]) -> str:
    """The facts in one line, for `__repr__`.

    Example:
        >>> line_of_facts("Run", {"network": "FNO", "epochs": "2"})
        '<Run network FNO, epochs 2>'
    """
    return f"<{title} {', '.join(f'{name} {fact}' for name, fact in facts.items())}>"


def html_facts(title: str, facts: Mapping[Any, object]) -> str:
    """A heading above a table with one line per fact, for `_repr_html_`.

    Example:
        >>> html_facts("Run", {"error": "< 0.1"})
        '<b>Run</b><table><tr><th>error</th><td>&lt; 0.1</td></tr></table>'
    """
    lines = [
        f"<tr><th>{html.escape(str(name))}</th><td>{html.escape(str(fact))}</td></tr>"
        for name, fact in facts.items()
    ]
    table = f"<table>{''.join(lines)}</table>" if lines else ""
    return f"<b>{html.escape(title)}</b>{table}"
