"""Small runs of every kind of task, trained once, and the laboratory around them."""

import contextlib
import socket
import threading

import pytest

import pdno.data.generate as generation
from pdno.data.generate import make_shard
from pdno.data.problems import DarcyProblem, HeatProblem, NavierStokesProblem
from pdno.networks.specification import specify
from pdno.runs.execute import run_experiment
from pdno.runs.specification import Experiment
from pdno.training.settings import TrainingSettings
from pdno.training.task import Markov, OneShot, Rollout

QUICK = {"training": TrainingSettings(epochs=1, batch_size=2), "train": 2, "test": 2}
SMALL = {"width": 4, "layers": 2, "modes": 3}


def experiments():
    flow = DarcyProblem(samples=4, resolution=16, solver_resolution=32)
    medium = {"name": "darcy", "problem": flow, "resolution": 16, "normalization": "channel"}
    vortices = NavierStokesProblem(
        samples=4, resolution=16, solver_resolution=16, final_time=4, viscosity=1e-2
    )
    fluid = {"name": "flow", "problem": vortices, "resolution": 16, "window": 2}
    state = HeatProblem(samples=4, resolution=32, solver_resolution=32, frames=3)
    family = state.model_copy(update={"vary": {"diffusivity": (0.01, 0.1)}})
    pdno = specify("pdno", **SMALL, symbol_hidden=6)
    return [
        Experiment(model="PDNO", network=pdno, **medium, **QUICK),
        Experiment(model="FNO", network=specify("fno", **SMALL), **medium, **QUICK),
        Experiment(model="steps", network=pdno, task=Markov(), **fluid, **QUICK),
        Experiment(
            model="window", network=specify("fno", **SMALL), task=Rollout(), **fluid, **QUICK
        ),
        Experiment(
            **{"name": "heat", "model": "PDIO", "problem": state, "resolution": 32},
            **{
                "network": specify("pdio", takes_time=True, frequency_scale=1.0, symbol_hidden=6),
                "task": OneShot(),
            },
            **QUICK,
        ),
        Experiment(
            **{"name": "family", "model": "PDIO", "problem": family, "resolution": 32},
            **{
                "network": specify(
                    "pdio", takes_time=True, frequency_scale=1.0, symbol_hidden=6, pde_parameters=1
                ),
                "task": OneShot(),
            },
            **QUICK,
        ),
    ]


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """Run folders, in this order: darcy PDNO and FNO, flow by steps and by windows, heat, and
    heat of any diffusivity."""
    parent, before = tmp_path_factory.mktemp("laboratory"), generation._make_all

    def make_all(problem, folder, missing, workers):
        for entry in missing:
            yield make_shard(problem, folder, *entry)

    generation._make_all = make_all
    try:
        folders = [parent / f"{each.name}-{each.model}" for each in experiments()]
        for experiment, folder in zip(experiments(), folders, strict=True):
            run_experiment(experiment, folder)
    finally:
        generation._make_all = before
    return folders


@contextlib.contextmanager
def serving(folders):
    """The address of a laboratory that serves these runs."""
    pytest.importorskip("uvicorn", reason="pip install 'pdno[serve]'")
    from pdno.laboratory.catalogue import serve_runs
    from pdno.laboratory.server import Laboratory, make_server

    running = make_server(Laboratory(serve_runs(folders)))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]})
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join()


@pytest.fixture(scope="session")
def laboratory():
    """`serving`, for tests."""
    return serving
