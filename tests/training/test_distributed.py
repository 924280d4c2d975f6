"""Several processes train like one: the same losses to rounding, the same weights in each."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch
from torch import nn

from pdno import FNO
from pdno.data.dataset import OperatorDataset
from pdno.interface.errors import TrainingStopped
from pdno.spectral.grid import Grid
from pdno.training.distributed import ProcessGroup
from pdno.training.fit import fit
from pdno.training.task import Markov, Rollout, StaticMap

GRID = Grid((16,))
# 11 samples in batches of 5: an odd batch, and a last one with a single sample
BATCHES = {"epochs": 3, "batch_size": 5, "learning_rate": 0.01, "schedule": "constant"}
CASES = {
    "sum": (StaticMap(), {"reduction": "sum"}),
    "mean and clip": (StaticMap(), {"reduction": "mean", "clip": 0.05}),
    "rollout": (Rollout(), {"reduction": "sum", "patience": 1, "learning_rate": 0.05}),
    "rollout mean": (Rollout(recompute=True), {"reduction": "mean"}),
    "noise": (Markov(noise=0.1), {"reduction": "sum", "batch_size": 7}),
}


def static_data(count=11, seed=0):
    f = torch.randn(count, 1, 16, generator=torch.Generator().manual_seed(seed))
    return OperatorDataset.from_arrays(f, f.cumsum(-1) + 1, GRID)


def frames_data(count=11, seed=0):
    frames = torch.randn(count, 4, 1, 16, generator=torch.Generator().manual_seed(seed))
    data = OperatorDataset.from_arrays(frames[:, 0], frames, GRID, times=range(4))
    return data.window(inputs=1)


class StopsAt(nn.Module):
    """A network to which something happens in a chosen step."""

    def __init__(self, network, step, act):
        super().__init__()
        self.network, self.step, self.act = network, step, act

    def forward(self, f, grid):
        self.step -= self.training
        if self.step == 0:
            self.act()
        return self.network(f, grid=grid)


def fail():
    raise InterruptedError


def train(name, rank=0, **options):
    """The history of a run and its last weights, as JSON knows them."""
    # only the first process has the right start; the others are given it
    torch.manual_seed(1 + rank)
    network = FNO(1, 1, 1, width=4, layers=2, modes=4)
    task, settings = CASES[name]
    make = static_data if isinstance(task, StaticMap) else frames_data
    trained = fit(
        StopsAt(network, options.pop("stop", -1), options.pop("act", fail)),
        make(),
        make(5, seed=1),
        task=task,
        **{**BATCHES, **settings, **options},
    )
    rows = [{"loss": row.loss, "train": row.train, "test": row.test} for row in trained.history]
    weights = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    return {"rows": rows, "weights": weights.tolist()}


def train_with_a_break(folder, rank):
    """A run that breaks in its fifth step, in all processes, and is then continued."""
    options = {"folder": folder, "checkpoint_seconds": 0.0}
    try:
        train("sum", rank, stop=5, **options)
    except InterruptedError:
        return train("sum", rank + 10, **options)


def train_with_a_signal(folder, rank):
    """A run in which one process is asked to end, in the fifth step, and is then continued."""

    def ask():
        if rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)

    try:
        train("sum", rank, stop=5, act=ask, folder=folder)
    except TrainingStopped as stopped:
        assert stopped.resumable
        return {"said": str(stopped), **train("sum", rank + 10, folder=folder)}


def train_on_nothing(rank):
    """No sample is a number."""
    f, u = static_data().batch()
    data = OperatorDataset.from_arrays(f, u, GRID)
    f[:] = torch.nan
    try:
        fit(FNO(1, 1, 1, width=4, modes=4), data, **BATCHES)
    except TrainingStopped as stopped:
        return str(stopped)


SCRIPT = """
import json, os, sys
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
from pathlib import Path
from test_distributed import *
folder, rank = Path({folder!r}), int(os.environ["RANK"])
found = {{name: train(name, rank) for name in CASES}}
found["broken"] = train_with_a_break(folder / "run", rank)
found["asked"] = train_with_a_signal(folder / "asked", rank)
found["nothing"] = train_on_nothing(rank)
(folder / f"{{rank}}.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What each of two processes found, in one run of torchrun."""
    folder = tmp_path_factory.mktemp("torchrun")
    script = folder / "script.py"
    script.write_text(SCRIPT.format(tests=os.path.dirname(__file__), folder=str(folder)))
    command = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2", str(script)]
    with subprocess.Popen(
        [sys.executable, "-m", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            _, errors = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.terminate()  # it ends those it has started, which a kill would not
            raise
    assert process.returncode == 0, errors
    assert "Warning" not in errors
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in (0, 1)], folder


@pytest.mark.parametrize("name", CASES)
def test_two_processes_train_like_one(two_processes, name):
    (first, second), _ = two_processes
    assert first[name] == second[name]
    expected = train(name)
    assert len(first[name]["rows"]) == len(expected["rows"])
    for given, row in zip(first[name]["rows"], expected["rows"], strict=True):
        assert given == pytest.approx(row, rel=1e-5)
    # and they have trained
    assert expected["rows"][-1]["loss"] < 0.99 * expected["rows"][0]["loss"]
    assert first[name]["weights"] == pytest.approx(expected["weights"], rel=1e-3, abs=1e-4)


def test_two_processes_go_on_to_the_bit(two_processes):
    (first, second), folder = two_processes
    assert first["broken"] == second["broken"] == first["sum"]
    assert sorted(path.name for path in (folder / "run").iterdir()) == [
        ".lock",
        "checkpoints",
        "checksums.json",
        "history.csv",
        "metrics.csv",
        "model_card.md",
        "operator.json",
        "samples.safetensors",
        "weights.safetensors",
    ]


def test_a_signal_to_one_process_stops_all_of_them_in_the_same_step(two_processes):
    (first, second), _ = two_processes
    assert first["asked"] == second["asked"]
    assert first["asked"].pop("said").startswith("stopped after step 5; the same command")
    assert first["asked"] == first["sum"]


def test_a_run_of_two_processes_is_a_run_of_one(two_processes):
    """What two have begun, one reads; it is finished, so there is nothing left to do."""
    (first, _), folder = two_processes
    assert (
        train("sum", rank=5, folder=folder / "run", stop=1)["weights"] == first["sum"]["weights"]
    )


def test_all_processes_say_why_a_run_ended(two_processes):
    (first, second), _ = two_processes
    assert "the loss is not finite at step 1" in first["nothing"] == second["nothing"]


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_shares_are_disjoint_and_complete(size):
    items = [4, 1, 3, 9, 0]
    shares = [ProcessGroup(rank, size, torch.device("cpu")).share(items) for rank in range(size)]
    assert sorted(item for share in shares for item in share) == sorted(items)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
