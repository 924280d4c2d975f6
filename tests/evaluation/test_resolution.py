"""Other resolutions and times: what is exact for smooth functions and for honest predictors."""

import math

import pytest
import torch

from pdno.data.dataset import OperatorDataset
from pdno.evaluation.evaluate import evaluate, evaluate_resolutions
from pdno.spectral.calculus import resample
from pdno.spectral.grid import Grid

RESOLUTIONS = (6, 8, 12, 16, 24, 48)


class Double:
    """u = 2 f, exact on every grid."""

    def predict(self, inputs, *, grid, times):
        field = 2 * inputs
        return field if times is None else torch.stack([field * t for t in times], dim=1)


class DoubleWhereTrained:
    """Exact on one grid only."""

    def __init__(self, points, elsewhere):
        self.points, self.elsewhere = points, elsewhere

    def predict(self, inputs, *, grid, times):
        factor = 2 if grid.shape[0] == self.points else self.elsewhere
        return factor * inputs


def band_limited(dim=1, modes=2, points=48, grid=None):
    f = resample(torch.randn(3, 1, *(2 * modes + 1,) * dim).double(), (points,) * dim)
    grid = grid or Grid((points,) * dim)
    return OperatorDataset.from_arrays(f, 2 * f, grid).to(torch.float64)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("trained_at", [6, 8, 16, 48])
def test_interpolation_of_a_smooth_truth_is_exact_at_every_resolution(dim, trained_at):
    data = band_limited(dim)
    results = evaluate_resolutions(Double(), data, trained_at, resolutions=RESOLUTIONS)
    assert [result.resolution for result in results] == list(RESOLUTIONS)
    for result in results:
        assert result.zero_shot.mean() == 0
        assert float(result.interpolated.values().max()) < 1e-13


def test_cells_that_lie_inside_their_box_share_their_first_point_too():
    data = band_limited(grid=Grid.cells((48,)))
    for result in evaluate_resolutions(Double(), data, 12, resolutions=(6, 16, 48)):
        assert float(result.interpolated.values().max()) < 1e-13


def test_fewer_points_are_taken_and_not_smoothed():
    f = torch.randn(3, 1, 48)
    data = OperatorDataset.from_arrays(f, 2 * f, Grid((48,))).to(torch.float64)
    for result in evaluate_resolutions(Double(), data, 24, resolutions=(6, 12, 24)):
        assert result.interpolated.mean() == 0


def test_interpolation_loses_what_the_trained_grid_cannot_hold():
    x = Grid((48,)).points().T[None]
    low, high = torch.cos(2 * math.pi * 2 * x), torch.cos(2 * math.pi * 10 * x)
    data = OperatorDataset.from_arrays(low + 0.1 * high, 2 * low + 0.2 * high, Grid((48,)))
    (result,) = evaluate_resolutions(Double(), data.to(torch.float64), 12, resolutions=(48,))
    # on 12 points the mode 10 comes back as mode 2: the error is 0.1 (cos 2 - cos 10)
    scale = math.sqrt(1 + 0.01)
    numbers = result.interpolated.metrics()
    assert numbers["relative_l2 band 2-4"] == pytest.approx(0.1 / scale)
    assert numbers["relative_l2 band 8-16"] == pytest.approx(0.1 / scale)
    assert result.zero_shot.mean() == 0


def test_the_two_ways_are_apart():
    predictor = DoubleWhereTrained(12, elsewhere=3)
    results = evaluate_resolutions(predictor, band_limited(), 12, resolutions=(12, 24))
    for result, zero_shot in zip(results, (0.0, 0.5), strict=True):
        assert result.zero_shot.mean() == pytest.approx(zero_shot, abs=1e-14)
        assert result.interpolated.mean() == pytest.approx(0, abs=1e-13)


def test_zero_shot_is_the_evaluation_on_that_grid_for_any_batch():
    data = band_limited(dim=2)
    predictor = DoubleWhereTrained(12, elsewhere=2.5)
    (result,) = evaluate_resolutions(predictor, data, 12, resolutions=(24,), batch_size=2)
    assert result.zero_shot.metrics() == pytest.approx(
        evaluate(predictor, data.subsample(2)).metrics()
    )
    assert len(result.interpolated.values()) == len(data) == 3
    assert float(result.interpolated.values().max()) < 1e-13


def test_trajectories_are_interpolated_frame_by_frame():
    f = resample(torch.randn(3, 1, 5).double(), (48,))
    times = (1.0, 2.0, 3.0)
    u = torch.stack([2 * f * t for t in times], dim=1)
    data = OperatorDataset.from_arrays(f, u, Grid((48,)), times=times).to(torch.float64)
    (result,) = evaluate_resolutions(Double(), data, 8, resolutions=(24,))
    assert result.interpolated.times == times
    frames = [result.interpolated.values(f"relative_l2 t={t:g}") for t in times]
    assert float(torch.stack(frames).max()) < 1e-13


@pytest.mark.parametrize(
    ("trained_at", "resolutions", "message"),
    [(7, (8,), "resolution 7 of a"), (8, (96,), "resolution 96"), (8, (1,), "resolution 1 ")],
)
def test_a_resolution_must_be_points_of_the_finest_grid(trained_at, resolutions, message):
    with pytest.raises(ValueError, match=message):
        evaluate_resolutions(Double(), band_limited(), trained_at, resolutions=resolutions)


def test_seen_and_unnetwork_times_are_apart():
    times = [0.05 * (k + 1) for k in range(6)]
    trained = [0.05, 0.15, 0.25]
    f = torch.randn(3, 1, 8).double()
    u = torch.stack([2 * f * t for t in times], dim=1)
    data = OperatorDataset.from_arrays(f, u, Grid((8,)), times=times).to(torch.float64)

    class KnowsSome:
        def predict(self, inputs, *, grid, times):
            assert len(times) == 6  # all at once, as a rollout would need it
            known = [any(math.isclose(t, s) for s in trained) for t in times]
            factors = [t if k else 1.25 * t for t, k in zip(times, known, strict=True)]
            return torch.stack([2 * inputs * factor for factor in factors], dim=1)

    evaluation = evaluate(KnowsSome(), data, batch_size=2)
    seen, unseen = evaluation.split_times(trained)
    assert seen == pytest.approx(0, abs=1e-14)
    assert unseen == pytest.approx(0.25)
    for bad in (times, [7.0]):
        with pytest.raises(ValueError, match="expected some and not all"):
            evaluation.split_times(bad)
    with pytest.raises(ValueError, match="static"):
        evaluate(Double(), band_limited()).split_times(trained)


def test_errors_over_some_times_are_those_of_the_frames_together():
    u = torch.randn(3, 4, 2, 8).double() * torch.tensor([1.0, 10.0, 0.1, 3.0]).double().reshape(
        1, 4, 1, 1
    )
    v = u + 0.1 * torch.randn_like(u)

    class Given:
        def predict(self, inputs, *, grid, times):
            return v[:, : len(times)]

    data = OperatorDataset.from_arrays(u[:, 0], u, Grid((8,)), times=(1, 2, 3, 4))
    first, rest = evaluate(Given(), data.to(torch.float64)).split_times([1.0, 3.0])
    expected = (v - u)[:, 1::2].flatten(1).norm(dim=1) / u[:, 1::2].flatten(1).norm(dim=1)
    assert rest == pytest.approx(float(expected.mean()), rel=1e-12)
    expected = (v - u)[:, ::2].flatten(1).norm(dim=1) / u[:, ::2].flatten(1).norm(dim=1)
    assert first == pytest.approx(float(expected.mean()), rel=1e-12)


def test_predictions_that_were_kept_are_interpolated_without_predicting_again():
    data, predicted = band_limited(), []

    class Counted(Double):
        def predict(self, inputs, *, grid, times):
            predicted.append(grid.shape)
            return super().predict(inputs, grid=grid, times=times)

    model = Counted()
    evaluation = evaluate(model, data.subsample(4), keep=True)
    results = evaluate_resolutions(
        model, data, 12, resolutions=(12, 24), evaluation=evaluation, batch_size=2
    )
    assert predicted == [(12,), (24,), (24,)]
    assert results[0].zero_shot is evaluation
    with pytest.raises(ValueError, match="keep=True"):
        evaluate_resolutions(
            model, data, 12, resolutions=(24,), evaluation=evaluate(model, data.subsample(4))
        )
