"""Look inside a learned operator: certificate, norms and pictures of the symbol of every layer.

For each layer: whether its symbol is in S^m_{1,0} and what speaks against it; its norm on L2 and
from H^m to L2, estimated from below and bounded from above; pictures of Re a2(ξ), of a1(x) and of
the certificate. For a whole network also its Lipschitz constants, and for the heat experiment the
diffusivity that the symbol has learned.
"""

__all__ = ["inspect_symbols"]

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pdno.atomic import write_text
from pdno.data.problems import HeatProblem
from pdno.experiments.measure import learned_diffusivity
from pdno.experiments.run import FinishedRun, load_run
from pdno.grid import Grid
from pdno.networks.neural_operator import NeuralOperator
from pdno.networks.published_weights import load_published
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.progress import track
from pdno.report.figures_symbols import plot_certificate, plot_symbol_layer
from pdno.report.style import save_figure
from pdno.run_folder import SYMBOL, SYMBOL_FOLDER, is_finished
from pdno.theory.certificate import Certificate, certify
from pdno.theory.lipschitz import lipschitz_report
from pdno.theory.norm_bound import norm_bound
from pdno.theory.sobolev import operator_norm
from pdno.training.task import OneShot

PAIRS = 3
LARGEST_GRID = 64
"""Points per axis of the norms: they do not depend on the grid, their cost does."""

Certificate.draw = plot_certificate


def inspect_symbols(
    source: Path,
    out: Path | None = None,
    *,
    order: float = 1.0,
    resolution: int | None = None,
) -> tuple[str, Path]:
    """Certificate, norms and pictures of every layer, as text, symbol.json and figures.

    Arguments:
        source: A run folder, or a file of published weights.
        out: Folder for symbol.json, symbol.txt and the figures; None takes `symbol` in the run
            folder, where the report finds it, or beside the weights.
        order: m of the class S^m that is asked about.
        resolution: Points per axis of norms and pictures. Published weights need the one that
            they were trained at; a run knows its own.
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
        for number, operator in enumerate(operators):
            found, text = _layer(operator, grid, t, order, place / f"layer-{number}")
            layers.append({"layer": number, **found})
            texts.append(f"layer {number}\n{text}")
            advance(1)
    result: dict[str, Any] = {"source": str(source), "order": order, "layers": layers}
    if isinstance(network, NeuralOperator) and not network.takes_time:
        lipschitz = lipschitz_report(network, grid)
        result["lipschitz_bound"] = lipschitz.bound
        texts.append(str(lipschitz))
    problem = None if run is None else run.experiment.problem
    if run is not None and isinstance(problem, HeatProblem):
        c = learned_diffusivity(run.experiment, network, run.grid)
        if c is not None:
            result["diffusivity"] = {"value": c.value, "error": c.error}
            truth = f"the data have {problem.diffusivity:g}"
            texts.append(f"diffusivity from the symbol: {c}; {truth}")
    whole = "\n\n".join(texts)
    write_text(place / SYMBOL, json.dumps(result, indent=2) + "\n")
    write_text(place / "symbol.txt", whole + "\n")
    return whole, place


def _of_run(run: FinishedRun, resolution: int | None) -> tuple[nn.Module, Grid, float | None]:
    """The network, the grid to look at it on, and a time where its symbols need one."""
    task, problem = run.experiment.task, run.experiment.problem
    first = problem.times[0] if problem is not None and problem.times else 1.0
    t = task.scaled_time(float(first)) if isinstance(task, OneShot) else None
    points = resolution or min(max(run.grid.shape), LARGEST_GRID)
    every = max(run.grid.shape) // points
    return run.model.network, run.grid.coarsen(every) if every > 1 else run.grid, t


def _of_weights(source: Path, resolution: int | None) -> tuple[nn.Module, Grid, None]:
    """The same of published weights."""
    if source.is_dir():
        raise ValueError(f"{source} holds no finished run: finish it, or name another folder")
    if resolution is None:
        raise ValueError(
            "published weights do not say at which resolution they were trained: give "
            "--resolution, for example 64 for Navier-Stokes"
        )
    network = load_published(source, resolution)
    return network, Grid((resolution,) * getattr(network, "dim", 2)), None


def _layer(
    operator: PseudoDifferentialOperator, grid: Grid, t: float | None, order: float, stem: Path
) -> tuple[dict[str, Any], str]:
    """Numbers, text and figures of one layer."""
    certificate = certify(operator.symbol, order, dim=grid.dim, t=t)
    norms = {}
    if t is None:
        norms = {
            f"H^{s:g} -> H^{s - m:g}": _norm(operator, grid, s, m)
            for s, m in ((0.0, 0.0), (order, order))
        }
    with torch.no_grad():
        values = operator.values(grid, t)
    a1 = None if values.space is None else values.space[0, :PAIRS, :PAIRS]
    figure = plot_symbol_layer(values.frequency[0, :PAIRS, :PAIRS].real, a1)
    save_figure(figure, stem.with_name(f"{stem.name}-symbol.png"))
    save_figure(certificate.plot(), stem.with_name(f"{stem.name}-certificate.png"))
    lines = [str(certificate)]
    lines += [
        f"  norm {name}: at least {norm['estimate']:.4g}, at most {norm['bound']:.4g}"
        for name, norm in norms.items()
    ]
    return {**_plain(certificate), "norms": norms}, "\n".join(lines)


def _norm(
    operator: PseudoDifferentialOperator, grid: Grid, s: float, order: float
) -> dict[str, float]:
    estimate = operator_norm(operator, grid, s=s, order=order, iterations=60, tolerance=1e-4)
    bound = norm_bound(operator, grid, s=s, order=order)
    return {"estimate": estimate.value, "bound": bound.value}


def _plain(certificate: Certificate) -> dict[str, Any]:
    """A certificate as plain JSON; what is infinite is text."""
    return {
        "accepted": certificate.accepted,
        "fitted_order": _number(certificate.order),
        "reasons": list(certificate.reasons),
        "periodic": certificate.periodic,
        "radii": list(certificate.radii),
        "curves": {
            str(total): [_number(value) for value in values]
            for total, values in certificate.curves.items()
        },
        "seminorms": {
            f"alpha={alpha} beta={beta}": _number(value)
            for (alpha, beta), value in certificate.seminorms.items()
        },
    }


def _number(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)
