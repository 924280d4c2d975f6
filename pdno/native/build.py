"""Compile and load the C libraries."""

__all__ = ["load_lanes", "load_pairs"]

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from pdno.atomic import atomic_path

# sums may be reordered, but NaN and infinity keep their meaning
REORDER = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno")
FLAGS = ("-O3", "-march=native", *REORDER, "-shared", "-fPIC", "-w")
SECONDS = 60


def load_pairs() -> ctypes.CDLL | None:
    """The loops of `pairs.c`, or None where they cannot be had."""
    return _load("pairs", ("pairs_lanes", "pairs_most_half"))


def load_lanes() -> ctypes.CDLL | None:
    """The loops of `lanes.c`, or None where they cannot be had."""
    return _load("lanes", ("lanes_count", "lanes_most"))


@lru_cache(maxsize=2)
def _load(name: str, constants: tuple[str, ...]) -> ctypes.CDLL | None:
    """A library whose functions `constants` return whole numbers and whose others nothing."""
    if os.environ.get("PDNO_NATIVE", "1") == "0":
        return None
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    try:
        library = ctypes.CDLL(str(_compiled(compiler, Path(__file__).with_name(f"{name}.c"))))
        for constant in constants:
            getattr(library, constant).restype = ctypes.c_long
        return library
    except (OSError, subprocess.SubprocessError, AttributeError):
        return None


def _compiled(compiler: str, source: Path) -> Path:
    """The library for this source, compiler and processor; compiled if it is not there yet."""
    kind = "\n".join([compiler, *FLAGS, platform.machine(), _processor()])
    texts = [path.read_bytes() for path in (source, *sorted(source.parent.glob("*.h")))]
    digest = hashlib.sha256(b"".join(texts) + kind.encode()).hexdigest()[:16]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pdno"
    target = cache / f"{source.stem}-{digest}.so"
    if not target.is_file():
        cache.mkdir(mode=0o700, parents=True, exist_ok=True)
        with atomic_path(target) as temporary:
            command = [compiler, *FLAGS, "-o", str(temporary), str(source)]
            subprocess.run(command, check=True, capture_output=True, timeout=SECONDS)
    return target


def _processor() -> str:
    """What -march=native depends on, as far as the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), "")
