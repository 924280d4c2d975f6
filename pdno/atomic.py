"""Files appear whole or not at all: temporary file, fsync, rename, fsync of the folder.

Temporary files are `.NAME.PID.tmp` beside the target, so `sweep` can remove those of dead runs.
"""

__all__ = ["atomic_path", "sha256", "sweep", "write_text"]

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path; when the block ends well, it becomes `target`."""
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
        if hasattr(os, "O_DIRECTORY"):  # Windows cannot open a folder; the rename has to do
            descriptor = os.open(target.parent, os.O_DIRECTORY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_text(target: Path, text: str) -> None:
    """Write `text` to `target`, whole or not at all."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep(folder: Path) -> int:
    """Remove the temporary files of runs that died, and return how many there were."""
    stale = [path for path in folder.glob(".*.tmp") if re.fullmatch(r"\..+\.\d+\.tmp", path.name)]
    for path in stale:
        path.unlink(missing_ok=True)
    return len(stale)
