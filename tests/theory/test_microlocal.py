"""Phase space: principal symbols, where packets go, parametrices that precondition, matrices."""

import math

import pytest
import torch

from pdno import Burgers, Grid, apply_symbol, solve
from pdno.solvers.elliptic import (
    FiniteVolumes,
    conjugate_gradient,
    laplacian_eigenvalues,
    sine_transform,
)
from pdno.symbols import Wave
from pdno.symbols.base import apply_directly
from pdno.theory import calculus as microlocal
from pdno.theory.calculus import adjoint, as_full_symbol, compose, parametrix
from pdno.theory.extraction import extract_symbol


def bracket(xi):
    return (1 + xi.square().sum(dim=-1)).sqrt()


def test_principal_symbols_are_the_leading_terms():
    def a(x, xi):
        waves = 2 + torch.cos(2 * math.pi * x[..., 0])
        return waves * bracket(xi) ** 1.5 + 4 * bracket(xi) ** 0.5 + 1j * xi[..., 1]

    leading = microlocal.principal_symbol(a, 1.5)
    x = torch.rand(5, 1, 2, dtype=torch.float64)
    xi = torch.randn(1, 7, 2, dtype=torch.float64)
    exact = (2 + torch.cos(2 * math.pi * x[..., 0])) * xi.norm(dim=-1) ** 1.5
    assert float((leading(x, xi) - exact).abs().max()) < 1e-2 * float(exact.abs().max())
    assert torch.allclose(leading(x, 3 * xi), 3**1.5 * leading(x, xi))


def test_the_characteristic_set_of_transport_is_across_its_field():
    """v(x)·ξ vanishes where ξ is orthogonal to v(x), and that of the Laplacian is empty."""

    def field(x):
        return torch.stack([torch.ones_like(x[..., 0]), torch.sin(2 * math.pi * x[..., 0])], -1)

    angles = torch.arange(360, dtype=torch.float64) * math.pi / 180
    directions = torch.stack([angles.cos(), angles.sin()], dim=-1)
    x = torch.tensor([[0.0, 0.3], [0.25, 0.1]], dtype=torch.float64)
    transport = microlocal.principal_symbol(lambda x, xi: 1j * (field(x) * xi).sum(dim=-1), 1.0)
    characteristic = microlocal.characteristic_set(transport, x, directions, tolerance=1e-6)
    # v = (1, 0) at the first point and (1, 1) at the second
    assert characteristic[0].nonzero().flatten().tolist() == [90, 270]
    assert characteristic[1].nonzero().flatten().tolist() == [135, 315]
    elliptic = microlocal.principal_symbol(lambda x, xi: bracket(xi) ** 2 + 0 * x[..., 0], 2.0)
    assert not microlocal.characteristic_set(elliptic, x, directions).any()


def test_packets_stay_or_move_as_their_operator_says():
    """Multipliers and products leave them, waves carry them, and advection around a constant."""
    line = Grid((256,))
    packet = microlocal.wave_packet(line, [0.3], [40.0])
    values = as_full_symbol(
        lambda x, xi: (2 + torch.sin(2 * math.pi * x[..., 0])) * bracket(xi) ** -0.5
    ).values(line)
    stays = microlocal.send_packet(lambda f: apply_directly(values, f, line), line, packet)
    a = (2 + math.sin(0.6 * math.pi)) * 1601**-0.25
    assert stays.position[0] == pytest.approx(0.3, abs=0.01) and stays.factor == pytest.approx(
        a, rel=0.05
    )
    assert stays.frequency[0] == pytest.approx(40, abs=0.1)
    c, t = 0.7, 0.2

    def solver(u):
        small = 1e-6
        state = torch.full_like(u, c)
        step = {"times": [t], "step": 2e-3}
        equation = Burgers(viscosity=1e-5)
        return (solve(equation, state + small * u, **step)[:, 0] - c) / small

    moved = microlocal.send_packet(solver, line, packet)
    assert moved.position[0] == pytest.approx(0.3 + c * t, abs=2e-3)
    assert moved.frequency[0] == pytest.approx(40, abs=0.2)
    two = microlocal.send_packet(lambda f: apply_symbol(Wave(), f, grid=line, t=0.1), line, packet)
    # cos of a wave splits it into halves to both sides
    assert two.spread == pytest.approx(math.hypot(0.1, stays.spread), abs=0.01)


def steps_to_solve(k, power):
    """Steps of conjugate gradients for -∇·k∇ u = 1; P = k^-power L⁻¹ k^-power, None has no P."""
    volumes, applied = FiniteVolumes(k[None]), []
    eigenvalues = laplacian_eigenvalues(k.shape)

    def operator(u):
        applied.append(1)
        return volumes.apply(u)

    def improve(v):
        if power is None:
            return v
        inside = sine_transform(v / k**power, 2) / eigenvalues
        return sine_transform(inside, 2, inverse=True) / k**power

    source = torch.ones(1, *k.shape, dtype=torch.float64)
    options = {"tolerance": 1e-8 * k.numel() ** 0.5, "iterations": 2000}
    u = conjugate_gradient(operator, source, preconditioner=improve, **options)
    assert float((volumes.apply(u) - source).norm()) < 1e-5
    return len(applied)


def test_a_parametrix_preconditions_darcy():
    """Its symbol is 1/(k |2πξ|²): fewer steps for smooth k, on every grid; not where k jumps."""
    counts = {}
    for points in (32, 64):
        x = (torch.arange(points, dtype=torch.float64) + 0.5) / points
        waves = torch.sin(math.pi * x)[:, None] * torch.cos(math.pi * x)
        smooth = torch.exp(2.5 * waves)
        jumps = torch.where(waves > 0.2, 12.0, 3.0)
        for name, k in (("smooth", smooth), ("jumps", jumps)):
            counts[name, points] = [steps_to_solve(k, power) for power in (None, 0.0, 0.5)]
    for points in (32, 64):
        plain, laplacian, both = counts["smooth", points]
        assert both < laplacian < plain / 2
        assert counts["jumps", points][1] < counts["jumps", points][2]
    assert abs(counts["smooth", 64][2] - counts["smooth", 32][2]) <= 2


def test_the_calculus_of_matrices_leaves_rests_of_lower_order():
    """Products, adjoints and inverses of 2 x 2 systems, against operators that are composed."""
    line = Grid((64,))

    def a(x, xi):
        c, s = torch.cos(2 * math.pi * x[..., 0]), torch.sin(2 * math.pi * x[..., 0])
        one = 0 * (x[..., 0] + xi[..., 0])
        rows = [[(3 + c) * bracket(xi), s + one], [1j * xi[..., 0] * s / 2, (3 - s) * bracket(xi)]]
        return torch.stack([torch.stack([e + (1 + 1j) * one for e in row]) for row in rows])

    def b(x, xi):
        c, one = torch.cos(2 * math.pi * x[..., 0]), 0 * (x[..., 0] + xi[..., 0])
        rows = [[2 + c + one, 1j * xi[..., 0] / bracket(xi)], [c / 2 + one, 2 - c + one]]
        return torch.stack([torch.stack([e + (1 + 1j) * one for e in row]) for row in rows])

    first, second = as_full_symbol(a).values(line), as_full_symbol(b).values(line)

    def product(f):
        return apply_directly(first, apply_directly(second, f, line), line)

    both = extract_symbol(product, line, channels=2, modes=20)
    outer = both.xi[:, 0] >= 8
    rests = []
    for terms in (1, 2, 3):
        composed = as_full_symbol(compose(a, b, dim=1, terms=terms)).values(line, 20)
        rests.append(float((both.values - composed).abs()[..., outer].max()))
    assert rests[1] < rests[0] / 10 and rests[2] < rests[1] / 5
    inverse_of = as_full_symbol(parametrix(a, dim=1, terms=3)).values(line)

    def near_one(f):
        return apply_directly(first, apply_directly(inverse_of, f, line), line)

    one = extract_symbol(near_one, line, channels=2, modes=20).values
    assert float((one - torch.eye(2).reshape(2, 2, 1, 1)).abs()[..., outer].max()) < 0.02
    turned = adjoint(a, dim=1, terms=1)(
        torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1).double()
    )
    there = a(torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1).double())
    assert torch.allclose(turned, there.conj().transpose(0, 1))
