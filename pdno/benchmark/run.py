"""All measurements of `pdno bench`, their tables, their JSON file and the scaling plot."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from pdno.benchmark import measurements as measure
from pdno.benchmark.measurements import JSON, MAIN, NEURALOPERATOR, SETTINGS, contenders_of
from pdno.figures.style import Figure, figure_style, save_figure
from pdno.files.atomic import write_text
from pdno.interface.display import track
from pdno.interface.errors import check_choice
from pdno.report.tables import MISSING, Table

PARTS = (*SETTINGS, "rollout", "allocator-threads", "solvers", "scaling")
QUICK = (MAIN, "rollout", "solvers")
FRAMES, SCALING = 10, "scaling"
ROLLOUT = "frozen rollout of ten frames, 64x64, k 12, width 20, batch "
FLOW, DARCY = "Navier-Stokes 128², ν = 1e-5, to T = 20, float64", "Darcy 512², contrast 4, float64"
OURS = (measure.SPACE_AND_FREQUENCY, measure.FREQUENCY)
# the largest ratios to the neuraloperator FNO that are aimed at
LIMITS = {s.title: dict(zip(OURS, s.limits, strict=True)) for s in SETTINGS.values()}
LIMITS[f"{ROLLOUT}1"] = dict.fromkeys(OURS, 1.5)
REFERENCES = {FLOW: "published", DARCY: "splu"}
SECONDS = "{:.4f} s".format
FORMATS: dict[str, Callable[[float], str]] = {
    "memory": lambda size: f"{size / 2**20:.0f} MB",
    "parameters": "{:,}".format,
    "error": "{:.1e}".format,
    "residual": "{:.1e}".format,
}


@dataclass(frozen=True)
class Task:
    """A measurement in a process of its own, and the title of the table that it fills."""

    title: str
    measurement: str
    options: JSON = field(default_factory=dict)
    allocator: str = "tuned"
    threads: int = 1

    def run(self) -> JSON:
        """What the process prints; it is pinned where that is possible."""
        threads = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(self.threads))
        command = [measure.__name__, self.measurement, json.dumps(self.options)]
        done = subprocess.run(
            [sys.executable, "-m", *command],
            env={**os.environ, "PDNO_ALLOCATOR": self.allocator, **threads},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"{' '.join(command[1:])} failed: {done.stderr.strip()[-500:]}")
        result: JSON = json.loads(done.stdout.strip().splitlines()[-1])
        return result


def run_bench(folder: Path, *, quick: bool = False, settings: Collection[str] = ()) -> str:
    """Measure; writes bench.json, bench.md and scaling.png and returns the tables.

    A quick bench has fewer repetitions, and only the paper's Navier-Stokes setting, its rollout
    and the solvers, without the slowest contenders. `settings` are names in `PARTS`.
    """
    for name in settings:
        check_choice("settings", name, PARTS)
    parts = [part for part in PARTS if part in (settings or (QUICK if quick else PARTS))]
    folder.mkdir(parents=True, exist_ok=True)
    capability = torch.backends.cpu.get_cpu_capability()
    machine = {"cores": os.cpu_count(), "torch": torch.__version__, "cpu_capability": capability}
    tasks = [task for part in parts for task in _tasks(part, quick=quick)]
    measured: dict[str, JSON] = {}
    with track("bench", total=len(tasks)) as advance:
        for task in tasks:
            for quantity, values in task.run().items():
                measured.setdefault(task.title, {}).setdefault(quantity, {}).update(values)
            results = {"machine": machine, "measured": measured}
            write_text(folder / "bench.json", json.dumps(results, indent=1))
            advance(1)
    table = f"# Benchmark\n\nMachine: {machine}\n\n{bench_tables(measured)}"
    write_text(folder / "bench.md", table)
    if SCALING in measured:
        save_figure(plot_scaling(measured[SCALING]), folder / "scaling.png")
    return table


def _tasks(part: str, *, quick: bool) -> Iterator[Task]:
    """The measurements of a part."""
    enough: JSON = {"repeats": 2, "seconds": 0.4} if quick else {"repeats": 3, "seconds": 2.0}
    setting = part if part in SETTINGS else MAIN
    names, title = contenders_of(setting), SETTINGS[setting].title
    if part in SETTINGS:
        names = [name for name in names if not quick or name not in measure.SLOWEST]
        yield Task(title, "time_training", {"setting": part, "names": names, **enough})
        for name in names:
            if name in measure.ALWAYS or (part == MAIN and not quick):
                yield Task(title, "measure_memory", {"setting": part, "name": name}, "default")
    elif part == "rollout":
        names = [name for name in names if name in measure.ALWAYS]
        for batch in (1, 20):
            options = {"batch": batch, "frames": FRAMES, "names": names, **enough}
            yield Task(f"{ROLLOUT}{batch}", "time_rollout", options)
        for recompute in () if quick else (True, False):
            options = {"setting": MAIN, "name": OURS[0], "steps": FRAMES, "recompute": recompute}
            yield Task("training by rollout", "measure_memory", options, "default")
    elif part == "allocator-threads":
        options = {"setting": MAIN, "names": names, **enough}
        yield Task(f"{title}, default allocator", "time_training", options, "default")
        # cores that this process may use
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        if (len(cores) or os.cpu_count() or 1) > 1:
            yield Task(f"{title}, 2 threads", "time_training", options, threads=2)
    elif part == "solvers":
        yield Task(FLOW, "time_navier_stokes")
        yield Task(DARCY, "time_darcy")
    else:
        yield Task(SCALING, "time_scaling", {"repeats": 2 if quick else 3})


def bench_tables(measured: Mapping[str, JSON]) -> str:
    """A Markdown table per title: contenders, and their ratios to a reference."""
    text = "Times with one thread and the tuned allocator, memory with the default one; nFNO is "
    text += "the FNO of neuraloperator.\n✗ marks a ratio above the one that is asked for.\n"
    for title, quantities in measured.items():
        reference, asked, lines = REFERENCES.get(title, NEURALOPERATOR), LIMITS.get(title, {}), []
        names = () if title == SCALING else [n for values in quantities.values() for n in values]
        for name in dict.fromkeys(names):
            cells, limit = [name], asked.get(name)
            for number, (quantity, values) in enumerate(quantities.items()):
                value, base = values.get(name), values.get(reference)
                ratio = value / base if base and value is not None else None
                above = " ✗" * bool(number == 0 and ratio and limit and ratio > limit)
                cells.append(MISSING if value is None else FORMATS.get(quantity, SECONDS)(value))
                cells.append(MISSING if ratio is None else f"{ratio:.3g}{above}")
            lines.append((*cells, MISSING if limit is None else f"{limit:g}"))
        other = "nFNO" if reference == NEURALOPERATOR else reference
        head = [cell for quantity in quantities for cell in (quantity, f"/ {other}")]
        if lines:
            table = Table(("contender", *head, "asked"), tuple(lines))
            text += f"\n## {title}\n\n{table.markdown()}"
    return text


@figure_style()
def plot_scaling(scaling: JSON) -> Figure:
    """Seconds of a training step against grid points, modes, channels, batch and rollout steps."""
    curves = scaling["curves"]
    figure = Figure(figsize=(2.6 * len(curves), 3.0))
    panels = figure.subplots(1, len(curves), sharey=True)
    for axes, (axis, curve) in zip(panels, curves.items(), strict=True):
        for name, seconds in curve["seconds"].items():
            axes.loglog(curve["values"], seconds, marker="o", markersize=3, label=name)
        axes.set_xlabel("grid points per axis" if axis == "resolution" else axis)
        axes.set_xticks(curve["values"], map(str, curve["values"]))
        axes.minorticks_off()
    panels[0].set_ylabel("seconds per training step")
    panels[0].legend()
    base = ", ".join(f"{key} {value}" for key, value in scaling["base"].items())
    figure.suptitle(f"Cost of a training step, one thread; base: {base}")
    return figure
