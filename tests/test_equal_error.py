"""Speed at equal error: the curve of the solver is read between its grids."""

import sys
from pathlib import Path

import pytest
import torch

from pdno.data.problems import NavierStokesProblem
from pdno.paper.recipes import navier_stokes
from pdno.runs.specification import unseen_samples

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import equal_error  # noqa: E402  (a tool of the repository, not of the package)


def test_a_power_law_is_read_exactly():
    curve = {error: 2e-3 * error**-1.7 for error in (0.2, 0.1, 0.04)}
    for error in (0.04, 0.05, 0.1, 0.13, 0.2):
        assert equal_error.at_error(curve, error) == pytest.approx(2e-3 * error**-1.7)
    with pytest.raises(ValueError, match=r"0\.3000 is not between those of the grids"):
        equal_error.at_error(curve, 0.3)


def test_the_fastest_scheme_counts():
    def rows(scale, factor):
        return [equal_error.Row("", e, scale / e, factor * scale / e) for e in (0.1, 0.01)]

    solved = {"accurate": rows(3.0, 5.0), "fast": rows(1.0, 2.0)}
    assert equal_error.fastest(solved, 0.05) == pytest.approx({"batch": 20.0, "alone": 40.0})
    with pytest.raises(ValueError, match=r"0\.2000 is not between"):
        equal_error.fastest(solved, 0.2)


def test_an_exact_operator_has_no_error_and_finer_solvers_have_less(monkeypatch):
    monkeypatch.setattr(equal_error, "GRIDS", (8, 16))
    problem = NavierStokesProblem(
        samples=6, resolution=16, solver_resolution=32, viscosity=1e-3, final_time=3
    )
    run = navier_stokes("smoke", models=["PDNO Markov"]).experiments[0]
    data = unseen_samples(
        run.with_changes(problem=problem, window=1, resolution=16, zero_shot=()), 2
    )
    truth = data.batch()[1]
    exact = {"torch": lambda f: truth[: len(f)]}
    problems = [problem, problem.with_changes(scheme="accurate")]
    (row,), solved = equal_error.compare(exact, data, problems, 1)
    assert row.error == 0 and len(solved) == len(problem.schemes)
    for coarse, fine in solved.values():
        assert fine.error < coarse.error < 1 and min(coarse.batch, coarse.alone, fine.batch) > 0
    assert torch.equal(data.batch()[1], truth)
