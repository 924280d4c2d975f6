"""`pdno reproduce discovery`: equations from 5 to 100 trajectories, beside trained networks.

    OUT/generator-EQUATION-COUNT-NOISE/    metrics.csv, and the files of `pdno discover`
    OUT/PDNO-EQUATION-COUNT-NOISE/         metrics.csv; FNO likewise

Errors are relative L2 errors of rollouts from unseen states at the last time T of the training
and at 4T: on the grid of the training, on one with 4N points per axis ("zero-shot"), and from
states of another distribution ("outside"). A finished folder is not made again.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from pdno.data.dataset import OperatorDataset
from pdno.discovery.discover import Discovery, discover
from pdno.discovery.generator import Generator
from pdno.fields.distributions import GaussianField, navier_stokes_initial
from pdno.figures.style import save_figure
from pdno.files.metric_table import ERROR, Metadata, Metric, write_metrics
from pdno.files.run_folder import METRICS, WITH_CHECKSUMS, is_finished, write_checksums
from pdno.interface.errors import SolverError
from pdno.networks.pdno import FNO, PDNO
from pdno.runs.execute import clone_commit
from pdno.solvers.solve import solve
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_l2
from pdno.training.fit import fit
from pdno.training.task import Markov
from pdno.training.trained_operator import TrainedOperator

SMOOTH, ROUGHER = GaussianField(4e6, tau=7.0, alpha=4.0), GaussianField(4.5e4, tau=7.0, alpha=3.0)
TEST, FRAMES = {1: 10, 2: 3}, 10  # trajectories by dimension, and frames up to T
COUNTS, MANY, NOISE = [5, 20, 100], 1000, 0.01
SECONDS = 15.0  # of the CPU for each network
Values = dict[tuple[str, str], float]  # by split and metric
Kind = type[PDNO] | type[FNO]


@dataclass(frozen=True, eq=False)
class Case:
    """An equation, the distributions of its states, and the time between frames."""

    equation: Generator
    step: float
    points: tuple[int, ...] = (64,)
    states: Callable[[Tensor], Tensor] = lambda g: g
    usual: GaussianField = SMOOTH
    other: GaussianField = ROUGHER

    def solve(
        self, first: int, count: int, *, until: int = 1, finer: int = 1, other: bool = False
    ) -> Tensor:
        """Trajectories until a multiple of T, solved on 4N points or on 2N in half steps."""
        factor = 2 if finer == 1 else 1  # a finer grid is fine enough by itself
        fine = Grid(tuple(factor * finer * n for n in self.points))
        distribution = self.other if other else self.usual
        u0 = self.states(distribution.sample(fine, seed=0, indices=range(first, first + count)))
        return solve(self.equation, u0, self.times(until), refine=factor)[fine.every(factor)]

    def measured(self, count: int, noise: float) -> Tensor:
        """The trajectories of the training, with white noise."""
        u = self.solve(TEST[1], count)
        errors = torch.randn(u.shape, generator=torch.Generator().manual_seed(1), dtype=u.dtype)
        return u + noise * u.square().mean().sqrt() * errors

    def times(self, until: int = 1) -> list[float]:
        """0, ..., T, or up to a multiple of T."""
        return [self.step * k for k in range(until * FRAMES + 1)]


CASES = {
    "burgers": Case(Generator(["u_xx", "u u_x"], [0.02, -1.0]), 0.1),
    "korteweg-de-vries": Case(Generator(["u_xxx", "u u_x"], [-1.0, -6.0], period=20.0), 0.2),
    "kuramoto-sivashinsky": Case(
        Generator(["u_xx", "u_xxxx", "u u_x"], [-1.0, -1.0, -1.0], period=22.0), 2.0
    ),
    "fisher": Case(
        Generator(["u", "u_xx", "u u"], [4.0, 0.002, -4.0]),
        0.05,
        states=lambda g: 0.2 + 0.1 * torch.tanh(g),
    ),
    "navier-stokes": Case(
        Generator(["Δu", "v·∇u", "cos(1,1)", "sin(1,1)"], [1e-3, -1.0, 0.1, 0.1], dim=2),
        0.5,
        (32, 32),
        usual=navier_stokes_initial(),
        other=GaussianField(7.0**4, tau=7.0, alpha=3.0),
    ),
}


def measure_discovery(preset: str, out: Path) -> None:
    """All cases of a preset: smoke has one equation, two trajectories and hardly any training."""
    smoke = preset == "smoke"
    names, counts = (["burgers"], [2]) if smoke else (list(CASES), COUNTS)
    for noise, name, count in product((0.0, NOISE), names, counts):
        # in the plane, initial states of noisy flows have too many unknowns for minutes
        if CASES[name].equation.dim == 1 or not noise:
            _write("generator", name, count, noise, out, _discover)
    for noise, trained in ((0.0, counts if smoke else [*counts, MANY]), (NOISE, counts[-1:])):
        for name, count, kind in product(names, trained, (PDNO, FNO)):
            train = partial(_train, kind, 0.0 if smoke else SECONDS)
            _write(kind.__name__, name, count, noise, out, train)


def _write(
    model: str,
    name: str,
    count: int,
    noise: float,
    out: Path,
    measure: Callable[[Case, Tensor, Path], Values],
) -> None:
    """The metrics of one model in a folder of its own, unless they are there."""
    case, folder = CASES[name], out / f"{model}-{name}-{count}-{noise:g}"
    if is_finished(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    values, points = measure(case, case.measured(count, noise), folder), case.points[0]
    about = Metadata("discovery", name, sweep={"noise": noise}, samples=count)
    about = replace(about, training_resolution=points, commit=clone_commit() or "")
    metric = partial(Metric, f"discovery {name} {count} {noise:g}", model, metadata=about)
    metrics = [
        metric(points * (4 if split == "zero-shot" else 1), 0, split, name, value)
        for (split, name), value in values.items()
    ]
    write_metrics(folder / METRICS, metrics)
    write_checksums(folder, WITH_CHECKSUMS)


def _discover(case: Case, u: Tensor, folder: Path) -> Values:
    start = time.process_time()
    discovery = discover(u, case.times(), period=case.equation.period)
    seconds = time.process_time() - start
    discovery.write(folder)
    if case.equation.dim == 1:
        save_figure(discovery.plot(case.equation), folder / "symbol.svg")
    values = _rollout_errors(case, partial(solve, discovery.generator))
    values |= _coefficient_errors(discovery, case.equation)
    return values | {("training", "cpu seconds"): seconds}


def _coefficient_errors(discovery: Discovery, exact: Generator) -> Values:
    truth = dict(zip((t.text for t in exact.listed()), exact.coefficients.tolist(), strict=True))
    ours = {c.term: c for c in discovery.generator.equation().coefficients}
    values = {"accepted": float(discovery.accepted), "misfit": discovery.misfit}
    for term, c in ours.items():
        values |= {f"coefficient {term}": c.value, f"bar {term}": c.bar}
    both = truth.keys() & ours.keys()
    errors = [abs(ours[term].value / truth[term] - 1) for term in both]
    values["largest coefficient error"] = max(errors) if len(both) == len(truth) else math.inf
    values["terms too many"] = float(len(ours.keys() - truth.keys()))
    values["terms missing"] = float(len(truth.keys() - ours.keys()))
    held = sum(abs(ours[term].value - truth[term]) <= ours[term].bar for term in both)
    values["bars that hold the truth"] = float(held)
    return {("symbol", name): value for name, value in values.items()}


def _rollout_errors(case: Case, predict: Callable[[Tensor, list[float]], Tensor]) -> Values:
    """Relative L2 errors of rollouts at T and 4T, infinite where a rollout is not finite."""
    values: Values = {}
    for split in ("test", "zero-shot", "outside"):
        exact = _exact(case, split)
        try:
            u = predict(exact[:, 0], case.times(4))
        except SolverError:
            u = torch.full_like(exact, torch.inf)
        for name, frame in ((ERROR, FRAMES), (f"{ERROR} at 4T", 4 * FRAMES)):
            error = relative_l2(u[:, frame], exact[:, frame]).mean()
            values[split, name] = float(error.nan_to_num(torch.inf))
    return values


@cache
def _exact(case: Case, split: str) -> Tensor:
    finer, other = 4 if split == "zero-shot" else 1, split == "outside"
    return case.solve(0, TEST[case.equation.dim], until=4, finer=finer, other=other)


def _train(kind: Kind, seconds: float, case: Case, u: Tensor, folder: Path) -> Values:
    """Train a network on steps between frames for some CPU seconds and measure its rollouts."""
    few = min(len(u), 20)
    _fit(kind, case, u[:few], 1)  # the first is slower
    _, one = _fit(kind, case, u[:few], 1)
    epochs = max(1, round(seconds / one * few / len(u)))
    operator, spent = _fit(kind, case, u, epochs)

    def roll_out(u0: Tensor, times: list[float]) -> Tensor:
        later = operator.predict(u0.float(), grid=Grid(tuple(u0.shape[2:])), times=times[1:])
        return torch.cat([u0[:, None], later.double()], dim=1)

    values = _rollout_errors(case, roll_out)
    return values | {("training", "cpu seconds"): spent, ("training", "epochs"): float(epochs)}


def _fit(kind: Kind, case: Case, u: Tensor, epochs: int) -> tuple[TrainedOperator, float]:
    """A network trained for some epochs, and the CPU seconds of that."""
    data = OperatorDataset.from_arrays(u[:, 0], u, Grid(case.points), case.times())
    torch.manual_seed(0)
    network, start = kind(case.equation.dim, 1, 1, width=20, modes=16), time.process_time()
    task, pairs = Markov(noise=0.0), data.window(inputs=1)
    operator = fit(network, pairs, task=task, epochs=epochs, schedule="one-cycle", save=False)
    return operator, time.process_time() - start
