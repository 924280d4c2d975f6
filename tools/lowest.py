"""Print the lowest versions that pyproject.toml allows, as constraints for pip.

python tools/lowest.py > lowest.txt
python tools/lowest.py torch > lowest.txt     all but torch
"""

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
EXTRAS = ("export", "serve", "points")


def lowest_versions(project: dict[str, dict[str, list[str]]]) -> dict[str, str]:
    """Name -> version, of the dependencies and of the extras that the tests use.

    Arguments:
        project: The table `project` of pyproject.toml.
    """
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(text for name in EXTRAS for text in extras[name])]
    return dict(re.fullmatch(r"([\w.-]+)>=([\w.]+)", text).groups() for text in wanted)  # type: ignore[union-attr,misc]


if __name__ == "__main__":
    versions = lowest_versions(tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"])
    for name, version in versions.items():
        if name not in sys.argv[1:]:
            print(f"{name}=={version}")
