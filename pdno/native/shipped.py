"""Libraries that came with the wheel, one for each instruction set.

`hatch_build.py` puts them into the folder `lib` with an index, best first:

    {"sources": digest, "libraries": [
        {"file": name, "sha256": digest, "instruction_set": "avx2", "needs": ["avx", ...]}, ...]}

The first one whose needs the processor meets is loaded. A checkout has no such folder.
"""

__all__ = ["Shipped", "find_shipped"]

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from pdno.native.compiler import InstructionSet, Sources

FOLDER = Path(__file__).with_name("lib")
INDEX = "index.json"


@dataclass(frozen=True)
class Shipped:
    """A library of the wheel.

    Arguments:
        path: Where it is.
        sha256: Its digest.
        instruction_set: What it was compiled for.
    """

    path: Path
    sha256: str
    instruction_set: InstructionSet


def find_shipped(sources: Sources, flags: Iterable[str]) -> list[Shipped]:
    """The libraries that a processor can run, best first.

    Arguments:
        sources: The sources of this installation; a library of others is of another version.
        flags: What the processor can do.
    """
    try:
        index = json.loads((FOLDER / INDEX).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if index["sources"] != sources.digest:
        return []
    able = set(flags)
    return [
        Shipped(FOLDER / entry["file"], entry["sha256"], entry["instruction_set"])
        for entry in index["libraries"]
        if able.issuperset(entry["needs"])
    ]
