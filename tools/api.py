"""The public API as text: every public name with the parameters it takes.

`make api` writes it to tests/public_api.txt. A test fails when calls that were right would fail;
`make check-api` when the list is not exact. One line per name, `name=` for a parameter with a
default:

    pdno.Grid(shape, periodic=, offset=)
"""

import inspect
import sys
from collections.abc import Iterable
from pathlib import Path

import pdno

LIST = Path(__file__).resolve().parents[1] / "tests" / "public_api.txt"
MARKS = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def describe(name: str) -> str:
    """A public name with its parameters, where it is a class or a function."""
    value = getattr(pdno, name)
    if inspect.ismodule(value) or not callable(value):
        return f"pdno.{name}"
    words: list[str] = []
    keywords = False
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            keywords = True
        elif parameter.kind is parameter.KEYWORD_ONLY and not keywords:
            keywords = True
            words.append("*")
        optional = "" if parameter.default is parameter.empty else "="
        words.append(MARKS.get(parameter.kind, "") + parameter.name + optional)
    return f"pdno.{name}({', '.join(words)})"


def public_api() -> list[str]:
    """One line for each public name of pdno, sorted."""
    return sorted(map(describe, pdno.__all__))


def split(line: str) -> tuple[str, list[str]]:
    """A line of the list as name and parameters."""
    name, _, rest = line.rstrip(")").partition("(")
    return name, rest.split(", ") if rest else []


def broken_calls(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Why calls that were right before fail after: names and parameters that are gone or moved,
    parameters that have become required."""
    current = dict(map(split, after))
    problems = []
    for name, parameters in map(split, before):
        if name not in current:
            problems.append(f"{name} is gone")
            continue
        problems += [f"{name}: {why}" for why in _broken_parameters(parameters, current[name])]
    return problems


def _broken_parameters(before: list[str], after: list[str]) -> list[str]:
    positions = before.index("*") if "*" in before else len(before)
    old, new = ([word.rstrip("=") for word in words] for words in (before, after))
    gone = [f"{word} is gone" for word in old if word != "*" and word not in new]
    moved = [
        f"{word} has moved"
        for index, word in enumerate(old[:positions])
        if word in new and not word.startswith("*") and new.index(word) != index
    ]
    required = [
        f"{word} is required"
        for word in after
        if not word.endswith("=") and not word.startswith("*") and word not in before
    ]
    return gone + moved + required


if __name__ == "__main__":
    content = "\n".join(public_api()) + "\n"
    if sys.argv[1:] != ["--check"]:
        LIST.write_text(content, encoding="utf-8")
    elif content != LIST.read_text(encoding="utf-8"):
        sys.exit("tests/public_api.txt is not the public API: run `make api`, see what changes")
