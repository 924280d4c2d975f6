"""The operator is a citizen of torch: every tool that a user of torch reaches for works on it."""

import threading
import warnings
from pathlib import Path

import pytest
import torch
from torch.func import functional_call, grad, jvp, vjp, vmap

import pdno
from pdno import FNO, PDNO, Grid

KINDS = {
    "a(x,xi)": lambda dim: PDNO(dim, 1, 1, width=16, modes=4),
    "a(xi)": lambda dim: PDNO(dim, 1, 1, width=4, modes=4, depends_on_x=False),
    "all modes": lambda dim: PDNO(dim, 1, 1, width=4),
    "low rank": lambda dim: PDNO(dim, 1, 1, width=4, modes=4, symbol="low-rank"),
    "classical": lambda dim: PDNO(dim, 1, 1, width=4, modes=4, symbol="classical"),
    "FNO": lambda dim: FNO(dim, 1, 1, width=4, modes=4),
}
SHAPES = {1: (32,), 2: (16, 12), 3: (8, 8, 10)}
TOLERANCE = 2e-5


def error(given, expected):
    return float(((given - expected).norm() / expected.norm()).detach())


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(params=[2, *(pytest.param(dim, marks=pytest.mark.slow) for dim in (1, 3))])
def case(request, kind):
    """A network that has met its grid, and fields."""
    torch.manual_seed(0)
    network, f = KINDS[kind](request.param), torch.randn(2, 1, *SHAPES[request.param])
    with torch.no_grad():
        network(f)
    return network, f


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.slow] * (kind != "a(x,xi)")) for kind in KINDS]
)
def test_compile_in_one_graph(kind):
    torch.manual_seed(0)
    network, f = KINDS[kind](2), torch.randn(2, 1, *SHAPES[2])
    expected = network(f)
    gradients = torch.autograd.grad(expected.square().sum(), list(network.parameters()))
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        compiled = torch.compile(network, fullgraph=True, backend="aot_eager")
        out = compiled(f)
        found = torch.autograd.grad(out.square().sum(), list(network.parameters()))
    assert error(out, expected.detach()) < TOLERANCE
    for a, b in zip(found, gradients, strict=True):
        assert error(a, b) < 1e-3
    # of our own files: the folder that holds the checkout may be called pdno, too
    home = Path(pdno.__file__).parent
    assert not [w for w in recorded if Path(str(w.filename)).is_relative_to(home)]


@pytest.mark.parametrize("strict", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("frozen", [False, True])
def test_export(case, frozen, strict):
    network, f = case
    if frozen:
        network.freeze(Grid(tuple(f.shape[2:])))
    with torch.no_grad():
        expected = network(f)
    program = torch.export.export(network, (f,), strict=strict)
    assert error(program.module()(f), expected) < TOLERANCE


def test_export_of_a_new_network_without_a_stated_scale():
    f = torch.randn(2, 1, 16, 12)
    network = PDNO(2, 1, 1, width=4)
    for strict in (False, True):
        program = torch.export.export(network, (f,), strict=strict)
        assert error(program.module()(f), network(f).detach()) < TOLERANCE


def test_second_derivatives_are_those_of_float64(case):
    network, f = case
    results = []
    for dtype in (torch.float32, torch.float64):
        one, field = network.to(dtype), f.to(dtype).requires_grad_()
        first = torch.autograd.grad(one(field).square().sum(), field, create_graph=True)[0]
        weights = [p for p in one.parameters() if p.requires_grad]
        second = torch.autograd.grad(
            first.square().sum(), [field, *weights], allow_unused=True, materialize_grads=True
        )
        results.append(torch.cat([g.double().flatten() for g in second]))
    assert error(*results) < 1e-4


def test_gradgradcheck_of_a_layer():
    operator = PDNO(1, 1, 1, width=2, modes=3).operators[0].double()
    f = torch.randn(1, 2, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(operator, f)


def test_forward_and_reverse_differentiation_agree(case):
    network, f = case
    v, w = torch.randn_like(f), torch.randn_like(f)
    out, forward = jvp(network, (f,), (v,))
    again, pull = vjp(network, f)
    assert error(out, again) < TOLERANCE
    difference = (forward * w).sum() - (pull(w)[0] * v).sum()
    assert float(difference.abs().detach()) < 1e-4 * float((forward.norm() * w.norm()).detach())


def test_vmap_is_a_loop(case):
    network, f = case
    many = torch.stack([f, 2 * f, -f])
    expected = torch.stack([network(one) for one in many])
    assert error(vmap(network)(many), expected.detach()) < TOLERANCE


def test_gradients_per_sample(case):
    network, f = case
    parameters = {name: p.detach() for name, p in network.named_parameters()}

    def loss(weights, field):
        return functional_call(network, weights, (field[None],)).square().sum()

    found = vmap(grad(loss), in_dims=(None, 0))(parameters, f)
    for sample, field in enumerate(f):
        network.zero_grad()
        network(field[None]).square().sum().backward()
        for name, parameter in network.named_parameters():
            assert error(found[name][sample], parameter.grad) < 1e-3, name


def test_autocast_and_inference_mode(case):
    network, f = case
    with torch.inference_mode():
        expected = network(f)
    with torch.no_grad():
        assert torch.equal(network(f), expected)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = network(f)
    assert error(half.float(), expected) < 0.1
    half.float().square().sum().backward()


def test_tables_made_in_inference_mode_serve_training():
    network, f = PDNO(2, 1, 1, width=16, modes=4), torch.randn(1, 1, 20, 28)
    with torch.inference_mode():
        network(f)
    network(f).sum().backward()


def test_several_python_threads_on_one_model(case):
    network, f = case
    inputs = [f * (1 + number) for number in range(6)]
    with torch.no_grad():
        expected = [network(one) for one in inputs]
    found: list[torch.Tensor | None] = [None] * len(inputs)

    def predict(number):
        with torch.no_grad():
            for _ in range(5):
                found[number] = network(inputs[number])

    threads = [threading.Thread(target=predict, args=(number,)) for number in range(len(inputs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_custom_operators_pass_the_checks_of_torch():
    from pdno.native.build import load_library

    if load_library() is None:
        pytest.skip("no compiled kernels here")
    compiled = torch.ops.pdno
    c = torch.randn(3, 2, 4, 3, dtype=torch.complex64, requires_grad=True)
    b, a = torch.randn(3, 2, 8, 6, requires_grad=True), torch.randn(3, 2, 8, 4, requires_grad=True)
    few = torch.randn(3, 2, 5, 4, requires_grad=True)
    f_hat = torch.randn(2, 2, 4, 3, dtype=torch.complex64, requires_grad=True)
    q = torch.randn(2, 2, 8, 6, requires_grad=True)
    grid = ((8, 6), (2, 3))
    v = torch.randn(2, 3, 5, requires_grad=True)
    weights = [torch.randn(4, 3), torch.randn(4), torch.randn(1, 4), torch.randn(1)]
    for operator, arguments in (
        (compiled.pairwise, (c, b, f_hat, [], *grid)),
        (compiled.pairwise, (c, a, f_hat, [torch.randn(4, 6)], *grid)),
        (compiled.pairwise, (c, few, f_hat, [torch.randn(4, 6), torch.randn(8, 5)], *grid)),
        (compiled.contract, (c, f_hat)),
        (compiled.synthesise, (f_hat, *grid, False)),
        (compiled.analyse, (q, *grid, True)),
        (compiled.project, (v, *(w.requires_grad_() for w in weights))),
    ):
        torch.library.opcheck(operator, arguments)
