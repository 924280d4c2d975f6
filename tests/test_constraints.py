"""constraints.txt has an exact version of everything that any extra of the package installs."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_requirement_has_a_version():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()[1:]
    pinned = {normalised(line.partition("==")[0]) for line in lines}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"].values()
    wanted = [Requirement(text) for part in (project["dependencies"], *extras) for text in part]
    for name in sorted(pinned):  # and what these require in turn, where they are installed
        try:
            needed = [Requirement(text) for text in metadata.requires(name) or ()]
        except metadata.PackageNotFoundError:
            continue
        wanted += [r for r in needed if r.marker is None or r.marker.evaluate({"extra": ""})]
    missing = {normalised(requirement.name) for requirement in wanted} - pinned - {"pdno"}
    # packages of CUDA depend on the machine
    assert not {name for name in missing if not re.match("nvidia|cuda|triton", name)}
