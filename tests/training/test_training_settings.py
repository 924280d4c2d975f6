"""Settings of a run: complete, refused by name where they are wrong, and the same after JSON.

Learning rates are functions of the step, compared with the schedulers of torch.
"""

import itertools
import json
import math
import subprocess
import sys

import pytest
import torch
from torch.optim import lr_scheduler

from pdno.training.settings import TrainingSettings, learning_rate
from pdno.training.task import Markov, OneShot, Rollout, SpaceTime, StaticMap, TeacherForcing

UNUSUAL = {
    "epochs": 7,
    "batch_size": 3,
    "optimiser": "adamw",
    "learning_rate": 1 / 3,
    "weight_decay": 0.1,
    "schedule": "one-cycle",
    "warm_up": 0.2,
    "clip": 0.7,
    "loss_order": -1.5,
    "reduction": "mean",
    "precision": "bfloat16",
    "patience": 5,
    "evaluate_every": 2,
    "checkpoint_seconds": 0.1,
    "seed": 2**31 - 1,
}
TASKS = [
    StaticMap(),
    Rollout(steps=4, recompute=True, residual=True),
    TeacherForcing(frames=2, noise=1 / 3),
    Markov(noise=0.1, residual=False),
    OneShot(start=-1.0, span=1 / 3, train_every=5),
    SpaceTime(),
]


STEPS = {"schedule": "step", "step_size": 9, "step_factor": 0.3}


@pytest.mark.parametrize("options", [{}, UNUSUAL, STEPS], ids=len)
def test_settings_are_the_same_after_json(options):
    settings = TrainingSettings(**options)
    assert TrainingSettings.model_validate_json(settings.model_dump_json()) == settings
    assert TrainingSettings(**json.loads(json.dumps(settings.model_dump()))) == settings
    assert {name: getattr(settings, name) for name in options} == options


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_tasks_are_the_same_after_json(task):
    assert type(task).model_validate_json(task.model_dump_json()) == task


def test_the_defaults_are_the_best_known_way_and_the_loss_that_of_the_paper():
    settings = TrainingSettings()
    assert (settings.optimiser, settings.schedule, settings.weight_decay) == (
        "muon",
        "one-cycle",
        0,
    )
    assert (settings.batch_size, settings.reduction, settings.loss_order) == (20, "sum", 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 3}, "epoch: .*unknown key; did you mean 'epochs'"),
        ({"lr": 0.1}, "lr: .*unknown key; did you mean 'learning_rate'"),
        ({"epochs": 0}, "epochs: "),
        ({"learning_rate": 0.0}, "learning_rate: "),
        ({"learning_rate": float("nan")}, "learning_rate: "),
        ({"schedule": "linear"}, "schedule: "),
        ({"precision": "float16"}, "precision: "),
        ({"checkpoint_seconds": float("inf")}, "checkpoint_seconds: "),
        ({"seed": -1}, "seed: "),
        (
            {"step_size": 50, "schedule": "cosine"},
            "step_size=50 belongs to schedule 'step': leave it out",
        ),
        (
            {"step_factor": 0.1, "schedule": "one-cycle"},
            "step_factor=0.1 belongs to schedule 'step': leave it out",
        ),
        (
            {"warm_up": 0.1, "schedule": "step"},
            "warm_up=0.1 belongs to schedule 'one-cycle'",
        ),
        (
            {"patience": 2, "evaluate_every": 3},
            "patience=2 is less than evaluate_every=3",
        ),
    ],
    ids=str,
)
def test_unknown_and_contradictory_settings_are_refused_by_name(options, message):
    with pytest.raises(ValueError, match=message):
        TrainingSettings(**options)


@pytest.mark.parametrize(
    ("task", "options"),
    [
        (Rollout, {"step": 3}),
        (Rollout, {"steps": 0}),
        (Markov, {"noise": -0.1}),
        (Markov, {"noise": float("inf")}),
        (OneShot, {"span": 0.0}),
        (OneShot, {"start": float("nan")}),
        (SpaceTime, {"frames": 2}),
    ],
    ids=str,
)
def test_wrong_options_of_a_task_are_refused_by_name(task, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        task(**options)


def test_settings_and_tasks_do_not_change():
    settings = TrainingSettings()
    with pytest.raises(ValueError, match="frozen"):
        settings.epochs = 3
    with pytest.raises(ValueError, match="frozen"):
        Rollout().steps = 3


def test_settings_need_no_torch():
    command = "import sys, pdno.training.settings; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", command], check=True, timeout=60)


# Learning rates ---------------------------------------------------------------------------------


def ours(per_epoch, **options):
    """The learning rate of every step of a run."""
    settings = TrainingSettings(**options)
    return [learning_rate(settings, k, per_epoch) for k in range(settings.epochs * per_epoch)]


def theirs(make, rate, steps, *, per_epoch=1):
    """The same by a scheduler of torch that moves once in `per_epoch` steps."""
    optimiser = torch.optim.Adam([torch.nn.Parameter(torch.zeros(1))], lr=rate)
    schedule = make(optimiser)
    rates = []
    for step in range(steps):
        rates.append(optimiser.param_groups[0]["lr"])
        optimiser.step()
        if (step + 1) % per_epoch == 0 and step + 1 < steps:
            schedule.step()
    return rates


def test_constant_is_constant():
    assert ours(3, epochs=4, schedule="constant", learning_rate=0.01) == [0.01] * 12


@pytest.mark.parametrize("per_epoch", [1, 5])
@pytest.mark.parametrize(("size", "factor"), [(3, 0.5), (1, 0.9), (4, 0.1), (100, 0.5)])
def test_step_is_step_lr_stepping_once_per_epoch(per_epoch, size, factor):
    options = {"epochs": 11, "learning_rate": 5e-3, "step_size": size, "step_factor": factor}
    expected = theirs(
        lambda optimiser: lr_scheduler.StepLR(optimiser, step_size=size, gamma=factor),
        5e-3,
        11 * per_epoch,
        per_epoch=per_epoch,
    )
    assert ours(per_epoch, schedule="step", **options) == pytest.approx(expected, rel=1e-13)


def test_the_paper_halves_after_every_200_epochs():
    rates = ours(50, epochs=500, schedule="step", learning_rate=5e-3)
    assert rates[200 * 50 - 1] == 5e-3 and rates[200 * 50] == 2.5e-3
    assert rates[400 * 50 - 1] == 2.5e-3 and rates[-1] == 1.25e-3


def test_cosine_is_that_of_torch_and_ends_at_zero():
    rates = ours(4, epochs=25, schedule="cosine", learning_rate=0.02)
    expected = theirs(lambda o: lr_scheduler.CosineAnnealingLR(o, T_max=100), 0.02, 100)
    assert rates == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert rates[0] == 0.02 and rates[50] == pytest.approx(0.01)
    # the step after the last one would have none
    settings = TrainingSettings(epochs=25, schedule="cosine", learning_rate=0.02)
    assert learning_rate(settings, 100, 4) == 0
    assert all(a > b for a, b in itertools.pairwise(rates))


@pytest.mark.parametrize("warm_up", [0.3, 0.25, 0.05, 0.5])
@pytest.mark.parametrize(("epochs", "per_epoch"), [(10, 10), (3, 9), (50, 20)])
def test_one_cycle_is_that_of_torch(epochs, per_epoch, warm_up):
    total = epochs * per_epoch
    expected = theirs(
        lambda optimiser: lr_scheduler.OneCycleLR(
            optimiser,
            0.01,
            total_steps=total,
            pct_start=warm_up,
            anneal_strategy="cos",
            div_factor=25,
            final_div_factor=1e4,
            cycle_momentum=False,
        ),
        0.01,
        total,
    )
    options = {"epochs": epochs, "schedule": "one-cycle", "learning_rate": 0.01}
    assert ours(per_epoch, warm_up=warm_up, **options) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("warm_up", [0.0, 0.01, 0.3, 0.9, 0.999])
@pytest.mark.parametrize("total", [1, 2, 7, 100])
def test_one_cycle_rises_then_falls_between_its_ends(total, warm_up):
    options = {"epochs": total, "schedule": "one-cycle", "learning_rate": 0.01}
    rates = ours(1, warm_up=warm_up, **options)
    top = rates.index(max(rates))
    assert all(a < b for a, b in itertools.pairwise(rates[: top + 1]))
    assert all(a > b for a, b in itertools.pairwise(rates[top:]))
    assert all(0.01 / 25e4 * (1 - 1e-9) <= rate <= 0.01 for rate in rates)
    if warm_up * total > 1:
        assert rates[0] == pytest.approx(0.01 / 25)
        assert abs(top - (warm_up * total - 1)) < 1
    else:  # no step is left for a warm-up
        assert rates[0] == 0.01
    if warm_up * total < total - 1:
        assert rates[-1] == pytest.approx(0.01 / 25e4 if total > 1 else 0.01)


def test_half_a_cosine_has_its_mean_in_the_middle():
    options = {"epochs": 101, "schedule": "one-cycle", "warm_up": 2 / 101}
    rates = ours(1, learning_rate=1.0, **options)
    assert rates[1] == pytest.approx(1.0)
    middle = rates[1 + (100 - 1) // 2 : 1 + (100 - 1) // 2 + 2]
    assert math.fsum(middle) / 2 == pytest.approx((1 + 1 / 25e4) / 2, rel=1e-3)
