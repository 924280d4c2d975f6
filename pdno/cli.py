"""The command line: every command is a thin call of one importable function.

torch is imported by the commands that need it, so that `pdno --help` answers at once.
"""

__all__ = ["main"]

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import tyro
from pydantic import ValidationError
from tyro.conf import CascadeSubcommandArgs, Positional, arg, subcommand

from pdno.allocator import tune_allocator
from pdno.data.problems import (
    BurgersProblem,
    DarcyProblem,
    HeatProblem,
    NavierStokesProblem,
)

AnyProblem = (
    Annotated[HeatProblem, subcommand("heat")]
    | Annotated[BurgersProblem, subcommand("burgers")]
    | Annotated[DarcyProblem, subcommand("darcy")]
    | Annotated[NavierStokesProblem, subcommand("navier-stokes")]
)


def generate(
    problem: Annotated[AnyProblem, arg(name="")], out: Path, workers: int | None = None
) -> None:
    """Generate a dataset, or finish one that was interrupted.

    `pdno generate PROBLEM --help` lists the options of a problem.

    Arguments:
        problem: Which problem, and its parameters.
        out: Folder of the dataset.
        workers: Number of processes; all cores by default. The data do not depend on it.
    """
    from pdno.data.generate import generate_dataset

    manifest = generate_dataset(problem, out, workers=workers)
    worst = max(shard.residual for shard in manifest.shards)
    print(
        f"{out}: {manifest.samples} samples of {manifest.problem}, {len(manifest.shards)} shards, "
        f"complete; largest residual {worst:.1e}"
    )


def data(action: Positional[Literal["info"]], path: Positional[Path]) -> None:
    """Say what a data file or dataset folder is: `pdno data info PATH`.

    Arguments:
        action: What to do.
        path: A dataset folder, a published .mat or .bin file, or an HDF5 file.
    """
    from pdno.data.describe import describe

    print(describe(path))


def demo(out: Path = Path("demo")) -> None:
    """Generate one sample of each problem and draw it.

    Arguments:
        out: Folder for the pictures.
    """
    from pdno.experiments.demo import run_demo

    for picture in run_demo(out):
        print(picture)


def bench(out: Path = Path("bench"), quick: bool = False) -> None:
    """Measure speed and memory as ratios in one run.

    Arguments:
        out: Folder for bench.json, bench.md and scaling.png.
        quick: Fewer repetitions and only the paper's Navier-Stokes setting.
    """
    from pdno.experiments.bench.run import run_bench

    print(run_bench(out, quick=quick))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when it went well, 2 with one message when the input was wrong."""
    os.environ.setdefault("PYDANTIC_ERRORS_INCLUDE_URL", "0")
    tune_allocator()
    try:
        tyro.extras.subcommand_cli_from_dict(
            {"generate": generate, "data": data, "demo": demo, "bench": bench},
            prog="pdno",
            description="Pseudo-differential neural operators: data, networks and measurements.",
            args=arguments,
            config=(CascadeSubcommandArgs,),
        )
    except KeyboardInterrupt:
        print("pdno: interrupted; the same command goes on where it stopped", file=sys.stderr)
        return 130
    except ValidationError as error:
        problems = "; ".join(f"{_place(item['loc'])}{item['msg']}" for item in error.errors())
        print(f"pdno: {problems}", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"pdno: {error}", file=sys.stderr)
        return 2
    except RuntimeError as error:
        if type(error).__name__ != "SolverError":
            raise
        print(f"pdno: {error}", file=sys.stderr)
        return 2
    return 0


def _place(location: tuple[int | str, ...]) -> str:
    return f"{'.'.join(map(str, location))}: " if location else ""
