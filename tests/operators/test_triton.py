"""The GPU kernels give the numbers of the straight formula, and compile without a GPU.

Triton decides at import whether kernels are compiled or interpreted. Here they are compiled; run
as a script with TRITON_INTERPRET=1 and a dimension, this file interprets them and prints errors.
"""

import dataclasses
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import triton_report

from pdno import Grid
from pdno.operators import triton as backend
from pdno.operators.reference import apply_straight
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import kept_per_axis
from pdno.symbols import SymbolValues

needs_triton = pytest.mark.skipif(
    not backend.available(), reason="triton is not installed: pip install triton"
)
PAGE = Path(__file__).parents[2] / "docs" / "gpu.md"
RESULTS = ("out", "c_bar", "b_bar", "f_bar", "f_hat_bar")


@dataclasses.dataclass(frozen=True)
class Case:
    """An operator; `settings` of the module that make small ones go the ways of large ones."""

    shape: tuple
    modes: tuple | int | None
    samples: int
    outputs: int = 2
    inputs: int = 3
    settings: tuple = ()

    @property
    def name(self):
        settings = "".join(f", {name} {value}" for name, value in self.settings)
        return f"{self.shape}, modes {self.modes}, batch {self.samples}{settings}"


CASES = [
    Case((16,), None, 1),
    Case((17,), None, 3),
    Case((31,), 5, 5),
    Case((9,), 5, 4),
    Case((70,), 36, 2, settings=(("ENOUGH", 1),)),
    Case((2, 2), None, 1, outputs=1, inputs=1),
    Case((16, 16), 4, 2),
    Case((7, 13), None, 5),
    Case((11, 8), (3, 5), 4),
    Case((8, 6), (4, 3), 1, outputs=5, inputs=1),
    Case((33, 70), (2, 18), 3, outputs=1, inputs=2, settings=(("ENOUGH", 1),)),
    Case((6, 10), None, 3, settings=(("BUDGET", 1),)),
    Case((6, 10), None, 3, outputs=3, settings=(("BUDGET", 6100),)),
    Case((3, 2, 4), None, 2),
    Case((5, 3, 7), (1, 1, 2), 3),
    Case((2, 5, 6), (1, 2, 4), 1, settings=(("BUDGET", 1),)),
]


def distance(given, expected):
    return float((given - expected).detach().norm() / expected.detach().norm())


def measure(case):
    """Errors of the interpreted kernels against the straight formula and its gradients."""
    shape, kept = case.shape, kept_per_axis(case.shape, case.modes)
    spectrum = Grid(shape).modes(case.modes).shape[:-1]
    pairs = (case.outputs, case.inputs)
    c = torch.randn(1, *pairs, *spectrum, dtype=torch.complex64, requires_grad=True)
    b = torch.randn(1, *pairs, *shape, requires_grad=True)
    f = torch.randn(case.samples, case.inputs, *shape, requires_grad=True)
    weights = torch.randn(case.samples, case.outputs, *shape)
    straight = apply_straight(SymbolValues(c, b), f, Grid(shape), case.modes)
    expected = torch.autograd.grad((straight * weights).sum(), (c, b, f))

    f_hat = transform(f, len(shape), case.modes)
    out = (b * inverse(c * f_hat[:, None], shape, case.modes)).sum(dim=2)
    (f_hat_expected,) = torch.autograd.grad((out * weights).sum(), f_hat, retain_graph=True)

    operands = c[0].detach(), b[0].detach(), f_hat.detach().contiguous()
    c_bar, b_bar, f_hat_bar = backend.pairwise_backward(*operands, weights, shape, kept)
    (f_bar,) = torch.autograd.grad(f_hat, f, f_hat_bar)
    given = backend.pairwise_forward(*operands, shape, kept), c_bar, b_bar, f_bar, f_hat_bar
    reference = straight, expected[0][0], expected[1][0], expected[2], f_hat_expected
    return dict(zip(RESULTS, map(distance, given, reference), strict=True))


def measure_all(dim):
    """The errors of all cases of a dimension."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    usual = {name: getattr(backend, name) for name in ("BUDGET", "ENOUGH")}
    errors = {}
    for case in CASES:
        if len(case.shape) == dim:
            for name, value in {**usual, **dict(case.settings)}.items():
                setattr(backend, name, value)
            errors[case.name] = measure(case)
    return errors


@pytest.fixture(scope="module")
def reports(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        return triton_report.compile_report()


@needs_triton
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_values_and_gradients_are_those_of_the_straight_formula(dim):
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    command = [sys.executable, __file__, str(dim)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    assert list(measured) == [case.name for case in CASES if len(case.shape) == dim]
    for name, errors in measured.items():
        assert set(errors) == set(RESULTS)
        assert max(errors.values()) < 1e-6, (name, errors)


@needs_triton
def test_what_the_compiler_makes_fits_the_registers(reports):
    kernels = {(report.case, report.kernel, report.target) for report in reports}
    assert (
        len(kernels) == len(reports) == 4 * len(triton_report.CASES) * len(triton_report.TARGETS)
    )
    for report in reports:
        assert report.spills == 0 and report.registers <= 255, report
        assert report.shared <= 48 * 2**10, report


@needs_triton
def test_products_are_full_float32_and_sums_have_one_order(reports):
    """No instruction of the tensor cores, which round, and none that adds in memory."""
    assert not [report for report in reports if report.tensor_cores or report.atomics]


@needs_triton
def test_the_table_of_the_manual_is_what_the_compiler_says(reports):
    text = PAGE.read_text(encoding="utf-8")
    version = backend.triton.__version__
    if f"triton {version}" not in text:
        pytest.skip(f"the manual has the table of another version than triton {version}")
    assert triton_report.format_table(reports) in text


@needs_triton
@pytest.mark.parametrize("samples", [20, 500])
def test_no_operand_has_a_number_for_each_triple_and_point(samples):
    shape, modes, width = (64, 64), 12, 20
    triples = samples * width * width * math.prod(shape)
    for launch in triton_report.launches(shape, modes, samples, width):
        tensors = {name: x for name, x in launch.operands.items() if isinstance(x, torch.Tensor)}
        assert max(x.numel() for x in tensors.values()) < triples // 5
        if "u" in tensors:
            assert tensors["u"].numel() * tensors["u"].element_size() <= backend.BUDGET


def test_without_triton_the_module_says_so():
    script = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch\n"
        "from pdno.operators.triton import available, pairwise_forward\n"
        "print(available())\n"
        "c = torch.zeros(1, 1, 4, 2, dtype=torch.complex64)\n"
        "try: pairwise_forward(c, torch.zeros(1, 1, 8, 8), c, (8, 8), (2, 2))\n"
        "except RuntimeError as error: print(error)\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = done.stdout.splitlines()
    assert first == "False" and "install triton" in second


if __name__ == "__main__":
    print(json.dumps(measure_all(int(sys.argv[1])), indent=1))
