"""`pdno benchmark FOLDER`: PDNO, FNO and MWT on public data, by one protocol for all files.

    OUT/data/NAME/             training and test samples, thinned out
    OUT/plan.json              epochs of each choice, by which all take the same CPU seconds
    OUT/choices/               runs with seed 0 that choose settings by validation samples
    OUT/NAME-NETWORK-seedK/    final runs: all training samples, the chosen settings
    OUT/metrics.csv            their metrics, on a finer grid, too, which no network has seen
    OUT/benchmark.md, report/  the table and the page

All networks have as many choices, the same optimiser, batch size and loss. Trajectories are
learned step by step and tested by rollouts. Finished runs are kept and interrupted ones continued,
so the command may be repeated. `pdno speed` measures seconds, this command errors.
"""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pdno.data.shards import MANIFEST
from pdno.files.atomic import write_text
from pdno.files.limits import read_json
from pdno.files.metric_table import ERROR, Metric, by_network, metrics_of_run
from pdno.files.run_folder import DATA
from pdno.paper.public_data import PublicData, recognise
from pdno.paper.reproduce import gather_metrics, run_folder
from pdno.report.page import Chapter, Page, write_report
from pdno.report.tables import Table, number, summary_text
from pdno.runs.execute import run_experiment
from pdno.runs.specification import Experiment

PLAN = "plan.json"
OURS, BASELINE = "PDNO classical", "FNO"  # which all names of FNOs begin with
VALIDATION = 10  # one in so many training samples validates
CHOICES = {"wide": 1.0, "narrow": 0.6}  # factors of the width
TIMED = 200  # samples of the epochs that are timed


def networks_on(dim: int, points: int) -> dict[str, dict[str, Any]]:
    """The networks of the protocol for a grid with so many points per axis.

    FNO sees periodic coordinates, as PDNO does, so that it is one operator on all grids; or
    appended ones, as published, which jump at the boundary.
    """
    modes = min({1: 16, 2: 12, 3: 6}[dim], points // 2)
    sizes = {"width": {1: 32, 2: 20, 3: 12}[dim], "modes": modes}
    fno = {"kind": "fno", **sizes}
    networks = {
        OURS: {"kind": "pdno", "symbol": "classical", **sizes},
        "FNO": {**fno, "coordinates": "periodic"},
        "FNO as published": fno,
    }
    if dim < 3 and points & (points - 1) == 0:  # wavelets halve the points
        wavelets = {"wavelets": 3, "modes": modes, "append_coordinates": dim > 1}
        networks["MWT"] = {"kind": "mwt", "width": {1: 16, 2: 2}[dim], **wavelets}
    return networks


def run_benchmark(folder: Path, out: Path, *, seconds: float = 60.0, seeds: int = 3) -> str:
    """Run what is missing of the benchmark of a folder; writes the page and returns the table.

    Arguments:
        seconds: CPU seconds of each training.
        seeds: Number of final runs of each network.
    """
    out.mkdir(parents=True, exist_ok=True)
    every = recognise(folder)
    finals = list[Path]()
    for public in every:
        for part, samples in (("train", public.train), ("test", public.test)):
            if not (out / DATA / public.name / part / MANIFEST).is_file():
                samples.save(out / DATA / public.name / part)
        chosen = {
            name: _choose(public, name, network, out, seconds)
            for name, network in networks_on(public.train.grid.dim, public.points).items()
        }
        for seed in range(seeds):
            for experiment in chosen.values():
                final = experiment.with_changes(
                    train=len(public.train),
                    validation=0,
                    training=experiment.training.with_changes(seed=seed),
                )
                finals.append(run_folder(final, out))
                run_experiment(final, finals[-1], data=out / DATA)
                gather_metrics(out)
    tables = [_table(public, finals) for public in every]
    text = "\n".join(table.markdown() for table in tables)
    write_text(out / "benchmark.md", text)

    def add_chapter(page: Page, *_: object) -> None:
        sections = [
            page.table(p.name, f"{p.name} ({p.source})", t)
            for p, t in zip(every, tables, strict=True)
        ]
        page.chapters.insert(0, Chapter("Networks in the same CPU seconds", sections))

    page = write_report(finals, out / "report", add_chapter)
    return f"{text}\n{page}"


def _choose(
    public: PublicData, name: str, network: dict[str, Any], out: Path, seconds: float
) -> Experiment:
    """The settings with the least validation error, as an experiment with seed 0."""
    path, errors = out / PLAN, dict[str, float]()
    experiments = dict[str, Experiment]()
    for choice, factor in CHOICES.items():
        options = {**network, "width": round(factor * network["width"])}
        plan = read_json(path) if path.is_file() else {}
        key = f"{public.name}, {name}, {choice}, {seconds:g} s"
        if key not in plan:
            short = _experiment(public, name, options, out, {})
            epoch = _seconds_per_epoch(short, len(public.train), out / DATA)
            plan[key] = max(1, round(seconds / epoch))
            write_text(path, json.dumps(plan, indent=1) + "\n")
        training = {"epochs": plan[key], "evaluate_every": max(1, plan[key] // 10)}
        experiment = _experiment(public, name, options, out, training)
        run = run_folder(experiment.with_changes(model=f"{name} {choice}"), out / "choices")
        metrics = run_experiment(experiment, run, data=out / DATA)
        errors[choice], experiments[choice] = _value(metrics, "validation", ERROR), experiment
    return experiments[min(errors, key=lambda choice: errors[choice])]


def _experiment(
    public: PublicData, name: str, network: dict[str, Any], out: Path, training: dict[str, int]
) -> Experiment:
    """A run with a part of the training samples for validation."""
    validation = max(1, len(public.train) // VALIDATION)
    folder = out / DATA / public.name
    return Experiment.model_validate(
        {
            "name": public.name,
            "model": name,
            "study": "public-data",
            "file": {"path": folder / "train"},
            "test_file": {"path": folder / "test"},
            "train": len(public.train) - validation,
            "validation": validation,
            "resolution": public.points,
            "zero_shot": public.finer,
            "window": public.window,
            "network": network,
            "task": "static" if public.window is None else "markov",
            "normalization": "channel",
            "training": training,
        }
    )


def _seconds_per_epoch(experiment: Experiment, samples: int, data: Path) -> float:
    """CPU seconds of an epoch on all training samples, by some epochs on a few of them."""
    few = min(TIMED, experiment.train)
    training = {**experiment.training.model_dump(), "epochs": 3, "evaluate_every": 3}
    short = experiment.with_changes(train=few, validation=1, zero_shot=(), training=training)
    with TemporaryDirectory() as folder:
        metrics = run_experiment(short, folder, data=data)
    return _value(metrics, "training", "cpu seconds") / 3 * samples / few


def _value(metrics: Iterable[Metric], split: str, name: str) -> float:
    return next(m.value for m in metrics if (m.split, m.metric) == (split, name))


def _table(public: PublicData, folders: Sequence[Path]) -> Table:
    """A line for each network, and whether ours is ahead by more than the seeds differ."""
    metrics = (metric for folder in folders for metric in metrics_of_run(folder))
    networks = by_network(m for m in metrics if m.experiment == public.name)
    grids = {"test": ("test", public.points)}
    grids |= {f"zero-shot, {n} points": ("zero-shot", n) for n in public.finer}
    lines = [
        (
            network.model,
            f"{network.parameters or 0:,}",
            *(summary_text(network.summary(split, resolution=n)) for split, n in grids.values()),
            number(_mean(network.values("training", "cpu seconds"))),
            str(len(network.seeds)),
        )
        for network in networks
    ]
    values = {
        (network.model, title): network.values(split, ERROR, n)
        for network in networks
        for title, (split, n) in grids.items()
    }
    theirs = [network.model for network in networks if network.model.startswith(BASELINE)]
    notes = []
    for title in grids:
        other = min(theirs, key=lambda name: _mean(values[name, title]))
        notes.append(verdict(title, values[OURS, title], other, values[other, title]))
    best = [
        min(range(len(lines)), key=lambda k: _mean(values[lines[k][0], title])) for title in grids
    ]
    strong = frozenset((line, 2 + k) for k, line in enumerate(best))
    kind = "a static map" if public.window is None else f"rollouts, {public.window} frames known"
    samples = f"{len(public.train)} training and {len(public.test)} test samples"
    points = " × ".join(map(str, public.train.grid.shape))
    notes.insert(0, f"{public.name} ({public.source}): {samples}, {points} points, {kind}.")
    return Table(
        ("network", "parameters", *grids, "CPU seconds", "seeds"),
        tuple(lines),
        tuple(notes),
        strong,
    )


def verdict(title: str, ours: Sequence[float], other: str, theirs: Sequence[float]) -> str:
    """Ahead only where all seeds of one are ahead of all seeds of the other."""
    if max(ours) < min(theirs):
        answer = f"{OURS} is ahead of {other} by more than the seeds differ"
    elif max(theirs) < min(ours):
        answer = f"{other} is ahead of {OURS} by more than the seeds differ"
    else:
        answer = f"{OURS} and {other} are a tie within the seeds"
    return f"{title}: {answer}."


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)
