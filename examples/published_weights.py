"""The authors' published weights on trajectories of our Navier-Stokes solver.

    python examples/published_weights.py [WEIGHTS [SAMPLES [FOLDER]]]

The weights are for viscosity 1e-5: ten frames of vorticity (t = 1..10) to the next one, applied
until t = 20. The paper reports 0.1093, the mean relative L2 error of the predicted frames, on its
own 200 trajectories. Without WEIGHTS the network is random.
"""

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import pdno
from pdno.data.problems import NavierStokesProblem
from pdno.evaluation.evaluate import Evaluation
from pdno.training.trained_operator import TrainedOperator

NAMES = {"lift": "fc0", "project_hidden": "fc1", "project": "fc2", "operators.": "conv"}
NAMES |= {"symbol.real": "net_real", "symbol.imaginary": "net_imag", "symbol.space": "net_out"}


def random_weights() -> dict[str, Tensor]:
    """A state dict of the published network, with random numbers."""
    state = dict(pdno.PDNO(dim=2, in_channels=10, out_channels=1).named_parameters())
    for ours, theirs in (NAMES | {"locals.": "w"}).items():
        state = {name.replace(ours, theirs): value for name, value in state.items()}
    return state


def make_trajectories(samples: int, folder: Path, points: int = 64) -> pdno.OperatorDataset:
    """Trajectories solved on twice as many points, as ten frames in and ten out."""
    sizes = {"samples": samples, "resolution": points, "solver_resolution": 2 * points}
    pdno.generate_dataset(NavierStokesProblem(viscosity=1e-5, final_time=20, **sizes), folder)
    return pdno.open_dataset(folder).window(inputs=10)


@torch.no_grad()
def measure(network: nn.Module, data: pdno.OperatorDataset, picture: Path) -> Evaluation:
    """The errors of the rollouts, of which the first one is drawn."""
    operator = TrainedOperator(network, pdno.Rollout())
    operator.plot(data, 0).savefig(picture, dpi=60)
    return pdno.evaluate(operator, data, batch_size=8)


def main(weights: str = "", samples: str = "64", folder: str = "", points: int = 64) -> float:
    """Generate, predict, plot, print."""
    network = pdno.load_published(weights or random_weights(), resolution=64)
    with tempfile.TemporaryDirectory() as temporary:
        data = make_trajectories(int(samples), Path(temporary), points)
        found = measure(network, data, Path(folder) / "published_weights.png")
    print(f"relative L2 error of {samples} trajectories: {found.mean():.4f} (paper: 0.1093)")
    return found.mean()


if __name__ == "__main__":
    main(*sys.argv[1:])
