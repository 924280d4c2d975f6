"""Print the section of CHANGELOG.md for a tag; fail unless the tag can be released.

A tag can be released if it is v and the version of the package, and its section has a date:

    python tools/release_notes.py v0.1.0
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADING = re.compile(r"^## (\d+\.\d+\.\d+\S*)(?: - (\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)


def release_notes(tag: str, version: str, changelog: str) -> str:
    """The section of the version.

    Arguments:
        tag: For example v0.1.0.
        version: That of the package.
        changelog: The text of CHANGELOG.md.
    """
    if tag != f"v{version}":
        raise ValueError(f"the tag is {tag}, the package {version}: expected the tag v{version}")
    for found in HEADING.finditer(changelog):
        if found[1] == version:
            if found[2] is None:
                raise ValueError(f"no date: write '## {version} - YYYY-MM-DD' in CHANGELOG.md")
            rest = changelog[found.end() :]
            return re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0].strip()
    raise ValueError(f"CHANGELOG.md has no section '## {version} - YYYY-MM-DD': write one")


if __name__ == "__main__":
    package = (ROOT / "pdno" / "__init__.py").read_text(encoding="utf-8")
    version = re.findall(r'^__version__ = "(.*)"$', package, re.MULTILINE)[0]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        print(release_notes(sys.argv[1], version, changelog))
    except (ValueError, IndexError) as problem:
        sys.exit(f"release_notes.py: {problem}")
