"""Darcy flow: second order in the cell size against a manufactured solution."""

import math

import numpy as np
import pytest
import torch

from pdno.equations.darcy import Darcy
from pdno.solvers.elliptic import solve_elliptic
from pdno.spectral.grid import Grid

EXPECTED_ORDER = 2.0
RESOLUTIONS = {1: (16, 32, 64, 128), 2: (16, 32, 64, 128), 3: (8, 12, 18, 27)}


def permeability(x):
    """Smooth, positive and without any symmetry."""
    return 2 + torch.cos(math.pi * x[..., 0]) + 0.5 * torch.sin(3 * x.sum(dim=-1))


def solution(x):
    return torch.sin(math.pi * x).prod(dim=-1) * torch.exp(x[..., 0])


def forcing(x):
    """-∇·(k ∇u) by automatic differentiation."""
    x = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(solution(x).sum(), x, create_graph=True)
    flux = permeability(x).unsqueeze(-1) * gradient
    divergence = torch.zeros_like(flux[..., 0])
    for axis in range(x.shape[-1]):
        (derivative,) = torch.autograd.grad(flux[..., axis].sum(), x, retain_graph=True)
        divergence += derivative[..., axis]
    return -divergence


def error(dim, n, scheme):
    x = Grid.cells((n,) * dim).points()
    u, _ = solve_elliptic(Darcy(forcing, scheme), permeability(x)[None, None])
    return ((u[0, 0] - solution(x)).norm() / solution(x).norm()).item()


def observed_order(dim, scheme):
    errors = [error(dim, n, scheme) for n in RESOLUTIONS[dim]]
    return -np.polyfit(np.log(RESOLUTIONS[dim]), np.log(errors), 1)[0]


@pytest.mark.parametrize("dim", RESOLUTIONS)
def test_finite_volumes_have_order_two(dim):
    assert abs(observed_order(dim, "conservative") - EXPECTED_ORDER) < 0.1


def test_published_scheme_has_order_two_for_smooth_data():
    assert abs(observed_order(2, "published") - EXPECTED_ORDER) < 0.1


def test_schemes_share_their_limit():
    assert error(2, 128, "conservative") < 2e-4
    assert error(2, 128, "published") < 2e-4
