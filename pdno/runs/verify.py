"""Whether datasets, runs, saved operators and exported files are as they were written.

Each file is right, missing, changed, or unknown: no record names it. Unknown files are reported
and do no harm, but under the name of a file of a run, where they would be read, they are wrong.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pdno.data.shards import MANIFEST, read_manifest
from pdno.files.atomic import sha256
from pdno.files.checksums import State, file_states
from pdno.files.run_folder import CHECKSUMS, WITH_CHECKSUMS

Finding = tuple[Path, State, str]  # a file, its state, and what to do about it
RUN = "bring it back from a copy, or remove the folder and run it again"
DATA = "run the dataset's `pdno generate` command again, or bring it back from a copy"
EXPORT = "bring it back from a copy, or export it again"
FOREIGN = f"it is not listed in {CHECKSUMS}: remove it"


def verify(paths: Sequence[Path]) -> tuple[str, bool]:
    """A line per file and a sum of them, and whether all is right.

    A path is a file with a record beside it, or a folder that has some in it or below it.
    """
    findings: dict[Path, Finding] = {}
    for path in paths:
        if not path.exists():
            raise ValueError(f"there is no {path}: give a dataset, a run, or an exported file")
        folders = _folders(path) if path.is_dir() else [path.parent]
        all_of_them = [finding for folder in folders for finding in _check(folder)]
        mine = [f for f in all_of_them if path.is_dir() or f[0] == path]
        if not any(state != "unknown" for _, state, _ in mine):
            raise ValueError(f"{path} has no checksums: it is no finished dataset, run or export")
        # a file may be named by several records, and all have to agree
        for finding in sorted(mine, key=lambda finding: finding[1] == "right", reverse=True):
            if finding[1] != "unknown" or finding[0] not in findings:
                findings[finding[0]] = finding
    lines = [
        f"{state:8} {path}{f': {cure}' * bool(cure)}" for path, state, cure in findings.values()
    ]
    counts = Counter(state for _, state, _ in findings.values())
    summary = ", ".join(f"{count} {state}" for state, count in counts.items())
    right = not any(cure for _, _, cure in findings.values())
    return "\n".join([*lines, f"{len(findings)} files: {summary}"]), right


def _folders(folder: Path) -> list[Path]:
    """The folder, and those below it that have a record."""
    records = (CHECKSUMS, MANIFEST, f"*.{CHECKSUMS}")
    return sorted({folder, *(path.parent for name in records for path in folder.rglob(name))})


def _check(folder: Path) -> Iterator[Finding]:
    """The files of one folder."""
    named: dict[Path, State] = {}
    for record in [*folder.glob(CHECKSUMS), *folder.glob(f"*.{CHECKSUMS}")]:
        cure = RUN if record.name == CHECKSUMS else EXPORT
        named[record] = "right"
        try:
            states = file_states(folder, record.name)
        except ValueError:
            named[record] = "changed"
            yield record, "changed", cure
            continue
        yield record, "right", ""
        for name, state in states.items():
            named[folder / name] = state
            yield folder / name, state, "" if state == "right" else cure
    if (folder / MANIFEST).is_file():
        for path, state in _dataset(folder):
            named[path] = state
            yield path, state, "" if state == "right" else DATA
    finished = (folder / CHECKSUMS).is_file()
    for path in sorted(folder.iterdir()):
        if path not in named and path.is_file() and not path.name.startswith("."):
            foreign = finished and path.name in WITH_CHECKSUMS
            yield path, "unknown", FOREIGN if foreign else ""


def _dataset(folder: Path) -> Iterator[tuple[Path, State]]:
    """The manifest of a dataset, and its shards."""
    try:
        manifest = read_manifest(folder)
    except ValueError:
        yield folder / MANIFEST, "changed"
        return
    yield folder / MANIFEST, "right"
    for shard in manifest.shards:
        path = folder / shard.file
        if not path.is_file():
            yield path, "missing"
        else:
            yield path, "right" if sha256(path) == shard.sha256 else "changed"
