"""The command line: every command is a thin call of one function, which alone imports torch."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from importlib.metadata import version
from operator import or_
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from pydantic import ValidationError
from tyro.conf import CascadeSubcommandArgs, DisallowNone, Positional, arg, subcommand

from pdno.data.layout import DataFile, Layout
from pdno.data.problems import PROBLEMS, Problem
from pdno.files.run_folder import METRICS
from pdno.interface.errors import SolverError, TrainingStopped, require, suggest, unknown_name
from pdno.interface.records import one_line
from pdno.native import tune_allocator
from pdno.paper import ablations, recipes  # noqa: F401  # they register their recipes
from pdno.runs.plugins import RECIPES, Study, load_plugins

if TYPE_CHECKING:
    from pdno.files.metric_table import Metric

ABOUT = """Pseudo-differential neural operators: data, networks and measurements.

--plugin MODULE, anywhere, imports problems, networks and experiments of another package.
--version prints the version of pdno."""
SMOKE = "smoke: a few samples and one epoch show that all runs; the numbers mean nothing"
Arrays = Annotated[Layout, arg(name="")]
Source = Positional[Path]
Sources = Positional[tuple[Path, ...]]


def _subcommands(constructors: Mapping[str, Callable[..., object]]) -> Any:
    """One of several things, each a subcommand with the options of its constructor."""
    kinds: list[object] = [
        Annotated[Any, subcommand(name, description=_summary(make), constructor=make)]
        for name, make in constructors.items()
    ]
    return reduce(or_, kinds)


def _summary(thing: Callable[..., object]) -> str:
    return (thing.__doc__ or "").split("\n")[0]


# made when a command runs: plug-ins add to them
AnyProblem = Annotated[Problem, arg(name="", constructor_factory=lambda: _subcommands(PROBLEMS))]
AnyStudy = Annotated[Study, arg(name="", constructor_factory=lambda: _subcommands(RECIPES))]


def generate(
    problem: AnyProblem,
    out: Path,
    workers: int | None = None,
    engine: Literal["processes", "ray"] = "processes",
) -> None:
    """Generate a dataset, or finish one that was interrupted.

    `pdno generate PROBLEM --help` lists the options of a problem.

    Arguments:
        problem: Which problem, and its parameters.
        out: Folder of the dataset.
        workers: Number of processes; all cores by default. The data do not depend on it.
        engine: processes of this machine, or ray for a Ray cluster that shares the folder (extra
            cluster). The data do not depend on it.
    """
    from pdno.data.generate import generate_dataset

    manifest = generate_dataset(problem, out, workers=workers, engine=engine)
    worst = max(shard.residual for shard in manifest.shards)
    made = f"{manifest.samples} samples of {manifest.problem}, {len(manifest.shards)} shards"
    # steps in time have no residual; only systems of equations do
    print(f"{out}: {made}, complete" + (f"; largest residual {worst:.1e}" if worst else ""))


def data(action: Positional[Literal["info"]], path: Source, *, layout: Arrays) -> None:
    """Print what a data file or folder holds: `pdno data info PATH`.

    Arguments:
        action: What to do.
        path: A dataset folder, a .npz, .npy, .mat, HDF5 or torch file, a folder of .npy files, or
            a file or folder of The Well.
    """
    from pdno.data.own import describe_data

    print(describe_data(DataFile(path=path, **layout.keyword_arguments())))


def demo(
    out: Path = Path("demo"), preset: Literal["smoke", "small"] = "small", pages: bool = True
) -> None:
    """Show a trained operator, draw each problem, train PDNO and FNO, write a report.

    Arguments:
        out: Folder for everything.
        preset: small takes minutes, smoke seconds.
        pages: Write pages that run operators in a browser, too (extra export, and npm).
    """
    from pdno.paper.demo import run_demo, runs_for_pages, show_operator

    print(show_operator(out), flush=True)
    print(run_demo(out, preset=preset))
    if pages and preset != "smoke":
        from pdno.laboratory.page import try_pages

        print(try_pages(runs_for_pages(out, preset=preset), out))


def bench(out: Path = Path("bench"), quick: bool = False, settings: tuple[str, ...] = ()) -> None:
    """Measure speed and memory as ratios in one run.

    Arguments:
        out: Folder for bench.json, bench.md and scaling.png.
        quick: Fewer repetitions and only the paper's Navier-Stokes setting.
        settings: Measure only these, for example 3d-32-k8 rollout; all by default.
    """
    from pdno.benchmark.run import run_bench

    print(run_bench(out, quick=quick, settings=settings))


def info(json: bool = False) -> None:
    """Print versions, threads, compiled code and GPU of this machine.

    Arguments:
        json: For programs.
    """
    from pdno.runs.environment import show_environment

    print(show_environment(as_json=json))


def list_experiments() -> None:
    """List the experiments of the paper, and of plug-ins, that `pdno reproduce` runs."""
    width = max(map(len, RECIPES))
    print(*(f"{name:{width}}  {_summary(recipe)}" for name, recipe in RECIPES.items()), sep="\n")


def reproduce(
    study: AnyStudy,
    out: Path | None = None,
    engine: Literal["serial", "ray"] = "serial",
    device: str | None = None,
) -> None:
    """Run an experiment of the paper: data, training, evaluation; finished runs are skipped.

    `pdno reproduce EXPERIMENT --help` lists the options of an experiment.

    Arguments:
        study: Which one, see `pdno list`.
        out: Folder for data, runs and metrics.csv; runs/EXPERIMENT by default.
        engine: serial, or ray to spread the runs over a Ray cluster (extra cluster).
        device: Where to train, for example cuda or cpu; CUDA by default where there is one.
    """
    from pdno.paper.reproduce import run_study

    folder = out or Path("runs") / study.name
    metrics = run_study(study, folder, engine=engine, device=device)
    _print_metrics(metrics, folder, SMOKE if study.preset == "smoke" else "")


def train(
    specification: Source,
    out: Path,
    epochs: int | None = None,
    seed: int | None = None,
    device: str | None = None,
    tensorboard: bool = False,
) -> None:
    """Train as a JSON or YAML file says; run under torchrun it uses all processes.

    Arguments:
        specification: The file, with name, model, problem or file, train, test, resolution,
            network, task and training. The specification.json of any run folder is an example.
            Kinds of tasks: static, rollout, teacher-forcing, markov, one-shot, space-time; of
            networks: pdno, fno, mwt, pdio.
        out: The run folder; a run that was interrupted is continued.
        epochs: Other number of epochs than in the file.
        seed: Other seed than in the file.
        device: Where to train, for example cuda or cpu; CUDA by default where there is one.
        tensorboard: Write event files, too (extra track).
    """
    from pdno.runs.execute import train

    metrics = train(
        specification, out, epochs=epochs, seed=seed, device=device, tensorboard=tensorboard
    )
    _print_metrics(metrics, out)


def evaluate(
    run: Source,
    file: Path | None = None,
    resolution: int | None = None,
    out: Path | None = None,
    device: str = "cpu",
    *,
    layout: Arrays,
) -> None:
    """Evaluate a finished run on its test samples, at any resolution, or on other data.

    Arguments:
        run: The run folder.
        file: A data file or folder (`pdno data info`); its own test samples by default. Arrays
            that are not named are those of the training.
        resolution: Points per axis; those of the training by default.
        out: A CSV file for the metrics.
        device: Where to predict.
    """
    from pdno.files.metric_table import write_metrics
    from pdno.runs.run import Run

    other = None if file is None else DataFile(path=file, **layout.keyword_arguments())
    metrics = Run.open(run, device).evaluate(file=other, resolution=resolution)
    if out is not None:
        write_metrics(out, metrics)
    print(*(f"{metric.metric:28} {metric.value:.6g}" for metric in metrics), sep="\n")


def predict(
    run: Source,
    inputs: Source,
    out: Path = Path("prediction.npy"),
    array: str | None = None,
    times: tuple[float, ...] | None = None,
    pde_parameters: dict[str, float] | None = None,
    device: str = "cpu",
) -> None:
    """Predict for the inputs of a file with a finished run.

    Arguments:
        run: The run folder.
        inputs: A .npy, .npz, .mat or HDF5 file with an array (B, C, *N) or (B, *N).
        out: The .npy file to write.
        array: Name of the array, where the file has several; that of the training by default.
        times: Times of the wanted frames; those of the training by default.
        pde_parameters: PDE parameters by name, which an operator of a family of equations needs,
            for example --pde-parameters viscosity 1e-4.
        device: Where to predict.
    """
    from pdno.runs.run import Run

    shape = Run.open(run, device).predict(
        inputs, out, array=array, times=times, pde_parameters=pde_parameters
    )
    print(f"{out}: {shape}")


def symbol(
    source: Source, out: Path | None = None, order: float = 1.0, resolution: int | None = None
) -> None:
    """Look inside a learned operator: certificate, norms and figures of every layer.

    Arguments:
        source: A run folder, or a file of published weights.
        out: Folder for symbol.json, symbol.txt and the figures; `symbol` in the run folder by
            default, where `pdno report` reads it.
        order: m of the symbol class S^m of the certificate.
        resolution: Points per axis; needed for published weights, which do not record it.
    """
    from pdno.runs.symbol import inspect_symbols

    text, folder = inspect_symbols(source, out, order=order, resolution=resolution)
    print(text, f"figures and symbol.json: {folder}", sep="\n")


def export(
    run: Source,
    format: Literal["onnx", "torch-export", "aoti", "safetensors", "page"] = "onnx",
    out: Path | None = None,
    resolution: int | None = None,
    frames: int | None = None,
    speed: bool = False,
    beside: tuple[Path, ...] = (),
    pde_parameters: dict[str, float] | None = None,
) -> None:
    """Write a trained operator as one file that runs without pdno, and compare it with torch.

    Arguments:
        run: The run folder.
        format: onnx (extra export), torch-export, aoti (compiled for this machine), safetensors
            (the tables), or page: a folder that runs it in a browser (needs npm).
        out: The file, or the folder of the page; operator.onnx, or as the format ends, in the run
            folder by default.
        resolution: Points per axis, which are fixed in the file; those of the training by default.
        frames: Frames of a rollout as one graph; one step, for a loop of yours, by default.
        speed: Time torch and the file, batches of 1 and 20.
        beside: Further run folders for a page, to compare with.
        pde_parameters: PDE parameters that the file fixes, which an operator of a family needs,
            for example --pde-parameters viscosity 1e-3.
    """
    if format == "page":
        from pdno.laboratory.page import write_page

        runs, page = [run, *beside], out or run / "page"
        print(write_page(runs, page, resolution=resolution, pde_parameters=pde_parameters))
        return
    from pdno.runs.run import Run

    exported = Run.open(run).export(
        out, format=format, resolution=resolution, frames=frames, pde_parameters=pde_parameters
    )
    print(exported, *([exported.speed()] if speed else []), sep="\n")


def serve(runs: Sources, port: int = 8000) -> None:
    """Try trained operators in a browser, with the solvers beside them (extra serve).

    Others cannot reach it: it listens on this machine alone.

    Arguments:
        runs: Run folders, or folders that hold some.
        port: Where to listen; 0 takes a free one.
    """
    require("fastapi", "serve")
    require("uvicorn", "serve")
    from pdno.laboratory.server import serve as run_server

    run_server(list(runs), port=port)


def report(runs: Sources, out: Path = Path("report")) -> None:
    """Show run folders, and the tables and figures of the paper that they fill, as one page.

    Arguments:
        runs: Run folders, or folders that hold some.
        out: Folder for report.html, tables and figures.
    """
    from pdno.paper.chapters import add_paper_chapters
    from pdno.report.page import write_report

    print(write_report(list(runs), out, add_paper_chapters))


def verify(paths: Sources) -> int:
    """Compare each file with its checksum: right, missing, changed or unknown.

    The exit code is 1 where something is wrong.

    Arguments:
        paths: Datasets, run folders, folders that hold some, or exported files.
    """
    from pdno.runs.verify import verify

    text, right = verify(list(paths))
    print(text)
    return 0 if right else 1


COMMANDS: dict[str, Callable[..., int | None]] = {
    "list": list_experiments,
    **{
        command.__name__: command
        for command in (reproduce, train, evaluate, predict, symbol, report, export, serve, verify)
        + (generate, data, demo, bench, info)
    },
}


def _print_metrics(metrics: "list[Metric]", folder: Path, note: str = "") -> None:
    from pdno.report.tables import summarise

    if os.environ.get("RANK", "0") == "0":  # the first of the processes of torchrun
        parts = (note, summarise(metrics), f"metrics: {folder / METRICS}")
        print(*(part for part in parts if part), sep="\n")


def _load_plugins(words: list[str]) -> list[str]:
    """Import the plug-ins that are installed or named; the other words of the command."""
    modules, rest, left = [], [], iter(words)
    for word in left:
        if word == "--plugin":
            modules.append(next(left, ""))
        elif word.startswith("--plugin="):
            modules.append(word.removeprefix("--plugin="))
        else:
            rest.append(word)
    if "" in modules:
        raise ValueError("--plugin needs the name of a module")
    load_plugins(modules)
    return rest or ["--help"]


def _check_names(words: list[str]) -> None:
    """Refuse an unknown command, problem or experiment with the nearest existing one."""
    command, name = words[0], words[1] if len(words) > 1 else "-"
    if not command.startswith("-") and command not in COMMANDS:
        near = suggest(command, COMMANDS)
        raise ValueError(f"no command {command!r}; {near}known: {', '.join(COMMANDS)}")
    names: dict[str, tuple[str, Iterable[str]]]
    names = {"generate": ("problem", PROBLEMS), "reproduce": ("experiment", RECIPES)}
    if command in names and not name.startswith("-") and name not in names[command][1]:
        raise ValueError(unknown_name(names[command][0], name, names[command][1]))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0, 2 for wrong input, 75 where the same command continues.

    `pdno verify` returns 1 where files are wrong.
    """
    os.environ.setdefault("PYDANTIC_ERRORS_INCLUDE_URL", "0")
    tune_allocator()
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if words == ["--version"]:
        print(f"pdno {version('pdno')}")
        return 0
    try:
        words = _load_plugins(words)
        _check_names(words)
        config = (CascadeSubcommandArgs, DisallowNone)
        code = tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="pdno", description=ABOUT, args=words, config=config
        )
        return code or 0
    except KeyboardInterrupt:
        message, code = "interrupted; the same command continues where it stopped", 130
    except ValidationError as error:
        message, code = one_line(error), 2
    except (ValueError, OSError, SolverError, TrainingStopped) as error:
        message, code = str(error), 75 if getattr(error, "resumable", False) else 2
    print(f"pdno: {message}", file=sys.stderr)
    return code
