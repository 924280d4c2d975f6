"""All measurements of `pdno bench`, their tables, their JSON file and the scaling plot.

Networks are measured by `worker` in processes of their own, solvers here, on one thread, against
the schemes they replace.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from scipy.sparse.linalg import splu

from pdno.benchmark.contenders import (
    ALWAYS,
    FREQUENCY,
    JSON,
    MAIN,
    NEURALOPERATOR,
    ROLLOUT_LIMITS,
    ROUGH,
    SETTINGS,
    SLOWEST,
    SPACE_AND_FREQUENCY,
    STRAIGHT,
    contenders_of,
)
from pdno.equations.darcy import Darcy
from pdno.equations.navier_stokes import NavierStokes
from pdno.evaluation.speed import time_alternately
from pdno.fields.distributions import darcy_permeability, navier_stokes_initial
from pdno.figures.style import Figure, figure_style, save_figure
from pdno.files.atomic import write_text
from pdno.interface.display import track
from pdno.solvers.elliptic import assemble, solve_elliptic
from pdno.solvers.published import PUBLISHED_STEP, integrate_published
from pdno.solvers.solve import solve
from pdno.spectral.calculus import band_mask
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid

PARTS = (*SETTINGS, "rollout", "allocator-threads", "solvers", "scaling")
"""What can be measured by itself: each setting, and the four other comparisons."""
QUICK = (MAIN, "rollout", "solvers")
Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
FRAMES = "10"
FINAL_TIME = 20.0
MEGABYTE = 2**20


def run_bench(folder: Path, *, quick: bool = False, settings: Collection[str] = ()) -> str:
    """Measure; writes bench.json, bench.md and scaling.png and returns the tables.

    A quick bench has fewer repetitions, and only the paper's Navier-Stokes setting, its rollout
    and the solvers, without the slowest contenders and the plot. Given `settings`, names in
    `PARTS`, only these are measured.
    """
    unknown = sorted(set(settings) - set(PARTS))
    if unknown:
        raise ValueError(
            f"pdno bench cannot measure {', '.join(unknown)}; expected some of {', '.join(PARTS)}"
        )
    parts = [part for part in PARTS if part in (settings or (QUICK if quick else PARTS))]
    folder.mkdir(parents=True, exist_ok=True)
    capability = torch.backends.cpu.get_cpu_capability()
    machine = {"cores": os.cpu_count(), "torch": torch.__version__, "cpu_capability": capability}
    results: JSON = {"machine": machine, "settings": {}}
    tasks = [task for part in parts for task in _tasks(part, results, quick=quick)]
    with track("bench", total=len(tasks) + 2 * ("solvers" in parts)) as advance:
        if "solvers" in parts:
            torch.set_num_threads(1)
            results["solvers"] = {"navier-stokes": bench_navier_stokes()}
            advance(1)
            results["solvers"]["darcy"] = bench_darcy()
            advance(1)
        for task in tasks:
            task.results[task.key] = _in_process(task)
            write_text(folder / "bench.json", json.dumps(results, indent=1))
            advance(1)
    table = bench_tables(results)
    write_text(folder / "bench.json", json.dumps(results, indent=1))
    write_text(folder / "bench.md", table)
    if "scaling" in results:
        save_figure(plot_scaling(results["scaling"]), folder / "scaling.png")
    return table


@dataclass(frozen=True)
class Task:
    """A measurement in a process of its own, and where its result goes."""

    results: JSON
    key: str
    arguments: tuple[str, ...]
    allocator: str = "tuned"
    threads: int = 1


def _tasks(part: str, results: JSON, *, quick: bool) -> Iterator[Task]:
    """The measurements of a part, those of the solvers aside, with their titles in `results`."""
    enough = ("2", "0.4") if quick else ("3", "2.0")  # repetitions and seconds
    if part in SETTINGS:
        setting = SETTINGS[part]
        targets = dict(zip((SPACE_AND_FREQUENCY, FREQUENCY), setting.limits, strict=True))
        mine: JSON = {"title": setting.title, "asked": targets, "memory": {}}
        results["settings"][part] = mine
        names = [name for name in contenders_of(part) if not quick or name not in SLOWEST]
        yield Task(mine, "times", ("time", part, *enough, *names))
        for name in names:
            if name in ALWAYS or (part == MAIN and not quick):
                yield Task(mine["memory"], name, ("memory", part, name), allocator="default")
    elif part == "rollout":
        names = [name for name in contenders_of(MAIN) if name in ALWAYS]
        results["rollout"] = {str(batch): {"asked": m} for batch, m in ROLLOUT_LIMITS.items()}
        for batch, result in results["rollout"].items():
            yield Task(result, "times", ("rollout", batch, FRAMES, *enough, *names))
        for recompute in () if quick else ("yes", "no"):
            title = f"{FRAMES}-step rollout of PDNO a(x,xi), recompute {recompute}"
            step = ("memory", MAIN, SPACE_AND_FREQUENCY, FRAMES, recompute)
            grown = results.setdefault("rollout memory", {})
            yield Task(grown, title, step, allocator="default")
    elif part == "allocator-threads":
        variants, title = results.setdefault("variants", {}), SETTINGS[MAIN].title
        arguments = ("time", MAIN, *enough, *contenders_of(MAIN))
        default = f"{title}, default allocator, 1 thread"
        yield Task(variants, default, arguments, allocator="default")
        # cores that this process may use
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        if (len(cores) or os.cpu_count() or 1) > 1:
            yield Task(variants, f"{title}, tuned allocator, 2 threads", arguments, threads=2)
    elif part == "scaling":
        yield Task(results, "scaling", ("scaling", "2" if quick else "3"))


def _in_process(task: Task) -> JSON:
    """Run a task of `worker` with its own allocator and threads, pinned where that is possible."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(task.threads))
    done = subprocess.run(
        [sys.executable, "-m", "pdno.benchmark.worker", *task.arguments],
        env={**os.environ, "PDNO_ALLOCATOR": task.allocator, **threads},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError(
            f"measuring {' '.join(task.arguments)} failed: {done.stderr.strip()[-500:]}"
        )
    result: JSON = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def bench_navier_stokes(*, resolution: int = 128, steps: int = 300) -> dict[str, float]:
    """A trajectory to T = 20 by our solver and by the published scheme, both in float64.

    The published scheme is timed over `steps` of its steps and scaled; its error is measured at
    t = 1, where ours is largest, against our solver with steps eight times smaller.
    """
    equation, grid = NavierStokes(viscosity=1e-5), Grid((resolution,) * 2)
    w0 = navier_stokes_initial().sample(grid, seed=0, indices=[0])
    w0 = inverse(transform(w0, 2) * band_mask(grid), grid.shape)
    contenders = {
        "ours": lambda: solve(equation, w0, [FINAL_TIME]),
        "published": lambda: integrate_published(equation, w0, [steps * PUBLISHED_STEP]),
    }
    times = time_alternately(contenders, repeats=3)
    published = times["published"] * (FINAL_TIME / PUBLISHED_STEP) / steps
    exact = solve(equation, w0, [1.0], refine=8)

    def error(w: torch.Tensor) -> float:
        return float((w - exact).norm() / exact.norm())

    return {
        "seconds": times["ours"],
        "published_seconds": published,
        "ratio": published / times["ours"],
        "error": error(solve(equation, w0, [1.0])),
        "published_error": error(integrate_published(equation, w0, [1.0])),
    }


def bench_darcy(*, resolution: int = 512) -> dict[str, float]:
    """One sample of contrast 4 by our solver and by scipy's sparse factorisation."""
    grid = Grid.cells((resolution,) * 2)
    permeability = darcy_permeability().sample(grid, seed=0, indices=[0])
    matrix, source = assemble(permeability[0, 0]).tocsc(), np.ones(grid.size)
    options: JSON = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}

    def direct() -> Array:
        solution: Array = splu(matrix, diag_pivot_thresh=0.0, **options).solve(source)
        return solution

    contenders = {"ours": lambda: solve_elliptic(Darcy(), permeability), "splu": direct}
    times = time_alternately(contenders, repeats=3)
    residual = np.linalg.norm(source - matrix @ direct()) / np.linalg.norm(source)
    return {
        "seconds": times["ours"],
        "splu_seconds": times["splu"],
        "ratio": times["splu"] / times["ours"],
        "residual": float(solve_elliptic(Darcy(), permeability)[1].max()),
        "splu_residual": float(residual),
    }


def bench_tables(results: JSON) -> str:
    """Markdown tables of what was measured: target ratios first, seconds, memory, solvers."""
    settings, lines = (
        results["settings"],
        ["# Benchmark", "", f"Machine: {results['machine']}", ""],
    )
    if settings:
        lines += _table(
            "A training step over that of the neuraloperator FNO (nFNO), tuned allocator, "
            "1 thread",
            "setting | a(x,ξ) / nFNO | asked | a(ξ) / nFNO | asked | memory a(x,ξ) / nFNO"
            " | memory a(ξ) / nFNO",
            _target_rows(settings),
            note="✗ marks a ratio above the asked one. A rough a1 has first weights eight times "
            "larger.",
        )
    if "rollout" in results:
        title = (
            "A rollout of ten frames without gradients, frozen, 64x64, k 12, width 20, 1 thread"
        )
        header = "batch | network | seconds | / nFNO | asked"
        lines += _table(title, header, _rollout_rows(results["rollout"]))
    timed = {f"{s['title']}, tuned allocator, 1 thread": s["times"] for s in settings.values()}
    for title, times in {**timed, **results.get("variants", {})}.items():
        header = "network | real parameters | step | step / nFNO | straight / step"
        header += " | forward | forward / nFNO | frozen | frozen / nFNO"
        lines += _table(title, header, _time_rows(times))
    if memory := [*_memory_rows(settings, results.get("rollout memory", {}))]:
        title = "Peak memory of a training step over the process before it"
        lines += _table(title, "setting | what | MB | / nFNO", memory)
    if "solvers" in results:
        header = "problem | ours | replaced scheme | times faster | our error | its error"
        lines += _table("Solvers, one thread, float64", header, _solver_rows(results["solvers"]))
    return "\n".join(lines) + "\n"


def _table(
    title: str, header: str, rows: Iterable[Sequence[str]], *, note: str | None = None
) -> list[str]:
    lines = [f"## {title}", "", *([note, ""] if note else [])]
    lines += [f"| {header} |", "|---" * (header.count(" | ") + 1) + "|"]
    return [*lines, *(f"| {' | '.join(row)} |" for row in rows), ""]


def _target_rows(settings: Mapping[str, JSON]) -> Iterator[list[str]]:
    ours = (SPACE_AND_FREQUENCY, FREQUENCY)
    for setting in settings.values():
        step, targets, title = setting["times"]["step"], setting["asked"], setting["title"]
        reference = step.get(NEURALOPERATOR)
        cells = [cell for name in ours for cell in _against(step[name], reference, targets[name])]
        yield [title, *cells, *(_memory_ratio(setting["memory"], name) for name in ours)]
        if ROUGH in step:
            yield [f"{title}, rough a1", _ratio(step[ROUGH], reference, digits=3), *["-"] * 5]


def _rollout_rows(rollouts: Mapping[str, JSON]) -> Iterator[list[str]]:
    for batch, rollout in rollouts.items():
        reference = rollout["times"].get(NEURALOPERATOR)
        for name, seconds in rollout["times"].items():
            limit = None if name == NEURALOPERATOR else rollout["asked"]
            yield [batch, name, f"{seconds:.4f} s", *_against(seconds, reference, limit)]


def _against(value: float, reference: float | None, limit: float | None) -> list[str]:
    """The ratio, marked where it is above the asked one, and the asked one."""
    ratio = _ratio(value, reference, digits=3)
    if reference is not None and limit is not None and value / reference > limit:
        ratio += " ✗"
    return [ratio, "-" if limit is None else f"{limit:.2f}"]


def _solver_rows(solvers: Mapping[str, Mapping[str, float]]) -> Iterator[list[str]]:
    flow = ("navier-stokes", "Navier-Stokes 128², ν = 1e-5, to T = 20", "published", "error", 2)
    darcy = ("darcy", "Darcy 512², contrast 4", "splu", "residual", 3)
    for name, title, theirs, error, digits in (flow, darcy):
        result, unit = solvers[name], " (residual)" if error == "residual" else ""
        ours = f"{result['seconds']:.{digits}f} s"
        replaced = f"{theirs}: {result[f'{theirs}_seconds']:.{digits - 1}f} s"
        errors = [f"{result[key]:.1e}{unit}" for key in (error, f"{theirs}_{error}")]
        yield [title, ours, replaced, f"{result['ratio']:.1f}", *errors]


def _time_rows(times: Mapping[str, Mapping[str, float]]) -> Iterator[list[str]]:
    for name, step in times["step"].items():
        cells = [name, f"{times['parameters'][name]:,}", f"{step:.4f} s"]
        cells.append(_ratio(step, times["step"].get(NEURALOPERATOR)))
        cells.append(_ratio(times["step"].get(STRAIGHT), step))
        for seconds in (times["forward"][name], times["frozen"][name]):
            cells += [f"{seconds:.4f} s", _ratio(seconds, times["forward"].get(NEURALOPERATOR))]
        yield cells


def _memory_rows(
    settings: Mapping[str, JSON], rollouts: Mapping[str, Mapping[str, int]]
) -> Iterator[list[str]]:
    for setting in settings.values():
        for name, measured in setting["memory"].items():
            size, ratio = measured["bytes"] / MEGABYTE, _memory_ratio(setting["memory"], name)
            yield [setting["title"], name, f"{size:.0f}", ratio]
    for title, measured in rollouts.items():
        yield ["rollout", title, f"{measured['bytes'] / MEGABYTE:.0f}", "-"]


def _memory_ratio(memory: Mapping[str, Mapping[str, int]], name: str) -> str:
    return _ratio(*(memory.get(key, {}).get("bytes") for key in (name, NEURALOPERATOR)))


def _ratio(value: float | None, reference: float | None, *, digits: int = 2) -> str:
    return "-" if value is None or not reference else f"{value / reference:.{digits}f}"


def plot_scaling(scaling: JSON) -> Figure:
    """Seconds of a training step against grid points, modes, channels, batch and rollout steps."""
    with figure_style():
        curves = scaling["curves"]
        figure = Figure(figsize=(2.6 * len(curves), 3.0))
        panels = figure.subplots(1, len(curves), sharey=True)
        for axes, (axis, curve) in zip(panels, curves.items(), strict=True):
            values = curve["values"]
            for name, seconds in curve["seconds"].items():
                axes.loglog(values, seconds, marker="o", markersize=3, label=name)
            axes.set_xlabel("grid points per axis" if axis == "resolution" else axis)
            axes.set_xticks(values, [str(value) for value in values])
            axes.minorticks_off()
        panels[0].set_ylabel("seconds per training step")
        panels[0].legend()
        base = ", ".join(f"{key} {value}" for key, value in scaling["base"].items())
        figure.suptitle(f"Cost of a training step, one thread; base: {base}")
        return figure
