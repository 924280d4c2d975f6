"""`pdno benchmark FOLDER`: PDNO, FNO and MWT on public data, by one protocol for all files.

    OUT/data/NAME/             training and test samples, thinned out
    OUT/plan.json              epochs of each choice, by which all take the same CPU seconds
    OUT/choices/               runs with seed 0 that choose settings by validation samples
    OUT/NAME-NETWORK-seedK/    final runs: all training samples, the chosen settings
    OUT/metrics.csv            their metrics, on a finer grid, too, which no network has seen
    OUT/benchmark.md, report/  the table and the page

All networks have as many choices, the same optimiser, batch size and loss. Trajectories are
learned step by step and tested by rollouts. Finished runs are kept and interrupted ones continued.

Files are recognised by their arrays and names:

    neuraloperator   NAME_train_S.pt with arrays x and y, NAME_test_S.pt at any resolutions S
    FNO              the .mat files of Burgers, Darcy flow (smooth1 trains, smooth2 tests) and
                     Navier-Stokes, and those of the heat equation: see `pdno.data.read`
    PDEBench         HDF5 files with `tensor`, `nu`, fields of a fluid, or a group for each sample
    The Well         files, and folders of splits: see `pdno.data.well`

The first samples of a file are for training, the last ones for testing, unless there is a file
for them. Large grids are thinned out; test samples are kept on a finer grid, too.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

import torch
from torch import Tensor

from pdno.data.array_files import PublishedFileError, open_arrays, read_arrays
from pdno.data.dataset import OperatorDataset
from pdno.data.problems import PROBLEMS
from pdno.data.read import count_published, read_published
from pdno.data.shards import MANIFEST
from pdno.data.sources import Channels, Source, channel_names
from pdno.data.well import SPLITS, is_well, open_well
from pdno.files.atomic import write_text
from pdno.files.limits import read_json
from pdno.files.metric_table import ERROR, Metric, by_network, metrics_of_run
from pdno.files.run_folder import DATA
from pdno.interface.records import Options
from pdno.paper.reproduce import gather_metrics, run_folder
from pdno.report.page import Chapter, Page, write_report
from pdno.report.tables import Table, number, summary_text
from pdno.runs.execute import run_experiment
from pdno.runs.specification import Experiment
from pdno.spectral.grid import Grid

# The files

TRAIN, TEST, FRAMES = 1000, 100, 20  # at most
WINDOW = 10  # frames that a published flow shows
MOST_POINTS = {1: 1024, 2: 85, 3: 32}  # per axis in training, by dimension
BLOCK = 2**25  # numbers that are read at once
FLUID = ("density", "pressure", "Vx", "Vy", "Vz")  # fields of PDEBench
EXPECTED = (
    "NAME_train_S.pt and NAME_test_S.pt of neuraloperator, the .mat files of FNO, HDF5 files of "
    "PDEBench, or data of The Well"
)

Pair = tuple[Tensor, Tensor]
Rows = Callable[[slice], Pair]
"""Reads a range of samples: inputs (B, C, *N), outputs (B, [T,] C, *N)."""


@dataclass(eq=False)
class FileSamples(Source):
    """Samples of a file, read when they are needed, on every r-th point and at some frames."""

    rows: Rows
    samples: range
    whole: Grid
    all_times: tuple[float, ...] | None = None
    every: int = 1
    window: int = 1  #: frames that are the input

    def __post_init__(self) -> None:
        shape = tuple(n // self.every for n in self.whole.shape)
        self.grid = replace(self.whole, shape=shape, offset=self.whole.offset / self.every)
        # about twenty of the frames, evenly spaced, the first among them
        self.step = max(1, (len(self.all_times or ()) - 1) // FRAMES)
        self.times = None if self.all_times is None else self.all_times[:: self.step]
        first = self.rows(slice(self.samples[0], self.samples[0] + 1))
        inputs, outputs = (part.shape[-1 - self.grid.dim] for part in first)
        names = channel_names("input", (), inputs), channel_names("output", (), outputs)
        self.channels = Channels(*names)
        self.block = max(1, BLOCK // sum(part.numel() for part in first))
        self.dtype, self.pde_parameters = torch.float32, {}

    def __len__(self) -> int:
        return len(self.samples)

    def first(self, count: int) -> "FileSamples":
        """At most so many of the samples."""
        return replace(self, samples=self.samples[:count])

    def read(self, indices: Sequence[int]) -> Pair:
        parts, points = list[Pair](), self.whole.every(self.every)
        for k in range(0, len(indices), self.block):
            chosen = [self.samples[i] for i in indices[k : k + self.block]]
            first = min(chosen)
            f, u = self.rows(slice(first, max(chosen) + 1))
            u, at = u if self.times is None else u[:, :: self.step], [i - first for i in chosen]
            parts.append((f[at][points].float(), u[at][points].float()))
        inputs, outputs = zip(*parts, strict=True)
        return torch.cat(inputs), torch.cat(outputs)


@dataclass(frozen=True, eq=False)
class PublicData:
    """Samples for training on some grid, and for testing on it or on a finer one."""

    name: str
    source: str
    train: OperatorDataset
    test: OperatorDataset
    window: int | None  #: frames that are the input of a rollout; None for a static map
    points: int  #: per axis in training
    finer: tuple[int, ...]  #: points per axis of the grid that only test samples have


def recognise(folder: Path) -> list[PublicData]:
    """What a folder, or a file, holds; ValueError where nothing is recognised."""
    if not folder.exists():
        raise ValueError(f"there is no {folder}: give a folder with {EXPECTED}")
    files = sorted(folder.iterdir()) if folder.is_dir() else [folder]
    whole = folder.is_dir() and (folder / "data").is_dir() and is_well(folder)
    wells = [folder] if whole else [path for path in files if is_well(path)]
    rest = [path for path in files if path.is_file() and path not in wells]
    data = [_well(path) for path in wells]
    for read in (_tutorials, _published, _pdebench):
        data += read(rest)
    if not data:
        listed = ", ".join(path.name for path in files[:8]) or "nothing"
        cure = "for arrays of your own write a specification for `pdno train` (docs/own_data.md)"
        raise ValueError(f"{folder} has {listed}; expected {EXPECTED}: {cure}")
    return data


def _thinned(name: str, source: str, train: FileSamples, test: FileSamples) -> PublicData:
    """Every r-th point of large grids, for testing of the next finer grid, where there is one."""
    shape, largest = train.whole.shape, max(train.whole.shape)
    allowed = [r for r in range(1, largest) if largest // r <= MOST_POINTS[len(shape)]]
    small = [r for r in allowed if not any(n % r for n in shape)]
    # half of an even spacing is allowed, too
    train = replace(train, every=min(small or [1], key=lambda r: (r > 1 and r % 2, r)))
    points = max(train.grid.shape)
    test = replace(test, every=max(1, max(test.whole.shape) // points // 2))
    finer = tuple(n for n in (max(test.grid.shape),) if n > points)
    window = None if train.times is None else train.window
    data = OperatorDataset(train), OperatorDataset(test)
    return PublicData(name, source, *data, window, points, finer)


def _split(samples: FileSamples) -> tuple[FileSamples, FileSamples]:
    test = min(TEST, max(1, len(samples) // 6))
    last = replace(samples, samples=samples.samples[-test:])
    return samples.first(min(TRAIN, len(samples) - test)), last


def _tutorials(files: Sequence[Path]) -> Iterator[PublicData]:
    for path in files:
        if named := re.fullmatch(r"(.+)_train_\d+\.pt", path.name):
            of_name = re.compile(rf"{re.escape(named[1])}_test_(\d+)\.pt")
            found = {int(m[1]): file for file in files if (m := of_name.fullmatch(file.name))}
            train, tests = _tutorial(path), [_tutorial(file) for _, file in sorted(found.items())]
            # the same samples on a finer grid replace those on the grid of the training
            tests = tests[:1] + [test for test in tests[1:] if _refines(test, tests[0])]
            parts = (train, tests[-1]) if tests else _split(train)
            yield _thinned(named[1], "neuraloperator", *parts)


def _refines(fine: FileSamples, coarse: FileSamples) -> bool:
    """Whether a file has the samples of another one, among other points."""
    every, rest = divmod(fine.whole.shape[0], coarse.whole.shape[0])
    if rest or len(fine) != len(coarse):
        return False
    pairs = zip(replace(fine, every=every).read([0]), coarse.read([0]), strict=True)
    return all(torch.allclose(a, b) for a, b in pairs)


def _tutorial(path: Path) -> FileSamples:
    arrays = read_arrays(path, ["x", "y"])
    f, u = (torch.from_numpy(arrays[name]).float() for name in ("x", "y"))
    f, u = (part.squeeze(1) if part.dim() > 3 and part.shape[1] == 1 else part for part in (f, u))
    times = None if u.dim() == f.dim() else tuple(torch.linspace(0, 1, u.shape[1]).tolist())
    f, u = f[:, None], u.unsqueeze(1 if times is None else 2)
    grid, samples = Grid(tuple(f.shape[2:])), range(min(len(f), TRAIN))
    return FileSamples(lambda cut: (f[cut], u[cut]), samples, grid, times)


def _published(files: Sequence[Path]) -> Iterator[PublicData]:
    for path in files:
        one, two = (path.with_name(re.sub("smooth[12]", f"smooth{k}", path.name)) for k in (1, 2))
        if path.suffix not in (".mat", ".pt") or (path != one and one in files):
            continue
        try:
            samples = _published_file(path)
        except PublishedFileError:
            continue
        first, last = _split(samples)
        if path != two and two in files:
            first, last = samples.first(TRAIN), _published_file(two).first(TEST)
        yield _thinned(path.stem, "FNO", first, last)


def _published_file(path: Path) -> FileSamples:
    count, first = count_published(path), read_published(path, samples=slice(0, 1))
    dim, times, flow = PROBLEMS[first.kind].dim, first.times, first.kind == "navier-stokes"
    if first.outputs.dim() < dim + 3:
        times = None
    elif times is None or first.kind == "heat":
        times = times or tuple(map(float, range(first.outputs.shape[1])))
    else:  # of long flows the first frames
        times = times[:FRAMES]
    window = WINDOW if flow and times and len(times) > WINDOW else 1
    # the points of Darcy flow have both ends of the box: the last one is left out
    inner = (..., *[slice(-1 if first.kind == "darcy" else None)] * dim)

    def rows(cut: slice) -> Pair:
        part = read_published(path, samples=cut, frames=None if times is None else len(times))
        f, u = part.outputs[:, 0] if part.inputs is None else part.inputs, part.outputs
        return f[inner], u[inner]

    grid = Grid(tuple(first.outputs[inner].shape[-dim:]))
    return FileSamples(rows, range(count), grid, times, window=window)


def _pdebench(files: Sequence[Path]) -> Iterator[PublicData]:
    for path in files:
        if path.suffix in (".h5", ".hdf5"):
            with open_arrays(path) as (_, arrays):
                shapes = {name: array.shape for name, array in arrays.items()}
            if samples := _pdebench_file(path, shapes):
                yield _thinned(path.stem, "PDEBench", *_split(samples))


def _pdebench_file(path: Path, shapes: dict[str, tuple[int, ...]]) -> FileSamples | None:
    """Samples of a file with arrays of these shapes; None where they are not PDEBench's."""
    groups = [name for name in sorted(shapes) if re.fullmatch(r"\d+/data", name)]
    fields = [name for name in FLUID if name in shapes]
    static = "nu" in shapes and "tensor" in shapes
    outputs = groups or (["tensor"] if "tensor" in shapes else fields)
    if not outputs:
        return None
    # groups have (T, *N, C) of one sample each, other arrays (B, T, *N)
    count, frames, *space = shapes[outputs[0]]
    if groups:
        count, frames, space = len(groups), count, [frames, *space[:-1]]

    def rows(cut: slice) -> Pair:
        with open_arrays(path) as (_, arrays):
            if groups:
                u = torch.stack([torch.from_numpy(arrays[n].read()) for n in groups[cut]])
                u = u.movedim(-1, 2)
            else:
                u = torch.stack([torch.from_numpy(arrays[n].read((cut,))) for n in outputs], 2)
            nu = torch.from_numpy(arrays["nu"].read((cut,))) if static else None
        return (u[:, 0], u) if nu is None else (nu[:, None], u[:, 0])

    # reaction, sorption and shallow water in boxes, flow through a porous medium: cell centres
    grid = Grid.cells(tuple(space)) if static or groups else Grid(tuple(space))
    times = None if static else tuple(map(float, range(frames)))
    return FileSamples(rows, range(count), grid, times)


def _well(path: Path) -> PublicData:
    splits = [split for split in SPLITS if (path / "data" / split).is_dir()]
    opened = [open_well(path, split) for split in splits] or [open_well(path)]

    def samples(data: OperatorDataset) -> FileSamples:
        indices = range(len(data))
        return FileSamples(lambda cut: data.batch(indices[cut]), indices, data.grid, data.times)

    parts = samples(opened[0]).first(TRAIN), samples(opened[-1]).first(TEST)
    return _thinned(path.stem, "The Well", *(parts if splits else _split(samples(opened[0]))))


# The protocol

PLAN = "plan.json"
OURS, BASELINE = "PDNO classical", "FNO"  # which all names of FNOs begin with
VALIDATION = 10  # one in so many training samples validates
CHOICES = {"wide": 1.0, "narrow": 0.6}  # factors of the width
TIMED = 200  # samples of the epochs that are timed


def networks_on(dim: int, points: int) -> dict[str, Options]:
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
        networks = networks_on(public.train.grid.dim, public.points)
        chosen = [_choose(public, name, n, out, seconds) for name, n in networks.items()]
        for seed, experiment in product(range(seeds), chosen):
            training = experiment.training.with_changes(seed=seed)
            final = experiment.with_changes(
                train=len(public.train), validation=0, training=training
            )
            finals.append(run_folder(final, out))
            run_experiment(final, finals[-1], data=out / DATA)
            gather_metrics(out)
    tables = [_table(public, finals) for public in every]
    text = "\n".join(table.markdown() for table in tables)
    write_text(out / "benchmark.md", text)

    def add_chapter(page: Page, *_: object) -> None:
        pairs = zip(every, tables, strict=True)
        sections = [page.table(p.name, f"{p.name} ({p.source})", t) for p, t in pairs]
        page.chapters.insert(0, Chapter("Networks in the same CPU seconds", sections))

    page = write_report(finals, out / "report", add_chapter)
    return f"{text}\n{page}"


def _choose(
    public: PublicData, name: str, network: Options, out: Path, seconds: float
) -> Experiment:
    """The settings with the least validation error, as an experiment with seed 0."""
    path, tried = out / PLAN, list[tuple[float, Experiment]]()
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
        tried.append((_value(metrics, "validation", ERROR), experiment))
    return min(tried, key=lambda pair: pair[0])[1]


def _experiment(
    public: PublicData, name: str, network: Options, out: Path, training: dict[str, int]
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
    strong = set[tuple[int, int]]()
    kind = "a static map" if public.window is None else f"rollouts, {public.window} frames known"
    samples = f"{len(public.train)} training and {len(public.test)} test samples"
    points = " × ".join(map(str, public.train.grid.shape))
    notes = [f"{public.name} ({public.source}): {samples}, {points} points, {kind}."]
    for column, (title, (split, n)) in enumerate(grids.items(), start=2):
        errors = {network.model: network.values(split, ERROR, n) for network in networks}
        ordered = sorted(errors, key=lambda name: fmean(errors[name]))
        strong.add((list(errors).index(ordered[0]), column))
        other = next(name for name in ordered if name.startswith(BASELINE))
        notes.append(verdict(title, errors[OURS], other, errors[other]))
    lines = [
        (
            network.model,
            f"{network.parameters or 0:,}",
            *(summary_text(network.summary(s, resolution=n)) for s, n in grids.values()),
            number(fmean(network.values("training", "cpu seconds"))),
            str(len(network.seeds)),
        )
        for network in networks
    ]
    head = ("network", "parameters", *grids, "CPU seconds", "seeds")
    return Table(head, tuple(lines), tuple(notes), frozenset(strong))


def verdict(title: str, ours: Sequence[float], other: str, theirs: Sequence[float]) -> str:
    """Ahead only where all seeds of one are ahead of all seeds of the other."""
    if max(ours) < min(theirs):
        return f"{title}: {OURS} is ahead of {other} by more than the seeds differ."
    if max(theirs) < min(ours):
        return f"{title}: {other} is ahead of {OURS} by more than the seeds differ."
    return f"{title}: {OURS} and {other} are a tie within the seeds."
