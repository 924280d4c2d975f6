"""The demo: show a trained operator, draw every problem, train PDNO and FNO, write a report."""

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pdno.data import problems
from pdno.data.dataset import open_dataset
from pdno.data.generate import generate_dataset
from pdno.figures.style import save_figure
from pdno.files.run_folder import is_finished
from pdno.paper.chapters import add_paper_chapters
from pdno.paper.recipes import make_study
from pdno.paper.reproduce import run_folder, run_study, study_of
from pdno.report.page import write_report
from pdno.runs.plugins import Study
from pdno.runs.run import load_run
from pdno.runs.specification import unseen_samples
from pdno.runs.symbol import inspect_symbols
from pdno.spectral.metrics import relative_l2

EPOCHS = 30
OPERATORS = Path(__file__).parents[2] / "results" / "operators"
"""Of a clone; an installed package has none."""
SHOWN = ("navier-stokes", "darcy", "burgers", "heat")
"""The first one that exists is shown."""
DEMO = (
    problems.HeatProblem(samples=1),
    problems.BurgersProblem(samples=1, frames=4),
    problems.DarcyProblem(samples=1, resolution=256),
    problems.NavierStokesProblem(samples=1, resolution=128, viscosity=1e-4),
)


def run_demo(folder: Path, *, preset: str = "small") -> str:
    """Draw every problem, train PDNO and FNO on two of them, write the report; the files made."""
    study, runs = demo(preset), folder / "runs"
    drawings = draw_problems(folder)
    run_study(study, runs)
    inspect_symbols(run_folder(study.experiments[0], runs))
    page = write_report([runs], folder / "report", add_paper_chapters)
    return "\n".join([*map(str, drawings), f"report: {page}"])


def demo(preset: str = "small") -> Study:
    """The heat symbol, and PDNO beside FNO on heat (u₀ -> u(0.1)) and Darcy, few samples."""
    heat_map, flow = (make_study(name, preset) for name in ("heat-map", "darcy-map"))
    symbol = study_of("heat", preset).experiments[0]
    if preset != "smoke":
        symbol = symbol.with_changes(training=symbol.training.with_changes(epochs=EPOCHS))
    pairs = zip(heat_map.experiments, flow.experiments, strict=True)
    return replace(flow, name="demo", experiments=(symbol, *itertools.chain(*pairs)))


def runs_for_pages(
    folder: Path, *, preset: str = "small", operators: Path = OPERATORS
) -> dict[str, list[Path]]:
    """The runs to be shown in a browser, by the name of the page, after `run_demo`.

    Darcy flow shows the operator of the repository instead of the trained PDNO a(x,ξ), whose
    certificates take minutes.
    """
    flows = [run for run in demo(preset).experiments if run.name == "darcy"]
    pages = {"darcy": [run_folder(flow, folder / "runs") for flow in flows]}
    if is_finished(classical := operators / "darcy"):
        pages["darcy"][0] = classical
    if is_finished(flagship := operators / "navier-stokes"):
        pages["navier-stokes"] = [flagship]
    return pages


def show_operator(folder: Path, operators: Path = OPERATORS) -> str:
    """Draw a trained operator on an unseen sample beside the solution; a sentence about it."""
    chosen = next((operators / name for name in SHOWN if is_finished(operators / name)), None)
    if chosen is None:
        return "no trained operator to show: only a clone of the repository has results/operators"
    run = load_run(chosen)
    experiment, operator = run.experiment, run.operator
    assert experiment is not None and experiment.problem is not None
    begin = time.perf_counter()
    data = unseen_samples(experiment, 1)
    solving = time.perf_counter() - begin
    inputs, target = data.batch()
    for _ in range(2):  # the first time evaluates the symbols, once for all predictions
        begin = time.perf_counter()
        prediction = operator.predict(inputs, **data.keyword_arguments([0]))
        predicting = time.perf_counter() - begin
    error, times = float(relative_l2(prediction, target)), data.target_times
    name = experiment.problem.name
    drawings = [save_figure(operator.plot(data, 0), folder / f"{name}-prediction.png")]
    if times is not None and len(times) > 1:
        drawings.append(operator.animate(data, 0).save(drawings[0].with_suffix(".gif")))
    at, start = (f" t = {times[0]:g} to {times[-1]:g}", " from t = 0 on") if times else ("", "")
    return (
        f"{name}, an input that no training has seen: {experiment.model} predicts{at} "
        f"in {predicting:.2g} s with a relative L2 error of {error:.2g}; the solver that makes "
        f"the true solution takes {solving:.2g} s{start}. {', '.join(map(str, drawings))}"
    )


def draw_problems(folder: Path, drawn: Sequence[problems.Problem] = DEMO) -> list[Path]:
    """Generate one sample of each problem and draw it; returns the files."""
    drawings = []
    for problem in drawn:
        data = folder / "data" / problem.name
        generate_dataset(problem, data)
        figure = open_dataset(data).plot(title=f"{problem.name}: {problem.equation_text}")
        drawings.append(save_figure(figure, folder / f"{problem.name}.png"))
    return drawings
