"""A pseudo-differential layer inside your own network: the bottom of a small UNet.

    python examples/layer_in_unet.py [FOLDER]

Convolutions see a neighbourhood, the layer the whole domain. The target u = (1 - Δ)⁻¹ f depends on
f everywhere.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import pdno


class UNet(nn.Module):
    """(B, 1, N, N) -> (B, 1, N, N), with K_a at half the resolution."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        same = {"padding": 1, "padding_mode": "circular"}
        self.first = nn.Sequential(nn.Conv2d(1, width, 3, **same), nn.GELU())
        self.bottom = pdno.PDIO(dim=2, in_channels=width, out_channels=width, modes=6)
        self.last = nn.Conv2d(2 * width, 1, 3, **same)

    def forward(self, f: Tensor) -> Tensor:
        """Fine features and coarse ones, after K_a, to u."""
        fine = self.first(f)
        coarse = nn.functional.avg_pool2d(fine, 2)
        coarse = nn.functional.interpolate(coarse + self.bottom(coarse), scale_factor=2)
        return self.last(torch.cat([fine, coarse], dim=1))


def main(folder: Path, epochs: int = 30) -> float:
    """Relative L2 error on test samples."""
    initial, grid = pdno.GaussianField(variance=2500.0, tau=7.0, alpha=2.5), pdno.Grid((24, 24))
    f = initial.sample(grid, seed=0, indices=range(80))
    u = pdno.apply_symbol(pdno.symbols.Resolvent(), f)  # (1 - Δ)⁻¹ f
    train, test = pdno.OperatorDataset.from_arrays(f, u, grid).split(test=16)
    torch.manual_seed(0)
    operator = pdno.fit(UNet(), train, test, epochs=epochs, batch_size=8, normalization="channel")
    operator.plot(test, 0).savefig(folder / "layer_in_unet.png", dpi=80)
    return pdno.evaluate(operator, test).mean()


if __name__ == "__main__":
    print(f"relative L2 error: {main(Path(*sys.argv[1:])):.4f}")
