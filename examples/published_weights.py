"""The authors' published weights, fed with trajectories of our own Navier-Stokes solver.

    python examples/published_weights.py WEIGHTS [SAMPLES]

The weights are for viscosity 1e-5: ten frames of vorticity (t = 1..10) to the next one, and then
the predictions are fed back until t = 20. The paper reports 0.1093, the mean relative L2 error of
the whole predicted block, on 200 trajectories of its own.
"""

__all__ = ["main", "make_trajectories", "measure"]

import sys
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

import pdno
from pdno.data.problems import NavierStokesProblem

INPUT_FRAMES = 10
BATCH = 8


def make_trajectories(samples: int, folder: Path, *, workers: int = 2) -> pdno.OperatorDataset:
    """Trajectories on 64 x 64 points, solved on 128 x 128, as ten frames in and ten out."""
    problem = NavierStokesProblem(
        samples=samples,
        viscosity=1e-5,
        resolution=64,
        solver_resolution=128,
        final_time=2 * INPUT_FRAMES,
        seed=0,
    )
    pdno.generate_dataset(problem, folder, workers=workers)
    return pdno.open_dataset(folder).window(inputs=INPUT_FRAMES)


@torch.no_grad()
def measure(
    network: nn.Module, data: pdno.OperatorDataset, *, transposed: bool = False
) -> tuple[float, list[float]]:
    """Mean relative L2 error of the whole block, and of each of its frames.

    Arguments:
        network: The published weights.
        data: Windows of trajectories.
        transposed: Whether to swap the two axes of space, which is no symmetry of the flow.
    """
    predicted, true = [], []
    for first in range(0, len(data), BATCH):
        window, target = data.batch(range(first, min(first + BATCH, len(data))))
        if transposed:
            window, target = window.mT, target.mT
        predicted.append(pdno.rollout(network, window, steps=target.shape[1]))
        true.append(target)
    block, truth = torch.cat(predicted), torch.cat(true)
    steps = _relative(block.flatten(2), truth.flatten(2)).mean(dim=0)
    return _relative(block.flatten(1), truth.flatten(1)).mean().item(), steps.tolist()


def _relative(predicted: Tensor, true: Tensor) -> Tensor:
    return (predicted - true).norm(dim=-1) / true.norm(dim=-1)


def main(weights: str, samples: str = "64") -> float:
    """Generate, predict, print."""
    network = pdno.load_published(weights, resolution=64)
    with tempfile.TemporaryDirectory() as folder:
        error, steps = measure(network, make_trajectories(int(samples), Path(folder)))
    print(f"relative L2 error of {samples} trajectories: {error:.4f} (paper: 0.1093)")
    for t, step in enumerate(steps, start=INPUT_FRAMES + 1):
        print(f"  t = {t}: {step:.4f}")
    return error


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
