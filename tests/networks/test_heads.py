"""The transport head: shifts, convergence, gradients, periodicity, rollouts."""

import math
from typing import Literal

import pytest
import torch

from pdno import FNO, PDNO, Grid, OperatorDataset, fit, rollout
from pdno.networks.heads import HEADS, PACE, REACH, Head, HeadModule, TransportHead, diffuse
from pdno.networks.mwt import MWT
from pdno.networks.specification import specify
from pdno.operators.warp import warp
from pdno.spectral.calculus import resample
from pdno.training.samples import Batch
from pdno.training.task import Markov, NormalizedNetwork, Rollout

SHAPES = {1: (24,), 2: (12, 10), 3: (6, 8, 5)}


def wave(x):
    """A smooth periodic field of x (*N, d), (1, 1, *N)."""
    phase = sum((axis + 1) * 2 * math.pi * x[..., axis] for axis in range(x.shape[-1]))
    return (torch.sin(phase) + 0.5 * torch.cos(2 * math.pi * x[..., 0]))[None, None]


NETWORKS = {
    "pdno": lambda: PDNO(2, 2, 1, width=4, modes=3, head="transport"),
    "fno": lambda: FNO(2, 2, 1, width=4, modes=3, head="transport"),
    "mwt": lambda: MWT(2, 2, 1, width=2, wavelets=2, modes=3, head="transport"),
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_new_network_nearly_keeps_the_last_frame(kind):
    torch.manual_seed(0)
    network = NETWORKS[kind]()
    x = Grid((16, 16)).points().float()
    f = torch.cat([torch.randn(1, 1, 16, 16), wave(x)], dim=1)
    u = network(f)
    assert u.shape == (1, 1, 16, 16)
    assert 0 < (u - f[:, 1:]).norm() < 0.5 * f[:, 1:].norm()


class Increment(HeadModule):
    """u = v + r, with the latest frame v."""

    def __init__(self, options):
        super().__init__()
        self.options = options

    def forward(self, f, network):
        return f[:, -1:] + network(f)


class IncrementHead(Head):
    kind: Literal["increment"] = "increment"

    def attach(self, dim, out_channels, last):
        return Increment(self)


def test_a_head_of_another_kind_is_a_word(monkeypatch):
    """As docs/architecture.md has it: options, module and a place among the heads."""
    monkeypatch.setitem(HEADS, "increment", IncrementHead)
    specified = specify("fno", width=4, modes=3, head="increment")
    assert specified.model_dump()["head"] == {"kind": "increment"}
    network, f = specified.build(1, 2, 1), torch.randn(2, 2, 16)
    plain = FNO(1, 2, 1, width=4, modes=3)
    plain.load_state_dict(network.state_dict())
    assert torch.equal(network(f), f[:, -1:] + plain(f))
    assert torch.allclose(rollout(network, f, 2)[:, 0], network(f))
    with pytest.raises(ValueError, match="head is 3; expected None, 'transport'"):
        FNO(1, 2, 1, head=3)


@pytest.mark.parametrize("kind", ["pdno", "fno"])
def test_rollouts_share_the_symbols_and_give_the_same(kind):
    torch.manual_seed(0)
    network = NETWORKS[kind]()
    window = torch.randn(2, 2, 16, 16)
    symbol, asked = network.operators[0].symbol, []
    evaluate = symbol.evaluate
    symbol.evaluate = lambda *given, **options: asked.append(1) or evaluate(*given, **options)
    frames = rollout(network, window, 3)
    assert len(asked) == 1
    for frame in frames.unbind(1):
        torch.testing.assert_close(network(window), frame, rtol=1e-5, atol=1e-6)
        window = torch.cat([window[:, 1:], frame], dim=1)


@pytest.mark.parametrize("velocity", [None, "field", "learned"])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_substeps_are_steps_of_the_same_network(dim, velocity):
    """K substeps of a head are K calls of one with K = 1 and a K-th of its outputs."""
    torch.manual_seed(0)
    options = {"diffusion": True, "velocity": velocity}
    many = PDNO(dim, dim, dim, width=4, modes=2, head=TransportHead(substeps=3, **options))
    one = PDNO(dim, dim, dim, width=4, modes=2, head=TransportHead(time_step=1 / 3, **options))
    one.load_state_dict(many.state_dict())
    many, one = many.double(), one.double()
    with torch.no_grad():
        for weights in one.project.parameters():
            weights.div_(3)
        one.head.log_c.sub_(math.log(3) / PACE)
    u = f = torch.randn(2, dim, *(8,) * dim, dtype=torch.float64)
    if velocity is not None:  # the input of the velocity is that of a whole frame
        with torch.no_grad():
            one.lift.weight[:, dim : 2 * dim].mul_(3)
    for _ in range(3):
        u = one(u)
    torch.testing.assert_close(many(f), u, rtol=0, atol=1e-9)


@pytest.mark.parametrize("steps", [1, 4])
def test_a_constant_velocity_carries_a_field_once_around(steps):
    """u_t + (1/4, 0)·∇u = 0 with the velocity in the field: after four frames u is back."""
    head = TransportHead(velocity="field", substeps=steps)
    network = PDNO(2, 2, 2, width=4, modes=2, head=head)
    torch.nn.init.zeros_(network.project.weight)
    u = torch.stack([torch.full((16, 16), 0.25), torch.zeros(16, 16)])[None]
    u = u.double()
    u[:, 1] += 1e-6 * wave(Grid((16, 16)).points())[0]
    moved = rollout(network.double(), u, 4)
    quarter = u[0, 1].roll(4, dims=0)
    torch.testing.assert_close(moved[0, 0, 1], quarter, rtol=0, atol=2e-9)
    torch.testing.assert_close(moved[0, 3], u[0], rtol=0, atol=1e-8)


def test_a_head_moves_scales_that_its_network_does_not_see():
    """A wave of mode 11 on 32 points, whose network has 16, moves by a quarter in a frame."""
    head = TransportHead(velocity="field", substeps=2, coarsen=2)
    network = PDNO(2, 2, 2, width=4, modes=2, head=head).double()
    torch.nn.init.zeros_(network.project.weight)
    u = torch.stack([torch.full((32, 32), 0.25), torch.zeros(32, 32)])[None].double()
    u[:, 1] += 1e-6 * torch.cos(2 * math.pi * 11 * Grid((32, 32)).points()[..., 0])
    moved = rollout(network, u, 4)
    torch.testing.assert_close(moved[0, 0, 1], u[0, 1].roll(8, dims=0), rtol=0, atol=1e-9)
    torch.testing.assert_close(moved[0, 3], u[0], rtol=0, atol=4e-9)
    with pytest.raises(ValueError, match="expected multiples of 2 points"):
        network(u[..., :31])


def test_recurrent_tasks_carry_frames_on_the_grid_that_the_head_wants():
    torch.manual_seed(0)
    head = TransportHead(velocity="biot-savart", substeps=2, coarsen=2)
    network = PDNO(2, 1, 1, width=4, modes=2, head=head)
    start = torch.randn(3, 1, 16, 16)
    fine = rollout(network, resample(start, (32, 32)), 3)
    net = NormalizedNetwork(network, Grid((16, 16)))
    frames = Markov(residual=False).predict(net, start, (1.0, 2.0, 3.0))
    torch.testing.assert_close(frames, fine[..., ::2, ::2], rtol=1e-4, atol=1e-5)
    batch = Batch(start, frames, None)
    torch.testing.assert_close(Rollout().forward(net, batch), frames, rtol=1e-4, atol=1e-5)


def test_substeps_are_of_second_order():
    """u_t + u u_x = 0 keeps u along x + t u: u(x, t) = u(x - t u(x, t), 0)."""
    x = Grid((128,)).points()[:, 0].double()
    speed, after = 0.1, 1.0

    def start(points):
        return speed * torch.sin(2 * math.pi * points)

    exact = start(x)
    for _ in range(200):  # a contraction while no shock has formed, t < 1 / (2π · speed)
        exact = start(x - after * exact)

    def error(substeps):
        head = TransportHead(velocity="field", substeps=substeps)
        network = PDNO(1, 1, 1, width=4, modes=2, head=head).double()
        torch.nn.init.zeros_(network.project.weight)
        return (network(start(x)[None, None]) - exact).abs().max().item()

    coarse, fine = error(4), error(8)
    assert 3.3 < coarse / fine < 4.8


def test_the_velocity_of_a_vorticity():
    """ω = 8π² sin 2πx cos 2πy has ψ = sin 2πx cos 2πy and the velocity (∂₂ψ, -∂₁ψ)."""
    x, y = (2 * math.pi * Grid((16, 16)).points()).unbind(-1)
    w = 8 * math.pi**2 * torch.sin(x) * torch.cos(y)
    network = PDNO(2, 1, 1, width=4, modes=2, head=TransportHead(velocity="biot-savart"))
    flow = network.head.flow(w[None, None]) * -REACH
    expected = [-torch.sin(x) * torch.sin(y), -torch.cos(x) * torch.cos(y)]
    torch.testing.assert_close(flow[0], 2 * math.pi * torch.stack(expected), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("velocity", "dim", "channels"),
    [("field", 2, 1), ("biot-savart", 2, 2), ("biot-savart", 1, 1)],
)
def test_a_velocity_that_does_not_fit_is_refused(velocity, dim, channels):
    with pytest.raises(ValueError, match="it takes"):
        PDNO(dim, channels, channels, width=4, modes=2, head=TransportHead(velocity=velocity))


def test_a_velocity_is_learned_from_frames():
    """Frames carried by u = -2 ∂ω/∂x teach b(ξ) = -4πi ξ on the modes that they have."""
    torch.manual_seed(0)
    x = Grid((32,)).points()[:, 0]
    xi = torch.arange(1, 5)
    phases = torch.rand(64, 4, 1) * 2 * math.pi
    f = (torch.randn(64, 4, 1) * torch.cos(2 * math.pi * xi[:, None] * x + phases)).sum(1) / 4
    slope = -torch.fft.irfft(2j * math.pi * torch.fft.rfftfreq(32, 1 / 32) * torch.fft.rfft(f))
    moved = warp(f[:, None].double(), -2e-3 * slope[:, None].double())
    data = OperatorDataset.from_arrays(f[:, None].float(), moved.float(), Grid((32,)))
    head = TransportHead(velocity="learned", velocity_order=1.0, time_step=2e-3)
    network = FNO(1, 1, 1, width=2, modes=1, layers=1, head=head)
    with torch.no_grad():  # the law alone: no network below
        network.project.weight.zero_()
        network.project.weight.requires_grad_(False)
    model = fit(network, data, epochs=300, batch_size=16, normalization="none")
    b = model.network.head.velocity.values(Grid((32,))).frequency[0, 0, 0, 1:5]
    pace = model.network.head.pace
    exact = -2j * math.pi * xi
    difference = (pace * b).detach() - exact
    assert float(difference.abs().norm() / exact.abs().norm()) < 0.05


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_diffusion_damps_each_mode_by_its_symbol(dim):
    shape = {1: (16,), 2: (12, 10), 3: (6, 8, 5)}[dim]
    x, xi = Grid(shape).points(), torch.tensor([2, -1, 1][:dim], dtype=torch.float64)
    v = torch.cos(2 * math.pi * (x @ xi) + 0.3).expand(2, 2, *shape)
    c = torch.tensor([0.0, 3e-3], dtype=torch.float64)
    expected = torch.exp(-4 * math.pi**2 * float(xi.square().sum()) * c)
    found = diffuse(v, c)
    torch.testing.assert_close(found, expected.reshape(2, *[1] * dim) * v, rtol=0, atol=1e-12)


def test_gradients_of_diffusion():
    v = torch.randn(1, 2, 6, 4, dtype=torch.float64, requires_grad=True)
    c = torch.tensor([1e-3, 2e-2], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(diffuse, (v, c))


def test_what_diffuses_is_found_out():
    """Waves beyond the modes that the network keeps are damped by the learned c alone."""
    torch.manual_seed(0)
    x, xi = Grid((64,)).points()[:, 0], torch.arange(6, 11)[:, None]
    f = torch.randn(16, 5).double() @ torch.cos(2 * math.pi * (xi * x + torch.rand(5, 1)))
    damped = diffuse(f[:, None], torch.tensor([1e-4], dtype=torch.float64))
    data = OperatorDataset.from_arrays(f[:, None].float(), damped.float(), Grid((64,)))
    head = TransportHead(diffusion=True)
    model = FNO(1, 1, 1, width=4, modes=2, layers=1, head=head)
    fit(model, data, epochs=200, batch_size=8)
    assert float(model.head.c.detach()) == pytest.approx(1e-4, rel=0.05)


def test_without_diffusion_there_is_no_number_for_it():
    model = FNO(1, 1, 1, width=4, modes=4, head="transport")
    assert "head.log_c" not in model.state_dict() and model.head.c.count_nonzero() == 0
