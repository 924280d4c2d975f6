"""Checksums: the SHA-256 of each file of a finished run, in checksums.json, written last.

Its final line has the SHA-256 of the lines before it, as in manifests of datasets.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pdno.files.atomic import sha256, write_text
from pdno.files.limits import read_text
from pdno.files.run_folder import CHECKSUMS

State = Literal["right", "missing", "changed", "unknown"]
CURE = "restore it from a copy, or remove the folder and make it again"
_PROBLEMS = {
    "missing": f"is missing, but is listed in {CHECKSUMS}: {CURE}",
    "changed": f"was changed: its SHA-256 differs from that in {CHECKSUMS}: {CURE}",
    "unknown": f"is not listed in {CHECKSUMS}: remove it",
}


def with_digest(text: str) -> str:
    """JSON of an object, a line per key, with the SHA-256 of it all as one key more."""
    body = text.rstrip()
    digest = hashlib.sha256(body.encode("utf-8")).hexdigest()
    return body.removesuffix("\n}") + f',\n "sha256": "{digest}"\n}}\n'


def without_digest(text: str) -> tuple[str, bool]:
    """The text before `with_digest`, and whether its digest is there and agrees."""
    body = text.rpartition(',\n "sha256": "')[0] + "\n}"
    return (body, True) if with_digest(body) == text else (text, False)


def write_checksums(folder: Path, names: Iterable[str], record: str = CHECKSUMS) -> None:
    """Record the checksums of those of the named files that exist."""
    files = {name: sha256(folder / name) for name in sorted(names) if (folder / name).is_file()}
    content = {"format": "pdno-checksums", "files": files}
    write_text(folder / record, with_digest(json.dumps(content, indent=1)))


def read_checksums(path: Path) -> dict[str, str]:
    """The digests of a record, by file."""
    text, right = without_digest(read_text(path))
    if not right:
        raise ValueError(f"{path} is damaged, so that no file beside it can be trusted: {CURE}")
    files: dict[str, str] = json.loads(text)["files"]
    return files


def verified_path(path: Path) -> Path:
    """The path of a file of a run that agrees with its checksum; ValueError where it does not."""
    record = path.with_name(CHECKSUMS)
    if record.is_file():
        state = file_state(path, read_checksums(record).get(path.name))
        if state in _PROBLEMS and (state != "unknown" or path.exists()):
            more = f"`pdno verify {path.parent}` checks all files"
            raise ValueError(f"{path} {_PROBLEMS[state]}; {more}")
    return path


def file_state(path: Path, digest: str | None) -> State:
    """The state of a file that has this digest in a record; None where no record names it."""
    if digest is None or not path.is_file():
        return "unknown" if digest is None else "missing"
    return "right" if sha256(path) == digest else "changed"
