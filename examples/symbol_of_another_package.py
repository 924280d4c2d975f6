"""The symbol of a third-party network: what did an FNO learn?

    python examples/symbol_of_another_package.py [FOLDER]

An FNO, neuraloperator's if installed, learns the heat operator, whose symbol is e^{-4π²ξ²ct}.
"""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import pdno
from pdno.figures.style import Figure, figure_style

C, T, MODES, POINTS, GRID = 0.002, 1.0, 12, 32, pdno.Grid((32,))


class FourierLayer(nn.Module):
    """W + R in plain torch, R one complex matrix per mode."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.local = nn.Conv1d(inputs, outputs, 1)
        self.table = nn.Parameter(torch.randn(outputs, inputs, MODES, 2) / (inputs * outputs))

    def forward(self, f: Tensor) -> Tensor:
        modes, table = torch.fft.rfft(f)[..., :MODES], torch.view_as_complex(self.table)
        return self.local(f) + torch.fft.irfft(torch.einsum("oim,bim->bom", table, modes), POINTS)


@figure_style()
def main(folder: Path, network: nn.Module, epochs: int = 30) -> float:
    """Train, extract and return the largest distance to the true symbol, for |ξ| < 12."""
    initial = pdno.GaussianField(1.0, tau=1.0, alpha=0.5, mean_deviation=1.0)  # rough: all modes
    data = pdno.generate(pdno.Heat(C), GRID, samples=60, times=[T], distribution=initial)
    pdno.fit(network, [(f, u[0]) for f, u in data], epochs=epochs, batch_size=8)
    symbol = pdno.extract_symbol(network, GRID, state=torch.zeros(1, 1, POINTS), modes=MODES)
    xi, learned = symbol.xi[:, 0].double(), symbol.mean_over_x()[0, 0]
    true = torch.exp(-4 * torch.pi**2 * xi**2 * C * T)
    axes = (figure := Figure(figsize=(5.2, 2.8), layout="constrained")).subplots()
    axes.plot(xi.numpy(), true.numpy(), label="heat operator")
    parts = torch.view_as_real(learned).numpy()
    axes.plot(xi.numpy(), parts, "o", label=["learned, real part", "learned, imaginary part"])
    axes.set(xlabel="ξ", ylabel="a(ξ)", title=f"Symbol of {type(network).__name__}")
    axes.legend()
    figure.savefig(folder / "symbol_of_another_package.png")
    return float((learned - true).abs().max())


if __name__ == "__main__":
    torch.manual_seed(0)
    try:
        from neuralop.models import FNO

        other = FNO((2 * MODES,), 1, 1, hidden_channels=8, n_layers=2, positional_embedding=None)
    except ImportError:
        other = nn.Sequential(FourierLayer(1, 8), nn.GELU(), FourierLayer(8, 1))
    print(f"largest distance to the symbol: {main(Path(*sys.argv[1:]), other):.3f}")
