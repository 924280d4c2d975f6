"""Seals: the SHA-256 of each file of a finished run, in one record that carries its own.

A record, seal.json, is an object with the digests of the files beside it by their names. Its last
line has the SHA-256 of the lines before it, as that of the manifest of a dataset has. Whoever
reads a file of a run takes its path from `checked`, so that a changed byte is told and nothing
else happens. Folders of older versions have no record and are read, with a note.
"""

__all__ = ["State", "checked", "examine", "read_seal", "signed", "unsigned", "write_seal"]

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal

from pdno.files import run_folder
from pdno.files.atomic import sha256, write_text
from pdno.files.limits import read_text

State = Literal["right", "missing", "changed", "unknown"]
FORMAT = "pdno-seal"
CURE = "bring it back from a copy, or remove the folder and make it again"
_SIGNATURE = re.compile(r',\n "sha256": "([0-9a-f]{64})"\n}\n\Z')
_NOTES = {
    "missing": "is missing, but was there when the folder was sealed",
    "changed": "was changed after the folder was sealed: its SHA-256 is another one",
    "unknown": "was not there when the folder was sealed",
}


def signed(text: str) -> str:
    """JSON of an object, a line per key, with the SHA-256 of it all as one key more."""
    body = text.rstrip()
    inside = body.removesuffix("\n}")
    return f'{inside},\n "sha256": "{_digest(body)}"\n}}\n'


def unsigned(text: str) -> tuple[str, bool | None]:
    """The text before it was signed, and whether it is that text; None where none signed it."""
    found = _SIGNATURE.search(text)
    if found is None:
        return text, None
    body = text[: found.start()] + "\n}"
    return body, _digest(body) == found[1]


def write_seal(
    folder: Path,
    names: Iterable[str],
    ahead: Mapping[str, str] | None = None,
    record: str = run_folder.SEAL,
) -> None:
    """Seal those files that are there, and texts that will be written to others right after."""
    files = {name: sha256(folder / name) for name in names if (folder / name).is_file()}
    files |= {name: _digest(text) for name, text in (ahead or {}).items()}
    found = {"format": FORMAT, "files": dict(sorted(files.items()))}
    write_text(folder / record, signed(json.dumps(found, indent=1)))


def read_seal(path: Path) -> dict[str, str]:
    """The digests of a record, by file."""
    text, right = unsigned(read_text(path))
    if not right:
        raise ValueError(f"{path} is damaged, so that no file beside it can be trusted: {CURE}")
    files: dict[str, str] = json.loads(text)["files"]
    return files


def examine(folder: Path, record: str = run_folder.SEAL) -> dict[str, State]:
    """The state of every file that a record names."""
    known = read_seal(folder / record)
    return {name: _state(folder / name, digest) for name, digest in known.items()}


def checked(path: Path) -> Path:
    """The path of a file of a run that is as it was sealed; ValueError where it is not."""
    record = path.with_name(run_folder.SEAL)
    if not record.is_file():
        if run_folder.is_finished(path.parent):
            _tell_of_old(path.parent)
        return path
    found = _state(path, read_seal(record).get(path.name))
    if found in _NOTES and (found != "unknown" or path.exists()):
        more = f"`pdno verify {path.parent}` looks at all files"
        cure = "remove it" if found == "unknown" else CURE
        raise ValueError(f"{path} {_NOTES[found]}: {cure}; {more}")
    return path


def _state(path: Path, digest: str | None) -> State:
    if digest is None:
        return "unknown"
    if not path.is_file():
        return "missing"
    return "right" if sha256(path) == digest else "changed"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


_OLD = list[Path]()  # the folder that was told of


def _tell_of_old(folder: Path) -> None:
    """Once in a process, whatever is read then."""
    if not _OLD:
        _OLD.append(folder)
        told = f"{folder} has no {run_folder.SEAL}, as older versions wrote none"
        print(f"pdno: {told}; changes of its files are not noticed", file=sys.stderr)
