"""Certificates: which trained symbols are in Hörmander's class S^m?

    python examples/certificate.py [FOLDER]

Two networks learn the heat operator. A classical symbol is in its class for all weights. For a
symbol network of the paper, the search finds a counterexample.
"""

import sys
from pathlib import Path

import torch

import pdno


def main(folder: Path, epochs: int = 20) -> dict[str, pdno.theory.Certificate]:
    """The certificates of the first layers."""
    heat, grid = pdno.Heat(diffusivity=0.05), pdno.Grid((32,))
    train, test = pdno.generate(heat, grid, samples=24, times=[0.3], seed=0).split(test=4)
    certificates = {}
    for symbol in ("classical", "network"):
        torch.manual_seed(0)
        model = pdno.PDNO(1, 1, 1, width=4, layers=2, modes=8, symbol_hidden=8, symbol=symbol)
        pdno.fit(model, train, test, epochs=epochs, batch_size=5)
        certificates[symbol] = pdno.certify(model.operators[0], order=0)
    certificates["network"].plot().savefig(folder / "certificate.png", dpi=80)
    return certificates


if __name__ == "__main__":
    for kind, certificate in main(Path(*sys.argv[1:])).items():
        print(f"{kind}: {certificate}")
