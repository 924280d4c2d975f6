"""Symmetries of equations: the solvers commute with them, on the grid."""

import pytest
import torch

from pdno import Grid
from pdno.equations.darcy import Darcy
from pdno.equations.evolution import Burgers, Heat, NavierStokes
from pdno.equations.symmetries import Symmetry
from pdno.fields.distributions import navier_stokes_initial
from pdno.solvers.elliptic import solve_elliptic
from pdno.solvers.solve import solve

EVOLUTIONS = {
    "heat-1d": (Heat(), (24,), 24 * 4),
    "heat-2d": (Heat(), (8, 12), 8 * 12 * 8),
    "heat-3d": (Heat(), (4, 4, 4), 4**3 * 96),
    "burgers": (Burgers(viscosity=0.01), (64,), 128),
    "navier-stokes": (NavierStokes(viscosity=1e-3), (32, 32), 128),
    "navier-stokes-oblong": (NavierStokes(viscosity=1e-3), (32, 24), 1),
    "navier-stokes-free": (NavierStokes(viscosity=1e-3, forcing=0.0), (32, 32), 8 * 1024),
}


def some(symmetries, most=24):
    return [symmetries[index] for index in range(0, len(symmetries), 1 + len(symmetries) // most)]


@pytest.mark.parametrize("case", EVOLUTIONS)
def test_solutions_become_solutions(case):
    equation, shape, count = EVOLUTIONS[case]
    grid = Grid(shape)
    symmetries = equation.symmetries(grid)
    assert len(symmetries) == count
    generator = torch.Generator().manual_seed(0)
    state = torch.randn(1, 1, *shape, generator=generator, dtype=torch.float64)
    # smooth, with nothing beyond the modes that a solver keeps
    state = 20 * solve(Heat(0.01), state, [1.0])[:, 0]
    chosen = some(symmetries)
    states = torch.cat([state, *(symmetry.apply(state, grid) for symmetry in chosen)])
    solved = solve(equation, states, [0.5])[:, 0]
    assert not torch.allclose(solved[:1], state, rtol=0.01)
    for symmetry, given in zip(chosen, solved[1:], strict=True):
        expected = symmetry.apply(solved[0], grid)
        assert float((given - expected).norm() / expected.norm()) < 1e-12, symmetry


@pytest.mark.parametrize("forcing", [0.1, 0.0])
def test_drawn_states_keep_them_at_a_small_viscosity(forcing):
    """Such states have every mode of the grid, and diffusion damps none of them."""
    grid, equation = Grid((64, 64)), NavierStokes(1e-5, forcing)
    state = navier_stokes_initial().sample(grid, seed=0, indices=[0])
    chosen = some(equation.symmetries(grid))
    states = torch.cat([state, *(symmetry.apply(state, grid) for symmetry in chosen)])
    solved = solve(equation, states, [1.0])[:, 0]
    assert float((solved[0] - state[0]).norm()) > 0.1 * float(state.norm())
    for symmetry, given in zip(chosen, solved[1:], strict=True):
        expected = symmetry.apply(solved[0], grid)
        assert float((given - expected).norm() / expected.norm()) < 1e-12, symmetry


@pytest.mark.parametrize(
    ("shape", "scheme"),
    [
        *((s, "conservative") for s in ((12,), (16, 16), (12, 16), (6, 6, 6))),
        ((16, 16), "published"),
    ],
)
def test_darcy_has_those_of_the_box(shape, scheme):
    grid, equation = Grid.cells(shape), Darcy(scheme=scheme)
    symmetries = equation.symmetries(grid)
    assert len(symmetries) == {(12,): 2, (16, 16): 8, (12, 16): 4, (6, 6, 6): 48}[shape]
    law = torch.randn(1, 1, *shape, generator=torch.Generator().manual_seed(1)).double()
    permeability = 3.0 + 9.0 * (law > 0)
    pressure = solve_elliptic(equation, permeability, tolerance=1e-13)[0]
    for symmetry in symmetries:
        turned = symmetry.apply(permeability, grid)
        given = solve_elliptic(equation, turned, tolerance=1e-13)[0]
        expected = symmetry.apply(pressure, grid)
        assert float((given - expected).norm() / expected.norm()) < 1e-12
    assert len(Darcy(forcing=lambda x: x[..., 0]).symmetries(grid)) == 1


def test_they_are_a_group_of_different_maps():
    grid = Grid((8, 8))
    f = torch.randn(8, 8)
    images = {tuple(s.apply(f, grid).flatten().tolist()) for s in NavierStokes().symmetries(grid)}
    assert len(images) == 32
    for symmetry in list(NavierStokes().symmetries(grid))[:8]:
        again = symmetry.apply(symmetry.apply(f, grid), grid)
        assert tuple(again.flatten().tolist()) in images


def test_the_formula_at_points():
    """(T f)(x) = s f(M x + b), for a function that is known everywhere."""
    grid = Grid((8, 8), offset=0.5)

    def function(x):
        return torch.sin(2 * torch.pi * (x[..., 0] + 2 * x[..., 1])) + torch.cos(
            2 * torch.pi * (3 * x[..., 0] - x[..., 1])
        )

    symmetry = Symmetry((1, 0), (True, False), (0.5, 0.125), -1)
    x = grid.points()
    moved = torch.stack([0.5 - x[..., 1], 0.125 + x[..., 0]], dim=-1)
    given = symmetry.apply(function(x), grid)
    torch.testing.assert_close(given, -function(moved), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("grid", "symmetry", "match"),
    [
        (Grid((8,)), Symmetry((0,), (False,), (0.3,)), "whole step"),
        (Grid((8, 6)), Symmetry((1, 0), (False, False), (0.0, 0.0)), "different length"),
        (
            Grid((8,), periodic=False, offset=0.25),
            Symmetry((0,), (True,), (0.0,)),
            "offset 0 or 1/2",
        ),
    ],
)
def test_grids_that_are_not_mapped_to_themselves_are_refused(grid, symmetry, match):
    with pytest.raises(ValueError, match=match):
        symmetry.apply(torch.zeros(grid.shape), grid)
