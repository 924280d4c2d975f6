"""The experiments of the paper as functions: each returns a complete frozen study.

Presets: `smoke` takes seconds and shows only that everything runs; `small` takes minutes per run
on a laptop with our training recipe (docs/training.md); `best` is the flagship of a problem, hours
on two cores; `paper` is the published protocol. Networks, tasks and settings stand in
`studies.yaml`, in the words of a specification. torch is imported when a recipe is called.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, wraps
from inspect import signature
from pathlib import Path
from typing import Annotated, Any, Literal, ParamSpec

import yaml
from pydantic import Field, ValidationError, validate_call
from typing_extensions import Doc

from pdno.data.problems import PROBLEMS
from pdno.interface.errors import suggest
from pdno.interface.records import error_message
from pdno.runs.plugins import Study as Study
from pdno.runs.plugins import register

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
def written() -> Any:
    """The content of studies.yaml."""
    return yaml.safe_load(Path(__file__).with_name("studies.yaml").read_text(encoding="utf-8"))


def runs_of(study: str, preset: str, **computed: object) -> Runs:
    """The runs of studies.yaml by model, with numbers instead of words such as $width.

    Numbers are those of the preset and those computed here. The problem has as many samples, and
    points, as a run needs, where it does not say more.
    """
    of_study = written()[study]
    numbers = {**of_study["presets"][preset], **computed, "study": study}
    runs = of_study["published" if preset == "paper" and "published" in of_study else "runs"]
    common = filled(runs["common"], numbers)
    samples = common["train"] + common["test"] + common.get("validation", 0)
    least = {"problem": {"samples": samples, "resolution": common["resolution"]}}
    models = numbers.get("models", runs["models"])
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
    study: str, preset: str, sets: Iterable[Runs], *, models: Models = None, seeds: int = 1
) -> Study:
    """The study of all runs with the seeds 0, 1, ..., seed by seed.

    Arguments:
        sets: Runs by model, one set for each dataset.
        models: Only these of each set, by name; capitals and spaces do not count, and xi is ξ.
    """
    from pdno.runs.specification import Experiment

    chosen = []
    for runs in sets:
        for model in runs if models is None else [_model_named(m, runs) for m in models]:
            first = {"name": study, "of_paper": True, "model": model}
            chosen.append(merged(first, runs[model]))
    seeded = [merged(run, {"training": {"seed": seed}}) for seed in range(seeds) for run in chosen]
    return Study(study, preset, tuple(Experiment(**run) for run in seeded))


def _model_named(text: str, runs: Runs) -> str:
    def plain(name: str) -> str:
        return "".join(name.lower().replace("ξ", "xi").split())

    names = {plain(name): name for name in runs}
    if plain(text) not in names:
        near = suggest(text.replace("xi", "ξ"), runs)
        raise ValueError(f"no model {text!r}: {near}expected some of {', '.join(runs)}")
    return names[plain(text)]


# The recipes


@recipe
def heat(preset: Preset = "small", *, seeds: Seeds = 1) -> Study:
    """One operator learns the heat equation, its symbol against the exact one (fig. 3).

    100 states at 10 times in training, 20 others at 20 times in testing. The operator stands
    alone: no lift, no W, no σ. The paper trains for 10,000 epochs; with a one-cycle schedule 60
    are enough (`small`), where the networks see 4t, which lets them follow the steep decay between
    the training times, and 32 modes: at t = 0.05 the higher ones have decayed by e^-101.
    """
    return make_study("heat", preset, [runs_of("heat", preset)], seeds=seeds)


@recipe
def darcy(
    preset: Preset = "small", *, resolution: Points = None, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Darcy flow at five resolutions: PDNO a(x,ξ), PDNO a(ξ), MWT, FNO (table 1).

    All networks have the same 1000 training and 100 test samples. PDNO with classical symbols is
    among the models only below `paper`.
    """
    sets = static_sets("darcy", preset, resolution)
    return make_study("darcy", preset, sets, models=models, seeds=seeds)


@recipe
def navier_stokes(
    preset: Preset = "small",
    *,
    viscosity: Viscosity = None,
    models: Models = None,
    seeds: Seeds = 1,
) -> Study:
    """Four Navier-Stokes datasets, six networks (table 2, fig. 1).

    `small` has 200 trajectories of one viscosity, 1e-5 by default, by rollout, in one shot and by
    Markov training; `best` 1000 of 1e-5 by Markov training.
    """
    sets = flow_sets(preset, viscosity)
    return make_study("navier-stokes", preset, sets, models=models, seeds=seeds)


@recipe
def burgers(
    preset: Preset = "small", *, resolution: Points = None, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Burgers at five resolutions, five networks (table 3).

    All have the same 1000 training and 100 test samples.
    """
    sets = static_sets("burgers", preset, resolution)
    return make_study("burgers", preset, sets, models=models, seeds=seeds)


def static_sets(study: str, preset: str, resolution: int | None = None) -> list[Runs]:
    """The runs of Darcy flow or Burgers by model, at one resolution or at the usual ones.

    1000 training and 100 test samples. Below `paper` 100 others are the validation samples, and
    networks are also evaluated at two and four times the resolution, as far as the data are
    stored. These are stored, and solved, on the next multiples of a resolution that does not
    divide the usual ones.
    """
    sizes = written()[study]["presets"][preset]
    usual, sets = PROBLEMS[study].published_points, []
    for s in sizes["points"] if resolution is None else (resolution,):
        kept, solver = -(-sizes["stored"] // s) * s, sizes["solved"]
        if solver is None and usual % kept:
            solver = round(usual / kept) * kept
        finer = [k * s for k in (2, 4) if kept % (k * s) == 0 and preset != "paper"]
        grids = {"s": s, "scale": s / (s - 1), "kept": kept, "solver": solver, "finer": finer}
        runs = runs_of(study, preset, **grids)
        if s & (s - 1):  # wavelets halve the points
            runs = {model: run for model, run in runs.items() if not model.startswith("MWT")}
        sets.append(runs)
    return sets


def flow_sets(preset: str, viscosity: float | None = None) -> list[Runs]:
    """The runs of table 2 by model, of one viscosity or of the usual ones."""
    presets, flows = (written()["navier-stokes"][part] for part in ("presets", "flows"))
    flows = flows[preset]
    usual = flows if preset == "paper" else flows[:1]
    chosen = [f for f in flows if f["viscosity"] == viscosity] if viscosity is not None else usual
    if not chosen:
        existing = ", ".join(dict.fromkeys(f"{flow['viscosity']:.0e}" for flow in flows))
        raise ValueError(f"preset {preset!r} has no viscosity {viscosity}: take {existing}")
    sets, scale = [], 64 / 63
    for flow in chosen:
        numbers = {**presets[preset], **flow}
        name = "navier-stokes nu={viscosity:g} T={final_time} N={train}".format(**numbers)
        targets = flow["final_time"] - 10  # after the input frames
        scales = (scale, scale, targets / (targets - 1))
        of_flow = {"name": name, "targets": targets, "scale": scale, "scales": scales, **flow}
        sets.append(runs_of("navier-stokes", preset, **of_flow))
    return sets


# Ablations and learning curves


@recipe
def darcy_modes(
    preset: PaperPreset = "small", *, resolution: Points = None, seeds: Seeds = 1
) -> Study:
    """Ablation: kept modes k_max on Darcy (fig. 9).

    PDNO a(x,ξ), on 256 points per axis for `paper`.
    """
    points = 256 if preset == "paper" and resolution is None else resolution
    base = static_sets("darcy", preset, points)[0]["PDNO a(x,ξ)"] | {"sweep": ("modes",)}
    modes = written()["darcy-modes"][preset]
    runs = {
        f"PDNO k_max={k or 'all'}": merged(base, {"network": {"modes": k}})
        for k in modes
        if k is None or 2 * k <= base["resolution"]
    }
    return make_study("darcy-modes", preset, [runs], seeds=seeds)


@recipe
def darcy_activation(
    preset: PaperPreset = "small", *, resolution: Points = None, seeds: Seeds = 1
) -> Study:
    """Ablation: GELU against ReLU symbol networks on Darcy (fig. 11).

    In `paper` the first layer has GELU in both, as in the published code.
    """
    first = {"first_activation": "gelu"} if preset == "paper" else {}
    sets = [
        {
            f"PDNO {name}": merged(
                runs["PDNO a(x,ξ)"], {"network": {"activation": name.lower(), **first}}
            )
            for name in ("GELU", "ReLU")
        }
        for runs in static_sets("darcy", preset, resolution)
    ]
    return make_study("darcy-activation", preset, sets, seeds=seeds)


@recipe
def navier_stokes_width(preset: PaperPreset = "small", *, seeds: Seeds = 1) -> Study:
    """Ablation: channels of PDNO a(ξ) and FNO on Navier-Stokes (fig. 10).

    All modes are kept.
    """
    study, (flow,) = "navier-stokes-width", flow_sets(preset, 1e-5)
    names = ("PDNO a(x,ξ)", "FNO-2D") if preset == "paper" else ("PDNO rollout", "FNO rollout")
    of_study = {"name": study, "study": study, "sweep": ("width",)}
    pdno, fno = (merged(flow[name], of_study) for name in names)
    runs = {}
    for width in written()[study][preset]:
        ours = {"width": width, "depends_on_x": False, "modes": None}
        theirs = {"width": width, "modes": fno["resolution"] // 2}
        runs[f"PDNO a(ξ) width={width}"] = merged(pdno, {"network": ours})
        runs[f"FNO width={width}"] = merged(fno, {"network": theirs})
    return make_study(study, preset, [runs], seeds=seeds)


@recipe
def darcy_samples(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Learning curves on Darcy: error against 50 to 1000 samples, equal steps.

    Not in the paper. The data, the validation and the test samples are those of `darcy`.
    """
    study, (darcy_runs,) = "darcy-samples", static_sets("darcy", preset)
    sets: list[Runs] = []
    for samples in written()[study][preset]:
        runs = {}
        for model in ("PDNO a(x,ξ)", "PDNO classical", "FNO", "MWT Leg"):
            run = darcy_runs[model]
            all_steps, steps = (-(-n // 20) for n in (run["train"], samples))
            epochs = run["training"]["epochs"] * all_steps // steps
            # measured as often, as that takes longer than an epoch of few samples
            timing = {"epochs": epochs, "evaluate_every": all_steps // steps}
            change = {"train": samples, "pool": run["train"], "zero_shot": (), "training": timing}
            of_study = {"name": f"{study} N={samples}", "study": study, "of_paper": False}
            runs[model] = merged(run, change, of_study)
        sets.append(runs)
    return make_study(study, preset, sets, models=models, seeds=seeds)


@recipe
def burgers_rollout(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """A step e^A u + B σ(W u + b), with proven error bounds of its rollouts on test samples.

    Steps of 0.02 from one frame of Burgers, rolled out over 29 of them; `pdno symbol RUN` prints
    and draws the bounds, which need the true frames.
    """
    runs = runs_of("burgers-rollout", preset)
    return make_study("burgers-rollout", preset, [runs], seeds=seeds)


# Training ablations begin with a plain recipe, add each part of ours alone, and then all of them;
# the best is chosen by the validation samples, which are in neither the training nor the test set


@recipe
def darcy_training(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Training ablation on Darcy: Muon, symmetries, padding, symbols, ..."""
    (runs,) = static_sets("darcy", preset)
    return _by_parts("darcy-training", preset, runs, models, seeds)


@recipe
def burgers_training(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Training ablation on Burgers, 1024 points.

    There are fewer epochs than in the recipe of Burgers, as there are twenty-two runs.
    """
    (runs,) = static_sets("burgers", preset, 64 if preset == "smoke" else 1024)
    return _by_parts("burgers-training", preset, runs, models, seeds)


@recipe
def navier_stokes_training(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Training ablation on Navier-Stokes, 100 CPU seconds each.

    One-step training on 80 trajectories, 40 others are the validation samples.
    """
    (runs,) = flow_sets(preset, 1e-5)
    return _by_parts("navier-stokes-training", preset, runs, models, seeds)


@recipe
def navier_stokes_substeps(
    preset: SmallPreset = "small", *, models: Models = None, seeds: Seeds = 1
) -> Study:
    """Ablation of the transport head: substeps, velocity, interpolation; 100 CPU seconds each.

    On 60 of the training trajectories of the flagship, and its validation trajectories.
    """
    study, (flow,) = "navier-stokes-substeps", flow_sets("best", 1e-5)
    about, runs = written()[study], {}
    for family in ("PDNO", "FNO"):
        first = merged(flow[f"{family} substeps"], {"study": study}, about["changes"][preset])
        for row, head in about["rows"].items():
            epochs = about["epochs"][family][row] if preset == "small" else 1
            change = {"network": {"head": head}, "training": {"epochs": epochs}}
            runs[f"{family}, {row}"] = merged(first, change)
    return make_study(study, preset, [runs], models=models, seeds=seeds)


def _by_parts(study: str, preset: str, runs: Runs, models: Models, seeds: int) -> Study:
    """Networks trained by Adam as they are, with each part of our recipe alone, and with all.

    Of the symbols, if any, one goes with all the other parts; some parts are tried alone only.
    """
    of_study, all_parts, made = written()[study], written()["parts"], Runs()
    for name, about in of_study["networks"].items():
        parts = [*of_study["together"], *about.get("together", ())]
        symbols, family = about.get("symbols", ()), runs[name]["network"]["kind"].upper()
        alone = (*parts, *symbols, *of_study["alone"])
        groups: dict[str, list[str]] = {"": [], **{part: [part] for part in alone}}
        without = [part for part in parts if part != "feed-forward"]
        for label, chosen in (("all but feed-forward", without), ("all", parts)):
            ends = {f"{label}, {symbol}": [*chosen, symbol] for symbol in symbols}
            groups |= ends or {label: chosen}
        epochs = runs[name]["training"]["epochs"]
        first = {"name": runs[name]["problem"]["name"], **runs[name], "training": {}}
        changes = of_study.get("changes", {}).get(preset, {})
        training = {**of_study.get("settings", {}), "learning_rate": about["learning_rate"]}
        plain = merged(first, changes, written()["plain"], {"study": study, "training": training})
        for label, chosen in groups.items():
            model = f"{family}, {label}" if label else family
            if preset != "smoke" and "epochs" in of_study:
                epochs = of_study["epochs"].get(model, of_study["epochs"][family])
            changed = (all_parts[part] for part in chosen)
            made[model] = merged(plain, {"training": {"epochs": epochs}}, *changed)
    return make_study(study, preset, [made], models=models, seeds=seeds)


# Other flows, families, and the resource table


@recipe
def navier_stokes_decay(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """Decaying turbulence, ν = 1e-4: the transport head in four substeps, PDNO against FNO."""
    runs = runs_of("navier-stokes-decay", preset)
    return make_study("navier-stokes-decay", preset, [runs], seeds=seeds)


@recipe
def burgers_shocks(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """Shocks, Burgers with ν = 0.001 in steps of 0.2: the transport head, PDNO against FNO."""
    return make_study("burgers-shocks", preset, [runs_of("burgers-shocks", preset)], seeds=seeds)


@recipe
def heat_family(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """One operator for heat with any diffusivity, its symbol e^{-4π²|ξ|²ct}.

    The diffusivity c of a sample is drawn from 0.01 to 0.1. Trained at 10 times, tested at 20 on
    other c. One operator has the symbol e^{tA(ξ; c)}, the other a free network of (ξ, t, c).
    """
    return make_study("heat-family", preset, [runs_of("heat-family", preset)], seeds=seeds)


@recipe
def navier_stokes_family(preset: SmallPreset = "small", *, seeds: Seeds = 1) -> Study:
    """One operator for viscosities 1e-5 to 1e-3: a(ξ,ν) against FNO.

    One-step training on frames t = 1..20, tested by rollouts from t = 10 to 20. A step of PDNO
    takes about three times as long as one of FNO, which has twice the epochs. The data are solved
    on 64 x 64 points, which at ν = 1e-5 is an approximation that both networks learn.
    """
    runs = runs_of("navier-stokes-family", preset)
    return make_study("navier-stokes-family", preset, [runs], seeds=seeds)


@recipe
def resources(preset: PaperPreset = "small") -> Study:
    """Memory, parameters and seconds per epoch of PDNO and FNO (table 6).

    Measured on one training step of a rollout of ten frames on 64 x 64 points, batch 20; nothing
    is trained. `smoke` measures tiny networks on a tiny grid; the other presets are the same.
    """
    runs = runs_of("resources", preset)
    return replace(make_study("resources", preset, [runs]), measure="resources")


@recipe
def discovery(preset: SmallPreset = "small") -> Study:
    """Equations found from 5, 20 and 100 trajectories, beside PDNO and FNO (docs/discovery.md).

    Burgers, Korteweg-de Vries, Kuramoto-Sivashinsky, Fisher and a flow in the plane, without noise
    and with 1 %. The networks have 100 trajectories and as many CPU seconds.
    """
    return Study("discovery", preset, (), measure="discovery")
