"""The solvers against the schemes they replace, on one thread."""

__all__ = ["bench_darcy", "bench_navier_stokes"]

import numpy as np
import torch
from scipy.sparse.linalg import splu

from pdno.equations.darcy import Darcy
from pdno.equations.navier_stokes import NavierStokes
from pdno.evaluation.speed import time_alternately
from pdno.fields.laws import darcy_permeability, navier_stokes_initial
from pdno.fourier import inverse, transform
from pdno.grid import Grid
from pdno.solvers.elliptic import solve_elliptic
from pdno.solvers.finite_volumes import assemble
from pdno.solvers.published import PUBLISHED_STEP, integrate_published, published_stepper
from pdno.solvers.solve import solve
from pdno.spectral import band_mask

FINAL_TIME = 20.0


def bench_navier_stokes(*, resolution: int = 128, steps: int = 300) -> dict[str, float]:
    """A trajectory to T = 20 by our solver and by the published scheme, both in float64.

    The published scheme is timed over `steps` of its steps and scaled; its error is measured at
    t = 1, where ours is largest, against our solver with steps eight times smaller.
    """
    equation, grid = NavierStokes(viscosity=1e-5), Grid((resolution,) * 2)
    w0 = navier_stokes_initial().sample(grid, seed=0, indices=[0])
    w0 = inverse(transform(w0, 2) * band_mask(grid), grid.shape)
    advance, w_hat = published_stepper(equation, grid), transform(w0, 2)

    def published() -> None:
        state = w_hat
        for _ in range(steps):
            state = advance(state)

    def ours() -> None:
        solve(equation, w0, [FINAL_TIME])

    times = time_alternately({"ours": ours, "published": published}, repeats=3)
    whole = times["published"] * (FINAL_TIME / PUBLISHED_STEP) / steps
    exact = solve(equation, w0, [1.0], refine=8)
    errors = {
        "ours": solve(equation, w0, [1.0]),
        "published": integrate_published(equation, w0, [1.0]),
    }
    relative = {name: float((w - exact).norm() / exact.norm()) for name, w in errors.items()}
    return {
        "seconds": times["ours"],
        "published_seconds": whole,
        "ratio": whole / times["ours"],
        "error": relative["ours"],
        "published_error": relative["published"],
    }


def bench_darcy(*, resolution: int = 512) -> dict[str, float]:
    """One sample of contrast 4 by our solver and by scipy's sparse factorisation."""
    grid = Grid.cells((resolution,) * 2)
    permeability = darcy_permeability().sample(grid, seed=0, indices=[0])
    matrix = assemble(permeability[0, 0]).tocsc()
    source = np.ones(grid.size)
    options = {"permc_spec": "MMD_AT_PLUS_A", "options": {"SymmetricMode": True}}
    residuals: dict[str, float] = {}

    def ours() -> None:
        residuals["ours"] = float(solve_elliptic(Darcy(), permeability)[1].max())

    def direct() -> None:
        solution = splu(matrix, diag_pivot_thresh=0.0, **options).solve(source)
        residual = np.linalg.norm(source - matrix @ solution) / np.linalg.norm(source)
        residuals["splu"] = float(residual)

    with torch.no_grad():
        times = time_alternately({"ours": ours, "splu": direct}, repeats=3)
    return {
        "seconds": times["ours"],
        "splu_seconds": times["splu"],
        "ratio": times["splu"] / times["ours"],
        "residual": residuals["ours"],
        "splu_residual": residuals["splu"],
    }
