"""A new equation, Kuramoto-Sivashinsky u_t = -u_xx - u_xxxx - u u_x, and its chaotic solutions.

python examples/new_equation.py [FOLDER]
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

import pdno
from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
from pdno.figures.style import Figure, figure_style
from pdno.spectral.calculus import band_limits
from pdno.spectral.fourier import inverse, transform


@dataclass(frozen=True)
class KuramotoSivashinsky(EvolutionEquation):
    period: float = 22.0
    dim = 1

    def discretise(self, grid: pdno.Grid, device: torch.device | None = None) -> Semilinear:
        """L(ξ) = k² - k⁴ and N(û) = -ik/2 F[u²], k = 2πξ/L, on the modes |ξ| < N/3."""
        modes = band_limits(grid)
        k = grid.modes(modes, device=device)[:, 0].double() * (2 * torch.pi / self.period)

        def nonlinear(u_hat: Tensor) -> Tensor:
            return -0.5j * k * transform(inverse(u_hat, grid.shape, modes).square(), 1, modes)

        def rates(u_hat: Tensor) -> FlowRates:
            both = inverse(torch.stack([u_hat, 1j * k * u_hat]), grid.shape, modes)
            speed, slope = both.abs().flatten(2).amax(dim=2)
            return FlowRates(speed * k[-1], speed.square(), slope + 0.25)  # max (k² - k⁴) = 1/4

        return Semilinear(k**2 - k**4, modes, nonlinear, rates)


@figure_style()
def main(folder: Path, frames: int = 80) -> Tensor:
    """Two solutions from nearly the same start, (2, frames, 1, 64)."""
    initial = pdno.GaussianField(variance=625.0, tau=5.0, alpha=2.0)
    start = initial.sample(pdno.Grid((64,)), seed=0, indices=[0])
    times = [2.0 * (frame + 1) for frame in range(frames)]
    u = pdno.solve(KuramotoSivashinsky(), torch.cat([start, 1.01 * start]), times)
    figure = Figure(figsize=(7.2, 2.6), layout="constrained", dpi=70)
    shown = {"vmin": -3, "vmax": 3, "cmap": "RdBu_r", "aspect": "auto", "origin": "lower"}
    fields = {"u": u[0], "from 1.01 u(0)": u[1], "difference": u[1] - u[0]}
    for axes, name in zip(figure.subplots(1, 3), fields, strict=True):
        axes.imshow(fields[name][:, 0].numpy(), extent=(0, 22, 0, times[-1]), **shown)
        axes.set(title=name, xlabel="x", ylabel="t")
    figure.savefig(folder / "new_equation.png")
    return u


if __name__ == "__main__":
    main(Path(*sys.argv[1:]))
