"""One trained operator in several threads: predictions are those of a thread alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

import pdno
from pdno.training.operator_record import Sampling
from pdno.training.trained_operator import TrainedOperator

GRIDS = [pdno.Grid((12, 12)), pdno.Grid((16, 16)), pdno.Grid((24, 24))]


class Waiting(nn.Module):
    """f, or zero in training; each call waits until it is released, in the order of the calls."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(1))
        self.calls = [(threading.Event(), threading.Event()) for _ in range(2)]
        self.waiting = iter(self.calls)

    def forward(self, f):
        entered, released = next(self.waiting)
        entered.set()
        assert released.wait(60)
        return 0 * f if self.training else self.weight * f


def test_a_network_in_training_is_so_again_when_the_last_thread_has_predicted():
    """The first to begin is the first to end, while the other still predicts."""
    operator, f = TrainedOperator(Waiting()), torch.ones(1, 1, 8)
    with ThreadPoolExecutor(2) as pool:
        predictions = []
        for entered, _ in operator.network.calls:
            predictions.append(pool.submit(operator.predict, f, grid=pdno.Grid((8,))))
            assert entered.wait(60)
        for (_, released), prediction in zip(operator.network.calls, predictions, strict=True):
            assert not operator.network.training
            released.set()
            assert torch.equal(prediction.result(60), f)
    assert operator.training and operator.network.training


def test_predictions_are_right_while_another_thread_freezes_and_unfreezes():
    torch.manual_seed(0)
    network = pdno.PDNO(2, 1, 1, width=4, modes=4, layers=2, symbol_hidden=4)
    operator = TrainedOperator(network, sampling=Sampling(GRIDS[0], 1, 1)).eval()
    inputs = [torch.randn(1, 1, *grid.shape) for grid in GRIDS]
    alone = [operator.predict(f, grid=grid) for f, grid in zip(inputs, GRIDS, strict=True)]
    done = threading.Event()

    def change():
        while not done.is_set():
            for grid in GRIDS:
                operator.freeze(grid)
            network.unfreeze()

    def predict():
        return [
            [operator.predict(f, grid=grid) for f, grid in zip(inputs, GRIDS, strict=True)]
            for _ in range(5)
        ]

    with ThreadPoolExecutor(4) as pool:
        changing = pool.submit(change)
        runs = [future.result() for future in [pool.submit(predict) for _ in range(3)]]
        done.set()
        changing.result()
    for predictions in (turn for run in runs for turn in run):
        for prediction, expected in zip(predictions, alone, strict=True):
            torch.testing.assert_close(prediction, expected, rtol=1e-4, atol=1e-5)
