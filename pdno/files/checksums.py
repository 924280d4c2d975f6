"""Checksums: the SHA-256 of each file of a finished run, in checksums.json, written last.

Its final line has the SHA-256 of the lines before it, as in manifests of datasets. Readers take
the path of a file from `verified_path`, so that any changed byte is an error.
"""

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pdno.files.atomic import sha256, write_text
from pdno.files.limits import read_text
from pdno.files.run_folder import CHECKSUMS

State = Literal["right", "missing", "changed", "unknown"]
CURE = "restore it from a copy, or remove the folder and make it again"
_DIGEST = re.compile(r',\n "sha256": "([0-9a-f]{64})"\n}\n\Z')
_PROBLEMS = {
    "missing": f"is missing, but is listed in {CHECKSUMS}",
    "changed": f"was changed: its SHA-256 differs from that in {CHECKSUMS}",
    "unknown": f"is not listed in {CHECKSUMS}",
}


def with_digest(text: str) -> str:
    """JSON of an object, a line per key, with the SHA-256 of it all as one key more."""
    body = text.rstrip()
    inside = body.removesuffix("\n}")
    return f'{inside},\n "sha256": "{_digest(body)}"\n}}\n'


def without_digest(text: str) -> tuple[str, bool]:
    """The text before `with_digest`, and whether its digest is there and agrees."""
    match = _DIGEST.search(text)
    if match is None:
        return text, False
    body = text[: match.start()] + "\n}"
    return body, _digest(body) == match[1]


def write_checksums(folder: Path, names: Iterable[str], record: str = CHECKSUMS) -> None:
    """Record the checksums of those of the named files that exist."""
    files = {name: sha256(folder / name) for name in names if (folder / name).is_file()}
    content = {"format": "pdno-checksums", "files": dict(sorted(files.items()))}
    write_text(folder / record, with_digest(json.dumps(content, indent=1)))


def read_checksums(path: Path) -> dict[str, str]:
    """The digests of a record, by file."""
    text, right = without_digest(read_text(path))
    if not right:
        raise ValueError(f"{path} is damaged, so that no file beside it can be trusted: {CURE}")
    files: dict[str, str] = json.loads(text)["files"]
    return files


def file_states(folder: Path, record: str = CHECKSUMS) -> dict[str, State]:
    """The state of every file that a record names."""
    digests = read_checksums(folder / record)
    return {name: _state(folder / name, digest) for name, digest in digests.items()}


def verified_path(path: Path) -> Path:
    """The path of a file of a run that agrees with its checksum; ValueError where it does not."""
    record = path.with_name(CHECKSUMS)
    if not record.is_file():
        return path
    state = _state(path, read_checksums(record).get(path.name))
    if state in _PROBLEMS and (state != "unknown" or path.exists()):
        more = f"`pdno verify {path.parent}` checks all files"
        cure = "remove it" if state == "unknown" else CURE
        raise ValueError(f"{path} {_PROBLEMS[state]}: {cure}; {more}")
    return path


def _state(path: Path, digest: str | None) -> State:
    if digest is None:
        return "unknown"
    if not path.is_file():
        return "missing"
    return "right" if sha256(path) == digest else "changed"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
