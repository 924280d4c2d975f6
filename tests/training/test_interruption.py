"""Runs that are interrupted, damaged or changed: they end as they would have, or say why not."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch
from torch import nn

from pdno import FNO
from pdno.data.dataset import OperatorDataset
from pdno.interface.errors import TrainingStopped
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import load_checkpoint
from pdno.training.fit import fit
from pdno.training.samples import epoch_order
from pdno.training.task import Markov, Rollout

GRID = Grid((16,))
# 12 samples in batches of 5: three steps per epoch, the last with two samples
SETTINGS = {"epochs": 3, "batch_size": 5, "learning_rate": 0.01, "schedule": "cosine", "seed": 2}
EVERY_STEP = {"checkpoint_seconds": 0.0}


class Interrupted(Exception):
    """What ends a run from outside."""


class Fragile(nn.Module):
    """A network with dropout that breaks, or does something else, at a chosen moment.

    Arguments:
        step: The training step, from 1, in whose forward pass it happens.
        test: The test batch, from 1, in which it happens.
        act: What happens.
    """

    def __init__(self, *, step=None, test=None, act=None, seed=0, channels=1, dropout=0.2):
        super().__init__()
        torch.manual_seed(seed)
        self.inner = FNO(1, channels, 1, width=4, layers=2, modes=4)
        self.dropout = nn.Dropout(dropout)
        self.moment = (step, test)
        self.counts = [0, 0]
        self.act = act or self.fail

    def forward(self, f, grid):
        kind = 0 if self.training else 1
        self.counts[kind] += 1
        if self.counts[kind] == self.moment[kind]:
            self.act()
        return self.dropout(self.inner(f, grid=grid))

    @staticmethod
    def fail():
        raise Interrupted


def static_data(count=12, seed=0):
    f = torch.randn(count, 1, 16, generator=torch.Generator().manual_seed(seed))
    return OperatorDataset.from_arrays(f, f.cumsum(-1) + 1, GRID)


def frames_data(seed=0):
    frames = torch.randn(4, 5, 1, 16, generator=torch.Generator().manual_seed(seed))
    data = OperatorDataset.from_arrays(frames[:, 0], frames, GRID, times=range(5))
    return data.window(inputs=2)


def train(folder, network=None, **options):
    return fit(
        network or Fragile(),
        options.pop("data", None) or static_data(),
        options.pop("tests", None) or static_data(4, seed=1),
        folder=folder,
        **{**SETTINGS, **options},
    )


def outcome(folder):
    """All that a run leaves but its time: weights, optimiser, position, history."""
    found = load_checkpoint(folder / "checkpoints")
    state = {**found.state, "seconds": 0.0, "cpu_seconds": 0.0}
    state["history"] = [{**row, "seconds": 0.0} for row in state["history"]]
    lines = (folder / "history.csv").read_text().splitlines()
    table = [line.rpartition(",")[0] for line in lines]
    return found.tensors, state, table


def assert_same(folder, expected):
    tensors, state, table = outcome(folder)
    assert tensors.keys() == expected[0].keys()
    assert [name for name in tensors if not torch.equal(tensors[name], expected[0][name])] == []
    assert state == expected[1] and table == expected[2]


def checkpoints(folder):
    return sorted((folder / "checkpoints").iterdir())


def interrupt(folder, error=Interrupted, **moment):
    options = moment.pop("options", EVERY_STEP)
    with pytest.raises(error):
        train(folder, Fragile(**moment), **options)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    torch.set_num_threads(1)
    run = train(folder)
    assert run.history[-1].step == 9 and run.history[-1].train < run.history[0].train
    tensors = load_checkpoint(folder / "checkpoints").tensors
    assert any(name.startswith("optimiser.") for name in tensors)
    return outcome(folder)


# Interruptions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("moment", "steps"),
    [
        ({"step": 2}, 1),  # within the first epoch
        ({"step": 6}, 5),  # within another
        ({"test": 1}, 3),  # between the last step of an epoch and its end
        ({"test": 3}, 9),  # the same at the very end
        ({"step": 4}, 3),  # between two epochs
        ({"step": 9}, 8),  # before the last step
    ],
    ids=str,
)
def test_a_run_goes_on_to_the_bit(tmp_path, undisturbed, moment, steps):
    interrupt(tmp_path, **moment)
    assert load_checkpoint(tmp_path / "checkpoints").state["step"] == steps
    # another start shows that every number comes from the checkpoint
    train(tmp_path, Fragile(seed=99), **EVERY_STEP)
    assert_same(tmp_path, undisturbed)


def test_a_run_goes_on_as_often_as_it_takes(tmp_path, undisturbed):
    for _ in range(8):
        interrupt(tmp_path, step=2)  # each time one step further
    run = train(tmp_path)
    assert_same(tmp_path, undisturbed)
    assert [row.epoch for row in run.history] == [1, 2, 3]


def test_steps_after_the_checkpoint_are_taken_again(tmp_path, undisturbed, monkeypatch):
    """A checkpoint of step 2, an interruption in step 6."""
    clock = iter(range(10**6))
    with monkeypatch.context() as patch:
        patch.setattr("pdno.training.fit.time.monotonic", lambda: float(next(clock)))
        interrupt(tmp_path, step=6, options={"checkpoint_seconds": 5.0})
    step = load_checkpoint(tmp_path / "checkpoints").state["step"]
    assert 1 <= step < 5
    train(tmp_path)
    assert_same(tmp_path, undisturbed)


def test_a_run_without_a_checkpoint_begins_anew(tmp_path, undisturbed):
    interrupt(tmp_path, step=6, options={"checkpoint_seconds": 1000.0})
    assert load_checkpoint(tmp_path / "checkpoints") is None
    train(tmp_path)
    assert_same(tmp_path, undisturbed)


def test_a_finished_run_is_read_and_not_run(tmp_path, undisturbed):
    first = train(tmp_path)
    network = Fragile(seed=3)
    again = train(tmp_path, network)
    # one evaluation, of the sample that is drawn
    assert network.counts == [0, 1] and again.history == first.history
    assert_same(tmp_path, undisturbed)
    f = static_data(2, seed=7).batch()[0]
    assert torch.equal(again.predict(f, grid=GRID), first.predict(f, grid=GRID))


@pytest.mark.parametrize("kind", ["none", "pointwise"])
@pytest.mark.parametrize("task", [Rollout(), Markov(noise=0.1, frames=2)], ids=lambda t: t.kind)
def test_other_tasks_go_on_to_the_bit(tmp_path, task, kind):
    options = {"task": task, "data": frames_data(), "tests": frames_data(1), "batch_size": 3}
    options["normalization"] = kind

    def network(**moment):
        # a network that is rolled out is called once in every frame
        return Fragile(channels=2, dropout=0.0, **moment)

    train(tmp_path / "whole", network(), **options)
    with pytest.raises(Interrupted):
        train(tmp_path / "broken", network(step=5), **options, **EVERY_STEP)
    train(tmp_path / "broken", network(seed=5), **options)
    assert_same(tmp_path / "broken", outcome(tmp_path / "whole"))


@pytest.mark.parametrize("options", [{"precision": "float64"}, {"optimiser": "adamw"}], ids=str)
def test_other_settings_go_on_to_the_bit(tmp_path, options):
    train(tmp_path / "whole", **options)
    interrupt(tmp_path / "broken", step=5, options={**options, **EVERY_STEP})
    train(tmp_path / "broken", **options)
    assert_same(tmp_path / "broken", outcome(tmp_path / "whole"))


def test_the_patience_of_a_run_survives(tmp_path):
    """The test samples want something else than the training samples."""
    f = torch.randn(4, 1, 16)
    options = {"tests": OperatorDataset.from_arrays(f, -f, GRID), "epochs": 30, "patience": 2}
    options["learning_rate"] = 0.05
    run = train(tmp_path / "whole", **options)
    last = run.history[-1].epoch
    assert last < 30
    for epoch in range(1, last):
        with pytest.raises(Interrupted):
            train(tmp_path / "broken", Fragile(test=2), **options, **EVERY_STEP)
        assert len(load_checkpoint(tmp_path / "broken/checkpoints").state["history"]) == epoch
    train(tmp_path / "broken", **options)
    assert_same(tmp_path / "broken", outcome(tmp_path / "whole"))
    # with more of it the same run goes on from where it stopped
    more = {**options, "patience": 4}
    train(tmp_path / "broken", **more)
    train(tmp_path / "patient", **more)
    assert outcome(tmp_path / "patient")[1]["step"] > 3 * last
    assert_same(tmp_path / "broken", outcome(tmp_path / "patient"))


# Files ------------------------------------------------------------------------------------------


def test_the_last_two_checkpoints_are_kept(tmp_path):
    interrupt(tmp_path, step=6)
    assert [path.name[:13] for path in checkpoints(tmp_path)] == ["step-00000004", "step-00000005"]
    train(tmp_path, **EVERY_STEP)
    assert [path.name[:13] for path in checkpoints(tmp_path)] == ["step-00000008", "step-00000009"]


def test_what_a_killed_run_left_half_written_is_removed(tmp_path, undisturbed):
    interrupt(tmp_path, step=6)
    for name in ("step-00000005.draft", ".step-00000005.draft.123.tmp"):
        (tmp_path / "checkpoints" / name).write_bytes(b"half")
    (tmp_path / ".history.csv.123.tmp").write_bytes(b"half")
    (tmp_path / "notes.tmp").write_text("not ours")
    train(tmp_path, checkpoint_seconds=1000.0)
    assert_same(tmp_path, undisturbed)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "checkpoints",
        "checksums.json",
        "history.csv",
        "metrics.csv",
        "model_card.md",
        "notes.tmp",
        "operator.json",
        "samples.safetensors",
        "weights.safetensors",
    ]
    assert all(path.suffix == ".safetensors" for path in checkpoints(tmp_path))


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [flip, truncate, empty])
def test_a_damaged_checkpoint_is_found_out_and_the_one_before_it_is_used(
    tmp_path, undisturbed, damage, capsys
):
    interrupt(tmp_path, step=6)
    latest = checkpoints(tmp_path)[-1]
    damage(latest)
    capsys.readouterr()
    assert load_checkpoint(tmp_path / "checkpoints").state["step"] == 4
    message = capsys.readouterr().err
    assert message.startswith(f"{latest} is damaged") and "SHA-256" in message
    train(tmp_path, **EVERY_STEP)
    assert f"{latest} is damaged" in capsys.readouterr().err
    assert_same(tmp_path, undisturbed)
    # the damaged one does not stand in the way of new ones
    assert len(checkpoints(tmp_path)) == 2 and latest not in checkpoints(tmp_path)


@pytest.mark.parametrize("finished", [False, True])
def test_when_all_checkpoints_are_damaged_the_run_begins_anew(
    tmp_path, undisturbed, finished, capsys
):
    if finished:
        train(tmp_path, **EVERY_STEP)
    else:
        interrupt(tmp_path, step=6)
    assert len(checkpoints(tmp_path)) == 2
    for path in checkpoints(tmp_path):
        flip(path)
    interrupt(tmp_path, step=3)
    assert capsys.readouterr().err.count("is damaged") == 2
    # its new checkpoints are kept, although the damaged ones claim to be later
    assert load_checkpoint(tmp_path / "checkpoints").state["step"] == 2
    train(tmp_path)
    assert_same(tmp_path, undisturbed)


# Changes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 4),
        ("batch_size", 4),
        ("learning_rate", 0.02),
        ("weight_decay", 0.5),
        ("optimiser", "adamw"),
        ("schedule", "constant"),
        ("clip", 1.0),
        ("loss_order", 1.0),
        ("reduction", "mean"),
        ("precision", "float64"),
        ("seed", 3),
    ],
)
def test_a_changed_setting_is_refused_by_name(tmp_path, name, value):
    interrupt(tmp_path, step=2)
    before = [path.read_bytes() for path in checkpoints(tmp_path)]
    with pytest.raises(ValueError, match=f"{name} was .*, is {value}.*take another folder"):
        train(tmp_path, **{name: value})
    assert [path.read_bytes() for path in checkpoints(tmp_path)] == before


def test_changed_data_tasks_and_networks_are_refused(tmp_path):
    interrupt(tmp_path, step=2)
    with pytest.raises(ValueError, match="examples was 12, is 11"):
        train(tmp_path, data=static_data(11))
    with pytest.raises(ValueError, match="task.kind was static, is rollout"):
        train(tmp_path, data=frames_data(), tests=frames_data(), task=Rollout())
    f = torch.randn(12, 1, 32)
    with pytest.raises(ValueError, match=r"grid was Grid\(shape=\(16,\).*shape=\(32,\)"):
        train(tmp_path, data=OperatorDataset.from_arrays(f, f, Grid((32,))))
    with pytest.raises(ValueError, match="another network or normalisation"):
        train(tmp_path, FNO(1, 1, 1, width=5, layers=2, modes=4))
    with pytest.raises(ValueError, match="another network or normalisation"):
        train(tmp_path, normalization="pointwise")


def test_how_often_it_saves_and_measures_may_change(tmp_path, undisturbed):
    interrupt(tmp_path, step=2)
    train(tmp_path, checkpoint_seconds=7.0, evaluate_every=3, patience=9)
    tensors = outcome(tmp_path)[0]
    assert all(torch.equal(tensors[name], undisturbed[0][name]) for name in tensors)


# Numbers that run away --------------------------------------------------------------------------


def test_a_run_with_a_nan_in_its_data_keeps_its_last_good_checkpoint(tmp_path):
    f, u = static_data().batch()
    data = OperatorDataset.from_arrays(f, u, GRID)
    # datasets refuse it; here it gets in behind their back, into the second batch of all
    f[epoch_order(12, seed=2, epoch=0)[6], 0, 3] = torch.nan
    messages = []
    for _ in range(2):  # the same command ends in the same place
        with pytest.raises(TrainingStopped, match="the loss is not finite at step 2.*NaN") as stop:
            train(tmp_path, data=data, **EVERY_STEP)
        assert not stop.value.resumable
        assert f"The last good checkpoint is in {tmp_path}." in str(stop.value)
        messages.append(str(stop.value))
        found = load_checkpoint(tmp_path / "checkpoints")
        assert found.state["step"] == 1
        assert all(value.isfinite().all() for value in found.tensors.values())
    assert messages[0] == messages[1]


def test_no_checkpoint_is_promised_where_there_is_none(tmp_path):
    f, u = static_data().batch()
    data = OperatorDataset.from_arrays(f, u, GRID)
    f[:] = torch.nan
    with pytest.raises(TrainingStopped, match="not finite at step 1") as stop:
        train(tmp_path, data=data)
    assert "last good checkpoint" not in str(stop.value)
    assert load_checkpoint(tmp_path / "checkpoints") is None


# Signals ----------------------------------------------------------------------------------------


def ask_to_stop(number):
    return lambda: os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize(
    ("moment", "steps"),
    [({"step": 5}, 5), ({"test": 1}, 4), ({"test": 3}, 9)],  # the last one is the last of all
    ids=str,
)
def test_a_signal_lets_the_step_end_saves_and_stops(tmp_path, undisturbed, number, moment, steps):
    before = signal.getsignal(number)
    with pytest.raises(TrainingStopped, match=f"stopped after step {steps}; the same co") as stop:
        train(tmp_path, Fragile(act=ask_to_stop(number), **moment))
    assert stop.value.resumable and signal.getsignal(number) is before
    assert load_checkpoint(tmp_path / "checkpoints").state["step"] == steps
    train(tmp_path, Fragile(seed=8))
    assert_same(tmp_path, undisturbed)


def test_without_a_folder_control_c_is_what_it_always_is():
    with pytest.raises(KeyboardInterrupt):
        train(None, Fragile(step=2, act=ask_to_stop(signal.SIGINT)))


def test_training_in_another_thread_needs_no_signals(tmp_path, undisturbed):
    # a network is built from the global generator, so not in the thread
    network, problems = Fragile(), []

    def work():
        try:
            train(tmp_path, network)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert problems == [] and not thread.is_alive()
    assert_same(tmp_path, undisturbed)


SCRIPT = """
import sys, time
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
from test_interruption import Fragile, TrainingStopped, train
network = Fragile()
network.register_forward_pre_hook(lambda *_: time.sleep(0.05))
try:
    train({folder!r}, network, checkpoint_seconds=0.01)
except TrainingStopped as stopped:
    print(stopped)
    sys.exit(75 if stopped.resumable else 1)
"""


def test_a_process_that_is_told_to_end_can_go_on(tmp_path, undisturbed):
    tests, folder = os.path.dirname(__file__), tmp_path / "run"
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=tests, folder=str(folder)))
    process = subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not list(folder.glob("checkpoints/*.safetensors")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGTERM)
    said, errors = process.communicate(timeout=60)
    assert process.returncode == 75, errors
    step = load_checkpoint(folder / "checkpoints").state["step"]
    assert step < 9 and said == f"stopped after step {step}; the same command goes on from there\n"
    train(folder)
    assert_same(folder, undisturbed)
