"""Functions that are not periodic: padding.

    python examples/non_periodic.py [FOLDER]

u(x) = ∫₀ˣ f is Volterra's map on a box. Fourier modes see the ends 0 and 1 as one point, where u
jumps; `padding=0.25` adds a quarter of the domain as zeros, inside of the network only.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import pdno


def make_data(samples: int = 140, points: int = 65) -> pdno.OperatorDataset:
    """Random cosine series f and their integrals u, on a box with both ends."""
    random, k = np.random.default_rng(0), np.arange(1, 9)[:, None]
    x = np.linspace(0, 1, points)
    coefficients = random.standard_normal((samples, 8)) / k[:, 0]
    f = coefficients @ np.cos(np.pi * k * x)
    u = coefficients @ (np.sin(np.pi * k * x) / (np.pi * k))
    mean = random.standard_normal((samples, 1))
    grid = pdno.Grid((points,), periodic=False)
    return pdno.OperatorDataset.from_arrays((f + mean)[:, None], (u + mean * x)[:, None], grid)


def main(folder: Path, epochs: int = 30) -> dict[float, float]:
    """Relative L2 errors by padding."""
    train, test = make_data().split(test=20)
    f, u = test.batch()
    figure = Figure(figsize=(6.4, 2.6), layout="constrained")
    axes, errors = figure.subplots(), {}
    for padding in (0.0, 0.25):
        torch.manual_seed(0)
        sizes = {"width": 8, "layers": 2, "modes": 16, "symbol_hidden": 12}
        model = pdno.PDNO(1, 1, 1, **sizes, padding=padding)
        run = pdno.fit(model, train, test, epochs=epochs, learning_rate=1e-2)
        errors[padding] = pdno.evaluate(run.model, test).mean()
        miss = (run.model.predict(f) - u).abs().mean(dim=(0, 1))
        label = f"padding {padding:g}: relative L2 {errors[padding]:.4f}"
        axes.semilogy(test.grid.axes()[0].numpy(), miss.numpy(), label=label)
    axes.set(xlabel="x", ylabel="mean error at x")
    figure.legend(loc="outside upper center", ncols=2)
    figure.savefig(folder / "non_periodic.png")
    return errors


if __name__ == "__main__":
    print(main(Path(*sys.argv[1:])))
