"""`pdno reproduce discovery`: equations found from 5 to 100 trajectories, beside trained networks.

    OUT/discovery-EQUATION-COUNT-NOISE/    the files of `pdno discover`, metrics.csv, checksums
    OUT/networks-EQUATION-COUNT/           metrics of PDNO and FNO with as many CPU seconds

Errors are relative L2 errors of rollouts from unseen states, at the last time T of the training
and at 4T; on 4N points and from rougher states, too. A finished folder is not made again.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import torch
from torch import Tensor

from pdno.data.dataset import OperatorDataset
from pdno.discovery.discover import Discovery, discover
from pdno.discovery.generator import Generator
from pdno.discovery.record import plot_symbol, write_discovery
from pdno.fields.distributions import GaussianField, navier_stokes_initial
from pdno.figures.style import save_figure
from pdno.files.metric_table import Metadata, Metric, make_metrics, write_metrics
from pdno.files.run_folder import METRICS, WITH_CHECKSUMS, is_finished, write_checksums
from pdno.interface.errors import SolverError
from pdno.networks.pdno import FNO, PDNO
from pdno.solvers.solve import solve
from pdno.spectral.grid import Grid
from pdno.training.fit import fit
from pdno.training.task import Markov
from pdno.training.trained_operator import TrainedOperator

SMOOTH, ROUGHER = GaussianField(4e6, tau=7.0, alpha=4.0), GaussianField(4.5e4, tau=7.0, alpha=3.0)
TEST, FRAMES, NOISE = 10, 10, (0.0, 0.01)


@dataclass(frozen=True, eq=False)
class Case:
    """An equation, the distributions of its states, and the time between frames."""

    equation: Generator
    step: float
    points: tuple[int, ...] = (64,)
    states: Callable[[Tensor], Tensor] = lambda g: g
    usual: GaussianField = SMOOTH
    other: GaussianField = ROUGHER
    terms: tuple[str, ...] = ()

    def solve(self, first: int, count: int, times: list[float]) -> Tensor:
        """Trajectories from the usual states, solved on twice as many points in shorter steps."""
        return self._solve(self.points, first, count, times, other=False)

    def test(self, points: tuple[int, ...], *, other: bool) -> Tensor:
        """Trajectories of unseen states up to 4T, solved as finely."""
        return self._solve(points, 0, TEST, self.times(4), other=other)

    def _solve(
        self, points: tuple[int, ...], first: int, count: int, times: list[float], *, other: bool
    ) -> Tensor:
        factor = 2 if points == self.points else 1  # the finer grid is fine enough by itself
        fine = Grid(tuple(factor * n for n in points))
        distribution = self.other if other else self.usual
        u0 = self.states(distribution.sample(fine, seed=0, indices=range(first, first + count)))
        return solve(self.equation, u0, times, refine=2)[fine.every(factor)]

    def times(self, factor: int = 1) -> list[float]:
        """0, ..., T, or up to a multiple of T."""
        return [self.step * k for k in range(factor * FRAMES + 1)]


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
    """All cases of a preset: smoke has one equation and two trajectories."""
    names = ["burgers"] if preset == "smoke" else list(CASES)
    counts = (2,) if preset == "smoke" else (5, 20, 100)
    for name in names:
        seconds = 0.0
        for count in counts:
            for noise in NOISE:
                # initial states of noisy flows in the plane have too many unknowns for this budget
                if CASES[name].equation.dim == 1 or (count == counts[0] and not noise):
                    seconds = max(seconds, _discover(name, count, noise, out))
        if CASES[name].equation.dim == 1:
            _train_networks(
                name, counts[-1], max(seconds, 0.0 if preset == "smoke" else 10.0), out
            )


def _discover(name: str, count: int, noise: float, out: Path) -> float:
    """Find one equation and measure it; the CPU seconds that it took."""
    case, folder = CASES[name], out / f"discovery-{name}-{count}-{noise:g}"
    if is_finished(folder):
        return 0.0
    start = time.process_time()
    u = case.solve(TEST, count, case.times())
    errors = torch.randn(u.shape, generator=torch.Generator().manual_seed(1), dtype=u.dtype)
    made = time.process_time()
    found = discover(
        u + noise * u.square().mean().sqrt() * errors,
        case.times(),
        {"u": case.terms} if case.terms else None,
        period=case.equation.period,
    )
    seconds = time.process_time() - made
    write_discovery(found, folder)
    if case.equation.dim == 1:
        save_figure(plot_symbol(found, case.equation), folder / "symbol.svg")
    values = _coefficient_errors(found, case.equation) | rollout_errors(
        case, lambda u0, times: solve(found.generator, u0, times)
    )
    values |= {"misfit": found.misfit, "data CPU seconds": made - start, "CPU seconds": seconds}
    _finish(folder, _metrics("generator", name, values, count, noise))
    return seconds


def _coefficient_errors(found: Discovery, exact: Generator) -> dict[str, float]:
    """The largest relative error, whether the terms are right, and the share of bars that hold."""
    truth = dict(zip((t.text for t in exact.listed()), exact.coefficients.tolist(), strict=True))
    coefficients = {c.term: c for c in found.generator.equation().coefficients}
    both = truth.keys() & coefficients.keys()
    largest = max((abs(coefficients[t].value / truth[t] - 1) for t in both), default=math.inf)
    inside = sum(abs(coefficients[t].value - truth[t]) <= coefficients[t].bar for t in both)
    return {
        "largest coefficient error": largest if len(both) == len(truth) else math.inf,
        "terms too many": float(len(coefficients.keys() - truth.keys())),
        "terms missing": float(len(truth.keys() - coefficients.keys())),
        "bars that hold the truth": inside / len(truth),
        "accepted": float(found.accepted),
    }


def rollout_errors(
    case: Case, predict: Callable[[Tensor, list[float]], Tensor]
) -> dict[str, float]:
    """Relative L2 errors of rollouts at T and 4T, on 4N points, and from rougher states."""
    times, errors = case.times(4), dict[str, float]()
    fine = tuple(4 * n for n in case.points) if case.equation.dim == 1 else case.points
    for what, points, other in (
        ("", case.points, False),
        (" on 4N points", fine, False),
        (" from rougher states", case.points, True),
    ):
        exact = _exact(case, points, other)
        u0 = exact[:, 0]
        try:
            u = predict(u0, times)
        except SolverError:
            u = torch.full_like(exact, torch.inf)
        for when, frame in (("T", FRAMES), ("4T", 4 * FRAMES)):
            difference = (u[:, frame] - exact[:, frame]).flatten(1).norm(dim=1)
            relative = difference / exact[:, frame].flatten(1).norm(dim=1)
            errors[f"relative_l2 at {when}{what}"] = float(relative.mean())
    return errors


@lru_cache(maxsize=3 * len(CASES))
def _exact(case: Case, points: tuple[int, ...], other: bool) -> Tensor:
    """Unseen trajectories up to 4T, made once."""
    return case.test(points, other=other)


def _train_networks(name: str, count: int, seconds: float, out: Path) -> None:
    """PDNO and FNO on clean trajectories, each for some CPU seconds."""
    case, folder = CASES[name], out / f"networks-{name}-{count}"
    if is_finished(folder):
        return
    u, times = case.solve(TEST, count, case.times()), case.times()
    data = OperatorDataset.from_arrays(u[:, 0], u, Grid(case.points), times).window(inputs=1)
    metrics = list[Metric]()
    for kind in (PDNO, FNO):
        _, short = _train(kind, data, 1)
        epochs = max(1, min(1000, round(seconds / short)))
        operator, spent = _train(kind, data, epochs)
        values = rollout_errors(case, partial(_roll_out, operator))
        values |= {"CPU seconds": spent, "epochs": float(epochs)}
        metrics += _metrics(kind.__name__, name, values, count, 0.0)
    folder.mkdir(parents=True, exist_ok=True)
    _finish(folder, metrics)


def _train(
    kind: type[PDNO] | type[FNO], data: OperatorDataset, epochs: int
) -> tuple[TrainedOperator, float]:
    """A network trained for some epochs, and the CPU seconds of that."""
    torch.manual_seed(0)
    network, start = kind(1, 1, 1, width=20, modes=16), time.process_time()
    operator = fit(
        network, data, task=Markov(noise=0.0), epochs=epochs, schedule="one-cycle", save=False
    )
    return operator, time.process_time() - start


def _roll_out(operator: TrainedOperator, u0: Tensor, times: list[float]) -> Tensor:
    grid = Grid(tuple(u0.shape[2:]))
    later = operator.predict(u0.float(), grid=grid, times=times[1:])
    return torch.cat([u0[:, None], later.double()], dim=1)


def _metrics(
    model: str, name: str, values: dict[str, float], count: int, noise: float
) -> list[Metric]:
    metadata = Metadata("discovery", dataset=name, sweep={"noise": noise}, samples=count)
    return make_metrics(
        values,
        **{"experiment": f"discovery {name} {noise:g}", "model": model, "split": "test"},
        **{"resolution": CASES[name].points[0], "seed": 0, "metadata": metadata},
    )


def _finish(folder: Path, metrics: list[Metric]) -> None:
    write_metrics(folder / METRICS, metrics)
    write_checksums(folder, WITH_CHECKSUMS)
