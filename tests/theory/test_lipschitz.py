"""Lipschitz constants of networks, from above and below."""

import math

import pytest
import torch
from dense import operator_matrix
from torch.nn import functional

import pdno
from pdno import Grid
from pdno.theory.lipschitz import GELU_LIPSCHITZ, linearise, lipschitz_report, local_bound
from pdno.theory.norms import operator_norm


def network(seed=0, **options):
    """A small network with weights large enough for its output to move."""
    torch.manual_seed(seed)
    size = {"width": 3, "layers": 2, "symbol_hidden": 5, **options}
    made = pdno.PDNO(size.pop("dim", 1), 2, 1, **size)
    for weights in made.parameters():
        weights.data *= 2
    return made


def test_the_constant_of_gelu_is_its_largest_slope():
    z = torch.linspace(-6, 6, 240_001, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(functional.gelu(z).sum(), z)
    assert float(slope.abs().max()) == pytest.approx(GELU_LIPSCHITZ, rel=1e-9)
    assert float(slope.abs().max()) <= GELU_LIPSCHITZ
    assert float(z[slope.argmax()].detach()) == pytest.approx(math.sqrt(2), abs=1e-4)


@pytest.mark.parametrize(
    "options", [{}, {"padding": 0.5}, {"dim": 2}, {"modes": 2}, {"feed_forward": 4}]
)
def test_the_linearised_network_is_its_jacobian(options):
    net = network(**options).double()
    grid = Grid((6,) * net.dim)
    state = torch.randn(1, 2, *grid.shape, dtype=torch.float64)
    matrix = operator_matrix(linearise(net, state), grid, channels=2)
    jacobian = torch.autograd.functional.jacobian(net, state).reshape(matrix.shape)
    assert torch.allclose(matrix, jacobian, rtol=0, atol=1e-12 * float(jacobian.abs().max()))


@pytest.mark.parametrize(
    "options",
    [{}, {"padding": 0.5}, {"dim": 2}, {"symbol": "table", "modes": 2}, {"feed_forward": 4}],
)
def test_the_truth_lies_between(options):
    """Sampled slopes are no larger than the bound, nor are those of pairs of inputs."""
    net = network(**options)
    grid = Grid((8,) * net.dim)
    states = torch.randn(3, 2, *grid.shape)
    report = lipschitz_report(net, grid, states=states)
    double = net.double()
    norms = [
        float(
            torch.linalg.matrix_norm(
                operator_matrix(linearise(double, f[None]), grid, channels=2), 2
            )
        )
        for f in states
    ]
    assert report.sampled == pytest.approx(max(norms), rel=1e-5)
    assert report.sampled < report.probable <= report.bound * (1 + 1e-9)
    f, g = 3 * torch.randn(2, 16, 2, *grid.shape, dtype=torch.float64)
    with torch.no_grad():
        moved = (double(f) - double(g)).flatten(1).norm(dim=1)
    assert float((moved / (f - g).flatten(1).norm(dim=1)).max()) < report.bound
    assert float((moved / (f - g).flatten(1).norm(dim=1)).max()) < report.probable
    for layer in report.layers:
        assert layer.estimate <= layer.bound * (1 + 1e-9)


@pytest.mark.parametrize("options", [{"padding": 0.5}, {"layers": 1}])
def test_local_bounds_hold_on_their_ball_and_tend_to_the_derivative(options):
    net = network(**options)
    grid = Grid((6,) * net.dim)
    state = torch.randn(1, 2, *grid.shape, dtype=torch.float64)
    double = net.double()
    exact = float(
        torch.linalg.matrix_norm(operator_matrix(linearise(double, state), grid, channels=2), 2)
    )
    bounds = [local_bound(net, state, radius) for radius in (0.0, 1e-7, 0.03)]
    assert exact <= bounds[0] * (1 + 1e-9) and bounds[0] < 1.1 * exact
    assert bounds[0] < bounds[1] < 1.1 * bounds[0] and bounds[1] < bounds[2]
    directions = torch.randn(2, 64, 2, *grid.shape, dtype=torch.float64)
    size = directions.flatten(2).square().sum(dim=2).div(grid.size).sqrt()
    f, g = state + 0.03 * directions / size.reshape(2, 64, *[1] * (net.dim + 1))
    with torch.no_grad():
        moved = (double(f) - double(g)).flatten(1).norm(dim=1)
    assert float((moved / (f - g).flatten(1).norm(dim=1)).max()) < bounds[2]
    with pytest.raises(ValueError, match="residual blocks"):
        local_bound(network(feed_forward=4), state, 0.1)


def test_bounds_know_that_residual_blocks_hand_their_input_on():
    """Blocks that are almost nothing leave Q ∘ P, whose constant does not vanish."""
    net = network(feed_forward=4).double()
    for weights in (*net.operators.parameters(), *net.locals.parameters()):
        weights.data *= 1e-4
    grid = Grid((8,))
    report = lipschitz_report(net, grid, states=torch.randn(2, 2, 8, dtype=torch.float64))
    assert 1e-3 < report.sampled < report.probable <= report.bound * (1 + 1e-9)


def test_probable_bounds_fail_no_more_often_than_they_say():
    """Lanczos with few steps on matrices of known norm, with a failure that can be counted."""
    grid, failed, trials = Grid((64,)), 0, 200
    draw = torch.Generator().manual_seed(0)
    for _ in range(trials):
        # many singular values close to the largest one: the worst case for the iteration
        values = 1 - 0.02 * torch.rand(64, generator=draw, dtype=torch.float64).square()
        turn = torch.linalg.qr(torch.randn(64, 64, generator=draw, dtype=torch.float64)).Q
        matrix = turn * values @ turn.T
        norm = operator_norm(lambda f, m=matrix: f @ m, grid, channels=1, iterations=8)
        assert norm.value <= values.max() * (1 + 1e-12) and norm.size == 64
        failed += norm.upper(0.1) < values.max()
    assert failed <= 0.1 * trials
    assert norm.upper(1e-9) == math.inf  # eight steps cannot promise that much
    exact = operator_norm(lambda f: 3 * f, grid, channels=1, iterations=40)
    assert 3 <= exact.upper(1e-6) < 3.4


def test_no_start_that_others_know_hides_a_norm():
    """I + 10 w wᵀ with w orthogonal to a start has the norm 11, which that start cannot reach."""
    grid, known = Grid((64,)), torch.Generator().manual_seed(0)
    start = torch.randn(64, dtype=torch.float64, generator=known)
    w = torch.randn(64, dtype=torch.float64, generator=known)
    w = torch.nn.functional.normalize(w - (w @ start) / (start @ start) * start, dim=0)

    def hidden(f):
        return f + 10 * (f @ w)[..., None] * w

    generators = (None, torch.Generator().manual_seed(1))
    norms = [operator_norm(hidden, grid, channels=1, generator=g) for g in generators]
    assert all(11 <= norm.upper(1e-9) < 11.1 for norm in norms)
    again = operator_norm(hidden, grid, channels=1, generator=torch.Generator().manual_seed(1))
    assert again == norms[1]


def test_blocks_are_their_dense_norms():
    net = network().double()
    grid = Grid((8,))
    report = lipschitz_report(net, grid, tolerance=1e-8)
    assert [layer.name for layer in report.layers] == ["lift", "block 1", "block 2", "project"]
    for index, slope in ((0, GELU_LIPSCHITZ), (1, 1.0)):  # the last block has no activation
        operator, local = net.operators[index], net.locals[index]
        alone = operator_matrix(operator, grid)
        mixed = torch.kron(local.weight.detach(), torch.eye(8, dtype=torch.float64))
        row = report.layers[1 + index]
        assert row.local == pytest.approx(float(torch.linalg.matrix_norm(mixed, 2)))
        assert row.operator == pytest.approx(float(torch.linalg.matrix_norm(alone, 2)), rel=1e-6)
        exact = slope * float(torch.linalg.matrix_norm(alone + mixed, 2))
        assert row.estimate == pytest.approx(exact, rel=1e-6)
        assert exact <= row.bound <= slope * (row.local + row.operator_bound) * (1 + 1e-12)
    assert report.bound == pytest.approx(math.prod(layer.bound for layer in report.layers))


def test_a_linear_network_in_disguise_attains_its_bound():
    """Large positive biases hold GELU where it is the identity: then nothing is lost but Lip(σ).

    With W = 1, K = 0, and P, Q of single ones the network is f -> f + constant.
    """
    net = network().double()
    with torch.no_grad():
        for weights in net.parameters():
            weights.zero_()
        net.lift.weight[0, 0] = net.project_hidden.weight[0, 0] = net.project.weight[0, 0] = 1
        net.lift.weight[0, 2] = 7.0  # of the coordinate, which does not move
        net.project_hidden.bias.fill_(50.0)
        for local in net.locals:
            local.weight.copy_(torch.eye(3))
            local.bias.fill_(50.0)
    report = lipschitz_report(net, Grid((8,)), states=torch.randn(1, 2, 8))
    assert report.sampled == pytest.approx(1.0, rel=1e-9)
    assert report.bound == pytest.approx(GELU_LIPSCHITZ**2, rel=1e-9)
    assert report.probable == pytest.approx(GELU_LIPSCHITZ**2, rel=1e-9)  # all steps were taken


def test_networks_with_time_and_the_table():
    net = network(takes_time=True)
    grid, states = Grid((8,)), torch.randn(1, 2, 8)
    early = lipschitz_report(net, grid, states=states, t=0.1)
    late = lipschitz_report(net, grid, states=states, t=2.0)
    assert early.bound != late.bound and early.sampled != late.sampled
    lines = str(early).splitlines()
    assert len(lines) == 7 and lines[0].split()[0] == "layer" and lines[2].startswith("block 1")
    assert lines[-1] == f"{early.sampled:.4g} <= Lip(u) <= {early.bound:.4g}"
    assert lipschitz_report(net, grid, t=0.1).sampled is None


def test_the_report_leaves_the_network_alone():
    net = network(frequency_scale=2.0)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    lipschitz_report(net, Grid((8,)), states=torch.randn(1, 2, 8))
    assert next(net.parameters()).dtype == torch.float32
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_other_activations_are_refused():
    net = network()
    net.activation = torch.tanh
    with pytest.raises(ValueError, match="another activation than GELU"):
        lipschitz_report(net, Grid((8,)))


def test_networks_with_a_head_are_refused():
    """The head moves the input along, which the linear parts of the network do not show."""
    net = pdno.PDNO(1, 1, 1, width=3, layers=2, symbol_hidden=5, head="transport")
    with pytest.raises(ValueError, match="the network has a head"):
        lipschitz_report(net, Grid((8,)))
    with pytest.raises(ValueError, match="the network has a head"):
        linearise(net, torch.zeros(1, 1, 8))
