"""Files appear whole or not at all: temporary file, fsync, rename, fsync of the folder.

Temporary files are `.NAME.PID.tmp` beside the target, so `sweep` can remove those of dead runs.
"""

__all__ = ["atomic_path", "sha256", "sweep", "write_text"]

import contextlib
import glob
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path; when the block ends well, it becomes `target`."""
    _clear(target)
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


def _clear(target: Path) -> None:
    """Remove what processes of this machine left that died while they wrote the same file."""
    if os.name != "posix":  # elsewhere there is no harmless signal to ask a process with
        return
    for path in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        number = path.name.rsplit(".", 2)[1]
        if number.isdigit() and not _lives(int(number)):
            path.unlink(missing_ok=True)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # of somebody else, or no process of this machine
        return True
    return True


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
