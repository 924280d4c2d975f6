"""The compiled kernels touch no memory that is not theirs, and do nothing that C leaves undefined.

They are compiled with the address and undefined-behaviour sanitizers of gcc, which end the process
at the first wrong access, and run over shapes that fill their tiles and shapes that do not.
"""

import itertools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_sources import write_sources

from pdno import PDNO, Grid
from pdno.native.build import load_library, status
from pdno.operators.kernel import apply_values
from pdno.operators.reference import apply_straight
from pdno.symbols import SymbolValues

# -O1 compiles several times faster, and the accesses are the same
FLAGS = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
SHAPES = [  # grid, kept modes
    ((16, 16), 4),
    ((16, 16), None),
    ((32, 64), (5, 7)),
    ((64, 32), (12, 17)),
    ((32, 32), (16, 16)),
    ((128, 16), (3, 2)),
    ((24, 40), (5, 6)),
    ((7, 32), (2, 17)),
    ((85, 85), 12),
    ((13, 11), (3, 4)),
    ((64,), 12),
    ((100,), 16),
    ((512,), None),
    ((8, 8, 32), (2, 2, 5)),
    ((16, 16, 16), 3),
    ((6, 10, 9), (2, 3, 4)),
]
CHANNELS = [  # batch, outputs, inputs
    (1, 1, 1),
    (1, 3, 5),
    (3, 4, 4),
    (5, 2, 7),
    (8, 5, 8),
]


HERE = Path(__file__).parent
KINDS = ("no x-factor", "low rank", "pairs", "nodes")
NODES = 8


def run_all_shapes():
    """Values and gradients over all shapes; they are those of the straight formula, too."""
    assert load_library() is not None, status().reason
    torch.manual_seed(0)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for (shape, modes), channels, kind in itertools.product(SHAPES, CHANNELS, KINDS):
            check_shape(kind, shape, modes, *channels)
        for shape, modes in SHAPES:  # with whatever else of a network is compiled
            network = PDNO(len(shape), 2, 1, width=5, modes=modes, layers=2)
            network(torch.randn(3, 2, *shape)).square().sum().backward()


def check_shape(kind, shape, modes, batch, outputs, inputs):
    grid = Grid(shape)
    values = random_values(kind, grid, modes, outputs, inputs)
    f = torch.randn(batch, inputs, *shape, requires_grad=True)
    leaves = [part for part in (values.frequency, values.space, f) if part is not None]
    weights = torch.randn(batch, outputs, *shape)
    results = []
    for apply in (apply_values, apply_straight):
        out = apply(values, f, grid, modes)
        results.append((out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)))
    for fast, straight in zip(*results, strict=True):
        error = float((fast - straight).norm() / straight.norm())
        assert error < 1e-5, (kind, shape, modes, batch, outputs, inputs, error)


def random_values(kind, grid, modes, outputs, inputs):
    """Values of a symbol of some kind, see `pdno.symbols.SymbolValues`."""
    ranks = 3 if kind == "low rank" else 1
    kept = grid.modes(modes).shape[:-1]
    c = torch.randn(ranks, outputs, inputs, *kept, dtype=torch.complex64, requires_grad=True)
    if kind == "no x-factor":
        return SymbolValues(c)
    last = NODES if kind == "nodes" else grid.shape[-1]
    channels = 1 if kind == "low rank" else inputs
    b = torch.randn(ranks, outputs, channels, *grid.shape[:-1], last, requires_grad=True)
    basis = torch.randn(NODES, grid.shape[-1]) if kind == "nodes" else None
    return SymbolValues(c, b, basis)


def sanitized(program, *arguments, cache):
    """Run a program whose loops are compiled with sanitizers."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs gcc and its sanitizers")
    # libstdc++ as well: without it the first exception of torch ends the process
    names = [
        subprocess.run(
            [compiler, f"-print-file-name={library}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for library in ("libasan.so", "libstdc++.so.6")
    ]
    if not all(map(os.path.isabs, names)):
        pytest.skip("gcc has no address sanitizer here")
    environment = {
        **os.environ,
        "CC": compiler,
        "PDNO_NATIVE": "1",
        "PDNO_NATIVE_FLAGS": FLAGS,
        "XDG_CACHE_HOME": str(cache),
        "PYTHONPATH": os.pathsep.join(
            [str(HERE), str(HERE.parent / "operators"), os.environ.get("PYTHONPATH", "")]
        ),
        # Python and torch keep memory until they end, and hand out some from their own pools
        "ASAN_OPTIONS": "detect_leaks=0:alloc_dealloc_mismatch=0",
        "PYTHONMALLOC": "malloc",
        "LD_PRELOAD": " ".join(names),
    }
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_the_sanitizers_see_a_wrong_access(tmp_path):
    """A loop that reads one number too many ends the process, and says where."""
    source = write_sources(tmp_path / "sources")
    source.write_text("float last(const float *x, long n) { return x[n]; }\n")
    program = (
        "import ctypes, sys\nfrom pathlib import Path\nfrom pdno.native import build\n"
        "build.SOURCE = Path(sys.argv[1])\n"
        "room = ctypes.CDLL(None).malloc\nroom.restype = ctypes.c_void_p\n"
        "library, n = build.load_library(), int(sys.argv[2])\n"
        "library.last(ctypes.c_void_p(room(16)), ctypes.c_long(n))\nprint('done')"
    )
    good = sanitized(program, source, 3, cache=tmp_path / "cache")
    assert good.returncode == 0 and good.stdout == "done\n", good.stderr
    bad = sanitized(program, source, 4, cache=tmp_path / "cache")
    assert bad.returncode != 0 and "heap-buffer-overflow" in bad.stderr and "tiny.c" in bad.stderr


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("module", "refused"), [("wrong_operands", 400), ("wrong_symbols", 450)])
def test_wrong_operands_touch_no_memory(tmp_path, module, refused):
    program = f"import {module}\nassert {module}.call_all() > {refused}\nprint('done')"
    ended = sanitized(program, cache=tmp_path)
    assert ended.returncode == 0 and ended.stdout == "done\n", ended.stderr[-8000:]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_loops_touch_only_their_own_memory(tmp_path):
    program = "from test_sanitizers import run_all_shapes\nrun_all_shapes()\nprint('done')"
    ended = sanitized(program, cache=tmp_path)
    assert ended.returncode == 0 and ended.stdout == "done\n", ended.stderr[-8000:]
