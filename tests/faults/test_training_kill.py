"""A training run that is killed at any moment ends with the bits of one left in peace."""

import random
import subprocess
import sys
import time

import pytest
import torch
from torch import nn

from pdno import FNO, PDNO
from pdno.data.dataset import OperatorDataset
from pdno.equations.evolution import Burgers
from pdno.networks.heads import TransportHead
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import load_checkpoint
from pdno.training.fit import fit
from pdno.training.task import Markov

GRID = Grid((16,))


def train(folder, epochs, kind="adam"):
    """A run with everything that could be forgotten: noise, dropout, normalisers, Adam, a rate.

    With muon it has a running mean of the weights and random symmetries as well; with transport
    also substeps, a velocity that is learned, and several frames at a time.
    """
    torch.set_num_threads(1)
    torch.manual_seed(1)
    frames = torch.randn(12, 6, 1, 16, generator=torch.Generator().manual_seed(0)).cumsum(1)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, GRID, times=range(6))
    samples, tests = data.window(inputs=1).split(test=3)
    network = nn.Sequential(FNO(1, 1, 8, width=6, modes=6), nn.Dropout(0.1), nn.Conv1d(8, 1, 1))
    more, task = {"optimiser": "adam"}, Markov(noise=0.05)
    if kind != "adam":
        samples = samples.with_symmetries(Burgers().symmetries)
        head = TransportHead(diffusion=True, substeps=2, velocity="learned")
        options = {"head": head} if kind == "transport" else {}
        network = PDNO(
            1, 1, 1, width=16, layers=2, modes=6, symbol="trunk", symbol_hidden=16, **options
        )
        more = {"optimiser": "muon", "averaging": 0.9, "augment": True}
    if kind == "transport":
        task = Markov(noise=0.05, residual=False, unroll=2)
    fit(
        network,
        samples,
        tests,
        task=task,
        normalization="pointwise" if kind == "adam" else "channel",
        folder=folder,
        epochs=epochs,
        batch_size=4,
        schedule="one-cycle",
        learning_rate=0.01,
        clip=1.0,
        checkpoint_seconds=0.02,
        evaluate_every=2,
        **more,
    )


SCRIPT = (
    "import sys; sys.path.insert(0, {!r}); from test_training_kill import train; "
    "train({!r}, {}, {!r})"
)


def start(folder, epochs, kind):
    here = __file__.rpartition("/")[0]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(here, str(folder), epochs, kind)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def latest(folder):
    return sorted(folder.glob("checkpoints/step-*.safetensors"))[-1:]


def wait_for_a_checkpoint(process, folder):
    before = latest(folder)
    while latest(folder) == before and process.poll() is None:
        time.sleep(0.002)


def outcome(folder):
    """All that a run leaves but its time, and whether anything half written lies about."""
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    kept = {"history.csv", "metrics.csv", "model_card.md", "operator.json"}
    kept |= {"samples.safetensors", "weights.safetensors", "checksums.json", ".lock"}
    assert len(names) == 2 + len(kept) and kept < names, names  # and two checkpoints
    found = load_checkpoint(folder / "checkpoints")
    lines = (folder / "history.csv").read_text().splitlines()
    return found.tensors, [line.rpartition(",")[0] for line in lines]


def kill_and_finish(folder, epochs, kind="adam", *, kills, longest):
    """Kill at random moments, then let it end; returns the steps at which it stood."""
    rng = random.Random(3)
    steps = []
    for number in range(kills):
        with start(folder, epochs, kind) as process:
            if number % 5 == 3:  # anywhere, also before the run has read its checkpoint
                time.sleep(rng.uniform(0.5, 5.0))
            else:
                wait_for_a_checkpoint(process, folder)
                # one is written every 20 ms, so that a kill often falls into the writing
                time.sleep(rng.uniform(0.0, longest))
            process.kill()
            process.wait()
            process.stderr.close()
        found = load_checkpoint(folder / "checkpoints")
        if found is not None and not found.state["finished"]:
            steps.append(found.state["step"])
    with start(folder, epochs, kind) as process:
        _, messages = process.communicate(timeout=300)
    assert process.returncode == 0, messages
    assert "damaged" not in messages
    return steps


def assert_the_same(folder, peace):
    tensors, rows = outcome(folder)
    expected, expected_rows = outcome(peace)
    assert tensors.keys() == expected.keys()
    assert [name for name in tensors if not torch.equal(tensors[name], expected[name])] == []
    assert rows == expected_rows


def test_a_run_that_was_killed_twice_ends_with_the_same_bits(tmp_path):
    train(tmp_path / "peace", epochs=8)
    steps = kill_and_finish(tmp_path / "killed", 8, kills=2, longest=0.1)
    assert len(steps) == 2 and 0 < steps[0] < steps[1] < 8 * 12
    assert_the_same(tmp_path / "killed", tmp_path / "peace")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["adam", "muon", "transport"])
def test_a_run_that_was_killed_ten_times_ends_with_the_same_bits(tmp_path, kind):
    train(tmp_path / "peace", 100, kind)
    steps = kill_and_finish(tmp_path / "killed", 100, kind, kills=10, longest=0.5)
    assert len(steps) >= 8 and steps == sorted(steps)
    assert_the_same(tmp_path / "killed", tmp_path / "peace")
