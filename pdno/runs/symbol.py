"""Look inside a learned operator: certificate, norms and pictures of the symbol of every layer.

For a whole network also its Lipschitz constants, for heat the diffusivity that it has learned, for
a semigroup step how long its rollouts are guaranteed, and for data of a problem the learned beside
the true operator in phase space.
"""

__all__ = ["inspect_symbols"]

import copy
import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pdno.figures.curves import plot_guarantee
from pdno.figures.fields import plot_phase_space, plot_symbol_layer
from pdno.figures.style import save_figure
from pdno.files.atomic import write_text
from pdno.files.checksums import write_checksums
from pdno.files.run_folder import CHECKSUMS, DATA, SYMBOL, SYMBOL_FOLDER, is_finished
from pdno.interface.display import track
from pdno.networks.neural_operator import NeuralOperator
from pdno.networks.published_weights import load_published
from pdno.networks.semigroup import SemigroupStep
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.runs.datasets import ensure_dataset, open_experiment_data
from pdno.runs.measure import learned_diffusivity
from pdno.runs.run import Run, load_run
from pdno.spectral.grid import Grid
from pdno.symbols.base import Time
from pdno.theory.certificate import Certificate, certify
from pdno.theory.extraction import extract_symbol
from pdno.theory.lipschitz import guarantee, lipschitz_report
from pdno.theory.norms import norm_bound, operator_norm
from pdno.training.task import Markov, OneShot, StaticMap

PAIRS = 3
TOLERANCE = 0.1  # relative L2 error that a rollout is guaranteed to stay within
PROVEN = "symbols that are in this class by construction (docs/theory_symbol_classes.md)"
WAVES = 16  # |ξ| of the waves that are sent through learned and true operators
LARGEST_GRID = 64  # points per axis of the norms: they do not depend on it, their cost does


def inspect_symbols(
    source: Path, out: Path | None = None, *, order: float = 1.0, resolution: int | None = None
) -> tuple[str, Path]:
    """Certificate, norms and pictures of every layer, as text, symbol.json and figures.

    `source` is a run folder or a file of published weights, which needs the resolution that it was
    trained at. Without `out` all goes to `symbol` in the run folder, where the report finds it, or
    beside the weights. `order` is m of the class S^m that is asked about.
    """
    run = load_run(source) if is_finished(source) else None
    network, grid, t = _of_run(run, resolution) if run else _of_weights(source, resolution)
    operators = [m for m in network.modules() if isinstance(m, PseudoDifferentialOperator)]
    if not operators:
        raise ValueError(f"{source} has no pseudo-differential operator to look into")
    place = (source if source.is_dir() else source.parent) / SYMBOL_FOLDER if out is None else out
    place.mkdir(parents=True, exist_ok=True)
    layers, texts = [], []
    with track("symbols", total=len(operators)) as advance:
        for number, operator in enumerate(operators, start=1):
            needs = t is None and getattr(operator.symbol, "takes_time", False)
            when = 1.0 if needs else t  # a step of a semigroup is e^A
            found, text = _layer(operator, grid, when, order, place / f"layer-{number}")
            layers.append({"layer": number, **found})
            texts.append(f"layer {number}\n{text}")
            advance(1)
    result: dict[str, Any] = {"source": source.name, "order": order, "layers": layers}
    if isinstance(network, NeuralOperator) and t is None:
        lipschitz = lipschitz_report(network, grid)
        result["lipschitz_bound"] = lipschitz.bound
        texts.append(str(lipschitz))
    if run and isinstance(network, SemigroupStep):
        result["guarantee"], told = _guarantee(run, network, place)
        texts.append(told)
    if run and (pictured := _phase_space(run)):
        result["phase_space"] = pictured
        save_figure(plot_phase_space({"": pictured}), place / "phase-space.png")
        texts.append(f"phase space: {pictured['distance']:.3g} from the symbol of the solver")
    experiment = run.experiment if run else None
    c = (
        learned_diffusivity(experiment, network, run.operator.sampling.grid)
        if run and experiment
        else None
    )
    if experiment and experiment.problem and c is not None:
        result["diffusivity"] = {"value": c.value, "error": c.error}
        truth = f"the data have {experiment.problem.parameters['diffusivity']:g}"
        texts.append(f"diffusivity from the symbol: {c}; {truth}")
    if not all(layer["accepted"] for layer in layers):
        texts.append(f'refused: PDNO(symbol="classical", order={order:g}) has {PROVEN}')
    whole = "\n\n".join(texts)
    if out is None:
        (place / CHECKSUMS).unlink(missing_ok=True)
    write_text(place / SYMBOL, json.dumps(result, indent=2) + "\n")
    write_text(place / "symbol.txt", whole + "\n")
    if out is None:
        write_checksums(place, [SYMBOL, "symbol.txt"])
    return whole, place


def _of_run(run: Run, resolution: int | None) -> tuple[nn.Module, Grid, Time]:
    """The network, the grid to look at it on, and a time where its symbols need one."""
    task, sampling = run.operator.task, run.operator.sampling
    first = sampling.times[0] if sampling is not None and sampling.times else 1.0
    t: Time = task.scaled_time(float(first)) if isinstance(task, OneShot) else None
    symbols = [
        m.symbol for m in run.operator.modules() if isinstance(m, PseudoDifferentialOperator)
    ]
    if count := max((symbol.pde_parameters for symbol in symbols), default=0):
        # what symbols see of pde_parameters is 0 in the middle of their ranges
        t = torch.tensor([[*([] if t is None else [t]), *[0.0] * count]])
    points = resolution or min(max(run.operator.sampling.grid.shape), LARGEST_GRID)
    every = max(run.operator.sampling.grid.shape) // points
    return (
        run.operator.network,
        run.operator.sampling.grid.coarsen(every) if every > 1 else run.operator.sampling.grid,
        t,
    )


def _guarantee(run: Run, step: SemigroupStep, place: Path) -> tuple[dict[str, Any], str]:
    """How long rollouts of the test samples are proven to stay near the truth, drawn too."""
    experiment = run.experiment
    if experiment is None or experiment.problem is None or experiment.normalization != "none":
        return {}, "no guarantee: the run has no problem to roll out, or a normaliser"
    ensure_dataset(experiment.problem, run.folder.parent / DATA)
    test = open_experiment_data(experiment, run.folder.parent / DATA).test
    inputs, targets = test.batch()
    found = guarantee(step, torch.cat([inputs[:, None], targets], dim=1), test.grid)
    times = test.target_times or ()
    dt = times[1] - times[0] if len(times) > 1 else 1.0
    proven, made = (sorted(found.steps(TOLERANCE, made=m)) for m in (False, True))
    middle, last = len(proven) // 2, made[len(made) // 2]
    figure = plot_guarantee(times, found.bound.numpy(), found.error.numpy(), TOLERANCE)
    save_figure(figure, place / "guarantee.png")
    spread = f"{proven[0] * dt:.3g} to {proven[-1] * dt:.3g}"
    text = (
        f"rollouts: a step enlarges errors by at most {float(found.factors.max()):.4g}, later by "
        f"{float(found.factors[:, -1].max()):.4g}; they stay within {TOLERANCE:.0%} for a time of "
        f"{proven[middle] * dt:.3g} by proof ({spread}), and of {last * dt:.3g} in truth, of "
        f"{len(times) * dt:.3g}"
    )
    facts = {
        "factors": found.factors.amax(dim=0).tolist(),
        "tolerance": TOLERANCE,
        "steps": proven,
        "made": made,
    }
    return facts, text


def _phase_space(run: Run) -> dict[str, Any] | None:
    """|a(x, ξ)| of the learned and of the true operator at the input of the last test sample.

    Both are derivatives at that input, on the grid of the run; of several axes x and ξ vary along
    the first, through the middle. None where there is no solver, or it has no such map.
    """
    experiment, task = run.experiment, run.operator.task
    problem = None if experiment is None else experiment.problem
    known = isinstance(task, StaticMap | OneShot | Markov)
    if experiment is None or problem is None or problem.vary or not known:
        return None
    grid = run.operator.sampling.grid.coarsen(
        max(1, max(run.operator.sampling.grid.shape) // LARGEST_GRID)
    )
    every = problem.solver_points // max(grid.shape)
    inputs, last, times = problem.physics()[0], problem.samples - 1, list(problem.times or ())
    data = inputs.sample(problem.solver_grid(), seed=problem.seed, indices=[last])
    window, spent = experiment.window, 0.0
    if isinstance(task, Markov) and window:
        data, spent = problem.solve(data, times[:window])[0][:, -1], times[window - 1]
        times = times[window:]
    points: tuple[Any, ...] = (..., *(slice(None, None, every),) * grid.dim)
    state = data[points]
    when, learner = times[:1] or None, copy.deepcopy(run.operator).double()

    def learned(f: Tensor) -> Tensor:
        frames: Tensor = learner.predict(f, grid=grid, times=when)
        return frames if when is None else frames[:, 0]

    def true(f: Tensor) -> Tensor:
        solved = problem.solve(f, None if when is None else [when[0] - spent])[0]
        return solved if when is None else solved[:, 0]

    modes = (min(WAVES, grid.shape[0] // 2), *[1] * (grid.dim - 1))
    step = 1e-3 * float(state.square().mean().sqrt())
    found = [extract_symbol(f, grid, state=state, modes=modes, step=step) for f in (learned, true)]
    line: tuple[Any, ...] = (0, 0, slice(None), *(n // 2 for n in grid.shape[1:]))
    xi, order = found[0].xi[..., 0].flatten().sort()
    a, b = (one.values[line].flatten(1)[:, order] for one in found)
    return {
        "xi": xi.tolist(),
        "learned": a.abs().tolist(),
        "true": b.abs().tolist(),
        "difference": (a - b).abs().tolist(),
        "distance": float((a - b).norm() / b.norm()),
    }


def _of_weights(source: Path, resolution: int | None) -> tuple[nn.Module, Grid, None]:
    """The same of published weights."""
    if source.is_dir():
        raise ValueError(f"{source} holds no finished run: finish it, or name another folder")
    if not source.exists():
        raise ValueError(
            f"there is no {source}: give a run folder, or a file of published weights"
        )
    if resolution is None:
        raise ValueError(
            "published weights do not say at which resolution they were trained: give "
            "--resolution, for example 64 for Navier-Stokes"
        )
    network = load_published(source, resolution)
    return network, Grid((resolution,) * getattr(network, "dim", 2)), None


def _layer(
    operator: PseudoDifferentialOperator, grid: Grid, t: Time, order: float, stem: Path
) -> tuple[dict[str, Any], str]:
    """Numbers, text and figures of one layer: is its symbol in S^m_{1,0}, what is its norm?"""
    certificate = certify(operator.symbol, order, dim=grid.dim, t=t)
    norms, lines = {}, [str(certificate)]
    # on L2, and from H^m to L2; operators that depend on time have a norm for every time
    for s in dict.fromkeys((0.0, order)) if t is None else ():
        estimate = operator_norm(operator, grid, s=s, order=s, iterations=60, tolerance=1e-4).value
        bound, name = norm_bound(operator, grid, s=s, order=s).value, f"H^{s:g} -> H^0"
        norms[name] = {"estimate": estimate, "bound": bound}
        lines.append(f"  norm {name}: at least {estimate:.4g}, at most {bound:.4g}")
    with torch.no_grad():
        values = operator.values(grid, t)
    a1 = None if values.space is None else values.space[0, :PAIRS, :PAIRS].cpu().numpy()
    figure = plot_symbol_layer(values.frequency[0, :PAIRS, :PAIRS].real.cpu().numpy(), a1)
    save_figure(figure, stem.with_name(f"{stem.name}-symbol.png"))
    save_figure(certificate.plot(), stem.with_name(f"{stem.name}-certificate.png"))
    return {**_plain(certificate), "norms": norms}, "\n".join(lines)


def _plain(certificate: Certificate) -> dict[str, Any]:
    """A certificate as plain JSON; what is infinite is text."""

    def number(value: float) -> float | str:
        return value if math.isfinite(value) else str(value)

    curves, seminorms = certificate.curves.items(), certificate.seminorms.items()
    return {
        "accepted": certificate.accepted,
        "assessment": certificate.assessment,
        "proof": certificate.proof,
        "fitted_order": number(certificate.order),
        "reasons": list(certificate.reasons),
        "periodic": certificate.periodic,
        "radii": list(certificate.radii),
        "curves": {str(total): [number(value) for value in values] for total, values in curves},
        "seminorms": {f"alpha={a} beta={b}": number(value) for (a, b), value in seminorms},
    }
