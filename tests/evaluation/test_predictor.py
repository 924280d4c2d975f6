"""Predictors: bare networks, their modes and grids, and which times are targets."""

import pytest
import torch
from torch import nn

from pdno.data.dataset import OperatorDataset
from pdno.evaluation.evaluate import as_predictor
from pdno.grid import Grid
from pdno.networks.pdno import PDNO
from pdno.training.learner import evaluation_mode


def trajectories(frames=5):
    u = torch.randn(4, frames, 1, 8)
    return OperatorDataset.from_arrays(u[:, 0], u, Grid((8,)), times=range(1, frames + 1))


def test_the_targets_of_a_window_are_behind_it():
    data = trajectories()
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
    with pytest.raises(ValueError, match="one frame, the dataset wants 2"):
        predictor.predict(f, grid=grid, times=(1.0, 2.0))


def test_a_predictor_stays_what_it_is_and_anything_else_is_refused():
    predictor = as_predictor(nn.Identity())
    assert as_predictor(predictor) is predictor
    with pytest.raises(ValueError, match="a str does not predict"):
        as_predictor("PDNO")
