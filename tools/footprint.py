"""Print what an installation costs: import times and sizes of packages, as a Markdown table.

.venv-wheel/bin/python tools/footprint.py
"""

import re
import subprocess
import sys
import time
from importlib import metadata

STATEMENTS = ("pass", "import pdno", "import torch", "import pdno; pdno.PDNO", "import pdno.cli")
REPEATS = 5


def seconds(statement: str) -> float:
    """Least wall time of a new Python process that runs a statement."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True)
        times.append(time.perf_counter() - started)
    return min(times)


def installed(name: str, seen: set[str]) -> None:
    """Add a package and all that it requires to `seen`, where it is installed."""
    name = re.sub(r"[-_.]+", "-", name).lower()
    if name in seen:
        return
    try:
        requirements = metadata.requires(name) or []
    except metadata.PackageNotFoundError:
        return
    seen.add(name)
    for requirement in requirements:
        if "extra ==" not in requirement:
            installed(re.split(r"[^\w.-]", requirement, maxsplit=1)[0], seen)


def mebibytes(name: str) -> float:
    """Size of the files of a package."""
    files = metadata.files(name) or []
    sizes = [file.size or 0 for file in files]
    return sum(sizes) / 2**20


if __name__ == "__main__":
    print("| new process | seconds |\n|---|---|")
    for statement in STATEMENTS:
        print(f"| `{statement}` | {seconds(statement):.2f} |")
    packages: set[str] = set()
    installed("pdno", packages)
    sizes = sorted(((mebibytes(name), name) for name in packages), reverse=True)
    print("\n| package | version | MiB |\n|---|---|---|")
    for size, name in sizes:
        if size >= 5 or name == "pdno":
            print(f"| {name} | {metadata.version(name)} | {size:.1f} |")
    print(f"| all {len(sizes)} | | {sum(size for size, _ in sizes):.0f} |")
