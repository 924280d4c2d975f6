"""The demo: data of every problem, made and drawn; PDNO and FNO trained; a report."""

__all__ = ["DEMO", "demo", "draw_problems", "run_demo", "train_for_pages"]

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdno.data import problems
from pdno.data.dataset import open_dataset
from pdno.data.generate import generate_dataset
from pdno.experiments import Preset
from pdno.experiments.networks import FNONetwork, PDNONetwork
from pdno.experiments.recipes import Study, check_size, heat, markov_runs, one_cycle, runs_by_model
from pdno.experiments.reproduce import run_folder, run_study
from pdno.experiments.run import run_experiment
from pdno.experiments.specification import Experiment
from pdno.experiments.symbol import inspect_symbols
from pdno.report.page import write_report
from pdno.report.style import save_figure

EPOCHS = 30
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


def train_for_pages(folder: Path, *, preset: Preset = "small") -> dict[str, list[Path]]:
    """The runs to be shown in a browser, by the name of the page, after `run_demo`.

    Darcy flow by PDNO and FNO, and a network that steps Navier-Stokes, which is trained here.
    """
    flows = [one for one in demo(preset).experiments if one.name == "darcy"]
    steps = _steps(preset)
    place = run_folder(steps, folder / "runs")
    run_experiment(steps, place)
    darcy = [run_folder(one, folder / "runs") for one in flows]
    return {"darcy": darcy, "navier-stokes": [place]}


def _steps(preset: Preset) -> Experiment:
    """One step of a slow flow from one frame, which a page repeats: about a minute."""
    smoke = preset == "smoke"
    samples, points, last = (4, 16, 4) if smoke else (40, 32, 20)
    solved: dict[str, Any] = {
        "solver_resolution": 2 * points,
        "viscosity": 1e-3,
        "final_time": last,
    }
    run = markov_runs(preset, 16, 6 if smoke else 10, {"PDNO": 8, "FNO": 8})["PDNO Markov"]
    return Experiment(
        name="navier-stokes",
        model="PDNO by steps",
        problem=problems.NavierStokesProblem(samples=samples, resolution=points, **solved),
        train=samples - (2 if smoke else 8),
        test=2 if smoke else 8,
        resolution=points,
        window=1,
        **run,
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
