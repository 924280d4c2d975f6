"""A family of equations: the viscosity of Burgers' equation is an input.

    python examples/family_of_equations.py [FOLDER]

A parameter of the equation is one more channel, constant in x. The network is trained on random
viscosities and then asked about three others, for one and the same initial value.
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure
from torch import Tensor

import pdno

GRID = pdno.Grid((64,))
LAW = pdno.GaussianField(variance=625.0, tau=5.0, alpha=2.0)


def with_viscosity(start: Tensor, viscosity: float) -> Tensor:
    """(B, 1, N) -> (B, 2, N); the logarithm, because viscosities differ by factors."""
    return torch.cat([start, torch.full_like(start, viscosity).log()], dim=1)


def solve(start: Tensor, viscosity: float) -> Tensor:
    """u at t = 0.2, (B, 1, N) -> (B, 1, N)."""
    return pdno.solve(pdno.Burgers(viscosity=viscosity), start, times=[0.2])[:, 0]


def main(folder: Path, epochs: int = 30) -> dict[float, float]:
    """Relative L2 errors by viscosity."""
    viscosities = torch.logspace(-2, -0.7, 16).tolist()
    starts = LAW.sample(GRID, seed=0, indices=range(10 * 16)).split(10)
    pairs = list(zip(starts, viscosities, strict=True))
    inputs = torch.cat([with_viscosity(*pair) for pair in pairs])
    outputs = torch.cat([solve(*pair) for pair in pairs])
    train = pdno.OperatorDataset.from_arrays(inputs, outputs, GRID)
    torch.manual_seed(0)
    sizes = {"width": 12, "layers": 2, "modes": 16, "symbol_hidden": 12}
    model = pdno.PDNO(1, in_channels=2, out_channels=1, **sizes)
    run = pdno.fit(model, train, epochs=epochs, learning_rate=1e-2, normalization="channel")

    start = LAW.sample(GRID, seed=1, indices=[0])
    figure, errors = Figure(figsize=(7.2, 2.4), layout="constrained"), {}
    panels = figure.subplots(1, 3, sharey=True)
    for axes, viscosity in zip(panels, (0.015, 0.05, 0.15), strict=True):
        u, v = solve(start, viscosity), run.model.predict(with_viscosity(start, viscosity))
        errors[viscosity] = float((u - v).norm() / u.norm())
        axes.plot(GRID.axes()[0].numpy(), u[0, 0].numpy(), label="solver")
        axes.plot(GRID.axes()[0].numpy(), v[0, 0].numpy(), "--", label="network")
        axes.set(title=f"ν = {viscosity}, error {errors[viscosity]:.3f}", xlabel="x")
    axes.legend()
    figure.savefig(folder / "family_of_equations.png")
    return errors


if __name__ == "__main__":
    print(main(Path(*sys.argv[1:])))
