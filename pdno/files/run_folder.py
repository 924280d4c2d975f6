"""The files of a run folder, and their SHA-256 in checksums.json, which is written last.

A folder with checksums.json is finished. Its final line has the SHA-256 of the lines before it, as
in manifests of datasets.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, Field

from pdno.files.atomic import sha256, write_text
from pdno.files.limits import check_memory, read_json, read_text
from pdno.interface.records import Options

SPECIFICATION = "specification.json"  # the experiment
ENVIRONMENT = "environment.json"  # versions, device, threads and whether there was compiled code
HISTORY = "history.csv"  # one row per epoch
CHECKPOINTS = "checkpoints"  # the state of the training; removed at the end
WEIGHTS = "weights.safetensors"  # the trained operator: network and normalisers
OPERATOR = "operator.json"  # how to make the network, its task, grid, times and training
MODEL_CARD = "model_card.md"  # the same for a reader, with errors and limits
SAMPLES = "samples.safetensors"  # sample arrays: fields and symbols for figures
METRICS = "metrics.csv"  # all metrics as a tidy table
CHECKSUMS = "checksums.json"  # the SHA-256 of all of these
WITH_CHECKSUMS = (
    *(SPECIFICATION, ENVIRONMENT, HISTORY, WEIGHTS),
    *(OPERATOR, MODEL_CARD, SAMPLES, METRICS),
)
SYMBOL_FOLDER, SYMBOL = "symbol", "symbol.json"  # the results of `pdno symbol`
DATA = "data"  # datasets, beside the run folders

State = Literal["right", "missing", "changed", "unknown"]
CURE = "restore it from a copy, or remove the folder and make it again"
_SHA256, _LONGEST_NAME = "^[0-9a-f]{64}$", 200
_PROBLEMS = {
    "missing": f"is missing, but is listed in {CHECKSUMS}: {CURE}",
    "changed": f"was changed: its SHA-256 differs from that in {CHECKSUMS}: {CURE}",
    "unknown": f"is not listed in {CHECKSUMS}: remove it",
}


def _beside(name: str) -> str:
    plain = name == Path(name).name and name.isprintable() and len(name) <= _LONGEST_NAME
    if not plain or name in ("", "..") or "\\" in name:
        raise ValueError(f"{name!r} is no name of a file in this folder")
    return name


class _Checksums(BaseModel):
    files: dict[Annotated[str, AfterValidator(_beside)], Annotated[str, Field(pattern=_SHA256)]]


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
    text, right = without_digest(read_text(path))
    try:
        return _Checksums.model_validate_json(text if right else "").files
    except ValueError as problem:
        trust = "so that no file beside it can be trusted"
        raise ValueError(f"{path} is damaged, {trust}: {CURE}") from problem


def verified_path(path: Path) -> Path:
    """The path of a file of a run that agrees with its checksum; ValueError where it does not."""
    record = path.with_name(CHECKSUMS)
    if record.is_file():
        state = file_state(path, read_checksums(record).get(path.name))
        if state in _PROBLEMS and (state != "unknown" or path.exists()):
            raise ValueError(f"{path} {_PROBLEMS[state]}; `pdno verify` checks all files")
    return path


def read_values(path: Path) -> Options:
    """The values of a JSON file of a run, verified; empty where it was not written."""
    return read_json(path) if verified_path(path).is_file() else {}


def file_state(path: Path, digest: str | None) -> State:
    """The state of a file that has this digest in a record; None where no record names it."""
    if digest is None or not path.is_file():
        return "unknown" if digest is None else "missing"
    check_memory(str(path), path.stat().st_size)  # its reader needs as much
    return "right" if sha256(path) == digest else "changed"


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder has ended."""
    return (folder / CHECKSUMS).is_file()


def reopen(folder: Path) -> None:
    """Mark the run in this folder as unfinished, so that its files may be written."""
    (folder / CHECKSUMS).unlink(missing_ok=True)
