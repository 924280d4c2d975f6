"""The loops of processors that this machine does not have, or has more than: the same numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdno.native.build import load_library

TESTS = Path(__file__).parents[1] / "operators" / "test_native.py"


@pytest.mark.slow
@pytest.mark.skipif(load_library() is None, reason="no compiled kernels here")
@pytest.mark.parametrize(
    "flags", ["-DLANES=16", "-DLANES=8", "-march=x86-64-v3", "-march=x86-64", "-O1"]
)
def test_other_vectors_give_the_same_numbers(flags):
    """16 lanes as with AVX-512, of two registers each without it; processors without AVX."""
    if flags.startswith("-march") and os.uname().machine != "x86_64":
        pytest.skip("this processor is not x86-64")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS)]
    environment = {**os.environ, "PDNO_NATIVE_FLAGS": flags, "PYTEST_ADDOPTS": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert " passed" in done.stdout
