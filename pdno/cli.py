"""The command line: every command calls one function, and only that function imports torch."""

import argparse
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import CascadeSubcommandArgs, DisallowNone, Positional, arg, subcommand

import pdno
from pdno.data.problems import PROBLEMS, DataFile, Layout, Problem
from pdno.files.metric_table import Metric, write_metrics
from pdno.files.run_folder import METRICS
from pdno.interface.errors import SolverError, TrainingStopped, require, suggest, unknown_name
from pdno.interface.records import error_message
from pdno.paper import recipes  # noqa: F401  # which registers its recipes
from pdno.runs.plugins import RECIPES, Study, load_plugins

ABOUT = """Pseudo-differential neural operators: data, networks and measurements.

--plugin MODULE, anywhere, imports problems, networks and experiments of another package.
--version prints the version of pdno."""


def _summary(thing: Callable[..., object]) -> str:
    return (thing.__doc__ or "").split("\n")[0]


def _subcommands(registry: Mapping[str, Callable[..., object]]) -> Any:
    commands = [
        Annotated[Any, subcommand(name, description=_summary(make), constructor=make)]
        for name, make in registry.items()
    ]
    return reduce(or_, commands)


# subcommands are made when a command runs: plug-ins add to them
AnyProblem = Annotated[Problem, arg(name="", constructor_factory=lambda: _subcommands(PROBLEMS))]
AnyStudy = Annotated[Study, arg(name="", constructor_factory=lambda: _subcommands(RECIPES))]
Arrays = Annotated[Layout, arg(name="")]
Source = Positional[Path]
Sources = Positional[tuple[Path, ...]]
Device = Annotated[str | None, arg(help="For example cpu or cuda, which is the default if any.")]
CPU = Annotated[str, arg(help="Where to predict.")]
PDEParameters = Annotated[dict[str, float] | None, arg(help="By name, as in viscosity 1e-4.")]


def generate(
    problem: AnyProblem,
    out: Path,
    workers: int | None = None,
    engine: Literal["processes", "ray"] = "processes",
) -> None:
    """Generate a dataset, or finish one; `pdno generate PROBLEM --help` lists its options.

    Arguments:
        out: Folder of the dataset.
        workers: Number of processes; all cores by default. The data do not depend on it.
        engine: processes of this machine, or a Ray cluster that shares the folder (extra cluster).
    """
    manifest = pdno.generate_dataset(problem, out, workers=workers, engine=engine)
    worst = max(shard.residual for shard in manifest.shards)
    made = f"{manifest.samples} samples of {manifest.problem}, {len(manifest.shards)} shards"
    residual = f"; largest residual {worst:.1e}" if worst else ""  # steps in time have none
    print(f"{out}: {made}, complete{residual}")


def data(action: Positional[Literal["info"]], path: Source, *, layout: Arrays) -> None:
    """Print the contents of a data file or folder: `pdno data info PATH`.

    Arguments:
        path: A dataset, a .npz, .npy, .mat, HDF5 or torch file, a folder of .npy files, The Well.
    """
    from pdno.data.read import describe_data

    print(describe_data(DataFile(path=path, **layout.keyword_arguments())))


def demo(
    out: Path = Path("demo"), preset: Literal["smoke", "small"] = "small", pages: bool = True
) -> None:
    """Show a trained operator, draw each problem, train PDNO and FNO, write a report.

    Arguments:
        preset: small takes minutes, smoke seconds.
        pages: Write pages that run operators in a browser, too (extra export, and npm).
    """
    from pdno.paper.demo import run_demo, runs_for_pages, show_operator

    print(show_operator(out), flush=True)
    print(run_demo(out, preset=preset))
    if pages and preset != "smoke":
        from pdno.laboratory.page import try_pages

        print(try_pages(runs_for_pages(out, preset=preset), out))


def benchmark(
    folder: Source, out: Path = Path("benchmark"), seconds: float = 60.0, seeds: int = 3
) -> None:
    """Compare the errors of PDNO, FNO and MWT on public data files (see `speed` for times).

    Arguments:
        folder: Files of neuraloperator, FNO, PDEBench or The Well, which are recognised.
        out: Folder for runs, table and page; what is finished there is kept.
        seconds: CPU seconds of each training.
        seeds: Number of runs of each network.
    """
    from pdno.paper.public_benchmark import run_benchmark

    print(run_benchmark(folder, out, seconds=seconds, seeds=seeds))


def speed(out: Path = Path("bench"), quick: bool = False, settings: tuple[str, ...] = ()) -> None:
    """Measure speed and memory of networks on this machine, as ratios in one run.

    Arguments:
        quick: Fewer repetitions and only the paper's Navier-Stokes setting.
        settings: Measure only these, for example 3d-32-k8 rollout; all by default.
    """
    from pdno.benchmark import run_bench

    print(run_bench(out, quick=quick, settings=settings))


def info(json: bool = False) -> None:
    """Print versions, threads, compiled code and GPU of this machine."""
    from pdno.runs.execute import show_environment

    print(show_environment(as_json=json))


def list_experiments() -> None:
    """List the experiments of the paper, and of plug-ins, that `pdno reproduce` runs."""
    width = max(map(len, RECIPES))
    print(*(f"{name:{width}}  {_summary(recipe)}" for name, recipe in RECIPES.items()), sep="\n")


def reproduce(
    study: AnyStudy,
    out: Path | None = None,
    engine: Literal["serial", "ray"] = "serial",
    device: Device = None,
) -> None:
    """Run an experiment of the paper (see `pdno list`); finished runs are skipped.

    Arguments:
        out: Folder for data, runs and metrics.csv; runs/EXPERIMENT by default.
        engine: serial, or ray to spread the runs over a Ray cluster (extra cluster).
    """
    from pdno.paper.reproduce import run_study

    folder = out or Path("runs") / study.name
    metrics = run_study(study, folder, engine=engine, device=device)
    if study.preset == "smoke":
        print("smoke: a few samples and one epoch show that all runs; the numbers mean nothing")
    _print_metrics(metrics, folder)


def train(
    specification: Source,
    out: Path,
    epochs: int | None = None,
    seed: int | None = None,
    test_file: Path | None = None,
    validation_file: Path | None = None,
    device: Device = None,
    tensorboard: bool = False,
) -> None:
    """Train from a specification in JSON or YAML; under torchrun on all processes.

    Arguments:
        specification: The file; the specification.json of any run folder is an example. Kinds of
            tasks: static, rollout, teacher-forcing, markov, one-shot, space-time; of networks:
            pdno, fno, mwt, pdio.
        out: The run folder; a run that was interrupted is continued.
        epochs: Instead of those of the file, as the seed.
        test_file: A file with samples for testing; those for watching the run are another one.
        tensorboard: Write event files, too (extra track).
    """
    from pdno.runs.execute import run_experiment
    from pdno.runs.specification import read_experiment

    training = {name: n for name, n in (("epochs", epochs), ("seed", seed)) if n is not None}
    files = {"test_file": test_file, "validation_file": validation_file}
    changes = {name: file for name, file in files.items() if file is not None}
    experiment = read_experiment(specification, training, **changes)
    metrics = run_experiment(experiment, out, device=device, tensorboard=tensorboard)
    _print_metrics(metrics, out)


def _print_metrics(metrics: Sequence[Metric], folder: Path) -> None:
    from pdno.report.tables import summarise

    if os.environ.get("RANK", "0") == "0":  # the first of the processes of torchrun
        print(summarise(metrics), f"metrics: {folder / METRICS}", sep="\n")


def evaluate(
    run: Source,
    file: Path | None = None,
    resolution: int | None = None,
    out: Path | None = None,
    device: CPU = "cpu",
    *,
    layout: Arrays,
) -> None:
    """Evaluate a finished run on its test samples, at any resolution, or on other data.

    Arguments:
        file: A data file or folder, whose arrays are called as in training unless named.
        resolution: Points per axis; those of the training by default.
        out: A CSV file for the metrics.
    """
    other = None if file is None else DataFile(path=file, **layout.keyword_arguments())
    metrics = pdno.load_run(run, device).evaluate(file=other, resolution=resolution)
    if out is not None:
        write_metrics(out, metrics)
    print(*(f"{metric.metric:28} {metric.value:.6g}" for metric in metrics), sep="\n")


def predict(
    run: Source,
    inputs: Source,
    out: Path = Path("prediction.npy"),
    array: str | None = None,
    at: Path | None = None,
    times: tuple[float, ...] | None = None,
    pde_parameters: PDEParameters = None,
    device: CPU = "cpu",
) -> None:
    """Predict for the inputs of a file with a finished run.

    Arguments:
        inputs: A .npy, .npz, .mat or HDF5 file with an array (B, C, *N) or (B, *N).
        array: Name of the array, where the file has several; that of the training by default.
        at: A file with the coordinates of scattered points at which to predict; those of the
            inputs by default.
        times: Times of the wanted frames; those of the training by default.
    """
    shape = pdno.load_run(run, device).predict(
        inputs, out, array=array, at=at, times=times, pde_parameters=pde_parameters
    )
    print(f"{out}: {shape}")


def symbol(
    source: Source, out: Path | None = None, order: float = 1.0, resolution: int | None = None
) -> None:
    """Analyse a run or published weights: certificate, norms and figures of every layer.

    Arguments:
        out: Folder for the results; `symbol` in the run folder, where `pdno report` reads it.
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
    pde_parameters: PDEParameters = None,
) -> None:
    """Write a trained operator as one file that runs without pdno, and compare it with torch.

    Arguments:
        format: onnx (extra export), torch-export, aoti (compiled for this machine), safetensors
            (the tables), or page: an HTML file that runs it in a browser (needs npm).
        out: The file; by default one in the run folder.
        resolution: Points per axis, which are fixed in the file; those of the training by default.
        frames: Frames of a rollout as one graph; one step, for a loop of yours, by default.
        speed: Time torch and the file, batches of 1 and 20.
        beside: Further run folders for a page, to compare with.
    """
    if format == "page":
        from pdno.laboratory.page import write_page

        runs, page = [run, *beside], out or run / "page.html"
        print(write_page(runs, page, resolution=resolution, pde_parameters=pde_parameters))
        return
    exported = pdno.load_run(run).export(
        out, format=format, resolution=resolution, frames=frames, pde_parameters=pde_parameters
    )
    print(exported, *([exported.speed()] if speed else []), sep="\n")


def discover(
    file: Source,
    out: Path,
    terms: tuple[str, ...] = (),
    period: float = 1.0,
    window: int | None = None,
    tolerance: float = 1e-4,
    *,
    layout: Arrays,
) -> None:
    """Find the evolution equation of trajectories, with error bars, or report that none fits.

    Arguments:
        file: A data file or folder; one array of frames needs only --outputs and --output-axes.
        out: Folder for equation, coefficients and figures.
        terms: The library, such as u_xx "u u_x" 1; the usual one by default.
        period: Length of the periodic box.
        window: Most steps that are predicted at once; the whole trajectories by default.
        tolerance: Relative error of the numbers besides noise.
    """
    from pdno.data.read import read_trajectories
    from pdno.discovery.discover import discover as discover_equation
    from pdno.theory.certificate import certify

    u, times = read_trajectories(DataFile(path=file, **layout.keyword_arguments()))
    discovery = discover_equation(
        u, times, terms or None, period=period, window=window, tolerance=tolerance
    )
    discovery.write(out)
    print(f"{len(times)} frames, t = {times[0]:g} to {times[-1]:g}")
    print(discovery)
    for field, name in enumerate(discovery.generator.names if discovery.accepted else ()):
        symbol = discovery.generator.linear_symbol(field)
        print(f"A(ξ) of {name}: {certify(symbol, order=symbol.class_order).headline}")
    print(f"equation and figures: {out}")


def serve(runs: Sources, port: int = 8000) -> None:
    """Open trained operators in a browser on this machine (extra serve)."""
    require("uvicorn", "serve")
    from pdno.laboratory.server import serve as run_server

    run_server(list(runs), port=port)


def report(runs: Sources, out: Path = Path("report")) -> None:
    """Write a page about runs, with the tables and figures of the paper that they cover."""
    from pdno.paper.chapters import add_paper_chapters
    from pdno.report.page import write_report

    print(write_report(list(runs), out, add_paper_chapters))


def verify(paths: Sources) -> int:
    """Compare files of datasets, runs and exports with their checksums; exit 1 on a mismatch."""
    from pdno.runs.run import verify

    text, right = verify(list(paths))
    print(text)
    return 0 if right else 1


LEARNING = (reproduce, train, evaluate, predict, symbol, discover, report, export, serve)
OTHERS = (verify, generate, data, demo, benchmark, speed, info)
COMMANDS: dict[str, Callable[..., int | None]]
COMMANDS = {"list": list_experiments} | {f.__name__: f for f in (*LEARNING, *OTHERS)}


def _prepare(words: list[str]) -> list[str]:
    """Import plug-ins; the words of the command, whose names are checked by then."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--plugin", action="append", default=[])
    named, rest = parser.parse_known_args(words)
    load_plugins(named.plugin)
    command, name, *_ = [*rest, "--help", "--help"]
    if not command.startswith("-") and command not in COMMANDS:
        near = suggest(command, COMMANDS)
        raise ValueError(f"no command {command!r}; {near}known: {', '.join(COMMANDS)}")
    names: dict[str, tuple[str, Iterable[str]]]
    names = {"generate": ("problem", PROBLEMS), "reproduce": ("experiment", RECIPES)}
    if command in names and not name.startswith("-") and name not in names[command][1]:
        raise ValueError(unknown_name(names[command][0], name, names[command][1]))
    return rest or ["--help"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0, 2 for wrong input, 75 where the same command continues.

    `pdno verify` returns 1 where files are wrong.
    """
    os.environ.setdefault("PYDANTIC_ERRORS_INCLUDE_URL", "0")
    pdno.tune_allocator()
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words == ["--version"]:
        print(f"pdno {pdno.__version__}")
        return 0
    try:
        config, words = (CascadeSubcommandArgs, DisallowNone), _prepare(words)
        code = tyro.extras.subcommand_cli_from_dict(
            COMMANDS, prog="pdno", description=ABOUT, args=words, config=config
        )
        return code or 0
    except KeyboardInterrupt:
        message, code = "interrupted; the same command continues where it stopped", 130
    except (argparse.ArgumentError, ValueError, OSError, SolverError, TrainingStopped) as error:
        message = error_message(error)
        code = 75 if getattr(error, "resumable", False) else 2
    print(f"pdno: {message}", file=sys.stderr)
    return code
