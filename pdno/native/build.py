"""Compile and load the C library."""

__all__ = ["load_pairs"]

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from pdno.atomic import atomic_path

SOURCE = Path(__file__).with_name("pairs.c")
# sums may be reordered, but NaN and infinity keep their meaning
REORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
FLAGS = ("-O3", "-march=native", *REORDER, "-shared", "-fPIC", "-w")
SECONDS = 60


@lru_cache(maxsize=1)
def load_pairs() -> ctypes.CDLL | None:
    """The library, or None where it cannot be had."""
    if os.environ.get("PDNO_NATIVE", "1") == "0":
        return None
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    try:
        library = ctypes.CDLL(str(_compiled(compiler)))
        library.pairs_lanes.restype = library.pairs_most_half.restype = ctypes.c_long
        return library
    except (OSError, subprocess.SubprocessError, AttributeError):
        return None


def _compiled(compiler: str) -> Path:
    """The library for this source, compiler and processor; compiled if it is not there yet."""
    source = SOURCE.read_bytes()
    kind = "\n".join([compiler, *FLAGS, platform.machine(), _processor()])
    digest = hashlib.sha256(source + kind.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdno"
    target = cache / f"pairs-{digest}.so"
    if not target.is_file():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_path(target) as temporary:
            command = [compiler, *FLAGS, "-o", str(temporary), str(SOURCE)]
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    return target


def _processor() -> str:
    """What -march=native depends on, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
