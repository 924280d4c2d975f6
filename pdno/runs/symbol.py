"""Analysis of learned symbols: certificate, norms and figures of every layer.

For a whole network also its Lipschitz constant, for a semigroup step how long its rollouts are
guaranteed, for heat the learned diffusivity, and the learned beside the true operator.
"""

import copy
import json
import math
from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor, nn

from pdno.data.problems import Problem
from pdno.figures import curves, fields
from pdno.figures.style import save_figure
from pdno.files import run_folder
from pdno.files.atomic import write_text
from pdno.files.run_folder import write_checksums
from pdno.interface.display import track
from pdno.networks.neural_operator import NeuralOperator
from pdno.networks.pdno import SemigroupStep
from pdno.networks.published_weights import load_published
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.runs.measure import learned_diffusivity
from pdno.runs.run import Run
from pdno.runs.specification import Experiment, ensure_dataset, open_experiment_data
from pdno.spectral.grid import Grid
from pdno.symbols.base import Time
from pdno.theory.certificate import certify
from pdno.theory.extraction import extract_symbol
from pdno.theory.lipschitz import guarantee, lipschitz_report
from pdno.theory.norms import norm_bound, operator_norm
from pdno.training.operator_record import symbol_arguments
from pdno.training.task import Markov, OneShot, StaticMap

PAIRS = 3
TOLERANCE = 0.1  # relative L2 error that a rollout is guaranteed to stay within
PROVEN = "symbols that are in this class by construction (docs/theory_symbol_classes.md)"
WAVES = 16  # |ξ| of the waves that are sent through learned and true operators
LARGEST_GRID = 64  # points per axis of the norms: they do not depend on it, their cost does
Finding = tuple[str, object, str]  # key and value in symbol.json, and text


def inspect_symbols(
    source: Path, out: Path | None = None, *, order: float = 1.0, resolution: int | None = None
) -> tuple[str, Path]:
    """Certificate, norms and figures of every layer: the text, and the folder with symbol.json.

    The options are those of `pdno symbol`.
    """
    run, t = Run.open(source) if run_folder.is_finished(source) else None, None
    if run is None:
        network, grid = _load_weights(source, resolution)
    else:
        network, grid = run.operator.network, _grid(run, resolution or LARGEST_GRID)
        times = run.operator.trained_sampling.times or (1.0,)
        t = symbol_arguments(network, run.operator.task, times[0])
    operators = [m for m in network.modules() if isinstance(m, PseudoDifferentialOperator)]
    if not operators:
        raise ValueError(f"{source} has no pseudo-differential operator to look into")
    folder = out or (source if source.is_dir() else source.parent) / run_folder.SYMBOL_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    layers, texts = [], []
    with track("symbols", total=len(operators)) as advance:
        for number, operator in enumerate(operators, start=1):
            layer, text = _layer(operator, grid, t, order, folder / f"layer-{number}")
            layers.append({"layer": number, **layer})
            texts.append(f"layer {number}\n{text}")
            advance(1)
    report: dict[str, object] = {"source": source.name, "order": order, "layers": layers}
    if isinstance(network, NeuralOperator) and network.head is None and t is None:
        lipschitz = lipschitz_report(network, grid, generator=torch.Generator().manual_seed(0))
        report["lipschitz_bound"] = lipschitz.bound
        texts.append(str(lipschitz))
    for key, value, text in _compare_with_problem(run, network, folder):
        report[key] = value
        texts.append(text)
    if not all(layer["accepted"] for layer in layers):
        texts.append(f'not proved: PDNO(symbol="classical", order={order:g}) has {PROVEN}')
    files = {run_folder.SYMBOL: json.dumps(report, indent=2), "symbol.txt": "\n\n".join(texts)}
    run_folder.reopen(folder)
    for name, content in files.items():
        write_text(folder / name, content + "\n")
    if out is None:
        write_checksums(folder, files)
    return files["symbol.txt"], folder


def _load_weights(source: Path, resolution: int | None) -> tuple[nn.Module, Grid]:
    if not source.is_file():
        raise ValueError(f"{source} is no finished run and no file: finish it, or name another")
    if resolution is None:
        raise ValueError(f"{source} does not record the points of its training: give --resolution")
    network = load_published(source, resolution)
    return network, Grid((resolution,) * getattr(network, "dim", 2))


def _grid(run: Run, points: int) -> Grid:
    """The grid of the training, or about `points` of it per axis."""
    grid = run.operator.trained_sampling.grid
    return grid.coarsen(max(1, max(grid.shape) // points))


def _layer(
    operator: PseudoDifferentialOperator, grid: Grid, t: Time, order: float, stem: Path
) -> tuple[dict[str, object], str]:
    """Values, text and figures of one layer: is its symbol in S^m_{1,0}, what is its norm?"""
    if t is None and getattr(operator.symbol, "takes_time", False):
        t = 1.0  # a step of a semigroup is e^A
    certificate = certify(operator.symbol, order, dim=grid.dim, t=t)
    norms, lines = {}, [str(certificate)]
    # on L2, and from H^m to L2; operators that depend on time have a norm for every time
    for s in dict.fromkeys((0.0, order)) if t is None else ():
        start = torch.Generator().manual_seed(0)  # so that a report can be repeated
        estimate = operator_norm(
            operator, grid, s=s, order=s, iterations=60, tolerance=1e-4, generator=start
        ).value
        bound, name = norm_bound(operator, grid, s=s, order=s).value, f"H^{s:g} -> H^0"
        norms[name] = {"estimate": estimate, "bound": bound}
        lines.append(f"  norm {name}: at least {estimate:.4g}, at most {bound:.4g}")
    with torch.no_grad():
        values = operator.values(grid, t)
    a1 = None if values.space is None else values.space[0, :PAIRS, :PAIRS].cpu().numpy()
    figure = fields.plot_symbol_layer(values.frequency[0, :PAIRS, :PAIRS].real.cpu().numpy(), a1)
    save_figure(figure, stem.with_name(f"{stem.name}-symbol.png"))
    save_figure(certificate.plot(), stem.with_name(f"{stem.name}-certificate.png"))
    names = ("accepted", "assessment", "proof", "scope", "reasons", "periodic", "radii")
    growth, seminorms = certificate.curves.items(), certificate.seminorms.items()
    return {
        **{name: getattr(certificate, name) for name in names},
        "fitted_order": _number(certificate.order),
        "curves": {str(total): list(map(_number, values)) for total, values in growth},
        "seminorms": {f"alpha={a} beta={b}": _number(value) for (a, b), value in seminorms},
        "norms": norms,
    }, "\n".join(lines)


def _number(value: float) -> float | str:
    """A number as JSON has it; what is infinite is text."""
    return value if math.isfinite(value) else str(value)


def _compare_with_problem(run: Run | None, network: nn.Module, folder: Path) -> Iterator[Finding]:
    """What follows from the problem of a run: guarantees, the true operator, the diffusivity."""
    experiment = None if run is None else run.experiment
    problem = None if experiment is None else experiment.problem
    if run is None or experiment is None or problem is None:
        if isinstance(network, SemigroupStep):
            yield "guarantee", {}, "no guarantee: there is no problem to roll out"
        return
    if isinstance(network, SemigroupStep):
        if experiment.normalization == "none":
            yield _guarantee(run, experiment, network, folder)
        else:
            yield "guarantee", {}, "no guarantee: the run has a normaliser"
    if not problem.vary and isinstance(experiment.task, StaticMap | OneShot | Markov):
        yield _phase_space(run, experiment, problem, folder)
    grid = _grid(run, experiment.resolution)
    if (c := learned_diffusivity(experiment, network, grid)) is not None:
        truth = f"the data have {problem.parameters['diffusivity']:g}"
        values = {"value": c.value, "error": c.error}
        yield "diffusivity", values, f"diffusivity from the symbol: {c}; {truth}"


def _guarantee(run: Run, experiment: Experiment, step: SemigroupStep, folder: Path) -> Finding:
    """How long rollouts of the test samples are proven to stay near the solution, drawn too."""
    assert experiment.problem is not None
    ensure_dataset(experiment.problem, run.folder.parent / run_folder.DATA)
    test = open_experiment_data(experiment, run.folder.parent / run_folder.DATA).test
    inputs, targets = test.batch()
    proof = guarantee(step, torch.cat([inputs[:, None], targets], dim=1), test.grid)
    times = test.target_times or ()
    dt = times[1] - times[0] if len(times) > 1 else 1.0
    proven, made = (sorted(proof.steps(TOLERANCE, made=m)) for m in (False, True))
    figure = curves.plot_guarantee(times, proof.bound.numpy(), proof.error.numpy(), TOLERANCE)
    save_figure(figure, folder / "guarantee.png")
    middle, largest = len(proven) // 2, proof.factors.amax(dim=0).tolist()
    text = (
        f"rollouts of {len(proven)} test samples: a step enlarges errors by at most "
        f"{max(largest):.4g}, later by {largest[-1]:.4g}; with their true frames, which the bound "
        f"needs, they stay within {TOLERANCE:.0%} for a time of "
        f"{proven[middle] * dt:.3g} by proof ({proven[0] * dt:.3g} to {proven[-1] * dt:.3g}), "
        f"and of {made[middle] * dt:.3g} in truth, of {len(times) * dt:.3g}"
    )
    values = {"factors": largest, "tolerance": TOLERANCE, "steps": proven, "made": made}
    return "guarantee", values, text


def _phase_space(run: Run, experiment: Experiment, problem: Problem, folder: Path) -> Finding:
    """|a(x, ξ)| of the learned and of the true operator at the input of the last test sample.

    Both are derivatives at that input, on the grid of the run; of several axes x and ξ vary along
    the first, through the middle.
    """
    grid, last = _grid(run, LARGEST_GRID), problem.samples - 1
    data = problem.physics()[0].sample(problem.solver_grid(), seed=problem.seed, indices=[last])
    times, window, start = list(problem.times or ()), experiment.window, 0.0
    if isinstance(experiment.task, Markov) and window:
        data, start = problem.solve(data, times[:window])[0][:, -1], times[window - 1]
        times = times[window:]
    at, operator = times[:1] or None, copy.deepcopy(run.operator).double()
    state = data[grid.every(problem.solver_points // max(grid.shape))]

    def first(frames: Tensor) -> Tensor:
        return frames if at is None else frames[:, 0]

    modes = (min(WAVES, grid.shape[0] // 2), *[1] * (grid.dim - 1))
    step = 1e-3 * float(state.square().mean().sqrt())
    line: tuple[int | slice, ...] = (0, 0, slice(None), *(n // 2 for n in grid.shape[1:]))
    rows = []
    for f in (
        lambda f: first(operator.predict(f, grid=grid, times=at)),
        lambda f: first(problem.solve(f, at and [at[0] - start])[0]),
    ):
        symbol = extract_symbol(f, grid, state=state, modes=modes, step=step)
        xi, order = symbol.xi[..., 0].flatten().sort()
        rows.append(symbol.values[line].flatten(1)[:, order])
    a, b = rows
    maps = {"learned": a, "true": b, "difference": a - b}
    drawn = {"xi": xi.tolist(), **{name: values.abs().tolist() for name, values in maps.items()}}
    save_figure(fields.plot_phase_space({"": drawn}), folder / "phase-space.png")
    distance = float((a - b).norm() / b.norm())
    text = f"phase space: {distance:.3g} from the symbol of the solver"
    return "phase_space", {**drawn, "distance": distance}, text
