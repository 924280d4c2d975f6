"""Write requirements.lock: what `pip install -e .[dev]` needs, with the SHA-256 of every file.

    python tools/lock.py           ask the package index (https://pypi.org/simple, or --index URL)
    python tools/lock.py --check   compare names and versions with constraints.txt, offline

The versions are those of constraints.txt. The packages are all that the extra requires, on any
system, as the metadata of this environment say. torch is left out: its files differ between
indexes, so its version alone is pinned. `make LOCKED=1 ...` installs nothing that is not listed.
"""

import argparse
import re
import sys
import urllib.request
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
LOCK, PINS = ROOT / "requirements.lock", ROOT / "constraints.txt"
EXTRA, LEFT_OUT = "dev", {"pdno", "torch"}
LINK = re.compile(r'href="[^"#]*/([^/"#]+)#sha256=([0-9a-f]{64})"')


def normalised(name: str) -> str:
    """The name of a package as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def required(name: str, extras: set[str], seen: set[tuple[str, str]]) -> None:
    """Add (package, extra) of all that a package requires; markers of systems do not count."""
    for extra in ("", *extras):
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            lines = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        for requirement in map(Requirement, lines):
            marker = str(requirement.marker or "")
            named = re.findall(r"extra == ['\"]([^'\"]+)", marker)
            if normalised(extra) in map(normalised, named) if named else not extra:
                required(normalised(requirement.name), set(requirement.extras), seen)


def locked_versions() -> dict[str, str]:
    """Version by package, of those that have one in constraints.txt."""
    lines = PINS.read_text(encoding="utf-8").splitlines()[1:]
    pins = {normalised(name): version for name, _, version in (n.partition("==") for n in lines)}
    seen: set[tuple[str, str]] = set()
    required("pdno", {EXTRA}, seen)
    names = {name for name, _ in seen} - LEFT_OUT
    return {name: pins[name] for name in sorted(names) if name in pins}


def digests(name: str, version: str, index: str) -> list[str]:
    """SHA-256 of all files of a version: wheels of every system, and the source."""
    with urllib.request.urlopen(f"{index}/{name}/", timeout=60) as page:
        text = page.read().decode("utf-8")
    of_version = re.compile(rf"[-_]{re.escape(version)}(-|\.tar\.gz$|\.zip$)", re.IGNORECASE)
    found = [digest for file, digest in LINK.findall(text) if of_version.search(file)]
    if not found:
        raise SystemExit(f"{index} has no files of {name} {version}")
    return sorted(set(found))


def read_lock() -> dict[str, str]:
    """Version by package, as requirements.lock has them."""
    return dict(re.findall(r"^(\S+)==(\S+) \\$", LOCK.read_text(encoding="utf-8"), re.MULTILINE))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--index", default="https://pypi.org/simple")
    options, versions = parser.parse_args(), locked_versions()
    if options.check:
        sys.exit(0 if read_lock() == versions else "requirements.lock is old: make lock")
    parts = ["# Written by tools/lock.py: files that the checks may install, by their SHA-256"]
    for name, version in versions.items():
        hashes = (
            f"    --hash=sha256:{digest}" for digest in digests(name, version, options.index)
        )
        parts.append(" \\\n".join([f"{name}=={version}", *hashes]))
    LOCK.write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(f"{LOCK.name}: {len(versions)} packages")
