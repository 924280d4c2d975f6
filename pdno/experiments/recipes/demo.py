"""The demo: PDNO and FNO on heat and on a small Darcy problem, in a few minutes."""

__all__ = ["demo"]

from pdno.data.problems import DarcyProblem, HeatProblem
from pdno.experiments.catalog import Preset
from pdno.experiments.networks import AnyNetwork, FNONetwork, PDNONetwork
from pdno.experiments.recipes.heat import heat
from pdno.experiments.recipes.study import Study, check_size
from pdno.experiments.specification import Experiment
from pdno.training.settings import TrainingSettings

SYMBOL_EPOCHS, EPOCHS = 30, 30


def demo(preset: Preset = "small") -> Study:
    """The heat symbol, and PDNO beside FNO on heat (u₀ -> u(0.1)) and on Darcy flow.

    The samples and epochs are few, so the errors are larger than those of the experiments.

    Arguments:
        preset: `smoke` for seconds; the others are the same.
    """
    check_size(preset)
    smoke = preset == "smoke"
    symbol = heat("smoke" if smoke else "small").experiments[0]
    if not smoke:
        symbol = symbol.with_changes(
            training=symbol.training.model_copy(update={"epochs": SYMBOL_EPOCHS})
        )
    runs = [symbol]
    for model, network, rate in (
        ("PDNO a(x,ξ)", PDNONetwork(width=4 if smoke else 16, modes=6 if smoke else 12), 1e-2),
        ("FNO", FNONetwork(width=4 if smoke else 16, modes=6 if smoke else 12), 3e-3),
    ):
        settings = TrainingSettings(
            epochs=1 if smoke else EPOCHS, learning_rate=rate, schedule="one-cycle"
        )
        runs += [
            _heat_map(model, network, settings, smoke),
            _darcy(model, network, settings, smoke),
        ]
    return Study(name="demo", preset=preset, experiments=tuple(runs))


def _heat_map(
    model: str, network: AnyNetwork, settings: TrainingSettings, smoke: bool
) -> Experiment:
    problem = HeatProblem(
        samples=6 if smoke else 220, resolution=64 if smoke else 256, final_time=0.1, frames=1
    )
    return Experiment(
        name="heat-map",
        model=model,
        of_paper=True,
        problem=problem,
        train=4 if smoke else 200,
        test=2 if smoke else 20,
        resolution=problem.resolution,
        network=network,
        training=settings,
    )


def _darcy(model: str, network: AnyNetwork, settings: TrainingSettings, smoke: bool) -> Experiment:
    return Experiment(
        name="darcy",
        model=model,
        of_paper=True,
        problem=DarcyProblem(
            samples=6 if smoke else 240,
            resolution=32 if smoke else 64,
            solver_resolution=32 if smoke else 128,
        ),
        train=4 if smoke else 200,
        test=2 if smoke else 40,
        resolution=16 if smoke else 32,
        network=network,
        normalization="pointwise",
        training=settings,
        zero_shot=(32,) if smoke else (64,),
    )
