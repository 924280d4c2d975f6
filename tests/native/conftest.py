"""Fixtures of the compilation: small sources, an empty cache folder, a counting compiler."""

import os
import shutil
from pathlib import Path

import pytest
from tiny_sources import CountingCompiler, forget, write_sources

from pdno.native import build


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """The C file, with an empty cache folder and no wishes of the user."""
    for name in ("CC", "PDNO_NATIVE", "PDNO_NATIVE_FLAGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = write_sources(tmp_path / "sources")
    monkeypatch.setattr(build, "SOURCE", source)
    monkeypatch.setattr(build, "FOLDER", tmp_path / "lib")
    forget()
    yield source
    forget()


@pytest.fixture
def cache(tiny):
    return Path(os.environ["XDG_CACHE_HOME"]) / "pdno"


@pytest.fixture
def compiler(tiny, tmp_path, monkeypatch):
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("no C compiler on this machine")
    counting = CountingCompiler(tmp_path / "bin")
    monkeypatch.setenv("CC", str(counting.path))
    return counting
