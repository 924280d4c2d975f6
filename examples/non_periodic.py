"""Non-periodic functions: coordinates, padding and reflections compared.

    python examples/non_periodic.py [FOLDER [darcy]]

The data are Volterra's map u(x) = ∫₀ˣ f, or Darcy flow k -> u with u = 0 on the boundary.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

import pdno
from pdno.figures.style import Figure, figure_style

WAYS: dict[str, dict[str, Any]] = {
    "default": {},
    "no coordinates": {"coordinates": "none"},
    "periodic coordinates": {"coordinates": "periodic"},
    "padding 0.25": {"padding": 0.25},
    "even extension": {"padding": "even"},
    "odd extension": {"padding": "odd"},
}


def make_data(name: str) -> pdno.OperatorDataset:
    """Random cosine series and their integrals, or permeabilities and pressures."""
    if name == "darcy":
        return pdno.generate(pdno.Darcy(), pdno.Grid.cells((16, 16)), samples=340)
    random, k, x = np.random.default_rng(0), np.arange(1, 9)[:, None], np.linspace(0, 1, 65)
    mean, waves = random.standard_normal((140, 1)), random.standard_normal((140, 8)) / k[:, 0]
    f = mean + waves @ np.cos(np.pi * k * x)
    u = mean * x + waves @ (np.sin(np.pi * k * x) / (np.pi * k))
    return pdno.OperatorDataset.from_arrays(f[:, None], u[:, None], pdno.Grid((65,), False))


@figure_style()
def main(folder: Path, name: str = "volterra", epochs: int = 30) -> dict[str, float]:
    """Relative L2 errors of each option."""
    (train, test), errors = make_data(name).split(test=40 if name == "darcy" else 20), {}
    for way, options in WAYS.items():
        torch.manual_seed(0)
        modes = (5 if name == "darcy" else 16) * (2 if "extension" in way else 1)
        sizes = {"width": 8, "layers": 2, "modes": modes, **options}
        model = pdno.PDNO(train.grid.dim, 1, 1, symbol_hidden=12, **sizes)
        operator = pdno.fit(
            model, train, epochs=epochs, learning_rate=1e-2, normalization="channel"
        )
        errors[way] = pdno.evaluate(operator, test).mean()
    axes = (figure := Figure(figsize=(6.4, 2.4), layout="constrained")).subplots()
    axes.barh(list(errors), list(errors.values()))
    axes.set(xlabel="relative L2 error on test samples")
    figure.savefig(folder / "non_periodic.png")
    return errors


if __name__ == "__main__":
    print(main(Path(*sys.argv[1:2]), *sys.argv[2:]))
