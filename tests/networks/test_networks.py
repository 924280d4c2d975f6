"""PDNO and FNO: the skeleton, padding, time, rollouts, resolution, and networks as modules."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from pdno import FNO, PDNO, Grid, rollout
from pdno.networks.neural_operator import PointwiseLinear

TINY = {"width": 4, "layers": 3, "symbol_layers": 1, "symbol_hidden": 8, "frequency_scale": 3.0}
VARIANTS = [
    {},
    {"depends_on_x": False},
    {"symbol": "low-rank", "rank": 2},
    {"symbol": "low-rank", "rank": 3, "shared": True},
    {"symbol": "table", "modes": 3},
    {"modes": 3, "activation": "tanh", "first_activation": "gelu"},
    {"modes": 3, "feed_forward": 7},
    {"padding": 0.25},
    {"padding": 3},
]


def smooth(shape):
    """An analytic periodic function."""
    x = 2 * math.pi * Grid(shape).points()
    return torch.exp(torch.sin(x).sum(dim=-1) + 0.3 * torch.cos(x[..., 0]))[None, None]


def distance(given, expected):
    return ((given - expected).norm() / expected.norm()).item()


# The skeleton -----------------------------------------------------------------------------------


def by_hand(network, f):
    """Channels last, with nn.Linear, step by step."""

    def linear(layer, v):
        out = nn.Linear(*reversed(layer.weight.shape)).to(v.dtype)
        out.load_state_dict(layer.state_dict())
        return out(v)

    x = Grid(tuple(f.shape[2:])).points().to(f.dtype) * network.coordinate_scale
    v = torch.cat([f.movedim(1, -1), x.expand(len(f), *x.shape)], dim=-1)
    v = linear(network.lift, v)
    for layer, (operator, local) in enumerate(zip(network.operators, network.locals, strict=True)):
        z = operator(v.movedim(-1, 1)).movedim(1, -1) + linear(local, v)
        if network.expand:
            ahead, back = network.expand[layer], network.contract[layer]
            v = v + linear(back, functional.gelu(linear(ahead, z)))
        else:
            v = functional.gelu(z) if layer < len(network.operators) - 1 else z
    v = linear(network.project, functional.gelu(linear(network.project_hidden, v)))
    return v.movedim(-1, 1)


@pytest.mark.parametrize("shape", [(16,), (8, 9), (6, 7, 8)], ids=str)
@pytest.mark.parametrize("options", VARIANTS[:7], ids=str)
@torch.no_grad()
def test_skeleton(shape, options):
    dim = len(shape)
    network = PDNO(dim, 2, 3, coordinate_scale=1.3, **TINY | options).double()
    f = torch.randn(2, 2, *shape, dtype=torch.float64)
    out = network(f)
    assert out.shape == (2, 3, *shape)
    assert distance(out, by_hand(network, f)) < 1e-13


@pytest.mark.parametrize("layers", [1, 2])
@torch.no_grad()
def test_every_block_but_the_last_has_an_activation(layers):
    """Where the GELU of the projection is the identity, one block is affine and two are not."""
    network = PDNO(1, 1, 1, **TINY | {"layers": layers}).double()
    network.project_hidden.bias.fill_(100.0)
    f, g, zero = *torch.randn(2, 1, 1, 16, dtype=torch.float64), torch.zeros(1, 1, 16).double()
    bend = network(f + g) - network(f) - network(g) + network(zero)
    assert (bend.norm() < 1e-12 * network(f).norm()) == (layers == 1)


@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4)], ids=str)
@torch.no_grad()
def test_pointwise_map_is_a_linear_layer_on_the_channels(shape):
    layer, linear = PointwiseLinear(3, 2), nn.Linear(3, 2)
    linear.load_state_dict(layer.state_dict())
    f = torch.randn(2, 3, *shape)
    assert torch.allclose(layer(f).movedim(1, -1), linear(f.movedim(1, -1)), atol=1e-6)


def test_pointwise_map_starts_as_a_linear_layer():
    torch.manual_seed(0)
    layer = PointwiseLinear(25, 4000)
    for parameter in layer.parameters():
        assert parameter.abs().max() <= 0.2
        assert parameter.std().item() == pytest.approx(0.2 / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize("dim", [1, 2, 3])
@torch.no_grad()
def test_fno_is_a_pdno_with_a_table(dim):
    fno = FNO(dim, 2, 1, width=4, layers=2, modes=3)
    pdno = PDNO(dim, 2, 1, width=4, layers=2, modes=3, symbol="table")
    pdno.load_state_dict(fno.state_dict())
    f = torch.randn(2, 2, *(8, 9, 10)[:dim])
    assert torch.equal(pdno(f), fno(f))


@torch.no_grad()
def test_coordinates_are_those_of_the_grid():
    network = PDNO(2, 1, 1, **TINY)
    f = torch.randn(1, 1, 8, 8)
    seen = []
    network.lift.register_forward_pre_hook(lambda _, args: seen.append(args[0][0, 1:]))
    network(f)
    network(f, grid=Grid.cells((8, 8)))
    assert torch.equal(seen[0][0, :, 0], torch.arange(8) / 8)
    assert torch.equal(seen[1][1, 0], (torch.arange(8) + 0.5) / 8)


# Padding ----------------------------------------------------------------------------------------


@torch.no_grad()
def test_padding_is_zeros_after_each_axis_which_the_operators_see():
    network = FNO(2, 1, 1, width=3, layers=2, modes=2, padding=5)
    seen = []
    network.operators[0].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    assert network(torch.randn(2, 1, 6, 8)).shape == (2, 1, 6, 8)
    (padded,) = seen
    assert padded.shape == (2, 3, 11, 13)
    assert padded[..., 6:, :].abs().max() == padded[..., 8:].abs().max() == 0
    assert bool((padded[..., :6, :8].abs().amax(dim=(0, 1)) > 0).all())


@torch.no_grad()
def test_padding_by_points_is_padding_by_their_fraction():
    torch.manual_seed(0)
    by_points = PDNO(1, 1, 1, padding=8, **TINY)
    by_fraction = PDNO(1, 1, 1, padding=0.25, **TINY)
    by_fraction.load_state_dict(by_points.state_dict())
    f = torch.randn(2, 1, 32)
    assert torch.equal(by_points(f), by_fraction(f))


@torch.no_grad()
def test_only_a_fraction_means_the_same_at_every_resolution():
    changes = {}
    for padding in (0.25, 16):
        torch.manual_seed(0)
        network = PDNO(1, 1, 1, modes=6, padding=padding, **TINY).double()
        coarse, fine = (network(smooth((n,))) for n in (64, 128))
        changes[padding] = distance(fine[..., ::2], coarse)
    assert changes[0.25] < 1e-3 and changes[16] > 5 * changes[0.25]


# One operator on all grids ----------------------------------------------------------------------


def changes_under_refinement(network, dim, sizes):
    outs = [network(smooth((n,) * dim)) for n in sizes]
    every = (..., *(slice(None, None, 2),) * dim)
    return [distance(fine[every], coarse) for coarse, fine in zip(outs, outs[1:], strict=False)]


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("modes", [6, None])
@torch.no_grad()
def test_networks_of_smooth_parts_agree_to_spectral_accuracy(dim, modes):
    """Without the jump of the coordinates at x = 1 nothing but the tail of f differs."""
    torch.manual_seed(0)
    network = PDNO(dim, 1, 1, modes=modes, depends_on_x=False, **TINY).double()
    network.lift.weight[:, 1:] = 0
    (change,) = changes_under_refinement(network, dim, (64, 128) if dim == 1 else (32, 64))
    assert change < 1e-7


@torch.no_grad()
def test_scales_that_follow_the_grid_would_be_another_operator():
    """What the published code does: ξ/s at its own s. It is the scale that makes one operator."""
    changes = []
    for scales in ((8.0, 8.0), (8.0, 16.0)):
        outs = []
        for n, scale in zip((64, 128), scales, strict=True):
            torch.manual_seed(0)
            options = TINY | {"frequency_scale": scale, "depends_on_x": False}
            network = PDNO(1, 1, 1, modes=6, **options).double()
            network.lift.weight[:, 1:] = 0
            outs.append(network(smooth((n,))))
        changes.append(distance(outs[1][..., ::2], outs[0]))
    assert changes[0] < 1e-12 and changes[1] > 1e-5


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("options", VARIANTS[:7] + [{"padding": 0.25}], ids=str)
@torch.no_grad()
def test_networks_with_kept_modes_converge_with_the_first_order(dim, options):
    """Coordinates jump at x = 1, so their coefficients have an aliasing error of order 1/N."""
    torch.manual_seed(0)
    network = PDNO(dim, 1, 1, **TINY | {"modes": 3} | options).double()
    sizes = (32, 64, 128) if dim == 1 else (16, 32, 64)
    first, second = changes_under_refinement(network, dim, sizes)
    assert first < 0.1 and 1.7 < first / second < 2.4


@torch.no_grad()
def test_networks_with_all_modes_of_order_zero_converge():
    """Bounded symbols on functions with a jump: order 1/2 in the mean square."""
    torch.manual_seed(0)
    network = PDNO(1, 1, 1, activation="tanh", **TINY).double()
    first, second, third = changes_under_refinement(network, 1, (64, 128, 256, 512))
    assert first < 0.01 and 1.2 < first / second < 1.8 and 1.2 < second / third < 1.8


# Time and rollouts ------------------------------------------------------------------------------


@torch.no_grad()
def test_one_shot_networks_are_continuous_in_time():
    network = PDNO(1, 2, 1, takes_time=True, **TINY).double()
    f = torch.randn(3, 2, 16, dtype=torch.float64)
    steps = [(network(f, 0.5 + h) - network(f, 0.5)).norm().item() for h in (1e-2, 1e-3, 1e-4)]
    assert steps[0] / steps[1] == pytest.approx(10, rel=0.05)
    assert steps[1] / steps[2] == pytest.approx(10, rel=0.05)
    times = torch.tensor([0.1, 0.5, 0.9], dtype=torch.float64)
    together = network(f, times)
    for row, t in enumerate(times.tolist()):
        assert distance(together[row : row + 1], network(f[row : row + 1], t)) < 1e-13


@pytest.mark.parametrize("channels", [1, 2])
@torch.no_grad()
def test_rollout_is_the_loop(channels):
    network = PDNO(1, 3 * channels, channels, **TINY)
    frames = list(torch.randn(2, 3 * channels, 16).split(channels, dim=1))
    out = rollout(network, torch.cat(frames, dim=1), steps=5)
    for _ in range(5):
        frames.append(network(torch.cat(frames[-3:], dim=1)))
    assert torch.equal(out, torch.stack(frames[3:], dim=1))


def test_rollout_is_differentiable_through_all_steps():
    network = PDNO(1, 2, 1, **TINY | {"layers": 1}).double()
    window = torch.randn(1, 2, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda w: rollout(network, w, 3)[:, -1], (window,), fast_mode=True
    )


def test_wrong_rollouts_are_named():
    network = PDNO(1, 3, 2, **TINY)
    with pytest.raises(ValueError, match="3 channels is not whole frames of 2"):
        rollout(network, torch.zeros(1, 3, 8), 1)
    with pytest.raises(ValueError, match="steps is 0; expected at least 1"):
        rollout(network, torch.zeros(1, 3, 8), 0)


# As modules -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dim", "options"), [(dim, each) for dim in (1, 2) for each in VARIANTS] + [(3, {})], ids=str
)
def test_gradients_reach_every_parameter_and_are_right(dim, options):
    torch.manual_seed(0)
    small = {"width": 2, "layers": 2, "symbol_hidden": 3}
    network = PDNO(dim, 1, 1, **TINY | small | options).double()
    f = torch.randn(2, 1, *(6, 7, 6)[:dim], dtype=torch.float64, requires_grad=True)
    names, parameters = zip(*network.named_parameters(), strict=True)

    def call(f, *values):
        return functional_call(network, dict(zip(names, values, strict=True)), (f,))

    arguments = (f, *(parameter.detach().requires_grad_() for parameter in parameters))
    assert torch.autograd.gradcheck(call, arguments, fast_mode=True)
    network(f).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in network.parameters())


@pytest.mark.parametrize("options", VARIANTS[:7], ids=str)
def test_calls_do_not_disturb_each_other(options):
    """Results and gradients of one call survive the next one, whatever memory is used again."""
    network = PDNO(2, 1, 1, **TINY | options).double()
    f, g = torch.randn(2, 2, 1, 8, 8, dtype=torch.float64).unbind()
    alone = [network(f).detach().clone(), network(g).detach().clone()]
    gradients = []
    for field in (f, g):
        gradients.append(torch.autograd.grad(network(field).sum(), list(network.parameters())))
    first, second = network(f), network(g)
    assert torch.equal(first, alone[0]) and torch.equal(second, alone[1])
    together = torch.autograd.grad(first.sum() + second.sum(), list(network.parameters()))
    for one, other, both in zip(*gradients, together, strict=True):
        assert torch.allclose(one + other, both, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@torch.no_grad()
def test_precisions(options):
    torch.manual_seed(0)
    network = PDNO(2, 1, 1, **TINY | options)
    f = torch.randn(2, 1, 16, 16)
    single = network(f)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = network(f)
    assert distance(mixed.float(), single) < 0.02  # bfloat16 has eight bits
    assert distance(single, network.double()(f.double())) < 1e-5


@pytest.mark.filterwarnings("ignore")  # the compiler warns about its own ways
@pytest.mark.parametrize("options", [{}, {"symbol": "table", "modes": 3}], ids=str)
def test_compiled_networks_give_the_same_numbers_and_gradients(options):
    torch.manual_seed(0)
    network = PDNO(1, 1, 1, **TINY | {"layers": 2} | options)
    f = torch.randn(2, 1, 16)
    expected = network(f)
    expected.square().sum().backward()
    gradients = [p.grad.clone() for p in network.parameters()]
    network.zero_grad()
    torch.compiler.reset()
    out = torch.compile(network, backend="aot_eager")(f)
    out.square().sum().backward()
    assert torch.allclose(out, expected, atol=1e-6)
    for parameter, gradient in zip(network.parameters(), gradients, strict=True):
        assert torch.allclose(parameter.grad, gradient, rtol=1e-4, atol=1e-6)


@torch.no_grad()
def test_copies_and_loaded_states_are_equal():
    for options in VARIANTS:
        network = PDNO(2, 1, 1, **TINY | options)
        fresh = PDNO(2, 1, 1, **TINY | options)
        fresh.load_state_dict(network.state_dict())
        f = torch.randn(2, 1, 12, 13)
        assert torch.equal(copy.deepcopy(network)(f), network(f))
        assert torch.equal(fresh(f), network(f))


def test_state_names_are_stable():
    network = PDNO(1, 1, 1, width=2, layers=1, symbol_layers=1, symbol_hidden=3)
    nets = [
        f"operators.0.symbol.{net}.{layer}.{part}"
        for net in ("real", "imaginary", "space")
        for layer in ("linear_in", "hidden.0", "linear_out")
        for part in ("weight", "bias")
    ]
    assert list(network.state_dict()) == [
        "coordinate_scale",
        "lift.weight",
        "lift.bias",
        "operators.0.symbol.scale.coordinate",
        "operators.0.symbol.scale.frequency",
        *nets,
        "locals.0.weight",
        "locals.0.bias",
        "project_hidden.weight",
        "project_hidden.bias",
        "project.weight",
        "project.bias",
    ]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_parameters_are_real_and_move_to_any_device(options):
    network = PDNO(2, 1, 1, **TINY | options)
    assert not any(parameter.is_complex() for parameter in network.parameters())
    assert all(value.is_meta for value in network.to("meta").state_dict().values())


# Errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"dim": 4}, "dim is 4; expected one of 1, 2, 3"),
        ({"in_channels": 0}, "in_channels is 0; expected at least 1"),
        ({"width": 0}, "width is 0; expected at least 1"),
        ({"layers": 0}, "layers is 0; expected at least 1"),
        ({"modes": 0}, "modes 0; expected a positive number, or one per axis of 2"),
        ({"modes": (3,)}, r"modes \(3,\); expected a positive number, or one per axis of 2"),
        ({"padding": -1}, "padding is -1; expected 'even', 'odd', a fraction >= 0 or a number"),
        ({"symbol": "fourier"}, "'fourier'; expected one of network, trunk, low-rank"),
        ({"symbol": "table"}, "needs modes, for example modes=12, and no time"),
        ({"symbol": "table", "modes": 3, "takes_time": True}, "needs modes.*and no time"),
        ({"symbol": "low-rank", "rank": 0}, "rank is 0; expected at least 1"),
        ({"symbol": "low-rank", "depends_on_x": False}, r"a\(ξ\) take symbol='network'"),
        ({"activation": "sine"}, "'sine'; expected one of gelu, softplus, silu"),
        ({"first_activation": "sine"}, "'sine'; expected one of gelu, softplus, silu"),
        ({"symbol_layers": -1}, "symbol_layers -1"),
        ({"coordinate_scale": float("nan")}, "expected a positive finite number"),
    ],
    ids=str,
)
def test_wrong_settings_are_named(options, match):
    with pytest.raises(ValueError, match=match):
        PDNO(**{"dim": 2, "in_channels": 1, "out_channels": 1, "width": 2} | options)


def test_wrong_fno_settings_are_named():
    with pytest.raises(ValueError, match="modes"):
        FNO(2, 1, 1, modes=0)
    with pytest.raises(ValueError, match="padding is -0.5"):
        FNO(2, 1, 1, padding=-0.5)


@pytest.mark.parametrize("shape", [(2, 16, 16, 3), (2, 1, 16, 16), (3, 16, 16), (2, 3, 16)])
def test_wrong_inputs_are_named(shape):
    network, cure = PDNO(2, 3, 1, **TINY), "movedim" if shape[-1] == 3 else "other dim"
    with pytest.raises(ValueError, match=rf"PDNO takes \(B, 3, N1, N2\), channels first.*{cure}"):
        network(torch.zeros(shape))


@pytest.mark.parametrize(("dim", "shape"), [(1, (16, 16)), (2, (16,))])
@pytest.mark.parametrize("kind", [PDNO, FNO])
def test_grids_of_another_dimension_are_named(kind, dim, shape):
    network = kind(dim, 1, 1, width=2, modes=2)
    with pytest.raises(ValueError, match=r"takes \(B, 1, N1.*other dim"):
        network(torch.zeros(1, 1, *shape), grid=Grid(shape))


def test_wrong_grids_modes_and_times_are_named():
    network = PDNO(1, 1, 1, **TINY)
    f = torch.zeros(1, 1, 16)
    with pytest.raises(ValueError, match=r"its last 1 axes must be \(8,\)"):
        network(f, grid=Grid((8,)))
    with pytest.raises(ValueError, match="no time: leave t out"):
        network(f, 0.5)
    with pytest.raises(ValueError, match="depends on time: give t"):
        PDNO(1, 1, 1, takes_time=True, **TINY)(f)
    with pytest.warns(UserWarning, match=r"modes=\(10,\) exceed the \(9,\) of a grid of 16"):
        PDNO(1, 1, 1, modes=10, **TINY)(f)
