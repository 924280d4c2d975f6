"""A cache folder whose files are loaded as code, and so must be ours.

Whoever can write a library there runs code as this user. So the folder and every file that is read
must belong to this user and be writable by nobody else, links are not followed, and what was
checked is the open file, not a name that may mean another file a moment later. A digest beside a
library finds what was damaged; against somebody who may write here it is no help, which is why
owner and mode are looked at first.

Several processes, on several machines with one home directory, may use the folder at once: files
appear whole under names that no other process uses, and a lock lets one of them do the work while
the others wait for it.
"""

__all__ = ["CacheFolder", "cache_path"]

import contextlib
import os
import platform
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

LOCK = "lock"
PAUSE = 0.05


def cache_path() -> Path:
    """Where pdno keeps what it can make again; RuntimeError without a home directory."""
    wish = os.environ.get("XDG_CACHE_HOME", "")
    # the XDG specification says that relative paths are to be ignored
    return (Path(wish) if os.path.isabs(wish) else Path.home() / ".cache") / "pdno"


class CacheFolder:
    """A folder that only this user can write to; OSError where it cannot be had."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        if problem := _distrust(os.fstat(self._folder)):
            os.close(self._folder)
            raise PermissionError(f"{path} {problem}")

    def __enter__(self) -> "CacheFolder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._folder)

    def open(self, name: str) -> int | None:
        """A descriptor of a file to read, or None where there is none that can be trusted."""
        # a pipe in the place of a file must not stop us
        how = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            descriptor = os.open(name, how, dir_fd=self._folder)
        except OSError:
            return None
        found = os.fstat(descriptor)
        if stat.S_ISREG(found.st_mode) and not _distrust(found):
            return descriptor
        os.close(descriptor)
        return None

    def read(self, name: str) -> str | None:
        """The text of a file, or None where there is none that can be trusted."""
        descriptor = self.open(name)
        if descriptor is None:
            return None
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            return file.read()

    def write(self, name: str, content: bytes) -> None:
        """Make or replace a file, whole or not at all."""
        host = platform.node().replace("/", "-")
        temporary = f".{name}.{host}.{os.getpid()}.{secrets.token_hex(8)}.tmp"
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(temporary, how, 0o600, dir_fd=self._folder)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            self.remove(temporary)
            raise
        with contextlib.suppress(OSError):  # some file systems cannot; then a crash costs the file
            os.fsync(self._folder)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=self._folder)

    @contextlib.contextmanager
    def lock(self, seconds: float) -> Iterator[None]:
        """Keep other processes out of a block, as far as the file system can.

        Arguments:
            seconds: How long to wait for them. Then, and where there are no locks, the block runs
                all the same: it is better done twice than not at all.
        """
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError):
                how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
                descriptor = os.open(LOCK, how, 0o600, dir_fd=self._folder)
                stack.callback(os.close, descriptor)
                _wait(descriptor, seconds)
            yield


def _wait(descriptor: int, seconds: float) -> None:
    import fcntl  # not on Windows, where nothing is compiled

    end = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return
            time.sleep(PAUSE)
        else:
            return


def _distrust(found: os.stat_result) -> str:
    """Why a file or folder may hold what others wrote; empty where it may not."""
    if found.st_uid != os.geteuid():
        return f"belongs to user {found.st_uid}, not to user {os.geteuid()}: remove it"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(found.st_mode)
        return f"has mode {mode:o}, so others may write to it: `chmod go-w` it"
    return ""
