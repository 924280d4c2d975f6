"""Tasks that predict frame by frame: rollouts, windows of true frames, and their noise."""

import copy

import pytest
import torch
from torch import nn

import pdno.training.samples as samples_module
from pdno import FNO, rollout
from pdno.data.dataset import OperatorDataset
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_error
from pdno.training.fit import fit
from pdno.training.losses import RelativeError
from pdno.training.samples import Samples
from pdno.training.task import Markov, Rollout, TeacherForcing
from pdno.training.trained_operator import TrainedOperator

CPU = torch.device("cpu")
GRID = Grid((16,))


def random_frames(*, count=5, total=7, channels=1, window=3):
    frames = torch.randn(count, total, channels, 16, dtype=torch.float64)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, GRID, times=range(total))
    return Samples(data.window(inputs=window), CPU, torch.float64), frames


def numbered_frames(window, *, channels=1):
    """Frames that say where they come from: 100·sample + 10·frame + channel."""
    sample = torch.arange(4.0).reshape(4, 1, 1, 1) * 100
    frame = torch.arange(6.0).reshape(1, 6, 1, 1) * 10
    channel = torch.arange(float(channels)).reshape(1, 1, -1, 1)
    frames = (sample + frame + channel).expand(4, 6, channels, 16)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, GRID, times=range(6))
    return Samples(data.window(inputs=window), CPU)


class Mix(nn.Module):
    """A network of no library: the frames mixed at each point, then a curved function."""

    def __init__(self, into, out):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(out, into, dtype=torch.float64) / into)

    def forward(self, f):
        return torch.tanh(torch.einsum("oi,bin->bon", self.weight, f))


class Silent(nn.Module):
    """Says nothing: all zeros, of as many channels as a frame has."""

    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(channels, 1, dtype=torch.float64))

    def forward(self, f):
        return self.weight * f[:, :1]


def all_of(task, samples, *, seed=0, epoch=0):
    return task.batch(samples, range(task.examples(samples)), seed=seed, epoch=epoch)


# Rollouts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2])
def test_a_rollout_is_the_rollout_of_the_network(channels):
    samples, frames = random_frames(channels=channels)
    network = FNO(1, 3 * channels, channels, width=4, layers=2, modes=4).double()
    operator = TrainedOperator.untrained(network, Rollout(), samples)
    inputs, targets = samples.batch(range(5))
    expected = rollout(network, inputs, steps=4)
    assert torch.equal(inputs, frames[:, :3].flatten(1, 2))
    batch = all_of(operator.task, samples)
    with torch.no_grad():
        assert torch.equal(operator.task.forward(operator.on(GRID), batch), expected)
    assert torch.equal(operator.predict(inputs, grid=GRID, times=range(3, 7)), expected)
    # more frames than in training
    longer = operator.predict(inputs, grid=GRID, times=range(9))
    assert torch.equal(longer, rollout(network, inputs, steps=9))


@pytest.mark.parametrize("kind", ["pointwise", "channel"])
@pytest.mark.parametrize("residual", [False, True])
def test_a_rollout_in_units_of_the_samples(kind, residual):
    """Each frame of the window is encoded, each prediction decoded; increments are of codes."""
    samples, frames = random_frames(channels=2, window=2)
    network = Mix(4, 2)
    operator = TrainedOperator.untrained(network, Rollout(residual=residual), samples, kind)
    over = 0 if kind == "pointwise" else (0, 2)
    every = frames.flatten(0, 1)
    mean, std = every.mean(over, keepdim=True)[0], every.std(over, keepdim=True)[0]
    std = std + 1e-5 * std.amax(-1, keepdim=True)
    window, expected = frames[:, :2], []
    with torch.no_grad():
        for _ in range(5):
            code = (window - mean) / std
            said = network(code.flatten(1, 2)) + (code[:, -1] if residual else 0)
            expected.append(said * std + mean)
            window = torch.stack([window[:, 1], expected[-1]], dim=1)
    said = operator.predict(frames[:, :2].flatten(1, 2), grid=GRID, times=range(5))
    torch.testing.assert_close(said, torch.stack(expected, dim=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("order", [0.0, 1.0])
def test_the_loss_is_the_sum_over_steps_and_its_gradient_goes_through_all(order, recompute):
    samples, frames = random_frames(total=6)
    task = Rollout(recompute=recompute)
    operator = TrainedOperator.untrained(Mix(3, 1), task, samples)
    terms, errors = operator(all_of(task, samples), GRID, RelativeError(order))
    terms.sum().backward()

    def by_hand(*, cut):
        """The loss with the graph of all steps, or cut after each of them."""
        network = copy.deepcopy(operator.network)
        network.weight.grad = None
        window, loss, said = frames[:, :3, 0], 0.0, []
        for step in range(3):
            frame = torch.tanh(torch.einsum("oi,bin->bon", network.weight, window))
            said.append(frame)
            target = frames[:, 3 + step]
            loss = loss + relative_error(frame, target, dim=1, s=order).sum()
            window = torch.cat([window[:, 1:], frame.detach() if cut else frame], dim=1)
        loss.backward()
        return loss.item(), network.weight.grad, torch.stack(said, dim=1)

    loss, gradient, said = by_hand(cut=False)
    assert terms.shape == (5, 3) and terms.sum().item() == pytest.approx(loss, rel=1e-12)
    torch.testing.assert_close(operator.network.weight.grad, gradient, rtol=1e-10, atol=1e-12)
    assert (by_hand(cut=True)[1] - gradient).norm() > 0.05 * gradient.norm()
    whole = (said - frames[:, 3:]).flatten(1).norm(dim=1) / frames[:, 3:].flatten(1).norm(dim=1)
    torch.testing.assert_close(errors, whole.detach())


def test_a_short_rollout_trains_on_the_first_frames_and_predicts_all():
    samples, frames = random_frames()
    task = Rollout(steps=2)
    batch = all_of(task, samples)
    assert torch.equal(batch.targets, frames[:, 3:5])
    operator = TrainedOperator.untrained(Mix(3, 1), task, samples)
    assert operator(batch, GRID)[0].shape == (5, 2)
    assert operator.predict(batch.inputs, grid=GRID, times=range(3, 7)).shape == (5, 4, 1, 16)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("task", [Rollout(residual=True), TeacherForcing(residual=True), Markov()])
def test_without_an_increment_the_last_frame_stays(task, channels):
    samples, frames = random_frames(channels=channels)
    operator = TrainedOperator.untrained(Silent(channels), task, samples)
    said = operator.predict(samples.batch(range(5))[0], grid=GRID, times=range(3, 7))
    assert torch.equal(said, frames[:, 2:3].expand(5, 4, channels, 16))


def test_a_network_of_no_library_is_told_the_grid_if_it_asks_for_it():
    class Where(nn.Module):
        def forward(self, f, grid):
            return f[:, -1:] + grid.points().squeeze(-1)

    grid = Grid.cells((16,))
    frames = torch.zeros(2, 4, 1, 16)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, grid, times=range(4))
    samples = Samples(data.window(inputs=2), CPU)
    x = (torch.arange(16) + 0.5) / 16
    for task in (Rollout(), TeacherForcing(), Markov(residual=False)):
        operator = TrainedOperator.untrained(Where(), task, samples)
        said = operator.predict(torch.zeros(2, 2, 16), grid=grid, times=(2, 3))
        torch.testing.assert_close(said[1, :, 0], torch.stack([x, 2 * x]))


# Windows of true frames -------------------------------------------------------------------------


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    ("task", "window", "seen"),
    [
        (TeacherForcing(), 2, 2),
        (TeacherForcing(frames=2), 4, 2),
        (Markov(noise=0.0), 3, 1),
        (Markov(noise=0.0, frames=3), 3, 3),
    ],
    ids=str,
)
def test_every_window_comes_once_with_the_frame_after_it(task, window, seen, channels):
    samples = numbered_frames(window, channels=channels)
    count = task.examples(samples)
    assert count == 4 * (6 - seen)
    batch = all_of(task, samples)
    assert batch.inputs.shape == (count, seen * channels, 16)
    given = {tuple(row) for row in batch.inputs[..., 7].tolist()}
    expected = {
        tuple(
            100.0 * sample + 10 * frame + channel
            for frame in range(start, start + seen)
            for channel in range(channels)
        )
        for sample in range(4)
        for start in range(6 - seen)
    }
    assert given == expected and len(given) == count
    for inputs, target in zip(batch.inputs[..., 7], batch.targets[..., 7], strict=True):
        assert torch.equal(target, inputs[-channels:] + 10)
    # in any order and any company
    some = task.batch(samples, [7, 2, 7], seed=3, epoch=1)
    assert torch.equal(some.inputs, batch.inputs[[7, 2, 7]])
    assert torch.equal(some.targets, batch.targets[[7, 2, 7]])


@pytest.mark.parametrize("task", [Markov(noise=0.1), TeacherForcing(frames=2)], ids=str)
def test_windows_of_trajectories_that_do_not_fit_in_memory_are_the_same(task, monkeypatch):
    data = numbered_frames(3, channels=2).data
    expected = task.batch(Samples(data, CPU), [7, 2, 8, 7], seed=1, epoch=2)
    monkeypatch.setattr(samples_module, "MOST_IN_MEMORY", 0)
    samples = Samples(data, CPU)
    read = []
    whole = type(data.source).read
    monkeypatch.setattr(
        type(data.source), "read", lambda self, rows: read.append(rows) or whole(self, rows)
    )
    found = task.batch(samples, [7, 2, 8, 7], seed=1, epoch=2)
    assert torch.equal(found.inputs, expected.inputs)
    assert torch.equal(found.targets, expected.targets)
    assert all(len(set(rows)) == len(rows) for rows in read)  # no trajectory twice at once


def test_samples_keep_every_frame_once():
    """Inputs and targets are views of the trajectories, and so is what statistics see."""
    samples, frames = random_frames(channels=2)
    assert torch.equal(samples.trajectories(), frames)
    inputs, targets = samples.batch()
    for part in (inputs, targets):
        assert part.untyped_storage().data_ptr() == samples.trajectories().data_ptr()
    assert torch.equal(samples.frames([4, 0], [1, 3], 4)[1], frames[0, 3:7])


def test_one_step_learners_predict_by_a_rollout():
    """Frames of the recurrence u_{n+1} = u_n / 2 - u_{n-1} / 4, and the network that knows it."""
    frames = [torch.randn(3, 1, 16, dtype=torch.float64) for _ in range(2)]
    for _ in range(5):
        frames.append(frames[-1] / 2 - frames[-2] / 4)
    trajectories = torch.stack(frames, dim=1)
    data = OperatorDataset.from_arrays(trajectories[:, 0], trajectories, GRID, times=range(7))
    samples = Samples(data.window(inputs=3), CPU, torch.float64)
    network = nn.Conv1d(2, 1, 1, bias=False).double()
    network.weight.data = torch.tensor([[[-0.25], [0.5]]], dtype=torch.float64)
    task = TeacherForcing(frames=2)
    operator = TrainedOperator.untrained(network, task, samples)
    terms, _ = operator(all_of(task, samples), GRID)
    assert terms.shape == (15, 1) and terms.max() < 1e-14
    inputs, targets = samples.batch(range(3))
    said = operator.predict(inputs, grid=GRID, times=range(3, 7))
    torch.testing.assert_close(said, targets, rtol=1e-13, atol=1e-14)


def test_markov_says_the_increment_from_the_frame_it_sees():
    samples, frames = random_frames()
    task, network = Markov(noise=0.0), Mix(1, 1)
    operator = TrainedOperator.untrained(network, task, samples)
    with torch.no_grad():
        said = task.forward(operator.on(GRID), all_of(task, samples))
        before = frames[:, :-1].flatten(0, 1)
        assert torch.equal(said, before + network(before))


def test_the_noise_of_an_example_is_its_own():
    samples, _ = random_frames()
    noisy, clean = Markov(noise=0.1), Markov(noise=0.0)
    whole = all_of(noisy, samples, seed=4, epoch=2)
    assert not torch.equal(whole.inputs, all_of(clean, samples).inputs)
    assert torch.equal(whole.targets, all_of(clean, samples).targets)
    for rows in ([3], [29, 3, 0], [3, 3]):
        some = noisy.batch(samples, rows, seed=4, epoch=2)
        # the deviation of a row is summed in another order in another company
        torch.testing.assert_close(some.inputs, whole.inputs[rows], rtol=1e-13, atol=1e-13)
    for other in ({"seed": 5, "epoch": 2}, {"seed": 4, "epoch": 3}):
        changed = (all_of(noisy, samples, **other).inputs - whole.inputs).abs().amax(dim=(1, 2))
        assert changed.min() > 1e-3
    noise = whole.inputs - all_of(clean, samples).inputs
    assert len({tuple(row) for row in noise.flatten(1).tolist()}) == 30


def test_the_noise_is_a_share_of_the_deviation_of_the_input():
    torch.manual_seed(1)
    frames = torch.randn(40, 6, 1, 64) * torch.logspace(-2, 2, 40).reshape(-1, 1, 1, 1) + 3
    data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((64,)), times=range(6))
    samples = Samples(data.window(inputs=1), CPU)
    noisy, clean = Markov(noise=0.05), Markov(noise=0.0)
    inputs = all_of(clean, samples).inputs
    noise = (all_of(noisy, samples).inputs - inputs) / inputs.std(dim=(1, 2), keepdim=True)
    assert noise.std().item() == pytest.approx(0.05, rel=0.02)
    assert abs(noise.mean().item()) < 0.05 * 4 / noise.numel() ** 0.5
    by_sample = noise.reshape(40, -1).std(dim=1)
    assert by_sample.min() > 0.04 and by_sample.max() < 0.06


def test_prediction_has_no_noise():
    samples, frames = random_frames()
    operator = TrainedOperator.untrained(Silent(1), Markov(noise=0.5), samples)
    said = operator.predict(frames[:, 2], grid=GRID, times=(3,))
    assert torch.equal(said[:, 0], frames[:, 2])


# What does not fit ------------------------------------------------------------------------------


@pytest.mark.parametrize("task", [Rollout(), TeacherForcing(), Markov()], ids=lambda t: t.kind)
@pytest.mark.parametrize("normalization", ["none", "pointwise"])
def test_frames_are_needed_as_input(task, normalization):
    f = torch.randn(4, 1, 16)
    static = OperatorDataset.from_arrays(f, f, GRID)
    frames = OperatorDataset.from_arrays(f, torch.randn(4, 5, 1, 16), GRID, times=range(5))
    for data in (static, frames):
        with pytest.raises(ValueError, match=r"needs frames as its input: take data.window\(in"):
            fit(Silent(1), data, task=task, normalization=normalization, epochs=1)


def test_windows_and_steps_that_do_not_fit_are_refused():
    samples, _ = random_frames()  # 3 frames in, 4 out
    with pytest.raises(ValueError, match="steps=5 .* 4 target frames"):
        Rollout(steps=5).examples(samples)
    with pytest.raises(ValueError, match=r"frames=4 .* 3 frames.*data.window\(inputs=4\)"):
        TeacherForcing(frames=4).examples(samples)
    with pytest.raises(ValueError, match="a static dataset has none"):
        TrainedOperator.untrained(Mix(3, 1), Rollout(), samples).predict(
            torch.zeros(1, 3, 16), grid=GRID, times=None
        )


def test_networks_that_take_time_are_not_rolled_out():
    from pdno import PDNO

    samples, _ = random_frames()
    network = PDNO(1, 3, 1, width=2, layers=1, symbol_hidden=4, modes=4, takes_time=True)
    operator = TrainedOperator.untrained(network.double(), Rollout(), samples)
    with pytest.raises(ValueError, match="predicts in one shot, not by a rollout"):
        operator.predict(torch.zeros(1, 3, 16), grid=GRID, times=(1,))
