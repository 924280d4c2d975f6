"""The compiled loops give the numbers of the straight formula, and are never needed."""

import os
import subprocess
import sys

import pytest
import torch

from pdno import PDNO, Grid
from pdno.native.build import load_pairs
from pdno.native.pairs import find_loops
from pdno.operators import pairwise
from pdno.operators.kernel import apply_values
from pdno.operators.backends.reference import apply_straight
from pdno.symbols import SymbolValues

needs_compiler = pytest.mark.skipif(load_pairs() is None, reason="no C compiler on this machine")


def random_case(shape, modes, batch):
    kept = Grid(shape).modes(modes).shape[:-1]
    c = torch.randn(1, 4, 5, *kept, dtype=torch.complex64, requires_grad=True)
    b = torch.randn(1, 4, 5, *shape, requires_grad=True)
    f = torch.randn(batch, 5, *shape, requires_grad=True)
    return SymbolValues(c, b), f


@needs_compiler
@pytest.mark.parametrize("batch", [1, 3, 4, 9])
@pytest.mark.parametrize(
    ("shape", "modes"),
    [
        ((64, 64), 12),
        ((32, 32), 5),
        ((32, 32), None),
        ((16, 96), (4, 20)),
        ((8, 128), (3, 40)),
        ((8, 8, 32), (2, 2, 5)),
        ((7, 32), (2, 17)),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_values_and_gradients_are_those_of_the_straight_formula(shape, modes, batch, threads):
    torch.set_num_threads(threads)
    assert find_loops(shape[-1], Grid(shape).modes(modes).shape[-2]) is not None
    values, f = random_case(shape, modes, batch)
    weights = torch.randn(batch, 4, *shape)
    results = []
    for out in (
        apply_values(values, f, Grid(shape), modes, method="matrix"),
        apply_straight(values, f, Grid(shape), modes),
    ):
        leaves = (values.frequency, values.space, f)
        results.append((out.detach(), *torch.autograd.grad((out * weights).sum(), leaves)))
    for fast, straight in zip(*results, strict=True):
        assert float((fast - straight).norm() / straight.norm()) < 2e-6


@needs_compiler
def test_grids_that_do_not_fit_the_vectors_go_another_way():
    lanes = load_pairs().pairs_lanes()
    assert find_loops(2 * lanes, 3) is not None
    assert find_loops(2 * lanes + 2, 3) is None
    values, f = random_case((6, 10), (2, 3), 2)
    fast = apply_values(values, f, Grid((6, 10)), (2, 3))
    assert torch.allclose(fast, apply_straight(values, f, Grid((6, 10)), (2, 3)), atol=1e-5)


@needs_compiler
def test_what_is_not_finite_stays_not_finite():
    values, f = random_case((8, 32), (2, 4), 2)
    with torch.no_grad():
        f[1, 0, 3, 3] = torch.nan
        out = apply_values(values, f, Grid((8, 32)), (2, 4))
    assert torch.isfinite(out[0]).all()
    assert torch.isnan(out[1]).any()


@needs_compiler
def test_double_precision_is_not_lowered(monkeypatch):
    def refuse(*arguments):
        raise AssertionError("the compiled loops are for float32")

    monkeypatch.setattr(pairwise, "find_loops", refuse)
    network = PDNO(2, 1, 1, width=2, modes=3).double()
    assert network(torch.randn(1, 1, 32, 32, dtype=torch.float64)).dtype == torch.float64


@pytest.mark.parametrize("switch", [{"PDNO_NATIVE": "0"}, {"PATH": "nowhere"}])
def test_without_the_loops_torch_gives_the_same_numbers(switch, tmp_path):
    script = (
        "import torch; torch.manual_seed(0)\n"
        "from pdno import PDNO\n"
        "from pdno.native.build import load_pairs\n"
        "network = PDNO(2, 1, 1, width=4, modes=5)\n"
        "f = torch.randn(3, 1, 32, 32)\n"
        "network(f).square().sum().backward()\n"
        "norms = [float(p.grad.double().norm()) for p in network.parameters()]\n"
        "print(load_pairs() is None, *norms)"
    )

    def run(**more):
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), **more}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        first, *norms = done.stdout.split()
        return first == "True", torch.tensor([float(norm) for norm in norms])

    missing, plain = run(**switch)
    assert missing
    _, norms = run()
    assert torch.allclose(plain, norms, rtol=1e-4)
