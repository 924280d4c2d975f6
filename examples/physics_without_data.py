"""Physics without data: operators trained on the residual of an equation.

    python examples/physics_without_data.py [FOLDER]

Solution operators of heat and Burgers, learned from solutions, from the residual
∂u/∂t - L u - N(u) alone, and from both, and tested on unseen initial values.
"""

import sys
import warnings
from pathlib import Path

import torch

import pdno
from pdno.figures.style import Figure, figure_style
from pdno.training.losses import RelativeError, Residual

GRID = pdno.Grid((64,))
START = pdno.GaussianField(variance=625.0, tau=5.0, alpha=2.0)
TIMES = [0.1, 0.2, 0.3, 0.4, 0.5]
EQUATIONS = {"heat": pdno.Heat(0.02), "burgers": pdno.Burgers(0.02)}


def make_network(name: str) -> torch.nn.Module:
    """One operator e^{tA(ξ)} for heat, a small PDNO with symbols a(ξ, t) for Burgers."""
    torch.manual_seed(0)
    symbols = {"modes": 16, "depends_on_x": False, "takes_time": True}
    if name == "heat":
        return pdno.PDIO(1, 1, 1, symbol="classical", order=2.0, symbol_hidden=16, **symbols)
    return pdno.PDNO(1, 1, 1, width=12, layers=3, coordinates="none", symbol="trunk", **symbols)


@figure_style()
def main(folder: Path, samples: int = 64, epochs: int = 60) -> dict[tuple[str, str], float]:
    """Relative L2 errors by equation and loss."""
    warnings.filterwarnings("ignore", ".*torch.jit.script.*")  # of torch.func itself
    errors = {}
    for name, equation in EQUATIONS.items():
        train = pdno.generate(
            equation, GRID, samples=samples, times=TIMES, distribution=START, seed=0
        )
        test = pdno.generate(equation, GRID, samples=20, times=TIMES, distribution=START, seed=1)
        data, physics = RelativeError(), Residual(equation)
        losses = {"data": data, "residual": physics, "both": data + 0.5 * physics}
        way = {"task": pdno.OneShot(span=0.5), "epochs": epochs, "learning_rate": 5e-3}
        for words, loss in losses.items():
            operator = pdno.fit(make_network(name), train, loss=loss, **way)
            errors[name, words] = pdno.evaluate(operator, test).mean()
    figure = Figure(figsize=(6.4, 2.4), layout="constrained")
    axes = figure.subplots()
    axes.barh([", ".join(key) for key in errors], list(errors.values()))
    axes.set(xlabel="relative L2 error on unseen initial values", xscale="log")
    figure.savefig(folder / "physics_without_data.png")
    return errors


if __name__ == "__main__":
    print(main(Path(*sys.argv[1:])))
