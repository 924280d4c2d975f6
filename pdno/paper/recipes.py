"""The experiments of the paper as functions: each returns a complete frozen study.

`studies.yaml` describes them: every entry that has `about` is a function here. Of the presets,
`smoke` takes seconds and shows only that everything runs; `small` takes minutes per run on a
laptop with our training recipe (docs/training.md); `best` is the flagship of a problem, hours on
two cores; `paper` is the published protocol. torch is imported when a recipe is called.
"""

from collections.abc import Callable, Iterable
from functools import cache
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Literal

import yaml
from pydantic import Field, create_model
from typing_extensions import Doc

from pdno.data.problems import PROBLEMS
from pdno.interface.errors import suggest
from pdno.interface.records import Options, Record
from pdno.runs.plugins import Study as Study
from pdno.runs.plugins import register

Runs = dict[str, Options]
"""Options of an `Experiment` by model."""

ABOUT_PRESETS = Doc(
    "smoke takes seconds, small minutes per run, best hours; paper is the published protocol."
)
OPTIONS = {
    "resolution": Annotated[
        Annotated[int, Field(ge=2)] | None,
        Doc("Points per axis; by default one of small and best, all of the table of paper."),
    ],
    "viscosity": Annotated[float | None, Doc("Only the data with this viscosity.")],
    "models": Annotated[
        tuple[str, ...] | None, Doc("Only these, by their names; xi stands for ξ.")
    ],
    "seeds": Annotated[int, Field(ge=1), Doc("Number of seeds.")],
}


@cache
def written() -> dict[str, Options]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # five times as fast
    text = Path(__file__).with_name("studies.yaml").read_text(encoding="utf-8")
    content: dict[str, Options] = yaml.load(text, Loader=loader)  # noqa: S506, TID251  # safe
    return content


def make_study(
    study: str,
    preset: str,
    *,
    models: Iterable[str] | None = None,
    seeds: int = 1,
    resolution: int | None = None,
    viscosity: float | None = None,
) -> Study:
    """The study of all runs, seed by seed; of `models` capitals and spaces do not count."""
    from pdno.runs.specification import Experiment

    runs = []
    for of_set in sets_of(study, preset, resolution=resolution, viscosity=viscosity):
        for model in of_set if models is None else [_model_named(m, of_set) for m in models]:
            first = {"name": study, "of_paper": True, "model": model}
            runs.append(merged(first, of_set[model]))
    seeded = [merged(run, {"training": {"seed": seed}}) for seed in range(seeds) for run in runs]
    measure = written()[study].get("measure", "training")
    return Study(study, preset, tuple(Experiment(**run) for run in seeded), measure)


def _model_named(text: str, runs: Runs) -> str:
    def plain(name: str) -> str:
        return "".join(name.lower().replace("ξ", "xi").split())

    names = {plain(name): name for name in runs}
    if plain(text) not in names:
        near = suggest(text.replace("xi", "ξ"), runs)
        raise ValueError(f"no model {text!r}: {near}expected some of {', '.join(runs)}")
    return names[plain(text)]


def sets_of(
    study: str, preset: str, *, resolution: int | None = None, viscosity: float | None = None
) -> list[Runs]:
    """The runs of a study by model, a set for each dataset."""
    about = written()[study]
    if "rows" in about:
        return _changed(study, preset, resolution)
    if "flows" in about:
        return _flows(study, preset, viscosity)
    if "resolution" in about.get("options", ()):
        return _grids(study, preset, resolution)
    return [_runs_of(study, preset)] if "runs" in about else []


def _runs_of(study: str, preset: str, **computed: object) -> Runs:
    """The runs of a study by model, with numbers of the preset, and computed ones, for words."""
    about = written()[study]
    numbers = {**about["presets"][preset], **computed, "study": study}
    runs = about["published" if preset == "paper" and "published" in about else "runs"]
    common = filled(runs["common"], numbers)
    # the problem has as many samples, and points, as a run needs, where it does not say more
    samples = common["train"] + common["test"] + common.get("validation", 0)
    least = {"problem": {"samples": samples, "resolution": common["resolution"]}}
    models = numbers.get("models", runs["models"])
    return {m: merged(least, common, filled(runs["models"][m], numbers)) for m in models}


def filled(values: Options, numbers: Options) -> Options:
    """A copy with numbers for all words that begin with $."""
    parts = {k: filled(v, numbers) for k, v in values.items() if isinstance(v, dict)}
    words = {k: v for k, v in values.items() if isinstance(v, str) and v.startswith("$")}
    return {**values, **parts, **{key: numbers[word[1:]] for key, word in words.items()}}


def merged(*layers: Options) -> Options:
    """Options in layers: those of a later layer count more, and parts of them are merged."""
    result: Options = {}
    for layer in layers:
        for key, value in layer.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


def _grids(study: str, preset: str, resolution: int | None) -> list[Runs]:
    """A set for each resolution, with data on multiples of it that the solver has."""
    sizes = written()[study]["presets"][preset]
    usual, sets = PROBLEMS[study].published_points, []
    for s in sizes["points"] if resolution is None else (resolution,):
        kept, solver = -(-sizes["stored"] // s) * s, sizes["solved"]
        if solver is None and usual % kept:
            solver = round(usual / kept) * kept
        finer = [k * s for k in (2, 4) if kept % (k * s) == 0 and preset != "paper"]
        grids = {"s": s, "scale": s / (s - 1), "kept": kept, "solver": solver, "finer": finer}
        runs = _runs_of(study, preset, **grids)
        if s & (s - 1):  # wavelets halve the points
            runs = {model: run for model, run in runs.items() if not model.startswith("MWT")}
        sets.append(runs)
    return sets


def _flows(study: str, preset: str, viscosity: float | None) -> list[Runs]:
    """A set for each dataset of table 2, of one viscosity or of the usual ones."""
    about = written()[study]
    flows = about["flows"][preset]
    usual = flows if preset == "paper" else flows[:1]
    chosen = [f for f in flows if f["viscosity"] == viscosity] if viscosity is not None else usual
    if not chosen:
        existing = ", ".join(dict.fromkeys(f"{flow['viscosity']:.0e}" for flow in flows))
        raise ValueError(f"preset {preset!r} has no viscosity {viscosity}: take {existing}")
    sets, scale = [], 64 / 63
    for flow in chosen:
        numbers = {**about["presets"][preset], **flow}
        name = "navier-stokes nu={viscosity:g} T={final_time} N={train}".format(**numbers)
        targets = flow["final_time"] - 10  # after the input frames
        scales = (scale, scale, targets / (targets - 1))
        of_flow = {"name": name, "targets": targets, "scale": scale, "scales": scales, **flow}
        sets.append(_runs_of(study, preset, **of_flow))
    return sets


def _changed(study: str, preset: str, resolution: int | None) -> list[Runs]:
    """The runs of another study, changed as the rows of an ablation say."""
    about, sets = written()[study], []
    options = {"preset": preset, **about["of"], **about.get("choose", {}).get(preset, {})}
    if resolution:
        options["resolution"] = resolution
    for base in sets_of(**options):
        for rows in about["rows"][preset]:
            runs = Runs()
            for model, row in rows.items():
                parts = [written()["parts"][name] for name in row.get("parts", ())]
                own = {key: value for key, value in row.items() if key not in ("of", "parts")}
                layers = (about.get("common", {}), own, *parts, about["presets"][preset])
                run = merged(base[row["of"]], *layers)
                if 2 * (own.get("network", {}).get("modes") or 0) <= run["resolution"]:
                    runs[model] = run
            sets.append(runs)
    return sets


def _recipe(name: str, about: Options) -> Callable[..., Study]:
    preset = Annotated[Literal[tuple(about["presets"])], ABOUT_PRESETS]  # type: ignore[valid-type]
    kinds: Options = {"preset": preset} | {option: OPTIONS[option] for option in about["options"]}
    usual: Options = {"preset": "small", "seeds": 1}
    fields: Options = {key: (kind, usual.get(key)) for key, kind in kinds.items()}
    checked = create_model(name, __base__=Record, **fields)

    def study(*arguments: object, **options: object) -> Study:
        bound = signature(study).bind(*arguments, **options).arguments
        return make_study(name, **dict(checked(**bound)))

    parameters = [
        Parameter(key, Parameter.KEYWORD_ONLY, default=usual.get(key), annotation=kind)
        for key, kind in kinds.items()
    ]
    parameters[0] = parameters[0].replace(kind=Parameter.POSITIONAL_OR_KEYWORD)
    study.__name__ = study.__qualname__ = name.replace("-", "_")
    study.__doc__, study.__annotations__ = about["about"], {**kinds, "return": Study}
    vars(study)["__signature__"] = Signature(parameters, return_annotation=Study)
    return register(study)


RECIPES = {n: _recipe(n, about) for n, about in written().items() if "about" in about}
globals().update({recipe.__name__: recipe for recipe in RECIPES.values()})
