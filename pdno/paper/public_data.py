"""Public data files, recognised by their arrays and names, as training and test samples.

    neuraloperator   NAME_train_S.pt with arrays x and y, NAME_test_S.pt at any resolutions S
    FNO              the .mat files of Burgers, Darcy flow (smooth1 trains, smooth2 tests) and
                     Navier-Stokes, and those of the heat equation: see `pdno.data.read`
    PDEBench         HDF5 files with `tensor`, `nu`, fields of a fluid, or a group for each sample
    The Well         files, and folders of splits: see `pdno.data.well`

The first samples of a file are for training, the last ones for testing, unless there is a file
for them. Large grids are thinned out; test samples are kept on a finer grid, too.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from pdno.data.array_files import PublishedFileError, open_arrays, read_arrays
from pdno.data.dataset import OperatorDataset
from pdno.data.problems import PROBLEMS
from pdno.data.read import count_published, read_published
from pdno.data.sources import Channels, Source, channel_names
from pdno.data.well import SPLITS, is_well, open_well
from pdno.spectral.grid import Grid

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
    step: int = 1  #: between frames
    every: int = 1

    def __post_init__(self) -> None:
        shape = tuple(n // self.every for n in self.whole.shape)
        self.grid = replace(self.whole, shape=shape, offset=self.whole.offset / self.every)
        self.times = None if self.all_times is None else self.all_times[:: self.step]
        first = self.rows(slice(self.samples[0], self.samples[0] + 1))
        counts = [part.shape[-1 - self.grid.dim] for part in first]
        names = zip(("input", "output"), counts, strict=True)
        self.channels = Channels(*(channel_names(name, (), count) for name, count in names))
        self.block = max(1, BLOCK // sum(part.numel() for part in first))
        self.dtype, self.pde_parameters = torch.float32, {}

    def __len__(self) -> int:
        return len(self.samples)

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

    @property
    def points(self) -> int:
        """Points per axis in training."""
        return max(self.train.grid.shape)

    @property
    def finer(self) -> tuple[int, ...]:
        """Points per axis of the grid that only test samples have."""
        finest = max(self.test.grid.shape)
        return (finest,) if finest > self.points else ()


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


def _thinned(
    name: str, source: str, train: FileSamples, test: FileSamples, window: int | None = None
) -> PublicData:
    """Every r-th point of large grids, for testing of the next finer grid, where there is one."""
    shape = train.whole.shape
    allowed = [r for r in range(1, max(shape)) if not any(n % r for n in shape)]
    small = [r for r in allowed if max(shape) // r <= MOST_POINTS[len(shape)]]
    every = min(small, key=lambda r: (r > 1 and r % 2, r))  # half of an even one is allowed, too
    train = replace(train, every=every)
    points, finest = max(train.grid.shape), max(test.whole.shape)
    test = replace(test, every=max(1, finest // points // 2))
    return PublicData(name, source, OperatorDataset(train), OperatorDataset(test), window)


def _split(samples: FileSamples) -> tuple[FileSamples, FileSamples]:
    """The first and the last samples of a file."""
    rows = samples.samples
    test = min(TEST, max(1, len(rows) // 6))
    first, last = rows[: min(TRAIN, len(rows) - test)], rows[-test:]
    return replace(samples, samples=first), replace(samples, samples=last)


def _step(times: Sequence[float] | None) -> int:
    """About twenty of the frames, evenly spaced, the first among them."""
    return 1 if times is None else max(1, (len(times) - 1) // FRAMES)


def _tutorials(files: Sequence[Path]) -> Iterator[PublicData]:
    for path in files:
        if named := re.fullmatch(r"(.+)_train_(\d+)\.pt", path.name):
            train, tests = _tutorial(path), list[FileSamples]()
            for other in sorted(path.parent.glob(f"{named[1]}_test_*.pt"), key=_resolution):
                test = _tutorial(other)
                # the same samples on a finer grid replace those on the grid of the training
                if not tests or _refines(test, tests[0]):
                    tests.append(test)
            parts = (train, tests[-1]) if tests else _split(train)
            window = None if train.times is None else 1
            yield _thinned(named[1], "neuraloperator", *parts, window)


def _resolution(path: Path) -> int:
    number = re.search(r"(\d+)\.pt$", path.name)
    return int(number[1]) if number else 0


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
    return FileSamples(lambda cut: (f[cut], u[cut]), samples, grid, times, _step(times))


def _published(files: Sequence[Path]) -> Iterator[PublicData]:
    names = {path.name for path in files}
    for path in files:
        first, second = (
            path.name.replace(f"smooth{a}", f"smooth{b}") for a, b in ((2, 1), (1, 2))
        )
        if path.suffix not in (".mat", ".pt") or (first != path.name and first in names):
            continue
        try:
            samples, window = _published_file(path)
        except PublishedFileError:
            continue
        parts = _split(samples)
        if second != path.name and second in names:
            test, _ = _published_file(path.with_name(second))
            parts = (
                replace(samples, samples=samples.samples[:TRAIN]),
                replace(test, samples=test.samples[:TEST]),
            )
        yield _thinned(path.stem, "FNO", *parts, window)


def _published_file(path: Path) -> tuple[FileSamples, int | None]:
    """Samples of a published file, and the frames that are the input."""
    count, first = count_published(path), read_published(path, samples=slice(0, 1))
    dim, times, window = PROBLEMS[first.kind].dim, first.times, None
    if first.outputs.dim() < dim + 3:
        times = None
    elif times is None:
        times = tuple(map(float, range(first.outputs.shape[1])))
    if times is not None:  # of long flows the first frames
        times = times[: FRAMES + 1] if first.kind == "heat" else times[:FRAMES]
        window = WINDOW if first.kind == "navier-stokes" and len(times) > WINDOW else 1
    # the points of Darcy flow have both ends of the box: the last one is left out
    inner = (..., *[slice(-1 if first.kind == "darcy" else None)] * dim)

    def rows(cut: slice) -> Pair:
        part = read_published(path, samples=cut, frames=None if times is None else len(times))
        f, u = part.outputs[:, 0] if part.inputs is None else part.inputs, part.outputs
        return f[inner], u[inner]

    grid = Grid(tuple(first.outputs[inner].shape[-dim:]))
    return FileSamples(rows, range(count), grid, times), window


def _pdebench(files: Sequence[Path]) -> Iterator[PublicData]:
    for path in files:
        if path.suffix in (".h5", ".hdf5"):
            with open_arrays(path) as (_, arrays):
                shapes = {name: array.shape for name, array in arrays.items()}
            if samples := _pdebench_file(path, shapes):
                window = None if samples.times is None else 1
                yield _thinned(path.stem, "PDEBench", *_split(samples), window)


def _pdebench_file(path: Path, shapes: dict[str, tuple[int, ...]]) -> FileSamples | None:
    """Samples of a file with arrays of these shapes; None where they are not PDEBench's."""
    groups = [name for name in sorted(shapes) if re.fullmatch(r"\d+/data", name)]
    fields = [name for name in FLUID if name in shapes]
    static = "nu" in shapes and "tensor" in shapes
    outputs = groups or (["tensor"] if "tensor" in shapes else fields)
    if not outputs:
        return None
    first = shapes[outputs[0]]
    count, frames, space = len(groups), first[0], first[1:-1]
    if not groups:
        count, frames, space = first[0], first[1], first[2:]

    def rows(cut: slice) -> Pair:
        with open_arrays(path) as (_, arrays):
            if groups:  # (T, *N, C) of each sample
                u = torch.stack([torch.from_numpy(arrays[n].read()) for n in groups[cut]])
                u = u.movedim(-1, 2)
            else:
                u = torch.stack([torch.from_numpy(arrays[n].read((cut,))) for n in outputs], 2)
            nu = torch.from_numpy(arrays["nu"].read((cut,))) if static else None
        return (u[:, 0], u) if nu is None else (nu[:, None], u[:, 0])

    # reaction, sorption and shallow water in boxes, flow through a porous medium: cell centres
    grid = Grid.cells(space) if static or groups else Grid(space)
    times = None if static else tuple(map(float, range(frames)))
    return FileSamples(rows, range(count), grid, times, _step(times))


def _well(path: Path) -> PublicData:
    splits = [split for split in SPLITS if (path / "data" / split).is_dir()]
    opened = [open_well(path, split) for split in (splits[0], splits[-1])] if splits else []
    parts = []
    for data in opened or [open_well(path)]:
        rows = partial(_rows_of, data)
        parts.append(FileSamples(rows, range(len(data)), data.grid, data.times, _step(data.times)))
    train, test = parts if splits else _split(parts[0])
    train, test = (
        replace(train, samples=train.samples[:TRAIN]),
        replace(test, samples=test.samples[:TEST]),
    )
    return _thinned(path.stem, "The Well", train, test, None if train.times is None else 1)


def _rows_of(data: OperatorDataset, cut: slice) -> Pair:
    return data.batch(range(len(data))[cut])
