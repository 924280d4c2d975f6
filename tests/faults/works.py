"""Work to be attacked: small, complete, and with the same bytes each time.

Each is a function of an empty folder and may be called again on what it left there. Clocks stand
still where their seconds are written, so that whole folders can be compared.
"""

import itertools
import json
import types
from pathlib import Path

import torch

import pdno.data.generate as generation
import pdno.evaluation.speed as speed
import pdno.runs.execute as execution
import pdno.training.checkpoint as checkpoint
import pdno.training.fit as fitting
from pdno import FNO
from pdno.cli import main
from pdno.data.dataset import OperatorDataset
from pdno.data.generate import generate_dataset, make_shard
from pdno.data.problems import HeatProblem
from pdno.networks.specification import specify
from pdno.paper.chapters import add_paper_chapters
from pdno.paper.recipes import Study
from pdno.paper.reproduce import run_study
from pdno.report.page import write_report
from pdno.runs.execute import run_experiment
from pdno.runs.run import Run, load, verify
from pdno.runs.specification import Experiment
from pdno.spectral.grid import Grid
from pdno.training.fit import fit
from pdno.training.settings import TrainingSettings
from pdno.training.task import Markov

PROBLEM = HeatProblem(samples=5, resolution=16, frames=3)
EXPERIMENT = Experiment(
    name="tiny",
    model="FNO",
    problem=PROBLEM,
    train=3,
    test=2,
    resolution=16,
    window=1,
    network=specify("fno", width=2, layers=1, modes=3),
    task=Markov(),
    training=TrainingSettings(epochs=2, batch_size=3, checkpoint_seconds=0),
)


def stop_clocks():
    """Seconds that are written are 0 for trainings, and 1 for each turn of a comparison.

    Nor does the commit change where somebody edits the clone meanwhile.
    """
    execution._commit = lambda: "0000000"
    still = types.SimpleNamespace(monotonic=lambda: 0.0, process_time=lambda: 0.0)
    turns = itertools.count()
    fitting.time = checkpoint.time = still
    speed.time = types.SimpleNamespace(perf_counter=lambda: float(next(turns)))


def make_shards_here():
    """Without worker processes, whose start takes seconds."""

    def make_all(problem, folder, missing, workers):
        for entry in missing:
            yield make_shard(problem, folder, *entry)

    generation._make_all = make_all


def prepare(base):
    """What the works find beside their folders: a specification and a finished run."""
    (base / "tiny.json").write_text(EXPERIMENT.model_dump_json(), encoding="utf-8")
    run_experiment(EXPERIMENT, base / "finished" / "run")


def train(folder, epochs=2, **more):
    """Noise, normalisers, Adam and a test, with a checkpoint after every step."""
    torch.manual_seed(1)
    frames = torch.randn(5, 4, 1, 16, generator=torch.Generator().manual_seed(0)).cumsum(1)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((16,)), times=range(4))
    samples, tests = data.window(inputs=1).split(test=1)
    return fit(
        FNO(1, 1, 1, width=4, layers=1, modes=4),
        samples,
        tests,
        task=Markov(noise=0.05),
        normalization="channel",
        folder=folder,
        epochs=epochs,
        batch_size=6,
        checkpoint_seconds=0,
        **more,
    )


def generate(folder):
    """A dataset of five shards."""
    generate_dataset(PROBLEM, folder, workers=1)


def save(folder):
    """An operator that is in memory."""
    train(None, epochs=1).save(folder)


def sweep(folder):
    """Two runs on one dataset, and their rows."""
    other = EXPERIMENT.training.model_copy(update={"seed": 1})
    both = (EXPERIMENT, EXPERIMENT.with_changes(training=other))
    run_study(Study(name="tiny", preset="smoke", experiments=both), folder)


def report(folder):
    """Tables, figures and the page of a finished run."""
    write_report([folder.parent / "finished"], folder, add_paper_chapters)


def export(folder):
    """Tables of a finished run as one file, and a second time where it stands already."""
    folder.mkdir(exist_ok=True)
    run = folder.parent / "finished" / "run"
    Run.open(run).export(folder / "operator.safetensors", format="safetensors")


def command(folder):
    """`pdno train` with its dataset; its code is that of the command."""
    words = ["train", str(folder.parent / "tiny.json"), "--out", str(folder / "run")]
    return main(words)


def ranks(folder):
    """A training of two processes."""
    train(folder, epochs=3)


WORKS = {
    one.__name__: one for one in (generate, train, save, sweep, export, command, report, ranks)
}


READERS = {
    "save": ("weights.safetensors", load),
    "train": ("weights.safetensors", load),
    "command": ("run/weights.safetensors", lambda folder: load(folder / "run")),
    "generate": ("shard-00000.h5", lambda folder: verify([folder])),
}
"""A file of finished work, and what reads it."""


def specification_file(folder: Path) -> Path:
    """A specification for commands in processes of their own, with more steps."""
    longer = EXPERIMENT.training.model_copy(update={"epochs": 10})
    text = EXPERIMENT.with_changes(training=longer).model_dump_json()
    path = folder / "longer.json"
    path.write_text(json.dumps(json.loads(text)), encoding="utf-8")
    return path
