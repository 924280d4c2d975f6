"""Discover an equation from five noisy trajectories: terms, coefficients with error bars, symbol.

    python examples/discover_equation.py [FOLDER]

The data solve u_t = -u_xx - u_xxxx - u u_x, with 1 % noise. The library has ten terms. The
discovered equation predicts unseen states beyond the times of the data.
"""

import sys
from pathlib import Path

import torch

import pdno
from pdno.figures.style import Figure, figure_style

EXACT = pdno.Generator(["u_xx", "u_xxxx", "u u_x"], [-1.0, -1.0, -1.0], period=22.0)
SMOOTH = pdno.GaussianField(variance=4e6, tau=7.0, alpha=4.0)


@figure_style()
def main(folder: Path, frames: int = 8) -> pdno.Discovery:
    """Find the equation, draw it, and print it."""
    times = [2.0 * k for k in range(frames + 1)]
    u = pdno.solve(EXACT, SMOOTH.sample(pdno.Grid((64,)), seed=0, indices=range(5)), times)
    noise = torch.randn(u.shape, generator=torch.Generator().manual_seed(0), dtype=u.dtype)
    measured = u + 0.01 * u.std() * noise
    discovery = pdno.discover(measured, times, period=22.0)
    print(discovery)

    xi = torch.arange(13)[:, None]
    learned, bars = discovery.generator.symbol_with_bars(xi)
    exact, _ = EXACT.symbol_with_bars(xi)
    start = SMOOTH.sample(pdno.Grid((64,)), seed=0, indices=[9])
    later = [4 * t for t in times]
    truth, prediction = (
        pdno.solve(e, start, later)[0, :, 0] for e in (EXACT, discovery.generator)
    )

    figure = Figure(figsize=(7.2, 2.6), layout="constrained", dpi=70)
    first, *others = figure.subplots(1, 3)
    first.plot(xi, exact.real, "k--", label="exact")
    first.errorbar(xi[:, 0], learned.real, bars.real, fmt="o", markersize=3, label="learned")
    first.axvspan(discovery.reach, 12, color="0.9")
    first.set(title="A(ξ), grey: not measured", xlabel="ξ")
    first.legend()
    shown = {"vmin": -3, "vmax": 3, "cmap": "RdBu_r", "aspect": "auto", "origin": "lower"}
    for axes, name, field in zip(others, ("exact", "learned"), (truth, prediction), strict=True):
        axes.imshow(field.numpy(), extent=(0, 22, 0, later[-1]), **shown)
        axes.axhline(times[-1], color="k", linestyle=":")
        axes.set(title=name, xlabel="x", ylabel="t")
    figure.savefig(folder / "discover_equation.png")
    return discovery


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
