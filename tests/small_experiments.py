"""Fixtures: small experiments that take a fraction of a second, and one folder of datasets."""

from inspect import signature
from typing import get_args

import pytest

import pdno.data.generate as generation
from pdno.data.generate import make_shard
from pdno.data.problems import DarcyProblem, HeatProblem, NavierStokesProblem
from pdno.networks.specification import specify
from pdno.runs.plugins import RECIPES
from pdno.runs.specification import Experiment
from pdno.training.settings import TrainingSettings
from pdno.training.task import OneShot, Rollout

QUICK = TrainingSettings(epochs=2, batch_size=2)


@pytest.fixture(autouse=True)
def in_process(monkeypatch):
    """Make shards in this process, which takes no time."""

    def make_all(problem, folder, missing, workers):
        for entry in missing:
            yield make_shard(problem, folder, *entry)

    monkeypatch.setattr(generation, "_make_all", make_all)


@pytest.fixture(scope="session")
def datasets(tmp_path_factory):
    """Where all tests keep their datasets."""
    return tmp_path_factory.mktemp("experiments") / "data"


@pytest.fixture
def heat():
    """One operator alone, at times that it is trained at and others."""
    return Experiment(
        name="heat",
        model="PDIO",
        problem=HeatProblem(samples=5, resolution=32, frames=4),
        train=3,
        test=2,
        resolution=32,
        network=specify("pdio", takes_time=True, symbol_hidden=8),
        task=OneShot(train_every=2),
        training=QUICK,
    )


@pytest.fixture
def darcy():
    """A static map with normalisers, evaluated at another resolution."""
    return Experiment(
        name="darcy",
        model="FNO",
        problem=DarcyProblem(samples=6, resolution=16, solver_resolution=16),
        train=4,
        test=2,
        resolution=8,
        network=specify("fno", width=4, modes=3),
        normalization="pointwise",
        training=QUICK,
        zero_shot=(16,),
    )


@pytest.fixture
def flow():
    """Frames from frames."""
    return Experiment(
        name="flow",
        model="FNO",
        problem=NavierStokesProblem(
            samples=4, resolution=16, solver_resolution=16, final_time=5, viscosity=1e-2
        ),
        train=2,
        test=2,
        resolution=16,
        window=2,
        network=specify("fno", width=4, modes=3),
        task=Rollout(),
        training=QUICK,
    )


def presets_of(name):
    """The presets of a recipe, by its signature."""
    annotation = signature(RECIPES[name]).parameters["preset"].annotation
    return get_args(get_args(annotation)[0])
