"""A C file that compiles at once, in the place of ours, and a compiler that counts its work."""

import shutil
from pathlib import Path

from pdno.native import build

NUMBER = 7


def write_sources(folder, number=NUMBER):
    folder.mkdir(exist_ok=True)
    text = '#include "tiny.h"\nlong tiny_number(void) { return NUMBER; }\n'
    (folder / "tiny.c").write_text(text)
    (folder / "tiny.h").write_text(f"#define NUMBER {number}L\n")
    return folder / "tiny.c"


def forget():
    """What a new process knows of compiled kernels: nothing."""
    build._load.cache_clear()
    build._warn_once.cache_clear()


class CountingCompiler:
    """A compiler that writes down how often it compiles; it may fail, or be slow."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.log, self.path = folder / "log", folder / "counting-cc"
        self.behave("")

    def behave(self, command: str) -> None:
        """Run a shell command before each compilation."""
        compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
        work = f'case "$*" in *-shared*) echo compiled >> {self.log}; {command or ":"};; esac'
        self.path.write_text(f'#!/bin/sh\n{work}\nexec {compiler} "$@"\n')
        self.path.chmod(0o755)

    @property
    def count(self) -> int:
        return len(self.log.read_text().splitlines()) if self.log.is_file() else 0
