"""A family of equations: the viscosity of Burgers' equation is an input.

    python examples/family_of_equations.py [FOLDER]

The symbols a(x, ξ; ν) are trained on random viscosities and tested on three others.
"""

import sys
from pathlib import Path

import torch

import pdno
from pdno.figures.style import Figure, figure_style

GRID, TIMES = pdno.Grid((64,)), [0.2]
START = pdno.GaussianField(variance=625.0, tau=5.0, alpha=2.0)


@figure_style()
def main(folder: Path, epochs: int = 30) -> dict[float, float]:
    """Relative L2 errors by viscosity."""
    ranges = {"viscosity": (0.01, 0.2)}
    train = pdno.generate(
        pdno.Burgers(), GRID, samples=160, times=TIMES, distribution=START, seed=0, vary=ranges
    )
    torch.manual_seed(0)
    sizes = {"width": 12, "layers": 2, "modes": 16, "symbol_hidden": 12}
    model = pdno.PDNO(1, in_channels=1, out_channels=1, pde_parameters=1, **sizes)
    operator = pdno.fit(model, train, epochs=epochs, learning_rate=1e-2, normalization="channel")

    start = START.sample(GRID, seed=1, indices=[0])
    figure, errors = Figure(figsize=(7.2, 2.4), layout="constrained"), {}
    panels = figure.subplots(1, 3, sharey=True)
    for axes, viscosity in zip(panels, (0.015, 0.05, 0.15), strict=True):
        u = pdno.solve(pdno.Burgers(viscosity), start, times=TIMES)
        v = operator.predict(start, pde_parameters={"viscosity": viscosity}, times=TIMES)
        errors[viscosity] = float((u - v).norm() / u.norm())
        axes.plot(GRID.axes()[0].numpy(), u.flatten().numpy(), label="solver")
        axes.plot(GRID.axes()[0].numpy(), v.flatten().numpy(), "--", label="network")
        axes.set(title=f"ν = {viscosity}, error {errors[viscosity]:.3f}", xlabel="x")
    axes.legend()
    panels[0].set_ylabel("velocity u")
    figure.savefig(folder / "family_of_equations.png")
    return errors


if __name__ == "__main__":
    print(main(Path(*sys.argv[1:])))
