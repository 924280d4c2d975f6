"""Whether datasets, runs, saved operators and exported files are as they were written.

Each file is right, missing, changed, or unknown: no record names it. Unknown files are reported
and do no harm, but under the name of a file of a run, where they would be read, they are wrong.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pdno.data.shards import MANIFEST, read_manifest
from pdno.files.checksums import State, file_state, file_states
from pdno.files.run_folder import CHECKSUMS, WITH_CHECKSUMS

Finding = tuple[Path, State, str]  # a file, its state, and what to do about it
RECORDS = {
    CHECKSUMS: "bring it back from a copy, or remove the folder and run it again",
    f"*.{CHECKSUMS}": "bring it back from a copy, or export it again",
    MANIFEST: "run the dataset's `pdno generate` command again, or bring it back from a copy",
}


def verify(paths: Sequence[Path]) -> tuple[str, bool]:
    """A line per file and a sum of them, and whether all is right.

    A path is a file with a record beside it, or a folder that has some in it or below it.
    """
    findings: dict[Path, Finding] = {}
    for path in paths:
        if not path.exists():
            raise ValueError(f"there is no {path}: give a dataset, a run, or an exported file")
        folders = {path if path.is_dir() else path.parent}
        if path.is_dir():
            folders |= {record.parent for name in RECORDS for record in path.rglob(name)}
        checked = [finding for folder in sorted(folders) for finding in _check(folder)]
        mine = [finding for finding in checked if path.is_dir() or finding[0] == path]
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


def _check(folder: Path) -> Iterator[Finding]:
    """The files of one folder."""
    named = set[Path]()
    for record, cure in [(r, RECORDS[name]) for name in RECORDS for r in folder.glob(name)]:
        states: dict[str, State] = {record.name: "right"}
        try:
            if record.name == MANIFEST:
                shards = read_manifest(folder).shards
                states |= {s.file: file_state(folder / s.file, s.sha256) for s in shards}
            else:
                states |= file_states(folder, record.name)
        except ValueError:
            states = {record.name: "changed"}
        for name, state in states.items():
            named.add(folder / name)
            yield folder / name, state, "" if state == "right" else cure
    finished = (folder / CHECKSUMS).is_file()
    for path in sorted(folder.iterdir()):
        if path not in named and path.is_file() and not path.name.startswith("."):
            foreign = finished and path.name in WITH_CHECKSUMS
            yield path, "unknown", f"it is not listed in {CHECKSUMS}: remove it" * foreign
