"""The demo: data of every problem, made and drawn; PDNO and FNO trained; a report."""

__all__ = ["DEMO", "draw_problems", "run_demo"]

from collections.abc import Sequence
from pathlib import Path

from pdno.data.dataset import open_dataset
from pdno.data.generate import generate_dataset
from pdno.data.problems import (
    BurgersProblem,
    DarcyProblem,
    HeatProblem,
    NavierStokesProblem,
    Problem,
)
from pdno.experiments.catalog import Preset
from pdno.experiments.recipes.demo import demo
from pdno.experiments.reproduce import run_folder, run_study
from pdno.experiments.symbol import inspect_symbols
from pdno.report.figures_fields import plot_sample
from pdno.report.page import write_report
from pdno.report.style import save_figure

DEMO = (
    HeatProblem(samples=1),
    BurgersProblem(samples=1, frames=4),
    DarcyProblem(samples=1, resolution=256),
    NavierStokesProblem(samples=1, resolution=128, viscosity=1e-4),
)


def run_demo(folder: Path, *, preset: Preset = "small") -> list[Path]:
    """Draw every problem, train PDNO and FNO on two of them and write the report.

    Arguments:
        folder: Where everything goes.
        preset: "smoke" for seconds, "small" for minutes.

    Returns:
        The pictures, and the page of the report at last.
    """
    study = demo(preset)
    pictures = draw_problems(folder)
    runs = folder / "runs"
    run_study(study, runs)
    inspect_symbols(run_folder(study.experiments[0], runs))
    return [*pictures, write_report([runs], folder / "report")]


def draw_problems(folder: Path, problems: Sequence[Problem] = DEMO) -> list[Path]:
    """Generate one sample of each problem and draw it; returns the pictures."""
    pictures = []
    for problem in problems:
        place = folder / "data" / problem.name
        generate_dataset(problem, place)
        inputs, outputs = open_dataset(place).batch([0])
        figure = plot_sample(
            f"{problem.name}: {problem.equation_text}",
            inputs[0, 0].numpy(),
            outputs[0].squeeze(-1 - problem.dim).numpy(),
            names=(problem.fields[0].replace("_", " "), problem.fields[1]),
            times=problem.times,
        )
        pictures.append(save_figure(figure, folder / f"{problem.name}.png"))
    return pictures
