"""Navier-Stokes, frames at t = 1..10 -> the frames after them (paper section 5.2, table 2)."""

__all__ = ["navier_stokes", "navier_stokes_problem"]

from collections.abc import Sequence
from typing import Any

from pdno.data.problems import NavierStokesProblem
from pdno.experiments.catalog import Preset
from pdno.experiments.networks import AnyNetwork, FNONetwork, MWTNetwork, PDNONetwork
from pdno.experiments.recipes.study import Study, check_size, choose_models, with_seeds
from pdno.experiments.specification import Experiment
from pdno.training.normalizer import Normalization
from pdno.training.settings import TrainingSettings
from pdno.training.task import Markov, OneShot, Rollout, SpaceTime

WINDOW = 10
LONG_TRAINING = 5000
TEST = 200
SETS = ((1e-3, 50, 1000), (1e-4, 30, 1000), (1e-4, 30, 9800), (1e-5, 20, 1000))
"""Viscosity, last time and training samples of the four datasets of table 2.

The paper trains on 10,000 of 10,000 samples and tests on 200 of them; 9,800 leave 200 unseen.
"""

MOST_GRADIENT = 10.0
"""Largest norm of the gradient of a batch in `small`; a rollout may have far larger ones."""
ROLLOUT_BATCH, MARKOV_BATCH = 5, 20
"""In `small`; a rollout has ten frames per sample, so small batches buy more steps."""


def navier_stokes(
    preset: Preset = "small",
    *,
    viscosity: float | None = None,
    models: Sequence[str] | None = None,
    seeds: int = 1,
) -> Study:
    """Table 2; `small` is ν = 1e-5 with 200 trajectories, by rollout and by Markov training.

    Arguments:
        preset: "smoke", "small" or "paper".
        viscosity: Only the datasets with this viscosity.
        models: Which networks; None takes all.
        seeds: Number of seeds.
    """
    check_size(preset)
    if preset != "paper":
        if viscosity not in (None, 1e-5):
            raise ValueError(f"preset {preset!r} has viscosity 1e-5 only, not {viscosity}")
        known = _small(smoke=preset == "smoke")
        chosen = choose_models(known, models)
    else:
        sets = [one for one in SETS if viscosity in (None, one[0])]
        if not sets:
            raise ValueError(f"no dataset with viscosity {viscosity}: expected 1e-3, 1e-4 or 1e-5")
        chosen = [run for one in sets for run in choose_models(_paper(*one), models)]
    return Study(name="navier-stokes", preset=preset, experiments=with_seeds(chosen, seeds))


def navier_stokes_problem(preset: Preset) -> NavierStokesProblem:
    """The data of the presets below `paper`: stored finer than trained, to evaluate there.

    The solver has 128² points: at t = 20 it is within 3e-2 of one with 256², a small part of the
    error of every network here, and a quarter of its cost.
    """
    if preset == "smoke":
        return NavierStokesProblem(samples=6, resolution=32, solver_resolution=32, final_time=13)
    return NavierStokesProblem(samples=240, resolution=128, solver_resolution=128)


Runs = dict[str, tuple[AnyNetwork, Any, TrainingSettings, Normalization]]
"""Network, task, training and normalisation by model."""


def _experiments(problem: NavierStokesProblem, runs: Runs, **sizes: Any) -> dict[str, Experiment]:
    name = f"nu={problem.viscosity:g} T={problem.final_time} N={sizes['train']}"
    return {
        model: Experiment(
            name=f"navier-stokes {name}",
            model=model,
            study="navier-stokes",
            of_paper=not isinstance(task, Markov),
            problem=problem,
            window=WINDOW,
            network=network,
            task=task,
            normalization=normalization,
            training=training,
            **sizes,
        )
        for model, (network, task, training, normalization) in runs.items()
    }


def _small(*, smoke: bool) -> dict[str, Experiment]:
    modes, width = (6, 4) if smoke else (12, 20)
    pdno, fno = PDNONetwork(width=width, modes=modes), FNONetwork(width=width, modes=modes)
    # a Markov step is one frame of many: wider symbol networks pay there
    wide = pdno.model_copy(update={"symbol_hidden": 8 if smoke else 128})

    def one_cycle(epochs: int, learning_rate: float, batch_size: int) -> TrainingSettings:
        return TrainingSettings(
            epochs=1 if smoke else epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            schedule="one-cycle",
            clip=MOST_GRADIENT,
        )

    runs: Runs = {
        "PDNO rollout": (pdno, Rollout(), one_cycle(16, 5e-3, ROLLOUT_BATCH), "none"),
        "FNO rollout": (fno, Rollout(), one_cycle(16, 2.5e-3, ROLLOUT_BATCH), "none"),
        "PDNO Markov": (wide, Markov(), one_cycle(10, 5e-3, MARKOV_BATCH), "none"),
        "FNO Markov": (fno, Markov(), one_cycle(10, 2e-3, MARKOV_BATCH), "none"),
    }
    problem = navier_stokes_problem("smoke" if smoke else "small")
    if smoke:
        return _experiments(problem, runs, train=4, test=2, resolution=16, zero_shot=(32,))
    return _experiments(problem, runs, train=200, test=40, resolution=64, zero_shot=(128,))


def _paper(viscosity: float, final_time: int, train: int) -> dict[str, Experiment]:
    """The six networks of table 2 on one dataset, with the published settings."""
    targets, scale = final_time - WINDOW, 64 / 63
    pdno = PDNONetwork(frequency_scale=64.0, coordinate_scale=scale)
    fno_3d = FNONetwork(
        modes=8,
        space_time=True,
        coordinate_scale=(scale, scale, targets / (targets - 1)),
        padding=(0, 0, 6),
    )
    wavelets = MWTNetwork(wavelets=3, space_time=True)
    chebyshev = wavelets.model_copy(update={"base": "chebyshev"})
    ours = TrainingSettings(
        epochs=1000,
        batch_size=10 if viscosity == 1e-3 else 20,
        learning_rate=5e-3,
        weight_decay=1e-6,
        step_size=200,
    )
    theirs = TrainingSettings(epochs=500, learning_rate=1e-3, weight_decay=1e-4, step_size=100)
    blocks = theirs.model_copy(update={"batch_size": 10})
    # by the name of its published checkpoint
    wavelet_epochs = 200 if train > LONG_TRAINING else theirs.epochs
    waves = blocks.model_copy(update={"epochs": wavelet_epochs})
    rollout = Rollout(recompute=targets > WINDOW)
    one_shot = OneShot(start=float(WINDOW), span=float(targets))
    runs: Runs = {
        "PDNO a(x,ξ)": (pdno, rollout, ours, "none"),
        "PDNO a(x,ξ,t)": (pdno.model_copy(update={"takes_time": True}), one_shot, ours, "none"),
        "MWT Leg": (wavelets, SpaceTime(), waves, "pointwise"),
        "MWT Chb": (chebyshev, SpaceTime(), waves, "pointwise"),
        "FNO-2D": (FNONetwork(coordinate_scale=scale), rollout, theirs, "none"),
        "FNO-3D": (fno_3d, SpaceTime(), blocks, "pointwise"),
    }
    problem = NavierStokesProblem(
        samples=train + TEST, resolution=64, viscosity=viscosity, final_time=final_time
    )
    return _experiments(problem, runs, train=train, test=TEST, resolution=64)
