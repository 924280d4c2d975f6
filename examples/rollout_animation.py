"""A rollout as an animation: the network is applied to its own predictions.

    python examples/rollout_animation.py [FOLDER]

The network learns one step of Burgers' equation from neighbouring frames with a little noise.
Notebooks play `operator.animate(test)`; here it is saved as a GIF. A name ending in .html
adds buttons.
"""

import sys
from pathlib import Path

import torch

import pdno


def main(folder: Path, epochs: int = 6, frames: int = 9) -> float:
    """Relative L2 error of all frames."""
    initial, grid = pdno.GaussianField(variance=625.0, tau=5.0, alpha=2.0), pdno.Grid((64,))
    times = [0.1 * (frame + 1) for frame in range(frames)]
    start = initial.sample(grid, seed=0, indices=range(108))
    u = pdno.solve(pdno.Burgers(viscosity=0.02), start, times)
    data = pdno.OperatorDataset.from_arrays(start, u, grid, times)
    train, test = data.window(inputs=1).split(test=8)
    torch.manual_seed(0)
    model = pdno.PDNO(1, 1, 1, width=8, layers=2, modes=16, symbol_hidden=12)
    options = {"task": pdno.Markov(noise=0.01), "learning_rate": 1e-2, "epochs": epochs}
    operator = pdno.fit(model, train, test, **options, normalization="channel")
    animation = operator.animate(test, 0)
    animation.figure.set_size_inches(6.0, 2.0)
    animation.save(folder / "rollout_animation.gif")
    return pdno.evaluate(operator, test).mean()


if __name__ == "__main__":
    print(f"relative L2 error of the rollout: {main(Path(*sys.argv[1:])):.4f}")
