"""All measurements of `pdno bench`, their table, their JSON file and the scaling plot."""

__all__ = ["run_bench"]

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from pdno.atomic import write_text
from pdno.experiments.bench.contenders import SETTINGS
from pdno.experiments.bench.solvers import bench_darcy, bench_navier_stokes
from pdno.progress import track
from pdno.report.bench import bench_tables, plot_scaling
from pdno.report.style import save_figure

MAIN = "navier-stokes 64, k_max 12"
CONTENDERS = (
    "neuraloperator FNO",
    "PDNO a(x,xi)",
    "PDNO a(xi)",
    "PDNO low rank 2",
    "PDNO low rank 2 shared",
    "FNO",
    "MWT",
    "straight a(x,xi)",
)


def run_bench(folder: Path, *, quick: bool = False) -> str:
    """Measure everything; writes bench.json, bench.md and scaling.png and returns the table.

    Arguments:
        folder: Where to write.
        quick: Fewer repetitions and only the paper's Navier-Stokes setting.
    """
    folder.mkdir(parents=True, exist_ok=True)
    names = [name for name in CONTENDERS if name != "neuraloperator FNO" or find_spec("neuralop")]
    repeats = {setting: "5" if setting == MAIN and not quick else "2" for setting in SETTINGS}
    tasks: dict[str, tuple[str, int, tuple[str, ...]]] = {}
    for setting in [MAIN] if quick else list(SETTINGS):
        tasks[f"{setting} | tuned | 1 thread"] = (
            "tuned",
            1,
            ("time", setting, repeats[setting], *names),
        )
    tasks[f"{MAIN} | default | 1 thread"] = ("default", 1, ("time", MAIN, repeats[MAIN], *names))
    if (os.cpu_count() or 1) > 1:
        tasks[f"{MAIN} | tuned | 2 threads"] = ("tuned", 2, ("time", MAIN, repeats[MAIN], *names))
    for name in names:
        tasks[f"memory | {name}"] = ("default", 1, ("memory", MAIN, name))
    for recompute in ("yes", "no"):
        title = f"10-step rollout of PDNO a(x,xi), recompute {recompute}"
        tasks[title] = ("default", 1, ("rollout-memory", "10", recompute))
    tasks["scaling"] = ("tuned", 1, ("scaling", "2" if quick else "3"))
    results: dict[str, Any] = {"machine": _machine()}
    with track("bench", total=len(tasks) + 2) as advance:
        torch.set_num_threads(1)
        results["solvers"] = {"navier-stokes": bench_navier_stokes()}
        advance(1)
        results["solvers"]["darcy"] = bench_darcy()
        advance(1)
        for title, (allocator, threads, task) in tasks.items():
            results[title] = _in_process(allocator, threads, task)
            write_text(folder / "bench.json", json.dumps(results, indent=1))
            advance(1)
    table = bench_tables(results)
    write_text(folder / "bench.md", table)
    save_figure(plot_scaling(results["scaling"]), folder / "scaling.png")
    return table


def _in_process(allocator: str, threads: int, task: tuple[str, ...]) -> Any:
    """Run a task of `worker` with its own allocator and threads, pinned where that is possible."""
    environment = {
        **os.environ,
        "PDNO_ALLOCATOR": allocator,
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
    }
    pin = None
    if threads == 1 and hasattr(os, "sched_setaffinity"):
        core = max(os.sched_getaffinity(0))

        def pin() -> None:
            os.sched_setaffinity(0, {core})

    done = subprocess.run(
        [sys.executable, "-m", "pdno.experiments.bench.worker", *task],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=pin,
    )
    if done.returncode:
        raise ValueError(f"measuring {' '.join(task)} failed: {done.stderr.strip()[-500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _machine() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
    }
