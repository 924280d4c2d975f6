"""A disk that fails when it is told to: calls that change a folder are counted, and one is struck.

What is watched are opening for writing, writing, syncing, renaming, removing and making folders,
as Python code does them; the package knows nothing of it. A strike is one of

    kill      the process ends, in the middle of a write or on either side of another call
    power     the same, and what was not synced is lost
    full      no space is left, half of a write fits; from here on, or this once
    broken    an error of input and output, this once
    frozen    the folder cannot be written to from here on
    gone      the folder is deleted by somebody else
"""

import builtins
import errno
import io
import os
import shutil
import signal
from pathlib import Path
from typing import NamedTuple

WRITING = set("wxa+")
ERRORS = {"full": errno.ENOSPC, "broken": errno.EIO, "frozen": errno.EROFS}


class Strike(NamedTuple):
    """What happens at which call, counted from 0; `late` is after it, or from there on."""

    kind: str
    at: int
    late: bool = False


class Disk:
    """Watches a folder in this process, for good."""

    def __init__(self, folder, strike=None):
        self.folder, self.strike = Path(folder), strike
        self.calls, self.unsynced, self.failing = [], set(), False
        self.open, self.fsync = builtins.open, os.fsync

    def install(self):
        """Take the place of the functions that write."""
        builtins.open = io.open = self._open
        os.fsync = lambda fd: self._call("sync", self._name(fd), self.fsync, fd)
        for name in ("replace", "rename"):
            setattr(os, name, self._mover(getattr(os, name)))
        for name, kind in {"unlink": "remove", "remove": "remove", "rmdir": "remove"}.items():
            setattr(os, name, self._changer(kind, getattr(os, name)))
        os.mkdir = self._changer("mkdir", os.mkdir)
        return self

    def _open(self, file, mode="r", *more, **options):
        name = os.fspath(file) if isinstance(file, (str, os.PathLike)) else None
        if not WRITING & set(mode) or not self._inside(name):
            return self.open(file, mode, *more, **options)
        opened = self._call("open", name, self.open, file, mode, *more, **options)
        if "r" not in mode:
            self.unsynced.add(name)
        return _File(opened, self, name)

    def _mover(self, real):
        def move(source, target, **options):
            found = self._call("rename", os.fspath(target), real, source, target, **options)
            if os.fspath(source) in self.unsynced:
                self.unsynced.remove(os.fspath(source))
                self.unsynced.add(os.fspath(target))
            return found

        return move

    def _changer(self, kind, real):
        def change(path, *more, **options):
            return self._call(kind, path, real, path, *more, **options)

        return change

    def _name(self, descriptor):
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        self.unsynced.discard(name)
        return name

    def _inside(self, name):
        if not isinstance(name, (str, os.PathLike)):
            return False
        whole = os.path.abspath(name)
        return whole == str(self.folder) or whole.startswith(f"{self.folder}/")

    def _call(self, kind, name, real, *arguments, **options):
        if not self._inside(name):
            return real(*arguments, **options)
        struck = self._is_struck(kind, name)
        if struck:
            self._before(half=lambda: None)
        try:
            return real(*arguments, **options)
        finally:  # also of a folder that was there, or a file that was not
            if struck:
                self._end()

    def write(self, file, name, data):
        """Write data; where it is struck only half of them."""

        def half():
            file.write(data[: len(data) // 2])
            file.flush()

        struck = self._is_struck("write", name)
        if struck:
            self._before(half)
        found = file.write(data)
        if struck:
            file.flush()
            self._end()
        return found

    def _is_struck(self, kind, name):
        self.calls.append((kind, name))
        strike = self.strike
        return strike is not None and (self.failing or len(self.calls) - 1 == strike.at)

    def _before(self, half):
        """What a strike does before the call that it meets."""
        kind, _, late = self.strike
        if kind == "gone":
            self.strike = None
            shutil.rmtree(self.folder, ignore_errors=True)
        elif kind in ERRORS:
            if kind == "full":
                half()
            self.failing = kind == "frozen" or (kind == "full" and late)
            if not self.failing:
                self.strike = None
            number = ERRORS[kind]
            raise OSError(number, os.strerror(number), str(self.folder))
        elif not late:
            half()
            self._end()

    def _end(self):
        if self.strike is None:  # it was deleted, and the call has gone on
            return
        if self.strike.kind == "power":
            for name in self.unsynced:
                if os.path.exists(name):
                    os.truncate(name, 0)
        os.kill(os.getpid(), signal.SIGKILL)


class _File:
    """An open file whose writes are watched."""

    def __init__(self, file, disk, name):
        self.file, self.disk, self.name = file, disk, name

    def write(self, data):
        return self.disk.write(self.file, self.name, data)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self.file, name)

    def __enter__(self):
        self.file.__enter__()
        return self

    def __exit__(self, *problem):
        return self.file.__exit__(*problem)

    def __iter__(self):
        return iter(self.file)
