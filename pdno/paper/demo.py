"""The demo: a trained operator at work, data of every problem, PDNO and FNO trained, a report."""

__all__ = ["DEMO", "demo", "draw_problems", "run_demo", "runs_for_pages", "show_operator"]

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdno.data import problems
from pdno.data.dataset import open_dataset
from pdno.data.generate import generate_dataset
from pdno.figures.style import save_figure
from pdno.files.run_folder import is_finished
from pdno.paper import Preset
from pdno.paper.recipes import Study, check_size, heat, one_cycle, runs_by_model
from pdno.paper.reproduce import run_folder, run_study
from pdno.report.page import write_report
from pdno.runs.datasets import unseen_samples
from pdno.runs.networks import FNONetwork, PDNONetwork
from pdno.runs.run import load_run
from pdno.runs.symbol import inspect_symbols
from pdno.spectral.metrics import relative_l2

EPOCHS = 30
OPERATORS = Path(__file__).parents[2] / "results" / "operators"
"""Of a clone; an installed package has none."""
SHOWN = ("navier-stokes", "darcy", "burgers", "heat")
"""The first that is there is shown."""
DEMO = (
    problems.HeatProblem(samples=1),
    problems.BurgersProblem(samples=1, frames=4),
    problems.DarcyProblem(samples=1, resolution=256),
    problems.NavierStokesProblem(samples=1, resolution=128, viscosity=1e-4),
)


def run_demo(folder: Path, *, preset: Preset = "small") -> str:
    """Draw every problem, train PDNO and FNO on two of them, write the report; what was made."""
    study, runs = demo(preset), folder / "runs"
    pictures = draw_problems(folder)
    run_study(study, runs)
    inspect_symbols(run_folder(study.experiments[0], runs))
    page = write_report([runs], folder / "report")
    return "\n".join([*map(str, pictures), f"report: {page}"])


def demo(preset: Preset = "small") -> Study:
    """The heat symbol, and PDNO beside FNO on heat (u₀ -> u(0.1)) and on Darcy flow.

    The samples and epochs are few, so the errors are larger than those of the experiments.
    """
    check_size(preset)
    smoke = preset == "smoke"
    symbol = heat("smoke" if smoke else "small").experiments[0]
    epochs = {} if smoke else {"epochs": EPOCHS}
    symbol = symbol.with_changes(training=symbol.training.model_copy(update=epochs))
    train, states, flows = (4, 6, 6) if smoke else (200, 220, 240)
    points, coarse, solver = (64, 16, 32) if smoke else (256, 32, 128)
    heat_map = problems.HeatProblem(samples=states, resolution=points, final_time=0.1, frames=1)
    flow = problems.DarcyProblem(samples=flows, resolution=2 * coarse, solver_resolution=solver)
    data: dict[str, dict[str, Any]] = {
        "heat-map": {"problem": heat_map, "test": states - train, "resolution": points},
        "darcy": {"problem": flow, "test": flows - train, "resolution": coarse},
    }
    data["darcy"] |= {"zero_shot": (2 * coarse,), "normalization": "pointwise"}
    width, modes = (4, 6) if smoke else (16, 12)
    pdno, fno = PDNONetwork(width=width, modes=modes), FNONetwork(width=width, modes=modes)
    ours, theirs = (one_cycle(preset, EPOCHS, rate, optimiser="adam") for rate in (1e-2, 3e-3))
    networks = {
        "PDNO a(x,ξ)": {"network": pdno, "training": ours},
        "FNO": {"network": fno, "training": theirs},
    }
    sets = [runs_by_model(networks, name=name, train=train, **one) for name, one in data.items()]
    runs = [known[model] for model in networks for known in sets]
    return Study(name="demo", preset=preset, experiments=(symbol, *runs))


def runs_for_pages(
    folder: Path, *, preset: Preset = "small", operators: Path = OPERATORS
) -> dict[str, list[Path]]:
    """The runs to be shown in a browser, by the name of the page, after `run_demo`.

    Darcy flow by PDNO and FNO, and the trained operators of flows, where they are there.
    """
    flows = [one for one in demo(preset).experiments if one.name == "darcy"]
    flagship = operators / "navier-stokes"
    found = {"darcy": [run_folder(one, folder / "runs") for one in flows]}
    return found | ({"navier-stokes": [flagship]} if is_finished(flagship) else {})


def show_operator(folder: Path, operators: Path = OPERATORS) -> str:
    """A trained operator on a sample that it has never seen, drawn beside the truth; in words."""
    place = next((operators / name for name in SHOWN if is_finished(operators / name)), None)
    if place is None:
        told = "no trained operator to show: they are in a clone of the repository"
        return f"{told}, in results/operators, and not in the package"
    run = load_run(place)
    experiment, operator = run.experiment, run.operator
    assert experiment is not None and experiment.problem is not None
    begin = time.perf_counter()
    data = unseen_samples(experiment, 1)
    solving = time.perf_counter() - begin
    inputs, target = data.batch()
    operator.predict(
        inputs, **data.keyword_arguments([0])
    )  # evaluates the symbols, once for all predictions
    begin = time.perf_counter()
    prediction = operator.predict(inputs, **data.keyword_arguments([0]))
    predicting = time.perf_counter() - begin
    error, times = float(relative_l2(prediction, target)), data.target_times
    name = experiment.problem.name
    picture = folder / f"{name}-prediction.png"
    save_figure(operator.draw("plot", data, 0), picture)
    made = [picture]
    if times is not None and len(times) > 1:
        made.append(operator.draw("animate", data, 0).save(picture.with_suffix(".gif")))
    when = "" if times is None else f" t = {times[0]:g} to {times[-1]:g}"
    begun = "" if times is None else " from t = 0 on"
    return (
        f"{name}, an input that no training has seen: {experiment.model} predicts{when} "
        f"in {predicting:.2g} s with a relative L2 error of {error:.2g}; the solver that makes "
        f"the truth takes {solving:.2g} s{begun}. {', '.join(map(str, made))}"
    )


def draw_problems(folder: Path, drawn: Sequence[problems.Problem] = DEMO) -> list[Path]:
    """Generate one sample of each problem and draw it; returns the pictures."""
    pictures = []
    for problem in drawn:
        place = folder / "data" / problem.name
        generate_dataset(problem, place)
        title = f"{problem.name}: {problem.equation_text}"
        figure = open_dataset(place).plot(title=title)
        pictures.append(save_figure(figure, folder / f"{problem.name}.png"))
    return pictures
