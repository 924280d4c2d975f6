import math

import pytest
import torch

from pdno.data.generate import generate, usual_distribution
from pdno.data.problems import (
    PROBLEMS,
    BurgersProblem,
    DarcyProblem,
    HeatProblem,
    NavierStokesProblem,
)
from pdno.equations.base import EvolutionEquation, Semilinear
from pdno.spectral.grid import Grid

SMALL = [
    HeatProblem(samples=3, resolution=16, solver_resolution=32, frames=4),
    BurgersProblem(samples=3, resolution=16, solver_resolution=64, frames=2),
    DarcyProblem(samples=3, resolution=8, solver_resolution=16),
    DarcyProblem(samples=3, resolution=8, solver_resolution=16, scheme="published"),
    NavierStokesProblem(
        samples=3, resolution=8, solver_resolution=16, viscosity=1e-3, final_time=2
    ),
]

ON_GRIDS = {name: problem for name, problem in PROBLEMS.items() if not problem.geometry}


def ids(problem):
    return f"{problem.name}-{getattr(problem, 'scheme', '')}".strip("-")


every_problem = pytest.mark.parametrize("problem", SMALL, ids=ids)


@every_problem
def test_a_sample_is_a_pair_of_fields_on_the_stored_grid(problem):
    given, solution, residual, _ = problem.sample(0)
    frames = () if problem.times is None else (len(problem.times),)
    assert given.shape == (1, *problem.grid().shape)
    assert solution.shape == (*frames, 1, *problem.grid().shape)
    single = getattr(problem, "scheme", "") == "fast"
    assert given.dtype == torch.float64
    assert solution.dtype == (torch.float32 if single else torch.float64)
    assert solution.isfinite().all() and solution.abs().max() > 0
    assert 0 <= residual < 1e-10


@every_problem
def test_a_sample_depends_on_seed_and_index_only(problem):
    alone = problem.sample(2)[1]
    longer = problem.model_copy(update={"samples": 50})
    among_others = [longer.sample(index)[1] for index in range(4)]
    assert torch.equal(alone, among_others[2])
    assert not any(torch.equal(alone, among_others[index]) for index in (0, 1, 3))
    assert not torch.equal(alone, problem.model_copy(update={"seed": 1}).sample(2)[1])


@every_problem
def test_stored_points_are_every_rth_point_of_the_solver(problem):
    ratio = problem.solver_points // problem.resolution
    assert ratio > 1
    points = problem.solver_grid().points()[(slice(None, None, ratio),) * problem.dim]
    assert torch.allclose(problem.grid().points(), points, atol=1e-15, rtol=0)
    all_points = problem.model_copy(update={"resolution": problem.solver_points})
    cut = (..., *(slice(None, None, ratio),) * problem.dim)
    for stored, fine in zip(problem.sample(1)[:2], all_points.sample(1)[:2], strict=True):
        assert torch.equal(stored, fine[cut])


@every_problem
def test_data_in_memory_are_those_of_the_problem(problem):
    whole = problem.model_copy(update={"resolution": problem.solver_points})
    data = generate(whole.physics()[1], whole.grid(), samples=2, times=whole.times)
    inputs, outputs = data.to(torch.float64).batch([1])
    expected = whole.sample(1)
    assert torch.equal(inputs[0], expected[0]) and torch.equal(outputs[0], expected[1])


@pytest.mark.parametrize("problem", ON_GRIDS.values(), ids=ON_GRIDS)
def test_the_usual_distribution_is_that_of_the_problem(problem):
    assert usual_distribution(problem().physics()[1]) == problem().physics()[0]


def test_data_in_memory_need_a_distribution_and_a_sample():
    class Unknown(EvolutionEquation):
        def discretise(self, grid, device=None):
            return Semilinear(torch.zeros(grid.half_shape), (None,) * grid.dim)

    with pytest.raises(
        ValueError, match="no usual distribution of inputs for Unknown: give `distribution`"
    ):
        generate(Unknown(), Grid((8,)), samples=1, times=[1.0])
    data = generate(
        Unknown(), Grid((8,)), samples=2, times=[1.0], distribution=HeatProblem().physics()[0]
    )
    inputs, outputs = data.batch()
    assert torch.allclose(inputs, outputs[:, 0], atol=1e-6)
    with pytest.raises(ValueError, match="samples is 0; expected at least 1"):
        generate(HeatProblem().physics()[1], Grid((8,)), samples=0, times=[1.0])


def test_times():
    heat = HeatProblem()
    assert len(heat.times) == 20
    assert heat.times == pytest.approx([0.05 * k for k in range(1, 21)], abs=1e-15)
    assert BurgersProblem().times == (1.0,)
    assert BurgersProblem(frames=4, final_time=2).times == (0.5, 1.0, 1.5, 2.0)
    assert NavierStokesProblem().times == tuple(map(float, range(1, 21)))
    assert DarcyProblem().times is None


def test_later_frames_are_those_of_a_run_with_fewer():
    few = HeatProblem(resolution=16, frames=2, final_time=0.1).sample(0)[1]
    many = HeatProblem(resolution=16, frames=10, final_time=0.1).sample(0)[1]
    assert torch.allclose(few, many[4::5], atol=1e-13)


@pytest.mark.parametrize(
    ("problem", "resolution", "expected"),
    [
        (HeatProblem, 1024, 1024),
        (BurgersProblem, 1024, 8192),
        (BurgersProblem, 1000, 1000),
        (DarcyProblem, 64, 512),
        (DarcyProblem, 1024, 1024),
        (NavierStokesProblem, 64, 256),
        (NavierStokesProblem, 256, 256),
    ],
)
def test_the_usual_solver_grid_is_the_published_one_where_it_fits(problem, resolution, expected):
    assert problem(resolution=resolution).solver_points == expected


@pytest.mark.parametrize("problem", ON_GRIDS.values(), ids=ON_GRIDS)
@pytest.mark.parametrize(
    "wrong",
    [
        {"colour": 1},
        {"samples": 0},
        {"samples": -3},
        {"samples": 10**9},
        {"samples": 2.5},
        {"samples": "many"},
        {"seed": -1},
        {"seed": 2**63},
        {"resolution": 2},
        {"resolution": -64},
        {"resolution": 10**6},
        {"resolution": math.nan},
        {"solver_resolution": 0},
        {"resolution": 48, "solver_resolution": 64},
        {"resolution": 128, "solver_resolution": 64},
        {"dtype": "float16"},
    ],
    ids=str,
)
def test_wrong_common_parameters_are_refused(problem, wrong):
    with pytest.raises(ValueError):
        problem(**wrong)


NUMBERS = [
    (HeatProblem, "diffusivity"),
    (HeatProblem, "final_time"),
    (BurgersProblem, "viscosity"),
    (BurgersProblem, "period"),
    (BurgersProblem, "final_time"),
    (DarcyProblem, "low"),
    (DarcyProblem, "high"),
    (NavierStokesProblem, "viscosity"),
    (NavierStokesProblem, "final_time"),
]


@pytest.mark.parametrize(("problem", "key"), NUMBERS)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0, 0.0, 1e300, "x", None])
def test_numbers_must_be_positive_finite_and_not_huge(problem, key, value):
    with pytest.raises(ValueError, match=key):
        problem(**{key: value})


@pytest.mark.parametrize("problem", [DarcyProblem, NavierStokesProblem])
@pytest.mark.parametrize("value", [math.nan, math.inf, 1e300])
def test_a_forcing_may_be_negative_but_must_be_finite_and_not_huge(problem, value):
    assert problem(forcing=-1.0).parameters["forcing"] == -1.0
    with pytest.raises(ValueError, match="forcing"):
        problem(forcing=value)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: DarcyProblem(resolution=100, solver_resolution=512),
            "solver_resolution 512 is not a multiple of resolution 100",
        ),
        (
            lambda: NavierStokesProblem(resolution=16384),
            "numbers on the grid of the solver.*lower the resolution",
        ),
        (lambda: HeatProblem(resolution=65536, frames=100_000), "lower the resolution"),
        (lambda: HeatProblem(frames=0), "frames"),
        (lambda: BurgersProblem(viscosity=1e3), "decayed by .* lower viscosity or final_time"),
        (lambda: BurgersProblem(period=1e-3), "decayed by .* raise period"),
        (lambda: NavierStokesProblem(amplitude="loud"), "'published', 'ported' or 'printed'"),
        (lambda: DarcyProblem(scheme="spectral"), "'conservative' or 'published'"),
    ],
)
def test_what_cannot_be_made_is_refused_with_the_reason(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_problem_cannot_be_changed_after_its_checks():
    with pytest.raises(ValueError, match="frozen"):
        HeatProblem().samples = -1


@every_problem
def test_a_problem_is_made_again_from_its_parameters(problem):
    assert type(problem).model_validate_json(problem.model_dump_json()) == problem
    assert PROBLEMS[problem.name] is type(problem)


def test_a_varied_permeability_is_that_of_the_input():
    """The distribution of the inputs takes the drawn phases, too."""
    problem = DarcyProblem(resolution=8, solver_resolution=16, vary={"high": (5.0, 20.0)})
    for index in range(3):
        sample = problem.sample(index)
        assert float(sample.input.max()) == pytest.approx(sample.pde_parameters["high"], rel=1e-6)
