"""Plates with holes: learn the stress on meshes that differ from sample to sample.

    python examples/elasticity.py [FOLDER]

Every plate has a random hole and its own mesh, solved with quadratic finite elements.
"""

import sys
from pathlib import Path

import torch

import pdno
from pdno.data.problems import PROBLEMS


def main(folder: Path, samples: int = 120, epochs: int = 12) -> float:
    """Generate, train, and draw a plate that the network has not seen; returns the test error."""
    pdno.generate_dataset(PROBLEMS["elasticity"](samples=samples, resolution=704), folder / "data")
    train, test = pdno.open_dataset(folder / "data").split(test=samples // 6)
    torch.manual_seed(0)
    model = pdno.PDNO(
        2, 1, 1, width=24, layers=3, modes=6, padding=0.25, symbol="classical", depends_on_x=False
    )
    settings = pdno.TrainingSettings(epochs=epochs, batch_size=8, learning_rate=4e-3)
    operator = pdno.fit(model, train, test, settings=settings, normalization="channel")
    operator.plot(test, 0).savefig(folder / "elasticity.png")
    return operator.history[-1].test


if __name__ == "__main__":
    where = Path(*sys.argv[1:])
    where.mkdir(parents=True, exist_ok=True)
    print(f"relative L2 error on unseen plates: {main(where):.4f}")
