"""How recipes are made: studies of runs in the words of a YAML specification."""

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from inspect import signature
from typing import Annotated, Any, Literal, ParamSpec

from pydantic import Field, ValidationError, validate_call
from typing_extensions import Doc

from pdno.data import problems
from pdno.interface.errors import suggest
from pdno.interface.records import error_message
from pdno.runs.plugins import Study, register

Options = dict[str, Any]
"""Options in the words of a specification."""
Runs = dict[str, Options]
"""Options of an `Experiment` by model: network, training and others of that model alone."""
P = ParamSpec("P")

ABOUT_PRESETS = Doc(
    "smoke takes seconds, small minutes per run, best hours; paper is the published protocol."
)
SmallPreset = Annotated[Literal["smoke", "small"], ABOUT_PRESETS]
PaperPreset = Annotated[Literal["smoke", "small", "paper"], ABOUT_PRESETS]
Preset = Annotated[Literal["smoke", "small", "best", "paper"], ABOUT_PRESETS]
Seeds = Annotated[int, Field(ge=1), Doc("Number of seeds.")]
Models = Annotated[tuple[str, ...] | None, Doc("Only these, by their names; xi stands for ξ.")]
Points = Annotated[
    Annotated[int, Field(ge=2)] | None,
    Doc("Points per axis; by default one of small and best, all of the table of paper."),
]
Viscosity = Annotated[float | None, Doc("Only the data with this viscosity.")]


def recipe(function: Callable[P, Study]) -> Callable[P, Study]:
    """Register a recipe; its arguments are checked against its signature."""
    checked = validate_call(function)

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> Study:
        try:  # by name, so that errors name what is wrong
            named = signature(function).bind(*arguments, **options).arguments
            return checked(**named)  # type: ignore[call-arg]  # which the signature has bound
        except ValidationError as error:
            raise ValueError(error_message(error)) from None

    return register(call)


def one_cycle(preset: str, epochs: int, rate: float, **options: object) -> Options:
    """The training below `paper`; `smoke` has one epoch."""
    schedule = {"schedule": "one-cycle", "weight_decay": 1e-6, "warm_up": 0.3}
    epochs = 1 if preset == "smoke" else epochs
    return {"epochs": epochs, "learning_rate": rate, **schedule, **options}


def muon(preset: str, epochs: int, **options: object) -> Options:
    """Our training recipe: Muon and symmetries of the data."""
    best = {"optimiser": "muon", "weight_decay": 0.0, "augment": True}
    return one_cycle(preset, epochs, 2e-3, **{**best, **options})


def make_study(
    study: str,
    preset: str,
    sets: Iterable[Runs],
    /,
    *,
    models: Sequence[str] | None = None,
    seeds: int = 1,
    **common: object,
) -> Study:
    """The study of all runs with the seeds 0, 1, ..., seed by seed.

    Arguments:
        sets: Runs by model, one set for each dataset.
        models: Only these of each set, by name; capitals and spaces do not count, and xi is ξ.
        common: Options of all runs; what a run has for itself counts more.
    """
    from pdno.runs.specification import Experiment

    chosen: list[Options] = [
        {"name": study, "of_paper": True, **common, "model": model, **runs[model]}
        for runs in sets
        for model in (runs if models is None else [_model_named(m, list(runs)) for m in models])
    ]
    return Study(
        study,
        preset,
        tuple(
            Experiment(**{**run, "training": {**run["training"], "seed": seed}})
            for seed in range(seeds)
            for run in chosen
        ),
    )


def _model_named(text: str, names: Sequence[str]) -> str:
    def plain(name: str) -> str:
        return "".join(name.lower().replace("ξ", "xi").split())

    matching = [name for name in names if plain(name) == plain(text)]
    if not matching:
        near = suggest(text.replace("xi", "ξ"), names)
        raise ValueError(f"no model {text!r}: {near}expected some of {', '.join(names)}")
    return matching[0]


def run(network: Options, training: Options, **options: object) -> Options:
    """A run of this network with this training."""
    return {"network": network, "training": training, **options}


def changed(run: Options, **network: object) -> Options:
    """A run with other options of its network."""
    return {**run, "network": {**run["network"], **network}}


def static_data(
    preset: str, kind: type[problems.Problem], stored: int, solved: int | None, resolution: int
) -> Options:
    """1000 training samples of a problem and 100 test samples.

    Below `paper` 100 others are the validation samples, and networks are also evaluated at two and
    four times the resolution, as far as the data are stored. These are stored, and solved, on the
    next multiples of a resolution that does not divide the usual ones.
    """
    train, test = (8, 2) if preset == "smoke" else (1000, 100)
    validation, finer = (0, ()) if preset == "paper" else (test, (2 * resolution, 4 * resolution))
    points, samples = -(-stored // resolution) * resolution, train + validation + test
    if solved is None and kind.published_points % points:
        solved = round(kind.published_points / points) * points
    return {
        "problem": kind(samples=samples, resolution=points, solver_resolution=solved),
        "train": train,
        "test": test,
        "validation": validation,
        "resolution": resolution,
        "zero_shot": tuple(r for r in finer if points % r == 0),
    }


def with_options(runs: Runs, common: Options) -> Runs:
    """Runs with common options; what a run has for itself counts more."""
    return {model: {**common, **run} for model, run in runs.items()}
