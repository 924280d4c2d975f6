"""Conformal bars cover what they say, whatever the network; narrower ones do not."""

import numpy as np
import pytest
import torch

import pdno
from pdno.data.generate import usual_distribution
from pdno.data.problems import DarcyProblem
from pdno.training.statistics import ErrorBars, conformal_quantile

COVERAGE, SPLITS = 0.9, 40


def darcy():
    """Predictions and targets of 240 held-out samples on 16 x 16 points."""
    problem = DarcyProblem(samples=1, resolution=16, solver_resolution=16)
    grid = problem.grid()
    inputs = problem.physics()[0].sample(grid, seed=0, indices=range(280))
    data = pdno.OperatorDataset.from_arrays(inputs, problem.solve(inputs)[0], grid)
    return predicted(data, pdno.FNO(2, 1, 1, width=4, layers=2, modes=3), "static")


def navier_stokes():
    """The same of rollouts over three frames."""
    grid = pdno.Grid((16, 16))
    start = usual_distribution(pdno.NavierStokes()).sample(grid, seed=0, indices=range(280))
    frames = pdno.solve(pdno.NavierStokes(viscosity=1e-2), start, times=[1.0, 2.0, 3.0, 4.0])
    data = pdno.OperatorDataset.from_arrays(start, frames, grid, times=[1.0, 2.0, 3.0, 4.0])
    network = pdno.PDNO(2, 1, 1, width=4, layers=2, modes=3, symbol_hidden=4)
    return predicted(data.window(inputs=1), network, pdno.Rollout())


def predicted(data, network, task):
    train, held = data.split(test=240)
    settings = {"epochs": 4, "batch_size": 10, "learning_rate": 5e-3, "normalization": "channel"}
    trained = pdno.fit(network, train, task=task, **settings)
    inputs, targets = held.batch()
    predictions = trained.predict(inputs, grid=held.grid, times=held.target_times)
    return predictions, targets, held.grid


@pytest.fixture(scope="module", params=[darcy, navier_stokes], ids=lambda make: make.__name__)
def held(request):
    torch.manual_seed(0)
    return request.param()


def coverages(held, width=1.0):
    """Shares of new fields and of points in bars calibrated on 120 of the 240, over many splits.

    Over all splits of a pool the mean coverage is that of the law; 40 leave half a percent.
    """
    predictions, targets, grid = held
    random, found = np.random.default_rng(0), []
    for _ in range(SPLITS):
        order = random.permutation(len(targets))
        known, new = order[:120], order[120:]
        bars = ErrorBars.fit(predictions[known], targets[known], grid, COVERAGE)
        bars.field, bars.point = width * bars.field, width * bars.point
        given = predictions[new], targets[new]
        kinds = [bars.covered(*given, kind=kind).double().mean() for kind in ("field", "point")]
        found.append(torch.stack(kinds))
    return torch.stack(found).mean(dim=0).tolist()


def test_bars_cover_what_they_say(held):
    field, point = coverages(held)
    assert abs(field - COVERAGE) < 0.03
    assert abs(point - COVERAGE) < 0.03


def test_bars_that_are_ten_percent_too_narrow_do_not(held):
    field, _ = coverages(held, width=0.9)
    assert field < COVERAGE - 0.03


def test_the_quantile_is_the_one_for_finitely_many_samples():
    scores = torch.arange(1.0, 20.0)  # 19 scores: ⌈20 · 0.9⌉ = 18
    assert conformal_quantile(scores, 0.9) == 18
    with pytest.raises(ValueError, match="8 scores are too few"):
        conformal_quantile(scores[:8], 0.9)
    with pytest.raises(ValueError, match="9 samples are too few .* give 15 or more"):
        ErrorBars.fit(torch.zeros(9, 1, 4), torch.randn(9, 1, 4), pdno.Grid((4,)))


def test_bars_are_saved_with_the_operator_and_drawn(tmp_path):
    torch.manual_seed(0)
    f = torch.randn(60, 1, 16)
    data = pdno.OperatorDataset.from_arrays(f, f.cumsum(dim=-1), pdno.Grid((16,)))
    train, held = data.split(test=40)
    trained = pdno.fit(pdno.FNO(1, 1, 1, width=4, layers=1, modes=4), train, held, epochs=1)
    plain = len(trained.plot(held).axes[-2].collections)
    bars = trained.calibrate(held)
    assert len(trained.plot(held).axes[-2].collections) == plain + 1
    trained.save(tmp_path / "operator")
    loaded = pdno.load(tmp_path / "operator")
    assert torch.equal(loaded.bars.field, bars.field)
    assert torch.equal(loaded.bars.point, bars.point)
    low, high = loaded.interval(f[:2])
    assert torch.allclose((high - low) / 2, bars.field.expand(2, 1, 16), rtol=1e-4)
    assert "error bars hold for 90 %" in (tmp_path / "operator" / "model_card.md").read_text()
    with pytest.raises(ValueError, match="no error bars yet"):
        pdno.fit(pdno.FNO(1, 1, 1, width=4, layers=1, modes=4), train, epochs=1).interval(f)


def test_an_ensemble_is_the_mean_of_its_seeds_and_knows_where_they_differ():
    torch.manual_seed(0)
    f = torch.randn(20, 1, 16)
    data = pdno.OperatorDataset.from_arrays(f, f.cumsum(dim=-1), pdno.Grid((16,)))
    make = lambda: pdno.FNO(1, 1, 1, width=4, layers=1, modes=4)  # noqa: E731
    ensemble = pdno.fit_ensemble(make, data, seeds=range(3), epochs=2, batch_size=5)
    alone = torch.stack([member.predict(f) for member in ensemble.members])
    assert torch.allclose(ensemble.predict(f), alone.mean(dim=0))
    assert torch.allclose(ensemble.spread(f), alone.std(dim=0)) and ensemble.spread(f).min() > 0
    errors = [pdno.evaluate(one, data).mean() for one in ensemble.members]
    assert pdno.evaluate(ensemble, data).mean() < sum(errors) / 3
    again = pdno.fit_ensemble(make, data, seeds=range(3), epochs=2, batch_size=5)
    assert torch.equal(again.predict(f), ensemble.predict(f))
    with pytest.raises(ValueError, match="two or more"):
        pdno.Ensemble(ensemble.members[:1])
