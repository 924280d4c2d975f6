"""Training: known operators are found, steps are the ones they should be, histories tell."""

import copy
import csv
import itertools
import math
from pathlib import Path

import pytest
import torch
from torch import nn

import pdno
from pdno import FNO
from pdno.data.dataset import OperatorDataset
from pdno.interface.errors import TrainingStopped
from pdno.networks.mwt import MWT
from pdno.operators.pseudo_differential import FourierIntegralOperator
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_error
from pdno.training.fit import fit
from pdno.training.samples import epoch_order
from pdno.training.settings import TrainingSettings
from pdno.training.task import Markov, OneShot, Rollout

GRID = Grid((16,))
PLAIN = {"schedule": "constant", "weight_decay": 0.0, "precision": "float64"}


class Scale(nn.Module):
    """w f. On data f -> 2 f its relative error is |w - 2| / 2, whatever f is."""

    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weight, dtype=torch.float64))

    def forward(self, f):
        return self.weight * f


def scaled(factor, count=10, seed=0):
    f = torch.randn(count, 1, 16, generator=torch.Generator().manual_seed(seed)).double()
    return OperatorDataset.from_arrays(f, factor * f, GRID)


def smooth(count, seed=0):
    """Random functions with the modes 0 to 5."""
    generator = torch.Generator().manual_seed(seed)
    phase = 2 * math.pi * GRID.points() * torch.arange(6)
    waves = torch.cat([phase.cos(), phase.sin()], dim=1).T
    return (torch.randn(count, 12, generator=generator, dtype=torch.float64) @ waves)[:, None]


def heat(f, t, diffusivity=0.01):
    """The solution of the heat equation, mode by mode as matrices."""
    x, xi = GRID.points(), torch.arange(-8, 8)
    decay = torch.exp(-diffusivity * (2 * math.pi * xi) ** 2 * t)
    kernel = (decay * torch.cos(2 * math.pi * (x - x.T)[..., None] * xi)).sum(dim=-1) / 16
    return f @ kernel


# Known operators --------------------------------------------------------------------------------


def test_it_finds_the_heat_propagator():
    f = smooth(24)
    data = OperatorDataset.from_arrays(f, heat(f, 1.0), GRID)
    train, test = data.split(test=4)
    options = {"epochs": 150, "batch_size": 10, "learning_rate": 0.03, "weight_decay": 0.0}
    trained = fit(
        FourierIntegralOperator(1, 1, modes=[6]),
        train,
        test,
        schedule="cosine",
        precision="float64",
        **options,
    )
    assert trained.history[-1].test < 1e-4 and trained.history[-1].train < 1e-4
    table = torch.view_as_complex(trained.network.symbol.table.detach())[0, 0]
    expected = torch.exp(-0.01 * (2 * math.pi * torch.arange(6.0)) ** 2)
    assert (table[1:] - expected[1:]).abs().max() < 1e-4
    assert table[0].real.item() == pytest.approx(1.0, abs=1e-4)


def test_data_of_another_size_are_told_and_normalisers_cure_it():
    f = smooth(20).float()
    data = OperatorDataset.from_arrays(f, 1e-3 * f, GRID)

    def error(**options):
        torch.manual_seed(0)
        network = FNO(1, 1, 1, width=8, layers=2, modes=4)
        return fit(network, data, epochs=20, batch_size=5, **options).history[-1].train

    with pytest.warns(
        UserWarning, match=r"targets have the size 0\.0\d+.*normalization='channel'"
    ):
        raw = error()
    assert error(normalization="channel") < raw / 2


def test_a_network_learns_to_double():
    trained = fit(
        FNO(1, 1, 1, width=8, layers=2, modes=4),
        OperatorDataset.from_arrays(smooth(20), 2 * smooth(20), GRID),
        OperatorDataset.from_arrays(smooth(5, seed=9), 2 * smooth(5, seed=9), GRID),
        epochs=40,
        batch_size=5,
        learning_rate=0.01,
        schedule="one-cycle",
    )
    assert trained.history[0].test > 0.2 and trained.history[-1].test < 0.06


def test_one_shot_finds_a_rate_and_knows_other_times():
    class Decay(nn.Module):
        def __init__(self):
            super().__init__()
            self.rate = nn.Parameter(torch.zeros(()))

        def forward(self, f, t):
            return f * torch.exp(-self.rate * t).reshape(-1, 1, 1)

    f, times = smooth(6), (0.5, 1.0, 1.5, 2.0)
    u = torch.stack([f * math.exp(-0.7 * t) for t in times], dim=1)
    data = OperatorDataset.from_arrays(f, u, GRID, times=times)
    trained = fit(
        Decay(),
        data,
        data,
        task=OneShot(train_every=2),
        epochs=30,
        batch_size=4,
        learning_rate=0.1,
        weight_decay=0.0,
        schedule="cosine",
    )
    assert trained.history[-1].step == 30 * 3  # 6 samples at 2 of the 4 times
    assert trained.history[-1].test < 1e-3
    said = trained.predict(f, grid=GRID, times=(4.0,))
    torch.testing.assert_close(said[:, 0], f * math.exp(-2.8), rtol=1e-2, atol=1e-3)


def test_markov_finds_one_step_and_predicts_many():
    f = smooth(8)
    frames = torch.stack([heat(f, t) for t in range(6)], dim=1)
    data = OperatorDataset.from_arrays(f, frames, GRID, times=range(6)).window(inputs=1)
    trained = fit(
        FourierIntegralOperator(1, 1, modes=[6]),
        data,
        data,
        task=Markov(noise=1e-4),
        epochs=60,
        batch_size=20,
        learning_rate=0.05,
        weight_decay=0.0,
        schedule="cosine",
        reduction="mean",
    )
    assert trained.history[-1].test < 1e-2


# Every step is the one it should be -------------------------------------------------------------


def curved_data():
    f = torch.randn(7, 1, 16, dtype=torch.float64)
    return OperatorDataset.from_arrays(f, torch.tanh(f).cumsum(-1), GRID)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"reduction": "mean"},
        {"loss_order": 1.0},
        {"loss_order": -0.5, "reduction": "mean"},
        {"optimiser": "adamw", "weight_decay": 0.1},
        {"optimiser": "adam", "weight_decay": 0.1},
        {"clip": 0.01},
        {"clip": 100.0},
        {"schedule": "cosine"},
    ],
    ids=str,
)
def test_three_epochs_are_those_of_plain_torch(options):
    data = curved_data()
    settings = {**PLAIN, "epochs": 3, "batch_size": 3, "learning_rate": 0.02, "seed": 5, **options}
    network = FNO(1, 1, 1, width=3, layers=2, modes=3).double()
    twin = copy.deepcopy(network)
    trained = fit(network, data, **settings)

    f, u = data.to(torch.float64).batch()
    kind = torch.optim.AdamW if options.get("optimiser") == "adamw" else torch.optim.Adam
    optimiser = kind(twin.parameters(), weight_decay=settings["weight_decay"])
    step, losses = 0, []
    for epoch in range(3):
        order = epoch_order(7, seed=5, epoch=epoch)
        losses.append(0.0)
        for rows in (order[:3], order[3:6], order[6:]):
            cosine = (1 + math.cos(math.pi * step / 9)) / 2
            rate = 0.02 * cosine if "schedule" in options else 0.02
            optimiser.param_groups[0]["lr"] = rate
            optimiser.zero_grad()
            s = options.get("loss_order", 0.0)
            terms = relative_error(twin(f[rows]), u[rows], dim=1, s=s)
            loss = terms.mean() if options.get("reduction") == "mean" else terms.sum()
            loss.backward()
            if "clip" in options:
                nn.utils.clip_grad_norm_(twin.parameters(), options["clip"])
            optimiser.step()
            step += 1
            losses[-1] += terms.sum().item() / 7
    for (name, given), expected in zip(network.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(given, expected, rtol=1e-9, atol=1e-12, msg=name)
    assert [row.loss for row in trained.history] == pytest.approx(losses, rel=1e-10)


def test_clip_bounds_the_gradient(tmp_path):
    """After one step Adam's first moment is a tenth of the gradient."""
    from pdno.training.checkpoint import load_checkpoint

    def gradient_norm(folder, **options):
        torch.manual_seed(0)
        network = FNO(1, 1, 1, width=3, layers=2, modes=3)
        fit(network, curved_data(), epochs=1, batch_size=7, folder=folder, **PLAIN, **options)
        tensors = load_checkpoint(folder / "checkpoints").tensors
        moments = [value for name, value in tensors.items() if name.endswith(".exp_avg")]
        return 10 * math.sqrt(sum(value.square().sum().item() for value in moments))

    free = gradient_norm(tmp_path / "free")
    assert free > 0.5
    assert gradient_norm(tmp_path / "clip", clip=0.25) == pytest.approx(0.25, rel=1e-4)
    assert gradient_norm(tmp_path / "wide", clip=1000.0) == pytest.approx(free)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_the_loss_of_a_rollout_counts_every_step(reduction):
    """w f for frames that double: the error after n steps is |w^n - 2^n| / 2^n."""
    f = smooth(5)
    frames = torch.stack([f * 2.0**n for n in range(4)], dim=1)
    data = OperatorDataset.from_arrays(f, frames, GRID, times=range(4)).window(inputs=1)
    settings = {**PLAIN, "epochs": 1, "batch_size": 5, "reduction": reduction}
    trained = fit(Scale(1.5), data, task=Rollout(), **settings)
    errors = [1 - 0.75**n for n in (1, 2, 3)]
    assert trained.history[0].loss == pytest.approx(math.fsum(errors), rel=1e-12)
    # frames weigh by their size in the error of the whole trajectory
    sizes = [4.0**n for n in (1, 2, 3)]
    whole = sum(e * e * s for e, s in zip(errors, sizes, strict=True)) / sum(sizes)
    assert trained.history[0].train == pytest.approx(math.sqrt(whole), rel=1e-12)


def test_every_epoch_shows_every_example_once():
    shown = []

    class Noting(Scale):
        def forward(self, f):
            if self.training:
                shown.append(f[:, 0, 0].tolist())
            return super().forward(f)

    f = torch.arange(1.0, 12.0, dtype=torch.float64).reshape(11, 1, 1).expand(11, 1, 16)
    data = OperatorDataset.from_arrays(f, f, GRID)
    fit(Noting(), data, data, epochs=4, batch_size=4, seed=3, **PLAIN)
    assert [len(batch) for batch in shown] == [4, 4, 3] * 4
    epochs = [[*itertools.chain(*shown[k : k + 3])] for k in range(0, 12, 3)]
    assert all(sorted(epoch) == list(range(1, 12)) for epoch in epochs)
    for number, epoch in enumerate(epochs):
        assert [value - 1 for value in epoch] == epoch_order(11, seed=3, epoch=number)


def test_the_same_run_twice_is_the_same_to_the_bit():
    def once(seed):
        torch.manual_seed(7)
        dropping = nn.Sequential(
            nn.Conv1d(1, 4, 3), nn.Dropout(0.5), nn.Conv1d(4, 1, 5, padding=3)
        )
        trained = fit(
            dropping, scaled(2.0), scaled(2.0, 3, seed=4), epochs=3, batch_size=4, seed=seed
        )
        rows = [(row.loss, row.train, row.test) for row in trained.history]
        return rows, [parameter.detach().clone() for parameter in dropping.parameters()]

    (rows, weights), (again, same), (other, _) = once(0), once(0), once(1)
    assert rows == again and all(map(torch.equal, weights, same))
    assert rows != other


def test_it_leaves_the_random_numbers_of_others_alone():
    network = nn.Sequential(nn.Conv1d(1, 1, 1), nn.Dropout(0.5))
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    fit(network, scaled(2.0), epochs=1)
    assert torch.equal(torch.rand(4), expected)


# History ----------------------------------------------------------------------------------------


def test_the_history_of_a_run_that_can_be_foretold(tmp_path):
    """The gradient of |w - 2| / 2 is constant, so each step of Adam moves w by the rate."""
    trained = fit(
        Scale(1.0),
        scaled(2.0),
        scaled(2.0, 3, seed=1),
        folder=tmp_path,
        epochs=5,
        batch_size=5,
        learning_rate=0.01,
        evaluate_every=2,
        **PLAIN,
    )
    errors = [(1 - 0.01 * step) / 2 for step in range(11)]
    rows = trained.history
    assert [row.epoch for row in rows] == [1, 2, 3, 4, 5]
    assert [row.step for row in rows] == [2, 4, 6, 8, 10]
    assert {row.learning_rate for row in rows} == {0.01}
    expected = [(errors[2 * e] + errors[2 * e + 1]) / 2 for e in range(5)]
    assert [row.loss for row in rows] == pytest.approx(expected, rel=1e-6)
    assert [row.train for row in rows] == pytest.approx(expected, rel=1e-6)
    # measured after every second epoch, and after the last one
    assert [row.epoch for row in rows if row.test is None] == [1, 3]
    tests = [row.test for row in rows if row.test is not None]
    assert tests == pytest.approx([errors[4], errors[8], errors[10]], rel=1e-6)
    assert [row.best for row in rows] == [None, tests[0], tests[0], tests[1], tests[2]]
    seconds = [row.seconds for row in rows]
    assert (
        seconds[0] > 0
        and seconds == sorted(seconds)
        and trained.training_record.seconds == seconds[-1]
    )

    with open(tmp_path / "history.csv", encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    names = ["epoch", "step", "learning_rate", "loss", "train", "test", "best", "seconds"]
    assert list(written[0]) == names and len(written) == 5
    for line, row in zip(written, rows, strict=True):
        for name in names:
            value = getattr(row, name)
            assert line[name] == "" if value is None else float(line[name]) == value


def test_the_learning_rate_in_the_history_is_that_of_the_last_step():
    trained = fit(
        Scale(), scaled(2.0), epochs=4, batch_size=5, learning_rate=0.01, schedule="cosine"
    )
    expected = [0.01 * (1 + math.cos(math.pi * step / 8)) / 2 for step in (1, 3, 5, 7)]
    assert [row.learning_rate for row in trained.history] == pytest.approx(expected)


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trained = fit(Scale(), scaled(2.0), epochs=2)
    assert list(tmp_path.iterdir()) == [] and trained.history[-1].test is None


def test_tensorboard_has_the_same_numbers(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    data = scaled(2.0)
    trained = fit(Scale(), data, data, epochs=3, folder=tmp_path, tensorboard=True, **PLAIN)
    events = EventAccumulator(str(tmp_path)).Reload()
    for name in ("loss", "train", "test", "learning_rate"):
        written = {event.step: event.value for event in events.PDEParameters(name)}
        expected = {row.epoch: getattr(row, name) for row in trained.history}
        assert written == pytest.approx(expected, rel=1e-6)


def test_tensorboard_is_refused_before_training_where_it_cannot_be(tmp_path, monkeypatch):
    class Untouched(Scale):
        def forward(self, f):
            raise AssertionError("trained before the settings were checked")

    monkeypatch.setitem(__import__("sys").modules, "torch.utils.tensorboard", None)
    with pytest.raises(ValueError, match="tensorboard is not installed: pip install"):
        fit(Untouched(), scaled(2.0), epochs=1, folder=tmp_path, tensorboard=True)
    with pytest.raises(ValueError, match="tensorboard needs a folder"):
        fit(Untouched(), scaled(2.0), epochs=1, tensorboard=True)


# Stopping early ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("patience", "every", "last"), [(1, 1, 2), (3, 1, 4), (4, 2, 6), (30, 1, 12)]
)
def test_it_stops_when_the_test_error_does_not_fall(patience, every, last):
    """w moves from 1 to 2, away from what the test samples want."""
    trained = fit(
        Scale(1.0),
        scaled(2.0),
        scaled(1.0, 3),
        epochs=12,
        learning_rate=0.01,
        patience=patience,
        evaluate_every=every,
        **PLAIN,
    )
    assert trained.history[-1].epoch == last
    tests = [row.test for row in trained.history if row.test is not None]
    assert trained.history[-1].best == min(tests) == tests[0]


def test_it_goes_on_while_the_test_error_falls():
    trained = fit(Scale(), scaled(2.0), scaled(2.0, 3), epochs=12, patience=1, **PLAIN)
    assert trained.history[-1].epoch == 12


def test_a_test_error_that_is_not_a_number_is_never_the_best():
    """The first measurement is none, as of a rollout that overflows at first."""

    class Recovering(Scale):
        def __init__(self):
            super().__init__()
            self.tests = 0

        def forward(self, f):
            self.tests += not self.training
            lost = not self.training and self.tests == 1
            return super().forward(f) * (math.nan if lost else 1.0)

    trained = fit(Recovering(), scaled(2.0), scaled(2.0, 3), epochs=3, **PLAIN)
    assert math.isnan(trained.history[0].test) and trained.history[0].best is None
    assert trained.history[2].best == trained.history[2].test < trained.history[1].test


def test_patience_without_test_samples_is_refused():
    with pytest.raises(ValueError, match="patience=3 .* test samples"):
        fit(Scale(), scaled(2.0), epochs=3, patience=3)


# Number types -----------------------------------------------------------------------------------


def test_number_types_are_those_asked_for():
    errors = {}
    for precision in ("float32", "float64", "bfloat16"):
        torch.manual_seed(0)
        network = FNO(1, 1, 1, width=4, layers=2, modes=4)
        trained = fit(
            network,
            scaled(2.0),
            scaled(2.0, 3, seed=2),
            epochs=5,
            batch_size=5,
            learning_rate=1e-2,
            precision=precision,
        )
        expected = torch.float64 if precision == "float64" else torch.float32
        assert {parameter.dtype for parameter in network.parameters()} == {expected}
        errors[precision] = [row.loss for row in trained.history]
    # the same run to the digits of each
    assert errors["float32"] == pytest.approx(errors["float64"], rel=1e-4)
    assert errors["float32"] != errors["float64"]
    assert errors["bfloat16"] == pytest.approx(errors["float64"], rel=0.05)
    assert errors["bfloat16"] != pytest.approx(errors["float64"], rel=1e-5)
    assert errors["bfloat16"][-1] < 0.9 * errors["bfloat16"][0]


def test_the_error_of_float64_has_its_digits():
    trained = fit(Scale(2 - 1e-12), scaled(2.0), epochs=1, batch_size=10, **PLAIN)
    assert trained.history[0].loss == pytest.approx(5e-13, rel=1e-3)


# Numbers that run away --------------------------------------------------------------------------


def growing():
    f = smooth(5)
    frames = f[:, None].expand(5, 21, 1, 16)
    return OperatorDataset.from_arrays(f, frames, GRID, times=range(21)).window(inputs=1)


@pytest.mark.parametrize("with_folder", [False, True])
def test_a_huge_learning_rate_stops_the_run(tmp_path, with_folder):
    """After one step w is about 1000, and 1000^20 is no number of float32."""
    folder = tmp_path if with_folder else None
    options = {"epochs": 5, "batch_size": 2, "learning_rate": 1e3, "weight_decay": 0.0}
    with pytest.raises(TrainingStopped, match="not finite at step 2.*learning_rate") as stopped:
        fit(Scale(1.5), growing(), task=Rollout(), folder=folder, **options)
    assert not stopped.value.resumable


def test_weights_that_are_no_numbers_are_never_returned(tmp_path):
    """A finite loss whose gradient is none, in the last step of all."""

    class Edge(Scale):
        def forward(self, f):
            return super().forward(f) + (0 * self.weight).sqrt()

    for folder in (None, tmp_path):
        with pytest.raises(TrainingStopped, match="not finite"):
            fit(Edge(), scaled(2.0), epochs=1, batch_size=10, folder=folder, **PLAIN)


# Settings ---------------------------------------------------------------------------------------


def test_settings_by_name_change_those_given():
    settings = TrainingSettings(epochs=2, batch_size=5)
    assert len(fit(Scale(), scaled(2.0), settings=settings).history) == 2
    trained = fit(Scale(), scaled(2.0), settings=settings, epochs=3)
    assert [row.step for row in trained.history] == [2, 4, 6]
    with pytest.raises(ValueError, match="epoch: "):
        fit(Scale(), scaled(2.0), epoch=3)


def test_targets_without_a_norm_are_refused():
    f = torch.randn(4, 1, 16)
    with pytest.raises(ValueError, match="a target is zero everywhere"):
        fit(Scale(), OperatorDataset.from_arrays(f, 0 * f, GRID), epochs=1)


def test_a_trained_operator_prints_errors_of_its_own_samples_alone():
    folder = Path(__file__).parents[2] / "results" / "operators" / "darcy"
    printed = repr(pdno.load(folder))
    assert "error of test 32" in printed and "solver" not in printed and len(printed) < 300


def test_a_run_says_what_it_is_and_draws_its_test_samples():
    f = torch.randn(8, 1, 16, generator=torch.Generator().manual_seed(0))
    data = OperatorDataset.from_arrays(f, 2 * f, Grid((16,)))
    train, test = data.split(test=[6, 2])
    trained = fit(FNO(1, 1, 1, width=4, modes=4), train, test, epochs=2, batch_size=4)
    assert isinstance(trained.history, list) and len(trained.history) == 2
    words = f"epochs 2, train error {trained.history[-1].train:.4g}, test error "
    assert repr(trained).startswith("<TrainedOperator network FNO, parameters ")
    assert repr(trained.history) == f"<History {words}{trained.history[-1].test:.4g}>"
    assert len(repr(trained)) < 200 and "<td>FNO</td>" in trained._repr_html_()
    lines = [[line.get_ydata() for line in a.lines] for a in trained.plot(test, 1).axes]
    (given, *_), (target, prediction, *_), (error, *_) = lines
    expected = trained.predict(f[2:3], grid=data.grid)[0, 0].numpy()
    assert (given == f[2, 0].numpy()).all() and (target == 2 * given).all()
    assert (prediction == expected).all() and (error == expected - target).all()
    curves = [line.get_ydata() for line in trained.history.plot().axes[0].lines]
    assert list(curves[0]) == [row.train for row in trained.history]
    assert list(curves[1]) == [row.test for row in trained.history]
    alone = fit(FNO(1, 1, 1, width=4, modes=4), train, epochs=1)
    assert "test error" not in repr(alone.history) and "test" not in repr(alone)
    assert (alone.plot(test, 0).axes[0].lines[0].get_ydata() == f[6, 0].numpy()).all()


@pytest.mark.parametrize(
    "problem",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        MemoryError(),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:117] DefaultCPUAllocator: can't allocate memory"
        ),
    ],
    ids=["cuda", "python", "cpu"],
)
def test_too_little_memory_is_one_message_with_its_cure(problem):
    class Large(nn.Conv1d):
        def forward(self, f):
            raise problem

    data = scaled(2.0)
    message = "not enough memory for step 1 with batches of 4 .*: take a smaller batch_size"
    with pytest.raises(TrainingStopped, match=message):
        fit(Large(1, 1, 1), data, epochs=1, batch_size=4)


def test_other_errors_of_a_step_are_not_of_memory():
    class Broken(nn.Conv1d):
        def forward(self, f):
            raise RuntimeError("shapes cannot be multiplied")

    with pytest.raises(RuntimeError, match="multiplied"):
        fit(Broken(1, 1, 1), scaled(2.0), epochs=1)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("normalisation", "normalization"), ("call_backs", "callbacks"), ("epoch", "epochs")],
)
def test_a_keyword_that_is_nearly_right_is_hinted_at(name, meant):
    with pytest.raises(ValueError, match=f"did you mean '{meant}'"):
        fit(FNO(1, 1, 1, width=2, modes=3), scaled(2.0), **{name: 1})


@pytest.mark.parametrize("make", [FNO, pdno.PDNO, pdno.PDIO, MWT], ids=lambda make: make.__name__)
def test_networks_hint_at_keywords_as_specifications_do(make):
    sizes = (1, 1) if make is MWT else (1, 1, 1)
    with pytest.raises(ValueError, match="did you mean 'modes'"):
        make(*sizes, n_modes=12)


def test_an_error_of_one_is_explained_once(capsys):
    frames = torch.randn(3, 6, 1, 16)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((16,)), times=range(6))
    network = FNO(1, 1, 1, width=2, layers=1, modes=2)
    trained = fit(network, data.window(1), task=Rollout(), epochs=3)
    assert trained.history[-1].train > 0.8
    said = capsys.readouterr().err
    assert said.count("predicting zero has 1: train longer, or take Markov() or OneShot()") == 1
    fit(Scale(1.9), scaled(2.0), epochs=1)
    assert "predicting zero" not in capsys.readouterr().err
