"""Operators on scattered points at equal CPU seconds: on points, on grids, DeepONet, GINO.

    python tools/compare_points.py poisson-shapes --seeds 0 1 2 --out results/scattered-points

An epoch of each network is timed, and the network is then trained for as many epochs as fit into
the budget of CPU seconds. Errors are relative L2 over the domain, with the weights of the mesh, on
validation and test samples whose domains were never seen; settings were chosen by the validation
samples. Results are added to metrics.csv of the folder, and what is there is not run again.
"""

import argparse
import itertools
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

import pdno
from pdno.data.generate import collect
from pdno.data.problems import PROBLEMS
from pdno.files.metric_table import (
    ERROR,
    Metadata,
    Metric,
    make_metrics,
    read_metrics,
    write_metrics,
)

TRAIN, REST = 160, 40


class OnGrid(nn.Module):
    """Points -> grid by moving least squares, a network there, grid -> points bilinearly."""

    def __init__(self, network: nn.Module, resolution: int) -> None:
        super().__init__()
        self.network, self.resolution = network, resolution
        self.cells = pdno.Grid.cells((resolution, resolution))

    def forward(self, f: Tensor, *, grid: pdno.Points) -> Tensor:
        """u at the points, (B, I, P) -> (B, O, P)."""
        cells, shape = pdno.Points.of(self.cells), self.cells.shape
        distance = torch.cdist(cells.coordinates.expand(len(f), -1, -1), grid.coordinates)
        distance = distance.masked_fill(~grid.mask[:, None], torch.inf)
        near = (distance.amin(dim=2) < 1.0 / self.resolution).to(f)[:, None]
        known = torch.cat([grid.interpolate(f, cells) * near, near], dim=1)
        u = self.network(known.reshape(*known.shape[:2], *shape))
        places = (2 * grid.coordinates.flip(-1) - 1).to(u)[:, None]
        return functional.grid_sample(
            u, places, padding_mode="border", align_corners=False
        ).squeeze(2)


class DeepONet(nn.Module):
    """u(x) = Σ_k branch_k(f at sensors) trunk_k(x); sensors on a grid, 0 where no points are."""

    def __init__(self, channels: int, resolution: int = 16, width: int = 128) -> None:
        super().__init__()
        sensors = (channels + 1) * resolution**2
        layers = [nn.Linear(sensors, width), nn.GELU(), nn.Linear(width, width), nn.GELU()]
        self.branch = nn.Sequential(*layers, nn.Linear(width, width))
        layers = [nn.Linear(2 + channels, width), nn.GELU(), nn.Linear(width, width), nn.GELU()]
        self.trunk = nn.Sequential(*layers, nn.Linear(width, width))
        self.sensors = OnGrid(nn.Identity(), resolution)

    def forward(self, f: Tensor, *, grid: pdno.Points) -> Tensor:
        """u at the points; the trunk sees the inputs there, too."""
        seen = list[Tensor]()
        self.sensors.network = _Keep(seen)
        self.sensors(f, grid=grid)
        branch = self.branch(seen[0].flatten(1))
        trunk = self.trunk(torch.cat([grid.coordinates.to(f), f.mT], dim=-1))
        return torch.einsum("bk,bpk->bp", branch, trunk)[:, None] / branch.shape[1] ** 0.5


class _Keep(nn.Module):
    def __init__(self, seen: list[Tensor]) -> None:
        super().__init__()
        self.seen = seen

    def forward(self, f: Tensor) -> Tensor:
        """f, which is kept."""
        self.seen.append(f)
        return f


class GINO(nn.Module):
    """neuraloperator's GINO, sample by sample, as its geometry is that of one sample.

    Without torch_scatter and open3d, which are no wheels for CPUs, it loops over points in Python.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        from neuralop.models import GINO as Model

        self.model = Model(
            in_channels=channels, out_channels=1, gno_coord_dim=2, gno_embed_channels=8,
            in_gno_radius=0.06, out_gno_radius=0.09, in_gno_transform_type="nonlinear_kernelonly",
            in_gno_channel_mlp_hidden_layers=[32, 32], out_gno_channel_mlp_hidden_layers=[32, 32],
            fno_in_channels=16, fno_n_modes=(12, 12), fno_hidden_channels=24, fno_n_layers=3,
            gno_use_open3d=False, gno_use_torch_scatter=False,
        )  # fmt: skip
        self.queries = pdno.Grid.cells((16, 16)).points()[None]

    def forward(self, f: Tensor, *, grid: pdno.Points) -> Tensor:
        """u at the points."""
        results = []
        for values, x, there in zip(f, grid.coordinates.to(f), grid.mask, strict=True):
            places = x[there][None]
            u = self.model(
                input_geom=places, latent_queries=self.queries.to(f),
                output_queries=places[0], x=values[:, there].mT[None],
            )  # fmt: skip
            results.append(functional.pad(u[0].mT, (0, len(there) - len(places[0]))))
        return torch.stack(results)


def networks(channels: int) -> dict[str, Callable[[], nn.Module]]:
    """The networks that are compared, by name."""
    small = {"width": 24, "layers": 3, "modes": 6, "padding": 0.25}
    symbol = {"symbol": "classical", "depends_on_x": False, "coordinates": "appended"}
    return {
        "PDNO on points": lambda: pdno.PDNO(2, channels, 1, **small, **symbol),
        "FNO on points": lambda: pdno.FNO(2, channels, 1, **small),
        "PDNO on a grid": lambda: OnGrid(pdno.PDNO(2, channels + 1, 1, **small, **symbol), 32),
        "FNO on a grid": lambda: OnGrid(pdno.FNO(2, channels + 1, 1, **small), 32),
        "DeepONet": lambda: DeepONet(channels),
        "GINO": lambda: GINO(channels),
    }


def datasets(name: str, points: int) -> tuple[pdno.OperatorDataset, ...]:
    """Training, validation and test samples."""
    problem = PROBLEMS[name](samples=TRAIN + 2 * REST, resolution=points)
    samples = [problem.sample(index) for index in range(problem.samples)]
    data = collect(samples, problem.grid(), None, problem.fields, problem.geometry)
    parts = range(TRAIN), range(TRAIN, TRAIN + REST), range(TRAIN + REST, len(data))
    return tuple(map(data.subset, parts))


def compare(
    make: Callable[[], nn.Module],
    data: tuple[pdno.OperatorDataset, ...],
    seconds: float,
    seed: int,
) -> tuple[dict[str, dict[str, float]], int]:
    """Metrics by split, and the number of parameters, of one training within the seconds."""
    train, validation, test = data
    options = {"batch_size": 8, "normalization": "channel", "learning_rate": 2e-3, "save": False}
    part = train.subset(range(40))
    pdno.fit(make(), part.subset(range(8)), epochs=1, **options)  # what is made once
    begun = time.process_time()
    pdno.fit(make(), part, epochs=1, **options)
    epoch = (time.process_time() - begun) * len(train) / len(part)
    epochs = max(2, round(seconds / epoch))
    torch.manual_seed(seed)
    network = make()
    operator = pdno.fit(network, train, epochs=epochs, seed=seed, **options)
    record, steps = operator.training_record, epochs * len(train) // 8
    assert record is not None
    values = {
        "training": {"cpu seconds": record.cpu_seconds, "steps": steps, "epochs": epochs},
        "train": {ERROR: operator.history[-1].train},
        "validation": {ERROR: pdno.evaluate(operator, validation).mean()},
        "test": {ERROR: pdno.evaluate(operator, test).mean()},
    }
    return values, sum(p.numel() for p in network.parameters())


def main() -> None:
    """Print a row for each network and seed, and keep its metrics."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("problem", choices=["poisson-shapes", "elasticity"])
    parser.add_argument("--points", type=int, default=704, choices=[192, 704, 2688])
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    data, path = datasets(chosen.problem, chosen.points), chosen.out / "metrics.csv"
    makers = networks(len(data[0].channels.inputs))
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    metadata = Metadata(
        "scattered-points", chosen.problem, samples=TRAIN, mode="static", commit=commit,
        training_resolution=chosen.points,
    )  # fmt: skip
    for seed, name in itertools.product(chosen.seeds, chosen.only or makers):
        kept = read_metrics(path) if path.is_file() else list[Metric]()
        if any((m.experiment, m.model, m.seed) == (chosen.problem, name, seed) for m in kept):
            continue
        values, parameters = compare(makers[name], data, chosen.seconds, seed)
        common = {"experiment": chosen.problem, "model": name, "resolution": chosen.points}
        common |= {"seed": seed, "parameters": parameters}
        common["seconds"] = values["training"]["cpu seconds"]
        common["metadata"] = replace(metadata, family=name.split()[0])
        new = [
            m for split, part in values.items() for m in make_metrics(part, split=split, **common)
        ]
        chosen.out.mkdir(parents=True, exist_ok=True)
        write_metrics(path, [*kept, *new])
        errors = "  ".join(f"{m.split} {m.value:.4f}" for m in new if m.metric == ERROR)
        print(
            f"{chosen.problem}  {name:22} seed {seed}  {parameters:8,} parameters  {errors}",
            flush=True,
        )


if __name__ == "__main__":
    main()
