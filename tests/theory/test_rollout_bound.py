"""Steps with a semigroup: their certified factor, and errors of rollouts below their bound."""

import math

import pytest
import torch
from dense import operator_matrix

from pdno import Grid
from pdno.networks.pdno import SemigroupStep
from pdno.theory.lipschitz import guarantee, step_factor


def random_step(seed, dim=1, channels=1, **options):
    torch.manual_seed(seed)
    step = SemigroupStep(dim, channels, channels, width=3, symbol_hidden=5, **options).double()
    for weight in step.local.parameters():
        weight.data *= 3
    step(torch.zeros(1, channels, *[8] * dim).double())
    return step


@pytest.mark.parametrize(
    "options", [{}, {"modes": 3}, {"dim": 2}, {"channels": 2}, {"order": 1.0}]
)
@pytest.mark.parametrize("largest", [0.3, math.inf])
def test_no_pair_of_fields_and_no_derivative_exceeds_the_factor(options, largest):
    step = random_step(3, **options)
    grid, channels = Grid((8,) * step.dim), step.in_channels
    factor = step_factor(step, grid, largest)
    size = min(largest, 2.0)
    shape = (2, 64, channels, *grid.shape)
    u, v = size * (2 * torch.rand(shape, dtype=torch.float64) - 1)
    with torch.no_grad():
        moved = (step(u) - step(v)).flatten(1).norm(dim=1) / (u - v).flatten(1).norm(dim=1)
    assert float(moved.max()) <= factor
    for state in u[:2]:
        columns = torch.autograd.functional.jacobian(step, state[None])
        norm = torch.linalg.matrix_norm(columns.reshape(state.numel(), -1), 2)
        assert float(norm) <= factor * (1 + 1e-9)


def test_the_semigroup_alone_never_enlarges_and_its_factor_is_its_norm():
    step = random_step(1, channels=2)
    step.forcing.symbol.real.linear_out.weight.data.zero_()
    step.forcing.symbol.real.linear_out.bias.data.zero_()
    step.forcing.symbol.imaginary.linear_out.weight.data.zero_()
    grid = Grid((9,))
    with torch.no_grad():
        matrix = operator_matrix(lambda f: step(f), grid, channels=2)
    norm = float(torch.linalg.matrix_norm(matrix, 2))
    assert norm <= 1 + 1e-12 and step_factor(step, grid) == pytest.approx(norm, rel=1e-8)


def test_errors_of_rollouts_lie_below_their_bound():
    step, grid = random_step(5), Grid((16,))
    draw = torch.Generator().manual_seed(0)
    frames = [torch.randn(4, 1, 16, generator=draw, dtype=torch.float64)]
    with torch.no_grad():
        for _ in range(6):
            noise = torch.randn(4, 1, 16, generator=draw, dtype=torch.float64)
            frames.append(step(frames[-1]) + 1e-3 * noise)
    bounds = guarantee(step, torch.stack(frames, dim=1), grid)
    assert bool((bounds.error <= bounds.bound * (1 + 1e-9)).all()) and bounds.bound.shape == (4, 6)
    # the first step is its residual, and both count steps from the first
    assert torch.allclose(bounds.error[:, 0], bounds.bound[:, 0])
    proven, made = bounds.steps(0.02), bounds.steps(0.02, made=True)
    assert all(p <= m for p, m in zip(proven, made, strict=True))


def test_a_step_needs_as_many_channels_out_as_in():
    with pytest.raises(ValueError, match="window=1"):
        SemigroupStep(1, 2, 1)
