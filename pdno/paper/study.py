"""How recipes are made: studies of runs in the words of a specification, from `studies.yaml`."""

from collections.abc import Callable, Iterable, Sequence
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec

import yaml
from pydantic import Field, ValidationError, validate_call
from typing_extensions import Doc

from pdno.interface.errors import suggest
from pdno.interface.records import error_message
from pdno.runs.plugins import Study, register

Options = dict[str, Any]
"""Options in the words of a specification."""
Runs = dict[str, Options]
"""Options of an `Experiment` by model."""
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


@cache
def written_studies() -> dict[str, Any]:
    """The content of studies.yaml."""
    text = Path(__file__).with_name("studies.yaml").read_text(encoding="utf-8")
    studies: dict[str, Any] = yaml.safe_load(text)
    return studies


def runs_of(study: str, preset: str, data: Options | None = None, **computed: object) -> Runs:
    """The runs of studies.yaml by model, with numbers instead of words such as $width.

    The problem has as many samples, and points, as a run needs, where it does not say more.

    Arguments:
        data: Options that all models have in common besides.
        computed: Numbers that the preset does not have.
    """
    written = written_studies()[study]
    numbers = {**computed, **written["presets"][preset]}
    runs = written["published" if preset == "paper" and "published" in written else "runs"]
    common = filled(merged(runs["common"], data or {}), numbers)
    models = numbers.get("models", runs["models"])
    samples = common["train"] + common["test"] + common.get("validation", 0)
    least = {"problem": {"samples": samples, "resolution": common["resolution"]}}
    return {m: merged(least, common, filled(runs["models"][m], numbers)) for m in models}


def filled(value: Any, numbers: Options) -> Any:
    """A copy with numbers for all words that begin with $."""
    if isinstance(value, dict):
        return {key: filled(part, numbers) for key, part in value.items()}
    return numbers[value[1:]] if isinstance(value, str) and value.startswith("$") else value


def merged(*layers: Options) -> Options:
    """Options in layers: those of a later layer count more, and parts of them are merged."""
    result: Options = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def make_study(
    study: str,
    preset: str,
    sets: Iterable[Runs],
    *,
    models: Sequence[str] | None = None,
    seeds: int = 1,
) -> Study:
    """The study of all runs with the seeds 0, 1, ..., seed by seed.

    Arguments:
        sets: Runs by model, one set for each dataset.
        models: Only these of each set, by name; capitals and spaces do not count, and xi is ξ.
    """
    from pdno.runs.specification import Experiment

    chosen = [
        merged({"name": study, "of_paper": True, "model": model}, runs[model])
        for runs in sets
        for model in (runs if models is None else [_model_named(m, list(runs)) for m in models])
    ]
    every = [
        Experiment(**merged(run, {"training": {"seed": seed}}))
        for seed in range(seeds)
        for run in chosen
    ]
    return Study(study, preset, tuple(every))


def _model_named(text: str, names: Sequence[str]) -> str:
    def plain(name: str) -> str:
        return "".join(name.lower().replace("ξ", "xi").split())

    matching = [name for name in names if plain(name) == plain(text)]
    if not matching:
        near = suggest(text.replace("xi", "ξ"), names)
        raise ValueError(f"no model {text!r}: {near}expected some of {', '.join(names)}")
    return matching[0]
