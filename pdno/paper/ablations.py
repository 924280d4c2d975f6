"""What pays in training: a plain way to learn, each part of a better one alone, and all together.

Not in the paper. The networks and data are those of the `small` recipes; what is best is chosen by
the validation samples, which are in neither the training nor the test set.
"""

__all__ = ["burgers_training", "darcy_training", "navier_stokes_training"]

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pdno.paper import Preset, presets_of, recipes
from pdno.paper.recipes import (
    MOST_GRADIENT,
    Study,
    check_size,
    choose,
    make_study,
    one_cycle,
)
from pdno.runs.specification import Experiment
from pdno.training.task import Markov

Part = Mapping[str, Mapping[str, Any]]
"""What a part changes: options of the `network`, the `training`, the `task`, or the experiment."""
Parts = Mapping[str, Part]
NONE: Parts = MappingProxyType({})
PARTS: Parts = {
    "Muon": {"training": {"optimiser": "muon", "learning_rate": 2e-3}},
    "symmetries": {"training": {"augment": True}},
    "feed-forward": {"network": {"feed_forward": 40}},
}
"""What every network can use."""
AVERAGING: Parts = {"averaging": {"training": {"averaging": 0.99}}}
"""A mean lags behind where the error falls fast, as it does at the end of one cycle."""
PADDING: Parts = {"padding": {"network": {"padding": 0.25}}}
NORMALISERS: Parts = {"normalisers": {"experiment": {"normalization": "channel"}}}
"""The velocities of Burgers at t = 1 have the size 0.008; these make them worse all the same."""
TRANSPORT: Parts = {
    "transport": {
        "network": {"transport": True, "diffusion": True},
        "task": {"residual": False},
    },
}
"""What is carried also diffuses."""
PERIODIC: Parts = {"periodic": {"network": {"coordinates": "periodic"}}}
"""Coordinates without a jump: cos 2πx and sin 2πx."""
NO_COORDINATES: Parts = {"no coordinates": {"network": {"coordinates": "none"}}}
"""The operator of Burgers is the same everywhere."""
TRUNK: Parts = {
    "trunk": {"network": {"symbol": "trunk", "symbol_hidden": 64, "depends_on_x": False}},
}
CLASSICAL: Parts = {"classical": {"network": {"symbol": "classical", "order": 0.0}}}
HUNDRED_SECONDS = {
    **{"PDNO": 5, "PDNO, feed-forward": 4, "PDNO, trunk": 8, "PDNO, all": 5},
    **{"PDNO, all but feed-forward": 7, "FNO": 9, "FNO, feed-forward": 6, "FNO, all": 6},
    **{"FNO, all but feed-forward": 8},
}
"""Epochs on Navier-Stokes; parts that are not named have those of their family."""
BURGERS_EPOCHS = 20


def darcy_training(
    preset: Preset = "small", *, models: Sequence[str] | None = None, seeds: int = 1
) -> Study:
    """Darcy flow on 32 x 32 points."""
    name, families = "darcy-training", ("PDNO a(x,ξ)", "FNO")
    check_size(preset, known=presets_of(name))
    pdno, fno = recipes.darcy(preset, models=families).experiments
    every = {**PARTS, **PADDING}
    symbols = {**TRUNK, **CLASSICAL}
    runs = _by_parts(name, _plain(preset, pdno, 1e-2), every, symbols, alone=AVERAGING)
    runs += _by_parts(name, _plain(preset, fno, 3e-3), every, alone=AVERAGING)
    return _study(name, preset, runs, models, seeds)


def burgers_training(
    preset: Preset = "small", *, models: Sequence[str] | None = None, seeds: int = 1
) -> Study:
    """Burgers on 1024 points, fewer epochs than the recipe has: there are twenty-two runs."""
    name, families = "burgers-training", ("PDNO a(x,ξ)", "FNO")
    check_size(preset, known=presets_of(name))
    points = None if preset == "smoke" else 1024
    epochs = {"epochs": 1 if preset == "smoke" else BURGERS_EPOCHS}
    pdno, fno = (
        run.with_changes(training=run.training.model_copy(update=epochs))
        for run in recipes.burgers(preset, resolution=points, models=families).experiments
    )
    every, alone = {**PARTS, **NO_COORDINATES}, {**AVERAGING, **NORMALISERS}
    symbols = {**TRUNK, **CLASSICAL}
    runs = _by_parts(name, _plain(preset, pdno, 5e-3), every, symbols, alone=alone)
    runs += _by_parts(name, _plain(preset, fno, 2e-3), every, alone=alone)
    return _study(name, preset, runs, models, seeds)


def navier_stokes_training(
    preset: Preset = "small", *, models: Sequence[str] | None = None, seeds: int = 1
) -> Study:
    """One-step training on 80 trajectories of Navier-Stokes, 40 others to choose by.

    The epochs are such that each run takes about 100 seconds of a core of 2026.
    """
    name, families = "navier-stokes-training", ("PDNO rollout", "FNO rollout")
    check_size(preset, known=presets_of(name))
    pdno, fno = recipes.navier_stokes(preset, models=families).experiments
    train, few = (2, 2) if preset == "smoke" else (80, 40)
    sizes = {"train": train, "validation": few, "test": few, "zero_shot": ()}
    settings = {"batch_size": 8, "clip": MOST_GRADIENT, "weight_decay": 0.0}
    every, runs = {**PARTS, **TRANSPORT, **PERIODIC}, list[Experiment]()
    for base, rate, parts in ((pdno, 5e-3, {**every, **TRUNK}), (fno, 2e-3, every)):
        words = {"name": base.name.replace(f"N={base.train}", f"N={train}"), "task": Markov()}
        plain = _plain(preset, base, rate, **settings)
        plain = plain.with_changes(**sizes, **words, normalization="channel")
        for run in _by_parts(name, plain, parts, alone=AVERAGING):
            usual = HUNDRED_SECONDS[run.network.family[0]]
            epochs = 1 if preset == "smoke" else HUNDRED_SECONDS.get(run.model, usual)
            training = run.training.model_copy(update={"epochs": epochs})
            runs.append(run.with_changes(training=training))
    return _study(name, preset, runs, models, seeds)


def _study(
    name: str, preset: Preset, runs: list[Experiment], models: Sequence[str] | None, seeds: int
) -> Study:
    return make_study(name, preset, choose([{run.model: run for run in runs}], models), seeds)


def _plain(preset: Preset, base: Experiment, rate: float, **settings: Any) -> Experiment:
    """A run with Adam in place of the best way."""
    training = one_cycle(preset, base.training.epochs, rate, optimiser="adam", **settings)
    return base.with_changes(training=training)


def _by_parts(
    name: str, base: Experiment, parts: Parts, symbols: Parts = NONE, *, alone: Parts = NONE
) -> list[Experiment]:
    """A network as it is, with each part alone, and with all of them.

    Of the symbols, if any, one goes with all the other parts; some parts are tried `alone` only.
    """
    known, family, runs = {**parts, **symbols, **alone}, base.network.family[0], []
    groups: dict[str, Sequence[str]] = {"": (), **{part: (part,) for part in known}}
    simple = [part for part in parts if part != "feed-forward"]
    for words, those in (("all but feed-forward", simple), ("all", list(parts))):
        ends = {f"{words}, {symbol}": [*those, symbol] for symbol in symbols}
        groups |= ends or {words: those}
    for label, chosen in groups.items():
        changed: dict[str, Any] = {}
        for place, options in (item for part in chosen for item in known[part].items()):
            if place == "experiment":
                changed |= options
                continue
            changed[place] = changed.get(place, getattr(base, place)).model_copy(update=options)
        words = f"{family}, {label}" if label else family
        runs.append(base.with_changes(study=name, model=words, of_paper=False, **changed))
    return runs
