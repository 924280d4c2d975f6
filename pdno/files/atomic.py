"""Files appear whole or not at all: temporary file, fsync, rename, fsync of the folder.

Temporary files are `.NAME.PID.tmp` beside the target, so that those of dead runs can be removed.
One process at a time writes to a folder: it locks the file `.lock` there until it ends.
"""

import contextlib
import errno
import glob
import hashlib
import os
import platform
import re
import stat
import sys
import threading
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from pdno.files.limits import open_regular

LOCK = ".lock"
_held: dict[Path, int] = {}  # locked folders of this process, and the threads that hold them


@contextlib.contextmanager
def atomic_path(target: Path) -> Iterator[Path]:
    """Yield a temporary path; when the block ends well, it becomes `target`."""
    for path in target.parent.glob(f".{glob.escape(target.name)}.*.tmp"):
        if _is_dead(path.name.split(".")[-2]):
            path.unlink(missing_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)  # a link there would lead to a file of others
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
        if hasattr(os, "O_DIRECTORY"):  # Windows cannot open a folder; the rename has to do
            folder = os.open(target.parent, os.O_DIRECTORY)
            try:
                os.fsync(folder)
                if not os.fstat(folder).st_nlink:  # which syncs without an error
                    gone = "the folder was removed meanwhile"
                    raise FileNotFoundError(errno.ENOENT, gone, str(target.parent))
            finally:
                os.close(folder)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _is_dead(process: str) -> bool:
    try:
        if os.name == "posix":
            os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, OverflowError):  # another user's, or no number
        pass
    return False


def write_text(target: Path, text: str) -> None:
    """Write `text` to `target`, whole or not at all."""
    with atomic_path(target) as temporary:
        temporary.write_text(text, encoding="utf-8")


def sha256(path: Path) -> str:
    """Hexadecimal SHA-256 of a file."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sweep(folder: Path) -> None:
    """Remove all temporary files from a folder that this process alone writes to."""
    for path in folder.glob(".*.tmp"):
        if re.fullmatch(r"\..+\.\d+\.tmp", path.name):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def explained(folder: Path, kept: str) -> Iterator[None]:
    """Raise what could not be written to a folder with a remedy, and what is `kept`."""
    try:
        yield
    except OSError as error:
        removed = isinstance(error, FileNotFoundError) and not folder.is_dir()
        why = "it was removed meanwhile" if removed else error.strerror or error
        cure = f"free some space or choose another folder; {kept} when you run the same command"
        raise OSError(f"cannot write to {folder} ({why}): {cure} again") from error


@contextlib.contextmanager
def only_writer(folder: Path | None, *, wait: bool = False) -> Iterator[None]:
    """Make and lock the folder, if any; where it is locked raise, or `wait`."""
    # unlike `resolve`, which fails for a loop of links in its own way
    target = None if folder is None else Path(os.path.realpath(folder))
    if folder is None or target is None or _held.get(target) == threading.get_ident():
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with _open_lock(folder / LOCK) as lock:
        _take(lock, folder, wait=wait)
        lock.truncate(0)
        lock.write(f"process {os.getpid()} on {platform.node()}\n".encode())
        _held[target] = threading.get_ident()
        try:
            yield
        finally:
            del _held[target]
            lock.truncate(0)


def _open_lock(path: Path) -> FileIO:
    """The lock file, which must not be a link."""
    careful = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with contextlib.suppress(OSError):
        lock = FileIO(os.open(path, os.O_RDWR | os.O_CREAT | careful, 0o644), "rb+")
        status = os.fstat(lock.fileno())
        if stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
            return lock
        lock.close()
    if path.exists() or path.is_symlink():
        raise ValueError(f"{path} is a link, or no file that we may write: remove it")
    raise OSError(f"cannot write to {path.parent}: choose another folder")


def _take(lock: FileIO, folder: Path, *, wait: bool) -> None:
    try:
        import fcntl
    except ImportError:  # no such lock on this system
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock.fileno(), 200, 0).decode("utf-8", "replace").strip()
        who = holder if holder.isprintable() and holder else "another process"
        if not wait:
            raise ValueError(f"{who} is writing to {folder}: let it end") from error
        print(f"pdno: waiting for {who}, which is writing to {folder}", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)
