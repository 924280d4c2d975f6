"""Tasks without feedback, the samples they are made of, and the order in which examples come."""

import math

import pytest
import torch
from torch import nn

import pdno
import pdno.training.samples as samples_module
from pdno import FNO, PDNO
from pdno.data.dataset import OperatorDataset
from pdno.spectral.grid import Grid
from pdno.training.samples import Samples, epoch_order
from pdno.training.task import OneShot, SpaceTime, StaticMap
from pdno.training.trained_operator import TrainedOperator

CPU = torch.device("cpu")
GRID = Grid((16,))
TIMES = (0.1, 0.75, 1.0, 2.0, 3.5)  # the first is not a number of float32


def static(*, channels=1, count=6):
    f = torch.randn(count, channels, 16, dtype=torch.float64)
    return OperatorDataset.from_arrays(f, 2 * f + 1, GRID)


def trajectories(*, count=4, channels=1, times=TIMES):
    f = torch.randn(count, 1, 16, dtype=torch.float64)
    u = torch.randn(count, len(times), channels, 16, dtype=torch.float64)
    return OperatorDataset.from_arrays(f, u, GRID, times=times)


def widened(std):
    """Deviations with the ε of the normaliser, a share of the largest one of the channel."""
    return std + 1e-5 * std.amax(-1, keepdim=True)


def samples_of(data):
    return Samples(data, CPU, torch.float64)


def all_of(task, samples):
    return task.batch(samples, range(task.examples(samples)), seed=0, epoch=0)


class Decay(nn.Module):
    """f e^{-rate t}, at one time or at one per sample; it notes the times that it is shown."""

    def __init__(self, rate):
        super().__init__()
        self.rate = nn.Parameter(torch.tensor(rate, dtype=torch.float64))
        self.seen = []

    def forward(self, f, t):
        self.seen.append(t.detach().clone())
        return f * torch.exp(-self.rate * t).reshape(-1, 1, 1)


# Static maps ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "pointwise", "channel"])
def test_a_static_map_is_decode_network_encode(kind):
    data = static(channels=2)
    f, u = data.to(torch.float64).batch()
    network = FNO(1, 2, 2, width=4, layers=2, modes=4).double()
    operator = TrainedOperator.untrained(network, StaticMap(), samples_of(data), kind)
    over = 0 if kind == "pointwise" else (0, 2)

    def statistics(v):
        if kind == "none":
            return 0.0, 1.0
        return v.mean(over, keepdim=True), widened(v.std(over, keepdim=True))

    (mean_f, std_f), (mean_u, std_u) = statistics(f), statistics(u)
    with torch.no_grad():
        expected = network((f - mean_f) / std_f) * std_u + mean_u
    said = operator.predict(f, grid=GRID)
    torch.testing.assert_close(said, expected, rtol=1e-12, atol=1e-12)
    terms, errors = operator(all_of(StaticMap(), samples_of(data)), GRID)
    relative = (expected - u).flatten(1).norm(dim=1) / u.flatten(1).norm(dim=1)
    torch.testing.assert_close(terms[:, 0], relative)
    torch.testing.assert_close(errors, relative)


def test_one_frame_is_a_static_map_with_a_time_axis():
    data = trajectories(times=(1.0,))
    network = nn.Conv1d(1, 1, 1).double()
    operator = TrainedOperator.untrained(network, StaticMap(), samples_of(data))
    f, u = data.to(torch.float64).batch()
    said = operator.predict(f, grid=GRID, times=data.times)
    assert said.shape == u.shape and torch.equal(said[:, 0], network(f).detach())
    terms, _ = operator(all_of(StaticMap(), samples_of(data)), GRID)
    relative = (said - u).flatten(1).norm(dim=1) / u.flatten(1).norm(dim=1)
    torch.testing.assert_close(terms[:, 0], relative)


def test_prediction_is_in_the_type_of_its_inputs_and_leaves_the_mode_alone():
    class Doubtful(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(1))

        def forward(self, f):
            return f * (self.weight if not self.training else torch.nan)

    operator = TrainedOperator.untrained(Doubtful(), StaticMap(), Samples(static(), CPU))
    f = torch.randn(2, 1, 16, dtype=torch.float64)
    assert operator.training
    said = operator.predict(f, grid=GRID)
    assert said.dtype == torch.float64 and torch.equal(said, f.float().double())
    assert operator.training and operator.network.training and not said.requires_grad


# Samples and their order ------------------------------------------------------------------------


def test_samples_that_do_not_fit_in_memory_are_read_when_needed(monkeypatch):
    data = trajectories()
    kept = samples_of(data)
    monkeypatch.setattr(samples_module, "MOST_IN_MEMORY", 0)
    read = []
    whole = type(data.source).read
    monkeypatch.setattr(
        type(data.source), "read", lambda self, rows: read.append(len(rows)) or whole(self, rows)
    )
    samples = samples_of(data)
    TrainedOperator.untrained(Decay(1.0), OneShot(), samples)
    # unless statistics are wanted, nothing ever asks for all of them
    assert max(read) == 1
    for rows in ([2], [3, 0, 3]):
        for a, b in zip(samples.batch(rows), kept.batch(rows), strict=True):
            assert torch.equal(a, b)
    assert max(read) == 3


def test_an_epoch_has_every_example_once_in_an_order_of_its_own():
    orders = [epoch_order(50, seed=seed, epoch=epoch) for seed in (0, 1) for epoch in range(5)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == 10
    assert epoch_order(50, seed=1, epoch=4) == orders[-1]


# One shot ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 2, 4])
def test_every_sample_comes_once_at_every_training_time(every):
    data = trajectories()
    f, u = data.to(torch.float64).batch()
    batch = all_of(OneShot(train_every=every), samples_of(data))
    frames = range(0, 5, every)
    expected = [(sample, frame) for sample in range(4) for frame in frames]
    assert len(batch.inputs) == len(expected)
    found = set()
    for inputs, target, t in zip(batch.inputs, batch.targets, batch.t.tolist(), strict=True):
        sample = next(i for i in range(4) if torch.equal(f[i], inputs))
        frame = TIMES.index(t)
        assert torch.equal(target, u[sample, frame])
        found.add((sample, frame))
    assert found == set(expected)


def test_behind_a_window_the_times_are_those_of_the_targets():
    data = trajectories().window(inputs=2)
    batch = all_of(OneShot(), samples_of(data))
    assert batch.inputs.shape == (12, 2, 16)
    assert sorted(set(batch.t.tolist())) == [1.0, 2.0, 3.5]


def test_the_network_sees_the_time_from_start_in_spans():
    data = trajectories()
    task = OneShot(start=0.1, span=3.0)
    network = Decay(1.0)
    operator = TrainedOperator.untrained(network, task, samples_of(data))
    operator(all_of(task, samples_of(data)), GRID)
    shown = torch.tensor([(t - 0.1) / 3 for t in TIMES], dtype=torch.float64)
    torch.testing.assert_close(network.seen.pop(), shown.repeat(4), rtol=1e-15, atol=0)
    operator.predict(data.to(torch.float64).batch()[0], grid=GRID, times=TIMES)
    torch.testing.assert_close(torch.cat(network.seen), shown.repeat(4), rtol=1e-15, atol=0)


def test_it_answers_at_times_that_it_was_not_trained_on():
    data = trajectories()
    f = data.to(torch.float64).batch()[0]
    operator = TrainedOperator.untrained(Decay(0.7), OneShot(train_every=4), samples_of(data))
    times = (0.1, 0.75, 2.9, 10.0)
    said = operator.predict(f, grid=GRID, times=times)
    for frame, t in enumerate(times):
        torch.testing.assert_close(said[:, frame], f * math.exp(-0.7 * t))


@pytest.mark.parametrize("kind", ["none", "pointwise", "channel"])
def test_training_and_prediction_of_a_network_with_time_agree(kind):
    data = trajectories()
    network = PDNO(1, 1, 1, width=3, layers=2, symbol_hidden=8, modes=5, takes_time=True).double()
    task = OneShot(span=3.5)
    operator = TrainedOperator.untrained(network, task, samples_of(data), kind)
    with torch.no_grad():
        answers = task.forward(operator.on(GRID), all_of(task, samples_of(data)))
    f = data.to(torch.float64).batch()[0]
    said = operator.predict(f, grid=GRID, times=TIMES)
    torch.testing.assert_close(answers.reshape(said.shape), said, rtol=1e-13, atol=1e-13)
    assert (said[:, 0] - said[:, -1]).abs().max() > 1e-4  # it does depend on the time


def test_its_statistics_are_those_of_the_training_times():
    data = trajectories()
    u = data.to(torch.float64).batch()[1]
    operator = TrainedOperator.untrained(
        Decay(1.0), OneShot(train_every=2), samples_of(data), "pointwise"
    )
    seen = u[:, ::2].flatten(0, 1)
    torch.testing.assert_close(operator.outputs.mean, seen.mean(dim=0))
    torch.testing.assert_close(operator.outputs.std, widened(seen.std(dim=0)))


# Space-time -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "pointwise"])
def test_space_time_gives_all_frames_of_a_repeated_input(kind):
    data = trajectories(channels=2)
    f, u = data.to(torch.float64).batch()
    network = FNO(2, 1, 2, width=4, layers=2, modes=(4, 2)).double()
    task = SpaceTime()
    operator = TrainedOperator.untrained(network, task, samples_of(data), kind)
    said = operator.predict(f, grid=GRID, times=TIMES)
    code = f if kind == "none" else (f - f.mean(dim=0)) / widened(f.std(dim=0))
    with torch.no_grad():
        block = network(code[..., None].repeat(1, 1, 1, 5))  # (B, C, N, T)
    expected = torch.stack([block[..., frame] for frame in range(5)], dim=1)
    if kind == "pointwise":  # in space and time
        expected = expected * widened(u.std(dim=0)) + u.mean(dim=0)
    torch.testing.assert_close(said, expected, rtol=1e-12, atol=1e-12)
    terms, errors = operator(all_of(task, samples_of(data)), GRID)
    relative = (expected - u).flatten(1).norm(dim=1) / u.flatten(1).norm(dim=1)
    torch.testing.assert_close(terms[:, 0], relative)
    torch.testing.assert_close(errors, relative)


# What does not fit ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["none", "pointwise"])
@pytest.mark.parametrize(
    ("task", "make", "message"),
    [
        (StaticMap(), trajectories, "one frame, not 5: take Rollout"),
        (OneShot(), static, "OneShot needs times; a static dataset has none: take StaticMap"),
        (SpaceTime(), static, "SpaceTime needs times; a static dataset has none: take StaticMap"),
    ],
    ids=["static", "one-shot", "space-time"],
)
def test_a_task_refuses_the_wrong_kind_of_data(task, make, message, kind):
    with pytest.raises(ValueError, match=message):
        pdno.fit(Decay(1.0), make(), task=task, normalization=kind, epochs=1)


@pytest.mark.parametrize("task", [OneShot(), SpaceTime()], ids=lambda task: task.kind)
def test_prediction_without_times_is_refused(task):
    data = trajectories()
    operator = TrainedOperator.untrained(Decay(1.0), task, samples_of(data))
    with pytest.raises(ValueError, match="needs times; a static dataset has none"):
        operator.predict(data.to(torch.float64).batch()[0], grid=GRID)


def test_a_network_without_time_is_told_so():
    data = trajectories()
    operator = TrainedOperator.untrained(
        FNO(1, 1, 1, width=2, modes=3).double(), OneShot(), samples_of(data)
    )
    with pytest.raises(ValueError, match="has no time: leave t out"):
        operator.predict(data.to(torch.float64).batch()[0], grid=GRID, times=TIMES)


@pytest.mark.parametrize("network", [FNO, pdno.PDNO], ids=["FNO", "PDNO"])
def test_a_residual_task_with_a_transport_head_is_refused(network):
    """The head carries the last frame itself, the task would add it a second time."""
    frames = torch.randn(3, 5, 1, 16)
    data = pdno.OperatorDataset.from_arrays(frames[:, 0], frames, pdno.Grid((16,)), range(5))
    data, made = data.window(inputs=1), network(1, 1, 1, width=2, modes=3, head="transport")
    for task in ("markov", pdno.Rollout(residual=True)):
        with pytest.raises(ValueError, match=r"add it a second time: take residual=False"):
            pdno.fit(made, data, task=task, epochs=1)
    trained = pdno.fit(made, data, task=pdno.Markov(residual=False), epochs=1)
    with pytest.raises(ValueError, match="take residual=False"):
        TrainedOperator(trained.network, pdno.Markov())
