"""Heat: one time-dependent operator learns e^{-4π²cξ²t} (paper section 5.1, figures 3, 7, 8)."""

__all__ = ["heat"]

from pdno.data.problems import HeatProblem
from pdno.experiments.catalog import Preset
from pdno.experiments.networks import PDIONetwork
from pdno.experiments.recipes.study import Study, check_size, with_seeds
from pdno.experiments.specification import Experiment
from pdno.training.settings import TrainingSettings
from pdno.training.task import OneShot

SMALL_MODES, SMALL_SPAN = 32, 0.25


def heat(preset: Preset = "small", *, seeds: int = 1) -> Study:
    """100 states at 10 times in training, 20 others at 20 times in testing.

    The operator stands alone: no lift, no W, no σ. The paper trains for 10,000 epochs; with a
    one-cycle schedule 60 do (`small`), where the networks see 4t, which lets them follow the steep
    decay between the trained times, and 32 modes: at t = 0.05 what is above has decayed by e^-101.

    Arguments:
        preset: "smoke", "small" or "paper".
        seeds: Number of seeds.
    """
    check_size(preset)
    training = {
        "smoke": TrainingSettings(epochs=2, learning_rate=1e-2, schedule="one-cycle"),
        "small": TrainingSettings(epochs=60, learning_rate=1e-2, schedule="one-cycle"),
        "paper": TrainingSettings(epochs=10_000, learning_rate=1e-2, step_size=2000),
    }[preset]
    smoke = preset == "smoke"
    problem = HeatProblem(samples=6, resolution=64) if smoke else HeatProblem(samples=120)
    experiment = Experiment(
        name="heat",
        model="PDIO a(x,ξ,t)",
        of_paper=True,
        problem=problem,
        train=4 if smoke else 100,
        test=2 if smoke else 20,
        resolution=problem.resolution,
        network=PDIONetwork(modes=None if preset == "paper" else SMALL_MODES),
        task=OneShot(train_every=2, span=1.0 if preset == "paper" else SMALL_SPAN),
        training=training,
    )
    return Study(name="heat", preset=preset, experiments=with_seeds([experiment], seeds))
