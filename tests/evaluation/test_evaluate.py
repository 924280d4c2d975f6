"""Evaluation: exact errors of known predictors, the laws between the metrics, bare networks."""

import math

import pytest
import torch
from torch import nn

from pdno.data.dataset import OperatorDataset
from pdno.evaluation.evaluate import (
    as_predictor,
    evaluate,
    octaves,
)
from pdno.networks.pdno import PDNO
from pdno.spectral.grid import Grid
from pdno.training.samples import evaluation_mode

TIMES = (0.1, 0.2, 0.30000000000000004)


class Scaled(nn.Module):
    """The truth times a number, for data whose targets are the input at each time."""

    def __init__(self, factor=1.0):
        super().__init__()
        self.factor = factor

    def predict(self, inputs, *, grid, times):
        field = self.factor * inputs
        return field if times is None else torch.stack([field * (1 + t) for t in times], dim=1)


class Noisy(nn.Module):
    """The truth and an error that depends on the sample alone."""

    def predict(self, inputs, *, grid, times):
        return Scaled().predict(inputs + 0.1 * inputs.roll(1, -1) ** 2, grid=grid, times=times)


def static(samples=7, shape=(16,), grid=None):
    f = torch.randn(samples, 1, *shape)
    return OperatorDataset.from_arrays(f, f.clone(), grid or Grid(shape)).to(torch.float64)


def trajectories(samples=7, shape=(16,)):
    f = torch.randn(samples, 1, *shape, dtype=torch.float64)
    u = torch.stack([f * (1 + t) for t in TIMES], dim=1)
    return OperatorDataset.from_arrays(f, u, Grid(shape), times=TIMES).to(torch.float64)


datasets = pytest.mark.parametrize("make", [static, trajectories])


@datasets
def test_the_truth_has_no_error(make):
    numbers = evaluate(Scaled(), make()).metrics()
    assert set(numbers.values()) == {0.0}


@datasets
def test_a_multiple_of_the_truth_is_off_by_its_factor(make):
    numbers = evaluate(Scaled(1.1), make(shape=(8, 8))).metrics()
    whole = {name: value for name, value in numbers.items() if "band" not in name}
    assert set(whole) >= {"relative_l2", "relative_h1"}
    assert whole == pytest.approx(dict.fromkeys(whole, 0.1), rel=1e-12)


@datasets
@pytest.mark.parametrize("batch_size", [1, 3, 7, 100])
def test_the_batch_size_changes_nothing(make, batch_size):
    data = make()
    expected, found = evaluate(Noisy(), data), evaluate(Noisy(), data, batch_size=batch_size)
    assert list(found.errors) == list(expected.errors)
    assert len(found.values()) == len(data)
    for name, errors in expected.errors.items():
        assert torch.allclose(found.errors[name], errors, rtol=1e-12, atol=0)


def test_frames_make_up_the_block():
    data = trajectories()
    result = evaluate(Noisy(), data)
    sizes = data.batch()[1].flatten(2).norm(dim=2)
    over_time = torch.stack([result.values(f"relative_l2 t={t:g}") for t in TIMES], dim=1)
    block = (over_time * sizes).norm(dim=1) / sizes.norm(dim=1)
    assert torch.allclose(block, result.values("relative_l2"), rtol=1e-12)


def test_bands_make_up_the_error_on_any_grid():
    for grid in (Grid((16, 16)), Grid.cells((16, 16)), Grid((16, 16), periodic=False)):
        result = evaluate(Noisy(), static(shape=(16, 16), grid=grid))
        names = [name for name in result.errors if "band" in name]
        assert [name.split()[-1] for name in names] == ["0-1", "1-2", "2-4", "4+"]
        bands = torch.stack([result.values(name) for name in names], dim=1)
        assert torch.allclose(bands.norm(dim=1), result.values(), rtol=1e-12)


def test_names_are_stable():
    result = evaluate(Noisy(), trajectories(shape=(8,)))
    assert list(result.metrics()) == [
        "relative_l2",
        "relative_l2 t=0.1",
        "relative_l2 t=0.2",
        "relative_l2 t=0.3",
        "relative_h1",
        "relative_l2 band 0-1",
        "relative_l2 band 1-2",
        "relative_l2 band 2+",
        "best relative_l2",
        "worst relative_l2",
    ]


def test_best_and_worst_are_samples_of_the_dataset():
    f = torch.randn(5, 1, 8)
    factors = torch.tensor([1.2, 1.4, 1.1, 1.5, 1.3])[:, None, None]
    data = OperatorDataset.from_arrays(f * factors, f, Grid((8,)))
    result = evaluate(nn.Identity(), data, batch_size=2)
    assert (int(result.values().argmin()), int(result.values().argmax())) == (2, 3)
    numbers = result.metrics()
    assert numbers["best relative_l2"] == pytest.approx(0.1, rel=1e-5)
    assert numbers["worst relative_l2"] == pytest.approx(0.5, rel=1e-5)
    assert result.mean() == pytest.approx(0.3, rel=1e-5)


def test_sobolev_errors_are_for_the_torus():
    assert "relative_h1" in evaluate(Noisy(), static()).errors
    box = evaluate(Noisy(), static(grid=Grid.cells((16,))))
    with pytest.raises(ValueError, match="no metric 'relative_h1'"):
        box.mean("relative_h1")


def test_h1_and_bands_of_a_single_wave():
    x = Grid((32,)).points().T[None]
    u, error = torch.cos(2 * math.pi * x), 0.01 * torch.cos(2 * math.pi * 5 * x)
    data = OperatorDataset.from_arrays(u + error, u, Grid((32,))).to(torch.float64)
    numbers = evaluate(nn.Identity(), data).metrics()
    assert numbers["relative_h1"] == pytest.approx(0.01 * math.sqrt(26 / 2))
    assert numbers["relative_l2 band 4-8"] == pytest.approx(0.01)
    assert numbers["relative_l2 band 2-4"] == pytest.approx(0, abs=1e-12)


def test_windows_are_asked_for_the_times_behind_them():
    asked = []

    class Asked:
        def predict(self, inputs, *, grid, times):
            asked.append((tuple(inputs.shape), times))
            return inputs[:, None, -1:]

    evaluate(Asked(), trajectories(samples=2).window(inputs=2))
    assert asked == [((2, 2, 16), (TIMES[2],))]


def test_a_prediction_that_is_not_finite_is_infinitely_wrong():
    class Broken:
        def predict(self, inputs, *, grid, times):
            prediction = Scaled(1.1).predict(inputs, grid=grid, times=times)
            prediction[2, 1, 0, 3] = math.nan
            return prediction

    result = evaluate(Broken(), trajectories())
    assert int(result.values().argmax()) == 2 and result.mean() == math.inf
    assert int(result.values().argmin()) != 2
    assert result.values("relative_l2 t=0.2")[2] == math.inf
    assert result.values("relative_l2 t=0.1")[2] == pytest.approx(0.1)
    assert not any(torch.isnan(errors).any() for errors in result.errors.values())


def test_large_errors_of_single_precision_do_not_overflow():
    data = static().to(torch.float32)
    assert evaluate(Scaled(1e30), data).mean() == pytest.approx(1e30, rel=1e-6)


def test_evaluation_is_in_evaluation_mode_without_gradients():
    class Watched(nn.Module):
        def predict(self, inputs, *, grid, times):
            assert not self.training and not torch.is_grad_enabled()
            return inputs

    predictor = Watched()
    evaluate(predictor, static())
    assert predictor.training and torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("points", "edges"),
    [(2, [0, 1]), (4, [0, 1]), (9, [0, 1, 2]), (16, [0, 1, 2, 4]), (64, [0, 1, 2, 4, 8, 16])],
)
def test_bands_are_octaves_below_the_highest_mode(points, edges):
    assert octaves(Grid((points,))) == edges


def test_what_makes_no_sense_is_refused():
    data = static()
    with pytest.raises(ValueError, match="batch_size is 0"):
        evaluate(Noisy(), data, batch_size=0)
    with pytest.raises(ValueError, match="dataset is empty"):
        evaluate(Noisy(), data.subset([]))
    with pytest.raises(ValueError, match=r"shape \(7, 1, 8\); expected.*\(7, 1, 16\)"):
        evaluate(nn.AvgPool1d(2), data)


def test_a_target_of_zero_is_named():
    u = torch.randn(5, 3, 1, 8)
    u[4, 1] = 0
    data = OperatorDataset.from_arrays(u[:, 0], u, Grid((8,)), times=TIMES)
    with pytest.raises(ValueError, match="sample 4 is zero everywhere at time 0.2"):
        evaluate(Scaled(), data, batch_size=2)


# Predictors: bare networks, their modes and grids, and which times are targets


def frames_data(frames=5):
    u = torch.randn(4, frames, 1, 8)
    return OperatorDataset.from_arrays(u[:, 0], u, Grid((8,)), times=range(1, frames + 1))


def test_the_targets_of_a_window_are_behind_it():
    data = frames_data()
    assert data.target_times == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert data.window(inputs=2).target_times == (3.0, 4.0, 5.0)
    assert data.window(inputs=2, outputs=1).target_times == (3.0,)
    static = OperatorDataset.from_arrays(torch.ones(2, 1, 8), torch.ones(2, 1, 8), Grid((8,)))
    assert static.target_times is None


def test_a_network_is_told_the_grid_of_the_data():
    network = PDNO(dim=1, in_channels=1, out_channels=1, width=4, layers=1, symbol_hidden=4)
    f, cells = torch.randn(2, 1, 8), Grid.cells((8,))
    prediction = as_predictor(network).predict(f, grid=cells, times=None)
    with torch.no_grad():
        assert torch.equal(prediction, network(f, grid=cells))
        assert not torch.allclose(prediction, network(f))


def test_a_network_predicts_in_evaluation_mode_and_gets_its_modes_back():
    network = nn.Sequential(nn.Dropout(0.5), nn.Sequential(nn.Dropout(0.5)), nn.Linear(64, 64))
    network[1].eval()
    f = torch.randn(2, 1, 64)
    prediction = as_predictor(network).predict(f, grid=Grid((64,)), times=None)
    assert torch.equal(prediction, network[2](f)) and not prediction.requires_grad
    modes = [module.training for module in network.modules()]
    assert modes == [True, True, False, False, True]


def test_modes_come_back_after_an_error():
    network = nn.Linear(2, 2)
    with pytest.raises(RuntimeError, match="stop"), evaluation_mode(network):
        assert not network.training and not torch.is_grad_enabled()
        raise RuntimeError("stop")
    assert network.training and torch.is_grad_enabled()


def test_a_bare_network_gives_one_frame_and_no_more():
    predictor = as_predictor(nn.Identity())
    f, grid = torch.randn(2, 1, 8), Grid((8,))
    assert torch.equal(predictor.predict(f, grid=grid, times=(1.0,)), f[:, None])
    with pytest.raises(ValueError, match="one frame, not 2"):
        predictor.predict(f, grid=grid, times=(1.0, 2.0))


def test_a_predictor_stays_what_it_is_and_anything_else_is_refused():
    predictor = as_predictor(nn.Identity())
    assert as_predictor(predictor) is predictor
    with pytest.raises(ValueError, match="a str does not predict"):
        as_predictor("PDNO")
