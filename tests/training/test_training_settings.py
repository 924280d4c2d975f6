"""Settings of a run: complete, refused by name where they are wrong, and the same after JSON."""

import json
import subprocess
import sys

import pytest
from pydantic import ValidationError

from pdno.training.one_shot import OneShot, SpaceTime
from pdno.training.recurrent import Markov, Rollout, TeacherForcing
from pdno.training.settings import TrainingSettings
from pdno.training.task import StaticMap

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


@pytest.mark.parametrize("options", [{}, UNUSUAL, {"step_size": 9, "step_factor": 0.3}], ids=len)
def test_settings_are_the_same_after_json(options):
    settings = TrainingSettings(**options)
    assert TrainingSettings.model_validate_json(settings.model_dump_json()) == settings
    assert TrainingSettings(**json.loads(json.dumps(settings.model_dump()))) == settings
    assert {name: getattr(settings, name) for name in options} == options


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.kind)
def test_tasks_are_the_same_after_json(task):
    assert type(task).model_validate_json(task.model_dump_json()) == task


def test_the_defaults_are_those_of_the_paper():
    settings = TrainingSettings()
    assert (settings.optimiser, settings.learning_rate, settings.weight_decay) == (
        "adam",
        5e-3,
        1e-6,
    )
    assert (settings.schedule, settings.step_size, settings.step_factor) == ("step", 200, 0.5)
    assert (settings.batch_size, settings.reduction, settings.loss_order) == (20, "sum", 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epoch": 3}, "epoch\n.*Extra inputs are not permitted"),
        ({"lr": 0.1}, "lr\n.*Extra inputs are not permitted"),
        ({"epochs": 0}, "epochs\n"),
        ({"learning_rate": 0.0}, "learning_rate\n"),
        ({"learning_rate": float("nan")}, "learning_rate\n"),
        ({"schedule": "linear"}, "schedule\n"),
        ({"precision": "float16"}, "precision\n"),
        ({"checkpoint_seconds": float("inf")}, "checkpoint_seconds\n"),
        ({"seed": -1}, "seed\n"),
        (
            {"step_size": 50, "schedule": "cosine"},
            "step_size=50 belongs to schedule 'step', not 'cosine': leave it out",
        ),
        (
            {"step_factor": 0.1, "schedule": "one-cycle"},
            "step_factor=0.1 belongs to schedule 'step', not 'one-cycle': leave it out",
        ),
        ({"warm_up": 0.1}, "warm_up=0.1 belongs to schedule 'one-cycle', not 'step'"),
        (
            {"patience": 2, "evaluate_every": 3},
            "patience=2 epochs is less than evaluate_every=3",
        ),
    ],
    ids=str,
)
def test_unknown_and_contradictory_settings_are_refused_by_name(options, message):
    with pytest.raises(ValidationError, match=message):
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
    with pytest.raises(ValidationError, match=next(iter(options))):
        task(**options)


def test_settings_and_tasks_do_not_change():
    settings = TrainingSettings()
    with pytest.raises(ValidationError, match="frozen"):
        settings.epochs = 3
    with pytest.raises(ValidationError, match="frozen"):
        Rollout().steps = 3


def test_settings_need_no_torch():
    command = "import sys, pdno.training.settings; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", command], check=True, timeout=60)
