"""Zero-shot resolution: trained on a coarse grid, evaluated on finer ones.

    python examples/zero_shot.py [FOLDER]

The operator sees the finer input, so it can beat its interpolated coarse prediction. The initial
values of Burgers' equation are too rough for 32 points here.
"""

import sys
from pathlib import Path

import torch

import pdno
from pdno.figures.style import Figure, figure_style


@figure_style()
def main(folder: Path, epochs: int = 30, finest: int = 128) -> dict[int, tuple[float, float]]:
    """Relative L2 errors by resolution: of the operator there, and of the interpolation."""
    initial, grid = pdno.GaussianField(variance=50.0, tau=5.0, alpha=1.5), pdno.Grid((finest,))
    start = initial.sample(grid, seed=0, indices=range(120))
    end = pdno.solve(pdno.Burgers(viscosity=0.05), start, times=[0.05])[:, 0]
    train, test = pdno.OperatorDataset.from_arrays(start, end, grid).split(test=20)
    coarse = finest // 4
    torch.manual_seed(0)
    model = pdno.PDNO(1, 1, 1, width=8, layers=2, symbol="classical", symbol_hidden=12)
    operator = pdno.fit(model, train.subsample(4), epochs=epochs, learning_rate=1e-2)

    resolutions = [coarse, 2 * coarse, finest]
    found = pdno.evaluate_resolutions(operator, test, coarse, resolutions=resolutions)
    errors = {r: (shot.mean(), plain.mean()) for r, shot, plain in found}
    figure = Figure(figsize=(5.2, 2.8), layout="constrained")
    axes = figure.subplots()
    for k, name in enumerate(("zero-shot", "interpolated")):
        axes.plot(resolutions, [pair[k] for pair in errors.values()], "o-", label=name)
    axes.set(xlabel=f"points (trained on {coarse})", ylabel="relative L2 error")
    axes.set(xticks=resolutions, ylim=(0, 1.3 * max(errors[coarse])))
    axes.legend()
    figure.savefig(folder / "zero_shot.png")
    return errors


if __name__ == "__main__":
    print(main(Path(*sys.argv[1:])))
