"""How exact our flows are: errors of the solver's schemes on grids, against a far finer grid.

    python tools/truth.py [--viscosity 1e-5] [--final-time 20] [--samples 2] [--reference 384]

Samples of the Navier-Stokes problem are solved with both schemes on several grids, and on the
reference grid by a smooth filter in float64. Printed are relative L2 errors at the stored points,
over the frames after t = 10 (a benchmark's targets), at the first and at the last of them, as
means over the samples, and the CPU seconds of a flow on one thread.
"""

import argparse
import time

import torch
from torch import Tensor

from pdno.data.problems import NavierStokesProblem
from pdno.equations.base import Scheme
from pdno.equations.evolution import NavierStokes
from pdno.solvers.solve import solve
from pdno.spectral.metrics import relative_l2

STORED, START = 64, 10
GRIDS = (64, 128, 192, 256)


def solved(problem: NavierStokesProblem, index: int, scheme: Scheme | None = None) -> Tensor:
    """The frames (T, N, N) of a sample at the stored points, by its scheme or another."""
    distribution, equation = problem.physics()
    if scheme is not None:
        equation = NavierStokes(problem.viscosity, problem.forcing, scheme)
    first = distribution.sample(problem.solver_grid(), seed=problem.seed, indices=[index])
    every = problem.solver_points // STORED
    return solve(equation, first, problem.times)[0, :, 0, ::every, ::every].double()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--viscosity", type=float, default=1e-5)
    parser.add_argument("--forcing", type=float, default=0.1)
    parser.add_argument("--final-time", type=int, default=20)
    parser.add_argument("--samples", type=int, default=2)
    parser.add_argument("--reference", type=int, default=384)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    base = NavierStokesProblem(
        viscosity=arguments.viscosity,
        forcing=arguments.forcing,
        final_time=arguments.final_time,
        resolution=STORED,
        solver_resolution=arguments.reference,
        seed=10_000,
    )
    indices, finest = range(arguments.samples), Scheme("smooth", 2.0, "double")
    truth = torch.stack([solved(base, index, finest) for index in indices])
    print(f"{'scheme, grid':22}{'all frames':>12}{'first':>12}{'last':>12}{'CPU seconds':>14}")
    for scheme in base.schemes:
        for points in GRIDS:
            problem = base.model_copy(update={"scheme": scheme, "solver_resolution": points})
            start = time.process_time()
            frames = torch.stack([solved(problem, index) for index in indices])
            seconds = (time.process_time() - start) / len(indices)
            parts = [slice(START, None), slice(START, START + 1), slice(-1, None)]
            errors = [relative_l2(frames[:, part], truth[:, part]).mean().item() for part in parts]
            numbers = "".join(f"{error:12.2e}" for error in errors)
            print(f"{f'{scheme}, {points} x {points}':22}{numbers}{seconds:14.1f}", flush=True)


if __name__ == "__main__":
    main()
