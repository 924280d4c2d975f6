"""`pdno speed`: settings, measurements, tables and the scaling plot.

Allocator, threads and peak memory belong to a process, so each measurement has its own. It returns
numbers by quantity and contender.
"""

import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from scipy.sparse.linalg import splu
from torch import Tensor, nn
from torch.nn import functional

from pdno.equations.darcy import Darcy
from pdno.equations.evolution import NavierStokes
from pdno.evaluation.speed import in_own_process, peak_growth, time_alternately
from pdno.exports.export import BATCHES, Format, export
from pdno.exports.export import FORMATS as FILE_FORMATS
from pdno.fields.distributions import darcy_permeability, navier_stokes_initial
from pdno.figures.style import Figure, figure_style, save_figure
from pdno.files.atomic import write_text
from pdno.interface.display import track
from pdno.interface.errors import check_choice
from pdno.native import tune_allocator
from pdno.networks.mwt import MWT
from pdno.networks.neural_operator import count_parameters, rollout
from pdno.networks.pdno import FNO, PDNO
from pdno.operators.reference import apply_straight
from pdno.report.tables import MISSING, Table
from pdno.runs.run import load_run
from pdno.solvers.elliptic import assemble, solve_elliptic
from pdno.solvers.solve import PUBLISHED_STEP, integrate_published, solve
from pdno.spectral.calculus import band_mask
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid

JSON = dict[str, Any]  # options, or the numbers of a measurement


@dataclass(frozen=True)
class Setting:
    """A problem size, and the target ratios of PDNO a(x,ξ) and a(ξ)."""

    shape: tuple[int, ...]
    modes: int | None
    limits: tuple[float, float] = (1.0, 1.0)
    width: int = 20
    batch: int = 20
    in_channels: int = 1
    symbol_hidden: int = 32

    @property
    def title(self) -> str:
        points = "x".join(map(str, self.shape))
        modes = "all modes" if self.modes is None else f"k {self.modes}"
        return f"{len(self.shape)}D {points}, {modes}, width {self.width}, batch {self.batch}"

    def inputs(self) -> Tensor:
        return torch.randn(self.batch, self.in_channels, *self.shape)


MAIN = "2d-64-k12"  # the paper's Navier-Stokes setting
SETTINGS = {
    MAIN: Setting((64, 64), 12, (0.6, 0.4), in_channels=10),
    "2d-64-all": Setting((64, 64), None, (0.75, 0.4), in_channels=10),
    "2d-85-k12": Setting((85, 85), 12, (0.6, 0.4)),
    "2d-241-k12": Setting((241, 241), 12, (0.6, 0.4), batch=4),
    "2d-256-k12": Setting((256, 256), 12, (0.6, 0.4), batch=4),
    "2d-64-k12-batch1": Setting((64, 64), 12, (0.9, 0.5), batch=1, in_channels=10),
    "1d-1024-k16": Setting((1024,), 16, (0.65, 0.5), width=64, symbol_hidden=64),
    "1d-1024-all": Setting((1024,), None, (0.65, 0.5), width=64, symbol_hidden=64),
    "1d-8192-k16": Setting((8192,), 16, (0.65, 0.5), width=64, symbol_hidden=64),
    "3d-32-k8": Setting((32, 32, 32), 8, (0.8, 0.4), width=12, batch=2),
}

NEURALOPERATOR, STRAIGHT = "neuraloperator FNO", "straight a(x,xi)"
COMPILED = ", torch.compile"
# torch cannot compile the TFNO
NEIGHBOURS = (NEURALOPERATOR + COMPILED, "neuraloperator TFNO")
SPACE_AND_FREQUENCY, FREQUENCY = "PDNO a(x,xi)", "PDNO a(xi)"
ROUGH, ROUGHNESS = "PDNO a(x,xi), rough a1", 8.0  # times larger first weights, as after training
FINAL_TIME = 20.0  # of the trajectory of the solvers
ALWAYS = (NEURALOPERATOR, SPACE_AND_FREQUENCY, FREQUENCY)  # whose memory is always measured
EVERYWHERE = (*ALWAYS, "PDNO classical a(x,xi)", "PDNO low rank 2", "FNO")
SLOWEST = ("MWT", STRAIGHT, *NEIGHBOURS)
# where the (B, O, I, *N) tensors of the straight formula take a few gigabytes
STRAIGHT_FITS = (MAIN, "2d-64-all", "1d-1024-k16")
SYMBOLS: dict[str, JSON] = {
    FREQUENCY: {"depends_on_x": False},
    "PDNO classical a(x,xi)": {"symbol": "classical"},
    "PDNO low rank 2": {"symbol": "low-rank", "rank": 2},
    "PDNO low rank 2 shared": {"symbol": "low-rank", "rank": 2, "shared": True},
}
SCALED = (SPACE_AND_FREQUENCY, FREQUENCY, "PDNO low rank 2", "FNO")
BASE = {"resolution": 32, "modes": 8, "width": 12, "batch": 8, "rollout steps": 1}
AXES = {
    "resolution": [16, 32, 64, 128],
    "modes": [4, 8, 12, 16],
    "width": [6, 12, 24, 36],
    "batch": [2, 4, 8, 16, 32],
    "rollout steps": [1, 2, 4, 8],
}


def contenders_of(setting_name: str) -> list[str]:
    """Who is compared in a setting; the neuraloperator FNO only where it is installed."""
    names = [*EVERYWHERE, *NEIGHBOURS] if find_spec("neuralop") else list(EVERYWHERE[1:])
    names += ["PDNO low rank 2 shared", "MWT"] if setting_name == MAIN else []
    names += [ROUGH] if len(SETTINGS[setting_name].shape) == 1 else []
    return names + ([STRAIGHT] if setting_name in STRAIGHT_FITS else [])


def build(name: str, setting: Setting) -> nn.Module:
    """A contender by name."""
    dim, width, modes = len(setting.shape), setting.width, setting.modes
    channels: JSON = {"in_channels": setting.in_channels, "out_channels": 1}
    if name.startswith("neuraloperator"):
        from neuralop import models

        kept = tuple(2 * modes if modes else points for points in setting.shape)
        make = models.TFNO if "TFNO" in name else models.FNO
        theirs: nn.Module = make(kept, hidden_channels=width, n_layers=4, **channels)
        if name.endswith(COMPILED):
            theirs.compile()
        return theirs
    if name == "FNO":
        kept = tuple(modes or points // 2 for points in setting.shape)
        return FNO(dim, **channels, width=width, modes=kept)
    if name == "MWT":
        return MWT(dim, **channels, append_coordinates=True)
    options = {**SYMBOLS.get(name, {}), "symbol_hidden": setting.symbol_hidden, "modes": modes}
    kind = StraightPDNO if name == STRAIGHT else PDNO
    network = kind(dim, **channels, width=width, **options)
    if name == ROUGH:
        for weight in (p for n, p in network.named_parameters() if "space.linear_in.w" in n):
            weight.data.mul_(ROUGHNESS)
    return network


class StraightPDNO(PDNO):
    """The published network, with the (B, O, I, *N) tensors of its formula.

    It has the parameters of `pdno.PDNO` and gives the same numbers.
    """

    def forward(self, f: Tensor, t: object = None, **_: Any) -> Tensor:
        """u, with everything materialised, on the grid of f."""

        def linear(layer: Any, v: Tensor) -> Tensor:
            return functional.linear(v, layer.weight, layer.bias)

        grid, network = Grid(tuple(f.shape[2:])), cast(Any, self)
        convolve = getattr(functional, f"conv{grid.dim}d")
        x = (grid.points() * network.coordinate_scale).to(f.dtype).expand(len(f), *grid.shape, -1)
        v = linear(network.lift, torch.cat([f.movedim(1, -1), x], dim=-1)).movedim(-1, 1)
        for layer, operator in enumerate(network.operators):
            v = functional.gelu(v) if layer else v
            values, local = operator.symbol.evaluate(grid, operator.modes), network.locals[layer]
            mixed = convolve(v, local.weight[(..., *[None] * grid.dim)], local.bias)
            v = apply_straight(values, v, grid, operator.modes) + mixed
        v = functional.gelu(linear(network.project_hidden, v.movedim(1, -1)))
        return linear(network.project, v).movedim(-1, 1)


def _train_step(network: nn.Module, predict: Callable[[], Tensor]) -> Callable[[], None]:
    def step() -> None:
        network.zero_grad(set_to_none=True)
        torch.autograd.backward(predict().square().mean())

    return step


def _clock() -> Callable[[], float]:
    """Seconds of this process for one thread, which others do not disturb; of the clock else."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def _alternate(runs: Mapping[str, Callable[[], object]], repeats: int, seconds: float) -> JSON:
    return {**time_alternately(runs, repeats=repeats, seconds=seconds, clock=_clock())}


def time_training(setting: str, names: list[str], repeats: int, seconds: float) -> JSON:
    """Seconds of a training step, and of a prediction once symbols have been evaluated."""
    size = SETTINGS[setting]
    f, networks = size.inputs(), {name: build(name, size) for name in names}
    calls = {name: partial(network, f) for name, network in networks.items()}
    steps = {name: _train_step(network, calls[name]) for name, network in networks.items()}
    forwards = {name: torch.no_grad()(call) for name, call in calls.items()}
    step = _alternate(steps, repeats, seconds)
    for network in networks.values():
        network.zero_grad(set_to_none=True)
    prediction = _alternate(forwards, repeats, seconds / 2)
    counts = {name: count_parameters(n, complex_once=False) for name, n in networks.items()}
    return {"step": step, "prediction": prediction, "parameters": counts}


def time_predictions(operator: str, formats: list[str], repeats: int, seconds: float) -> JSON:
    """Seconds of `operator.predict` and of exported files, and of the first prediction of all."""
    loaded, first, runs = load_run(Path(operator)).operator, dict[str, float](), dict[str, JSON]()
    with tempfile.TemporaryDirectory() as folder:
        made = {
            name: export(loaded, Path(folder) / f"operator{FILE_FORMATS[name]}", format=name)
            for name in cast("list[Format]", formats)
        }
        fresh, example = load_run(Path(operator)).operator, next(iter(made.values()))
        times = cast("list[float] | None", example.description["times"])
        calls: dict[str, Callable[[Tensor], Tensor]]
        calls = {PREDICT: partial(fresh.predict, times=times)}
        calls |= {name: file.run for name, file in made.items()}
        for batch in BATCHES:
            f = example.inputs[torch.arange(batch) % len(example.inputs)].contiguous()
            contenders = {name: partial(call, f) for name, call in calls.items()}
            start = _clock()()
            contenders[PREDICT]()
            first.setdefault(PREDICT, _clock()() - start)
            runs[f"batch of {batch}"] = _alternate(contenders, repeats, seconds)
    return {**runs, "first call": first}


def measure_memory(setting: str, name: str, steps: int = 0, recompute: bool = False) -> JSON:
    """Growth of the resident size during the first training step, of a rollout if it has steps.

    A tiny network of the same kind has loaded all libraries before.
    """

    def step(size: Setting) -> Callable[[], None]:
        network, f = build(name, size), size.inputs()
        unrolled = partial(rollout, network, f, steps, recompute=recompute)
        return _train_step(network, unrolled if steps else partial(network, f))

    size = SETTINGS[setting]
    few = None if size.modes is None else 4
    step(replace(size, shape=(16,) * len(size.shape), modes=few, batch=1))()
    label = f"{name}, {steps} steps, recompute {recompute}" if steps else name
    return {"memory": {label: peak_growth(step(size))}}


def time_rollout(batch: int, frames: int, names: list[str], repeats: int, seconds: float) -> JSON:
    """Seconds of a rollout without gradients, in the main setting."""
    setting = replace(SETTINGS[MAIN], batch=batch)
    window, networks = setting.inputs(), {name: build(name, setting) for name in names}
    runs = {
        name: torch.no_grad()(partial(rollout, network, window, frames))
        for name, network in networks.items()
    }
    return {"seconds": _alternate(runs, repeats, seconds)}


def time_scaling(repeats: int) -> JSON:
    """Seconds of a training step along five axes, one changed at a time."""

    def times(resolution: int, modes: int, width: int, batch: int, frames: int) -> JSON:
        setting = Setting((resolution,) * 2, modes, width=width, batch=batch, in_channels=10)
        f, steps = setting.inputs(), {}
        for name in SCALED:
            network = build(name, setting)
            steps[name] = _train_step(network, partial(rollout, network, f, frames))
        return {**time_alternately(steps, repeats=repeats)}

    curves: dict[str, object] = {}
    for axis, values in AXES.items():
        measured = [times(*{**BASE, axis: value}.values()) for value in values]
        seconds = {name: [some[name] for some in measured] for name in SCALED}
        curves[axis] = {"values": values, "seconds": seconds}
    return {"base": BASE, "curves": curves}


def time_navier_stokes(*, resolution: int = 128, steps: int = 300) -> JSON:
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
    results = solve(equation, w0, [1.0]), integrate_published(equation, w0, [1.0])
    errors = [float((w - exact).norm() / exact.norm()) for w in results]
    return {
        "seconds": {"ours": times["ours"], "published": published},
        "error": dict(zip(times, errors, strict=True)),
    }


def time_darcy(*, resolution: int = 512) -> JSON:
    """One sample of contrast 4 by our solver and by scipy's sparse factorisation."""
    grid = Grid.cells((resolution,) * 2)
    permeability = darcy_permeability().sample(grid, seed=0, indices=[0])
    matrix, source = assemble(permeability[0, 0]).tocsc(), np.ones(grid.size)
    options: JSON = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}

    def direct() -> Any:
        return splu(matrix, diag_pivot_thresh=0.0, **options).solve(source)

    contenders = {"ours": lambda: solve_elliptic(Darcy(), permeability), "splu": direct}
    times = time_alternately(contenders, repeats=3)
    residual = np.linalg.norm(source - matrix @ direct()) / np.linalg.norm(source)
    ours = float(solve_elliptic(Darcy(), permeability)[1].max())
    return {"seconds": times, "residual": {"ours": ours, "splu": float(residual)}}


PARTS = (*SETTINGS, "rollout", "threads", "allocator", "predictions", "solvers", "scaling")
QUICK = (MAIN, "rollout", "solvers")
FRAMES, SCALING = 10, "scaling"
ROLLOUT = "rollout of ten frames, 64x64, k 12, width 20, batch "
FLOW, DARCY = "Navier-Stokes 128², ν = 1e-5, to T = 20, float64", "Darcy 512², contrast 4, float64"
OURS = (SPACE_AND_FREQUENCY, FREQUENCY)
# the largest ratios to the neuraloperator FNO that are aimed at
LIMITS = {
    f"{s.title}{threads}": {name: x + more for name, x in zip(OURS, s.limits, strict=True)}
    for s in SETTINGS.values()
    for threads, more in (("", 0.0), (", 2 threads", 0.1))
}
LIMITS[f"{ROLLOUT}1"] = dict.fromkeys(OURS, 1.5)
REFERENCES = {FLOW: "published", DARCY: "splu"}
PREDICTION, PREDICT = "prediction, ", "operator.predict"
OPERATORS = Path(__file__).parents[1] / "results" / "operators"  # of a checkout
SECONDS = "{:.4f} s".format
FORMATS: dict[str, Callable[[float], str]] = {
    "memory": lambda size: f"{size / 2**20:.0f} MB",
    "parameters": "{:,}".format,
    "error": "{:.1e}".format,
    "residual": "{:.1e}".format,
}


@dataclass(frozen=True)
class Task:
    """A measurement in its own process, and the title of its table."""

    title: str
    measurement: Callable[..., JSON]
    options: JSON = field(default_factory=dict)
    allocator: Literal["tuned", "default"] = "tuned"
    threads: int = 1

    def run(self) -> JSON:
        return in_own_process(_measure, self)


def _measure(task: Task) -> JSON:
    """Measure in this process, on one core where it has one thread and can be pinned."""
    os.environ["PDNO_ALLOCATOR"] = task.allocator
    tune_allocator()
    torch.set_num_threads(task.threads)
    if task.threads == 1 and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    warnings.filterwarnings("ignore")  # of the other packages' imports
    torch.manual_seed(0)
    return task.measurement(**task.options)


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
    enough: JSON = {"repeats": 2, "seconds": 0.4} if quick else {"repeats": 3, "seconds": 2.0}
    setting = part if part in SETTINGS else MAIN
    names, title = contenders_of(setting), SETTINGS[setting].title
    if part in SETTINGS:
        names = [name for name in names if not quick or name not in SLOWEST]
        yield Task(title, time_training, {"setting": part, "names": names, **enough})
        for name in [name for name in names if name in ALWAYS or (part == MAIN and not quick)]:
            yield Task(title, measure_memory, {"setting": part, "name": name}, "default")
    elif part == "rollout":
        names = [name for name in names if name in ALWAYS]
        for batch in (1, 20):
            options = {"batch": batch, "frames": FRAMES, "names": names, **enough}
            yield Task(f"{ROLLOUT}{batch}", time_rollout, options)
        for recompute in () if quick else (True, False):
            options = {"setting": MAIN, "name": OURS[0], "steps": FRAMES, "recompute": recompute}
            yield Task("training by rollout", measure_memory, options, "default")
    elif part == "allocator":
        options = {"setting": MAIN, "names": names, **enough}
        yield Task(f"{title}, default allocator", time_training, options, "default")
    elif part == "threads":
        # cores that this process may use
        cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ()
        for setting, size in SETTINGS.items() if (len(cores) or os.cpu_count() or 1) > 1 else ():
            names = [name for name in contenders_of(setting) if name in ALWAYS]
            options = {"setting": setting, "names": names, **enough}
            yield Task(f"{size.title}, 2 threads", time_training, options, threads=2)
    elif part == "predictions":
        for folder in sorted(OPERATORS.glob("*/")):
            options = {"operator": str(folder), "formats": ["onnx", "aoti"], **enough}
            yield Task(f"{PREDICTION}{folder.name}", time_predictions, options)
    elif part == "solvers":
        yield Task(FLOW, time_navier_stokes)
        yield Task(DARCY, time_darcy)
    else:
        yield Task(SCALING, time_scaling, {"repeats": 2 if quick else 3})


def bench_tables(measured: Mapping[str, JSON]) -> str:
    """A Markdown table per title: contenders, and their ratios to a reference."""
    text = (
        "Processor times of one thread with the tuned allocator, memory with the default one; "
        "nFNO is the FNO of neuraloperator.\n✗ marks a ratio above the one that is asked for.\n"
    )
    for title, quantities in measured.items():
        usual = "onnx" if title.startswith(PREDICTION) else NEURALOPERATOR
        reference, asked, lines = REFERENCES.get(title, usual), LIMITS.get(title, {}), []
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
