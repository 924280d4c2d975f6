"""Fine-tuning: a trained operator learns other permeabilities, and another resolution.

    python examples/fine_tuning.py [FOLDER]

`results/operators/darcy` was trained on 32 x 32 points for permeabilities 3 and 12. It is
fine-tuned on few samples and compared with the same network trained from scratch.
"""

import sys
from pathlib import Path

import torch

import pdno
from pdno.figures.style import Figure, figure_style

TRAINED = Path(__file__).parents[1] / "results" / "operators" / "darcy"
CASES = {
    "permeabilities 2 and 20": (2.0, 20.0, 32),
    "24 x 24 points": (3.0, 12.0, 24),
    "16 x 16 points": (3.0, 12.0, 16),
}
Errors = dict[str, dict[str, float]]


def samples(low: float, high: float, points: int, count: int) -> pdno.OperatorDataset:
    """Darcy flow through two phases; the seed is none of the training."""
    gaussian = pdno.GaussianField(9.0, tau=3.0, alpha=2.0, boundary="neumann")
    medium = pdno.TwoPhaseField(gaussian, low=low, high=high)
    grid = pdno.Grid.cells((points, points))
    return pdno.generate(pdno.Darcy(), grid, samples=count, distribution=medium, seed=7)


@figure_style()
def main(folder: Path, train: int = 40, test: int = 20, epochs: int = 10) -> Errors:
    """Relative L2 errors before, after, and from scratch in as many steps."""
    operator, errors = pdno.load(TRAINED), dict[str, dict[str, float]]()
    for name, (low, high, points) in CASES.items():
        data, new = samples(low, high, points, train + test).split(test=test)
        torch.manual_seed(0)
        network = pdno.PDNO(2, 1, 1, width=20, modes=12, padding=0.25, symbol="classical")
        way = {"epochs": epochs, "batch_size": 10}
        scratch = pdno.fit(network, data, normalization="pointwise", **way)
        tuned = pdno.fit(operator, data, learning_rate=1e-3, matrix_learning_rate=1e-2, **way)
        models = {"before": operator, "fine-tuned": tuned, "from scratch": scratch}
        errors[name] = {label: pdno.evaluate(m, new).mean() for label, m in models.items()}

    figure = Figure(figsize=(7.8, 2.6), layout="constrained")
    for axes, (name, found) in zip(figure.subplots(1, len(CASES)), errors.items(), strict=True):
        axes.bar(list(found), list(found.values()), color=["0.7", "C0", "C1"])
        axes.set(title=name, ylabel="relative L2 error")
        axes.tick_params(axis="x", labelsize=7)
    figure.savefig(folder / "fine_tuning.png")
    return errors


if __name__ == "__main__":
    for case, measured in main(Path(*sys.argv[1:])).items():
        print(case, *(f"{label} {error:.4f}" for label, error in measured.items()), sep=", ")
