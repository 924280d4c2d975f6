"""Darcy flow, permeability -> pressure (paper section 5.2, table 1)."""

__all__ = ["darcy", "darcy_experiments"]

from collections.abc import Sequence
from functools import partial

from pdno.data.problems import DarcyProblem
from pdno.experiments.catalog import Preset
from pdno.experiments.networks import AnyNetwork, FNONetwork, MWTNetwork, PDNONetwork
from pdno.experiments.recipes.study import Study, finer_grids, study_by_resolution
from pdno.experiments.specification import Experiment
from pdno.training.settings import TrainingSettings

USUAL: dict[Preset, tuple[int, ...]] = {
    "smoke": (16,),
    "small": (32,),
    "paper": (32, 64, 128, 256, 512),  # of table 1
}
SMALL_EPOCHS = 60


def darcy(
    preset: Preset = "small",
    *,
    resolution: int | None = None,
    models: Sequence[str] | None = None,
    seeds: int = 1,
) -> Study:
    """Table 1: networks trained on the same 1000 samples, tested on the same 100.

    Arguments:
        preset: "smoke", "small" or "paper".
        resolution: Points per axis; None takes 32 for `small` and all five for `paper`.
        models: Which networks; None takes all, PDNO with provable symbols only below `paper`.
        seeds: Number of seeds.
    """
    runs_at = partial(darcy_experiments, preset)
    return study_by_resolution(
        "darcy", preset, runs_at, USUAL, resolution=resolution, models=models, seeds=seeds
    )


def darcy_experiments(preset: Preset, resolution: int) -> dict[str, Experiment]:
    """The runs of table 1 at one resolution, by model."""
    stored = {"smoke": 32, "small": 128, "paper": 512}[preset]
    smoke = preset == "smoke"
    problem = DarcyProblem(
        samples=10 if smoke else 1100,
        resolution=max(stored, resolution),
        solver_resolution=32 if smoke else None,
    )
    networks = _paper_networks(resolution) if preset == "paper" else _small_networks(smoke=smoke)
    return {
        model: Experiment(
            name="darcy",
            model=model,
            of_paper=getattr(network, "symbol", "network") == "network",
            problem=problem,
            train=8 if smoke else 1000,
            test=2 if smoke else 100,
            resolution=resolution,
            network=network,
            normalization="pointwise",
            training=training,
            zero_shot=finer_grids(preset, resolution, problem.resolution),
        )
        for model, (network, training) in networks.items()
    }


def _small_networks(*, smoke: bool) -> dict[str, tuple[AnyNetwork, TrainingSettings]]:
    """The same epochs and one-cycle schedule for all; each family has its own learning rate."""

    def one_cycle(learning_rate: float) -> TrainingSettings:
        return TrainingSettings(
            epochs=1 if smoke else SMALL_EPOCHS, learning_rate=learning_rate, schedule="one-cycle"
        )

    modes = 6 if smoke else 12
    width = 4 if smoke else 20
    pdno = PDNONetwork(width=width, symbol_layers=3, modes=modes)
    return {
        "PDNO a(x,ξ)": (pdno, one_cycle(1e-2)),
        "PDNO a(ξ)": (pdno.model_copy(update={"depends_on_x": False}), one_cycle(1e-2)),
        # symbols that are provably in S^0 (docs/theory_symbol_classes.md)
        "PDNO provable": (
            pdno.model_copy(update={"symbol": "classical", "order": 0.0}),
            one_cycle(1e-2),
        ),
        # the published one has ten times FNO's parameters and takes eight times as long
        "MWT Leg": (MWTNetwork(width=2, wavelets=2 if smoke else 3), one_cycle(3e-3)),
        "FNO": (FNONetwork(width=width, modes=modes), one_cycle(3e-3)),
    }


def _paper_networks(resolution: int) -> dict[str, tuple[AnyNetwork, TrainingSettings]]:
    """The published networks and settings; PDNO sees ξ/s, as published, and x·s/(s-1).

    Our points are those of cells, x = (i + offset)/s; the published code says i/(s-1) for them.
    """
    pdno = PDNONetwork(
        symbol_layers=3,
        frequency_scale=float(resolution),
        coordinate_scale=resolution / (resolution - 1),
    )
    ours = TrainingSettings(epochs=1000, learning_rate=1e-2, weight_decay=1e-6, step_size=200)
    # nine points of zeros, as published
    scale = resolution / (resolution - 1)
    fno = FNONetwork(width=32, modes=12, coordinate_scale=scale, padding=9)
    baseline = TrainingSettings(epochs=500, learning_rate=1e-3, weight_decay=1e-4, step_size=100)
    return {
        "PDNO a(x,ξ)": (pdno, ours),
        "PDNO a(ξ)": (pdno.model_copy(update={"depends_on_x": False}), ours),
        "MWT Leg": (MWTNetwork(), baseline.model_copy(update={"batch_size": 10})),
        "FNO": (fno, baseline),
    }
