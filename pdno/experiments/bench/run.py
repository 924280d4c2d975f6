"""All measurements of `pdno bench`, their tables, their JSON file and the scaling plot.

Networks are measured by `worker` in processes of their own, solvers here, on one thread, against
the schemes they replace.
"""

__all__ = ["PARTS", "bench_darcy", "bench_navier_stokes", "run_bench"]

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import splu

from pdno.atomic import write_text
from pdno.equations.darcy import Darcy
from pdno.equations.navier_stokes import NavierStokes
from pdno.evaluation.speed import time_alternately
from pdno.experiments.bench.contenders import (
    ALWAYS,
    LIMITS,
    MAIN,
    ROLLOUT_LIMITS,
    SETTINGS,
    SLOWEST,
    contenders_of,
)
from pdno.fields.laws import darcy_permeability, navier_stokes_initial
from pdno.fourier import inverse, transform
from pdno.grid import Grid
from pdno.progress import track
from pdno.report.bench import bench_tables, plot_scaling
from pdno.report.style import save_figure
from pdno.solvers.elliptic import assemble, solve_elliptic
from pdno.solvers.published import PUBLISHED_STEP, integrate_published, published_stepper
from pdno.solvers.solve import solve
from pdno.spectral import band_mask

PARTS = (*SETTINGS, "rollout", "allocator-threads", "solvers", "scaling")
"""What can be measured by itself: each setting, and the four other comparisons."""
QUICK = (MAIN, "rollout", "solvers")
REPEATS, SECONDS = 3, 2.0
QUICK_REPEATS, QUICK_SECONDS = 2, 0.4
FRAMES = 10
FINAL_TIME = 20.0


@dataclass(frozen=True)
class Task:
    """A measurement in a process of its own."""

    place: tuple[str, ...]
    arguments: tuple[str, ...]
    allocator: str = "tuned"
    threads: int = 1


def run_bench(folder: Path, *, quick: bool = False, settings: Collection[str] = ()) -> str:
    """Measure; writes bench.json, bench.md and scaling.png and returns the tables.

    Arguments:
        folder: Where to write.
        quick: Fewer repetitions, and only the paper's Navier-Stokes setting, its rollout and the
            solvers, without the slowest contenders and the plot.
        settings: Measure only these, by their names in `PARTS`; all if empty.
    """
    parts = _chosen(settings) or (QUICK if quick else PARTS)
    folder.mkdir(parents=True, exist_ok=True)
    tasks = [task for part in parts for task in _tasks(part, quick=quick)]
    results: dict[str, Any] = {"machine": _machine(), **_limits(parts)}
    with track("bench", total=len(tasks) + 2 * ("solvers" in parts)) as advance:
        if "solvers" in parts:
            torch.set_num_threads(1)
            results["solvers"] = {"navier-stokes": bench_navier_stokes()}
            advance(1)
            results["solvers"]["darcy"] = bench_darcy()
            advance(1)
        for task in tasks:
            _put(results, task.place, _in_process(task))
            write_text(folder / "bench.json", json.dumps(results, indent=1))
            advance(1)
    table = bench_tables(results)
    write_text(folder / "bench.json", json.dumps(results, indent=1))
    write_text(folder / "bench.md", table)
    if "scaling" in results:
        save_figure(plot_scaling(results["scaling"]), folder / "scaling.png")
    return table


def _chosen(names: Collection[str]) -> tuple[str, ...]:
    """The names, in the order of `PARTS`."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        raise ValueError(
            f"pdno bench cannot measure {', '.join(unknown)}; expected some of {', '.join(PARTS)}"
        )
    return tuple(part for part in PARTS if part in names)


def _limits(parts: Collection[str]) -> dict[str, Any]:
    """What the tables say beside the measurements: titles and the ratios that are aimed at."""
    names = ("PDNO a(x,xi)", "PDNO a(xi)")
    found: dict[str, Any] = {"settings": {}}
    for part in parts:
        if part in SETTINGS:
            asked = dict(zip(names, LIMITS[part], strict=True))
            found["settings"][part] = {"title": SETTINGS[part].title, "asked": asked}
    if "rollout" in parts:
        found["rollout"] = {str(batch): {"asked": most} for batch, most in ROLLOUT_LIMITS.items()}
    return found


def _tasks(part: str, *, quick: bool) -> Iterator[Task]:
    """The measurements of a part, those of the solvers aside."""
    enough = (str(QUICK_REPEATS), str(QUICK_SECONDS)) if quick else (str(REPEATS), str(SECONDS))
    if part in SETTINGS:
        names = [name for name in contenders_of(part) if not quick or name not in SLOWEST]
        yield Task(("settings", part, "times"), ("time", part, *enough, *names))
        for name in names:
            if name in ALWAYS or (part == MAIN and not quick):
                place = ("settings", part, "memory", name)
                yield Task(place, ("memory", part, name), allocator="default")
    elif part == "allocator-threads":
        arguments = ("time", MAIN, *enough, *contenders_of(MAIN))
        title = SETTINGS[MAIN].title
        default = ("variants", f"{title}, default allocator, 1 thread")
        yield Task(default, arguments, allocator="default")
        if _cores() > 1:
            two = ("variants", f"{title}, tuned allocator, 2 threads")
            yield Task(two, arguments, threads=2)
    elif part == "rollout":
        yield from _rollout_tasks(enough, memory=not quick)
    elif part == "scaling":
        yield Task(("scaling",), ("scaling", "2" if quick else "3"))


def _rollout_tasks(enough: tuple[str, str], *, memory: bool) -> Iterator[Task]:
    names = [name for name in contenders_of(MAIN) if name in ALWAYS]
    for batch in ROLLOUT_LIMITS:
        arguments = ("rollout", str(batch), str(FRAMES), *enough, *names)
        yield Task(("rollout", str(batch), "times"), arguments)
    for recompute in ("yes", "no") if memory else ():
        title = f"{FRAMES}-step rollout of PDNO a(x,xi), recompute {recompute}"
        arguments = ("rollout-memory", str(FRAMES), recompute)
        yield Task(("rollout memory", title), arguments, allocator="default")


def _put(results: dict[str, Any], place: tuple[str, ...], result: Any) -> None:
    *outer, last = place
    for key in outer:
        results = results.setdefault(key, {})
    results[last] = result


def _in_process(task: Task) -> Any:
    """Run a task of `worker` with its own allocator and threads, pinned where that is possible."""
    environment = {
        **os.environ,
        "PDNO_ALLOCATOR": task.allocator,
        "OMP_NUM_THREADS": str(task.threads),
        "MKL_NUM_THREADS": str(task.threads),
    }
    pin = None
    if task.threads == 1 and hasattr(os, "sched_setaffinity"):
        core = max(os.sched_getaffinity(0))

        def pin() -> None:
            os.sched_setaffinity(0, {core})

    done = subprocess.run(
        [sys.executable, "-m", "pdno.experiments.bench.worker", *task.arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=pin,
    )
    if done.returncode:
        raise ValueError(
            f"measuring {' '.join(task.arguments)} failed: {done.stderr.strip()[-500:]}"
        )
    return json.loads(done.stdout.strip().splitlines()[-1])


def _cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }


def bench_navier_stokes(*, resolution: int = 128, steps: int = 300) -> dict[str, float]:
    """A trajectory to T = 20 by our solver and by the published scheme, both in float64.

    The published scheme is timed over `steps` of its steps and scaled; its error is measured at
    t = 1, where ours is largest, against our solver with steps eight times smaller.
    """
    equation, grid = NavierStokes(viscosity=1e-5), Grid((resolution,) * 2)
    w0 = navier_stokes_initial().sample(grid, seed=0, indices=[0])
    w0 = inverse(transform(w0, 2) * band_mask(grid), grid.shape)
    advance, w_hat = published_stepper(equation, grid), transform(w0, 2)

    def published() -> None:
        state = w_hat
        for _ in range(steps):
            state = advance(state)

    def ours() -> None:
        solve(equation, w0, [FINAL_TIME])

    times = time_alternately({"ours": ours, "published": published}, repeats=3)
    published_time = times["published"] * (FINAL_TIME / PUBLISHED_STEP) / steps
    exact = solve(equation, w0, [1.0], refine=8)
    errors = {
        "ours": solve(equation, w0, [1.0]),
        "published": integrate_published(equation, w0, [1.0]),
    }
    relative = {name: float((w - exact).norm() / exact.norm()) for name, w in errors.items()}
    return {
        "seconds": times["ours"],
        "published_seconds": published_time,
        "ratio": published_time / times["ours"],
        "error": relative["ours"],
        "published_error": relative["published"],
    }


def bench_darcy(*, resolution: int = 512) -> dict[str, float]:
    """One sample of contrast 4 by our solver and by scipy's sparse factorisation."""
    grid = Grid.cells((resolution,) * 2)
    permeability = darcy_permeability().sample(grid, seed=0, indices=[0])
    matrix = assemble(permeability[0, 0]).tocsc()
    source = np.ones(grid.size)
    options = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
    residuals: dict[str, float] = {}

    def ours() -> None:
        residuals["ours"] = float(solve_elliptic(Darcy(), permeability)[1].max())

    def direct() -> None:
        solution = splu(matrix, diag_pivot_thresh=0.0, **options).solve(source)
        residual = np.linalg.norm(source - matrix @ solution) / np.linalg.norm(source)
        residuals["splu"] = float(residual)

    with torch.no_grad():
        times = time_alternately({"ours": ours, "splu": direct}, repeats=3)
    return {
        "seconds": times["ours"],
        "splu_seconds": times["splu"],
        "ratio": times["splu"] / times["ours"],
        "residual": residuals["ours"],
        "splu_residual": residuals["splu"],
    }
