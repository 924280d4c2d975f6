"""`pdno reproduce discovery`: equations from 5 to 100 trajectories, beside trained networks.

    OUT/generator-EQUATION-COUNT-NOISE/    metrics.csv, and the files of `pdno discover`
    OUT/PDNO-EQUATION-COUNT-NOISE/         metrics.csv; FNO likewise

Errors are relative L2 errors of rollouts from ten unseen states at the last time T of the training
and at 4T: on the grid of the training, on one with 4N points per axis ("zero-shot"), and from
states of another distribution ("outside"). A finished folder is not made again.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import torch
from torch import Tensor

from pdno.data.dataset import OperatorDataset
from pdno.discovery.discover import Discovery, discover
from pdno.discovery.generator import Generator
from pdno.discovery.record import plot_symbol, write_discovery
from pdno.fields.distributions import GaussianField, navier_stokes_initial
from pdno.figures.style import save_figure
from pdno.files.metric_table import ERROR, Metadata, make_metrics, write_metrics
from pdno.files.run_folder import METRICS, WITH_CHECKSUMS, is_finished, write_checksums
from pdno.interface.errors import SolverError
from pdno.networks.pdno import FNO, PDNO
from pdno.runs.execute import clone_commit
from pdno.solvers.solve import solve
from pdno.spectral.grid import Grid
from pdno.training.fit import fit
from pdno.training.task import Markov
from pdno.training.trained_operator import TrainedOperator

SMOOTH, ROUGHER = GaussianField(4e6, tau=7.0, alpha=4.0), GaussianField(4.5e4, tau=7.0, alpha=3.0)
TEST, FRAMES = 10, 10
COUNTS, MANY, NOISE = (5, 20, 100), 1000, 0.01
SECONDS = 15.0  # of the CPU for each network
Values = dict[tuple[str, str], float]  # by split and metric


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
        """Trajectories until a multiple of T, solved on at least 2N points in half steps."""
        factor = 2 if finer == 1 else 1  # a finer grid is fine enough by itself
        fine = Grid(tuple(factor * finer * n for n in self.points))
        distribution = self.other if other else self.usual
        u0 = self.states(distribution.sample(fine, seed=0, indices=range(first, first + count)))
        return solve(self.equation, u0, self.times(until), refine=2)[fine.every(factor)]

    def measured(self, count: int, noise: float) -> Tensor:
        """The trajectories of the training, with white noise."""
        u = self.solve(TEST, count)
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
    counts, many = ((2,), ()) if smoke else (COUNTS, (MANY,))
    for noise in (0.0, NOISE):
        for name in ["burgers"] if smoke else CASES:
            for count in counts:
                # in the plane, initial states of noisy flows have too many unknowns for minutes
                if CASES[name].equation.dim == 1 or not noise:
                    _write("generator", name, count, noise, out, _discover)
    for noise, trained in ((0.0, (*counts, *many)), (NOISE, counts[-1:])):
        for name in ["burgers"] if smoke else CASES:
            for count in trained:
                for kind in (PDNO, FNO):
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
    values = measure(case, case.measured(count, noise), folder)
    metadata = Metadata(
        "discovery",
        dataset=name,
        sweep={"noise": noise},
        samples=count,
        commit=clone_commit() or "",
    )
    metrics = []
    for (split, metric), value in values.items():
        common = {"experiment": f"discovery {name} {count} {noise:g}", "model": model, "seed": 0}
        points = case.points[0] * (4 if split == "zero-shot" else 1)
        common |= {"split": split, "resolution": points, "metadata": metadata}
        metrics += make_metrics({metric: value}, **common)
    write_metrics(folder / METRICS, metrics)
    write_checksums(folder, WITH_CHECKSUMS)


def _discover(case: Case, u: Tensor, folder: Path) -> Values:
    """Find the equation of trajectories and measure it."""
    start = time.process_time()
    discovery = discover(u, case.times(), period=case.equation.period)
    seconds = time.process_time() - start
    write_discovery(discovery, folder)
    if case.equation.dim == 1:
        save_figure(plot_symbol(discovery, case.equation), folder / "symbol.svg")
    values = dict(_rollout_errors(case, partial(solve, discovery.generator)))
    return values | _coefficient_errors(discovery, case.equation) | _effort(seconds)


def _effort(seconds: float) -> Values:
    return {("training", "cpu seconds"): seconds}


def _coefficient_errors(discovery: Discovery, exact: Generator) -> Values:
    """Coefficients, bars and relative errors, and how many terms and bars are right."""
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
    held = [abs(ours[term].value - truth[term]) <= ours[term].bar for term in both]
    values["bars that hold the truth"] = float(sum(held))
    return {("symbol", name): value for name, value in values.items()}


def _rollout_errors(
    case: Case, predict: Callable[[Tensor, list[float]], Tensor]
) -> Iterator[tuple[tuple[str, str], float]]:
    """Relative L2 errors of rollouts at T and 4T, infinite where a rollout is not finite."""
    for split in ("test", "zero-shot", "outside"):
        exact = _exact(case, split)
        try:
            u = predict(exact[:, 0], case.times(4))
        except SolverError:
            u = torch.full_like(exact, torch.inf)
        for name, frame in ((ERROR, FRAMES), (f"{ERROR} at 4T", 4 * FRAMES)):
            difference = (u[:, frame] - exact[:, frame]).flatten(1).norm(dim=1)
            relative = difference / exact[:, frame].flatten(1).norm(dim=1)
            yield (split, name), float(relative.mean().nan_to_num(torch.inf))


@cache
def _exact(case: Case, split: str) -> Tensor:
    """Unseen trajectories up to 4T."""
    finer, other = 4 if split == "zero-shot" else 1, split == "outside"
    return case.solve(0, TEST, until=4, finer=finer, other=other)


def _train(
    kind: type[PDNO] | type[FNO], seconds: float, case: Case, u: Tensor, folder: Path
) -> Values:
    """Train a network on steps between frames for some CPU seconds and measure its rollouts."""
    few = min(len(u), 20)
    _fit(kind, case, u[:few], 1)  # the first is slower
    _, one = _fit(kind, case, u[:few], 1)
    epochs = max(1, round(seconds / one * few / len(u)))
    operator, spent = _fit(kind, case, u, epochs)
    values = dict(_rollout_errors(case, partial(_roll_out, operator)))
    return values | _effort(spent) | {("training", "epochs"): float(epochs)}


def _fit(
    kind: type[PDNO] | type[FNO], case: Case, u: Tensor, epochs: int
) -> tuple[TrainedOperator, float]:
    """A network trained for some epochs, and the CPU seconds of that."""
    data = OperatorDataset.from_arrays(u[:, 0], u, Grid(case.points), case.times())
    torch.manual_seed(0)
    network, start = kind(case.equation.dim, 1, 1, width=20, modes=16), time.process_time()
    task, pairs = Markov(noise=0.0), data.window(inputs=1)
    operator = fit(network, pairs, task=task, epochs=epochs, schedule="one-cycle", save=False)
    return operator, time.process_time() - start


def _roll_out(operator: TrainedOperator, u0: Tensor, times: list[float]) -> Tensor:
    grid = Grid(tuple(u0.shape[2:]))
    later = operator.predict(u0.float(), grid=grid, times=times[1:])
    return torch.cat([u0[:, None], later.double()], dim=1)
