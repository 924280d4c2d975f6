"""Operators on scattered points at equal CPU seconds: on points, on grids, DeepONet, GINO.

    python tools/compare_points.py poisson-shapes --samples 160 --seconds 60 --seeds 0

Each network is timed for one epoch and then trained for as many epochs as fit into the budget of
CPU seconds. Errors are relative L2 over the domain, with the weights of the mesh, on test samples
whose domains were never seen.
"""

import argparse
import itertools
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

import pdno
from pdno.data.generate import collect
from pdno.data.problems import PROBLEMS

TEST = 40


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
    """neuraloperator's GINO, sample by sample, as its geometry is that of one sample."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        from neuralop.models import GINO as Model

        self.model = Model(
            in_channels=channels, out_channels=1, gno_coord_dim=2, in_gno_radius=0.08,
            out_gno_radius=0.08, fno_n_modes=(8, 8), fno_hidden_channels=16, fno_n_layers=3,
            fno_in_channels=16, in_gno_transform_type="nonlinear", gno_use_open3d=False, gno_use_torch_scatter=False,
        )  # fmt: skip
        self.queries = pdno.Grid.cells((24, 24)).points()[None]

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
    small = {"width": 24, "layers": 3, "modes": 6}
    low_rank = {"symbol": "low-rank", "rank": 2, "symbol_hidden": 16, "padding": 0.25}
    return {
        "PDNO on points": lambda: pdno.PDNO(2, channels, 1, **small, **low_rank),
        "FNO on points": lambda: pdno.FNO(2, channels, 1, 24, 3, 6, padding=0.25),
        "PDNO on a 32² grid": lambda: OnGrid(
            pdno.PDNO(2, channels + 1, 1, **small, **low_rank), 32
        ),
        "FNO on a 32² grid": lambda: OnGrid(
            pdno.FNO(2, channels + 1, 1, 24, 3, 6, padding=0.25), 32
        ),
        "DeepONet, 16² sensors": lambda: DeepONet(channels),
        "GINO": lambda: GINO(channels),
    }


def main() -> None:
    """Print a row for each network and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problem", choices=["poisson-shapes", "elasticity"])
    parser.add_argument("--samples", type=int, default=160)
    parser.add_argument("--resolution", type=int, default=704)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--only", nargs="+")
    chosen = parser.parse_args()
    problem = PROBLEMS[chosen.problem](samples=chosen.samples + TEST, resolution=chosen.resolution)
    samples = [problem.sample(index) for index in range(problem.samples)]
    data = collect(samples, problem.grid(), None, problem.fields, problem.geometry)
    train, test = data.split(test=TEST)
    made = networks(len(data.channels.inputs))
    for name, seed in itertools.product(chosen.only or made, chosen.seeds):
        options = {"batch_size": 8, "normalization": "channel", "learning_rate": 2e-3}
        torch.manual_seed(seed)
        pdno.fit(made[name](), train.subset(range(16)), epochs=1, save=False, **options)
        begun = time.process_time()
        pdno.fit(made[name](), train, epochs=1, save=False, **options)
        each = time.process_time() - begun
        epochs = max(2, round(chosen.seconds / each))
        torch.manual_seed(seed)
        network = made[name]()
        operator = pdno.fit(
            network, train, test, epochs=epochs, seed=seed, evaluate_every=epochs, **options
        )
        record, last = operator.training_record, operator.history[-1]
        assert record is not None
        count = sum(p.numel() for p in network.parameters())
        print(
            f"{chosen.problem}  {name:22} {count:8,} parameters  {epochs:4} epochs  "
            f"{record.cpu_seconds:5.0f} CPU s  "
            f"seed {seed}  error {last.test:.4f}  train {last.train:.4f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
