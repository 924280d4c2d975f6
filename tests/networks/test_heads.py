"""The transport head: shifts, convergence, gradients, periodicity, rollouts."""

import math

import pytest
import torch

from pdno import FNO, PDNO, Grid, OperatorDataset, fit, rollout
from pdno.networks.heads import TransportHead, diffuse, warp
from pdno.networks.mwt import MWT

SHAPES = {1: (24,), 2: (12, 10), 3: (6, 8, 5)}


def wave(x):
    """A smooth periodic field of x (*N, d), (1, 1, *N)."""
    phase = sum((axis + 1) * 2 * math.pi * x[..., axis] for axis in range(x.shape[-1]))
    return (torch.sin(phase) + 0.5 * torch.cos(2 * math.pi * x[..., 0]))[None, None]


def constant(shift, shape, batch=1):
    d = torch.tensor(shift, dtype=torch.float64).reshape(1, -1, *[1] * len(shape))
    return d.expand(batch, -1, *shape)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_whole_steps_are_rolls(dim):
    shape = SHAPES[dim]
    v = torch.randn(2, 3, *shape, dtype=torch.float64)
    steps = [3, -5, 2][:dim]
    moved = warp(v, constant([s / n for s, n in zip(steps, shape, strict=True)], shape, 2))
    expected = v.roll([-s for s in steps], dims=tuple(range(2, 2 + dim)))
    torch.testing.assert_close(moved, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_it_converges_with_order_three(dim):
    errors = []
    for n in (16, 32):
        x = Grid((n,) * dim).points()
        shift = [0.0137, -0.2071, 0.3333][:dim]
        d = 0.03 * torch.sin(2 * math.pi * x) + torch.tensor(shift, dtype=torch.float64)
        exact = wave(x + d)
        errors.append((warp(wave(x), d.movedim(-1, 0)[None]) - exact).abs().max())
    assert math.log2(errors[0] / errors[1]) > 2.7 and errors[1] < 3e-3


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_turn_around_the_domain_changes_nothing(dim):
    shape = SHAPES[dim]
    v = torch.randn(1, 2, *shape, dtype=torch.float64)
    d = 0.1 * torch.randn(1, dim, *shape, dtype=torch.float64)
    torch.testing.assert_close(warp(v, d), warp(v, d + 1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_gradients_and_the_adjoint(dim):
    shape = {1: (5,), 2: (4, 3), 3: (2, 3, 2)}[dim]
    torch.manual_seed(0)
    v = torch.randn(1, 2, *shape, dtype=torch.float64, requires_grad=True)
    d = 0.3 * torch.randn(1, dim, *shape, dtype=torch.float64)
    assert torch.autograd.gradcheck(warp, (v, d.requires_grad_()))
    u, w, d = torch.randn_like(v), torch.randn_like(v), d.detach()
    (adjoint,) = torch.autograd.grad(warp(v, d), v, w)
    u = u.detach()
    assert abs(float((warp(u, d) * w).sum() - (u * adjoint).sum())) < 1e-12


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
