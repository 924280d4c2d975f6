"""Sources of samples: arrays in memory, dataset folders, and anything that yields pairs."""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import h5py
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler, SequentialSampler

from pdno.data.problems import PROBLEMS
from pdno.data.shards import Channels, check_times, read_manifest
from pdno.equations.symmetries import Symmetries
from pdno.files.atomic import sha256
from pdno.spectral.grid import Grid

REPAIR = "run the dataset's `pdno generate` command again to repair it"
Numbers: TypeAlias = Tensor | np.ndarray


class Source(Protocol):
    """Where samples come from: inputs (B, C, *N), outputs (B, T, C, *N), without times no T.

    `dtype` holds the samples without loss, `pde_parameters` are (B,) float64 each.
    """

    grid: Grid
    times: tuple[float, ...] | None
    channels: Channels
    dtype: torch.dtype
    pde_parameters: Mapping[str, Tensor]

    def __len__(self) -> int: ...

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Inputs and outputs of some samples."""


class ArraySource:
    """Samples in memory: inputs (B, C, *N), outputs (B, T, C, *N) with times, else (B, C, *N)."""

    def __init__(
        self,
        inputs: Numbers,
        outputs: Numbers,
        grid: Grid,
        times: Sequence[float] | None = None,
        channels: tuple[Sequence[str], Sequence[str]] = ((), ()),
        pde_parameters: Mapping[str, Numbers] | None = None,
    ) -> None:
        self.grid, self.times = grid, None if times is None else tuple(map(float, times))
        check_times(self.times)
        self.inputs = _checked_field("inputs", inputs, grid, in_time=False)
        self.outputs = _checked_field("outputs", outputs, grid, in_time=times is not None)
        count, frames = self.outputs.shape[:2]
        if len(self.inputs) != count:
            raise ValueError(f"{len(self.inputs)} inputs but {count} outputs; expected as many")
        if self.times is not None and len(self.times) != frames:
            raise ValueError(
                f"{len(self.times)} times but {frames} frames of outputs; expected one per frame"
            )
        self.channels = Channels(
            _channel_names("input", channels[0], self.inputs.shape[1]),
            _channel_names("output", channels[1], self.outputs.shape[-1 - grid.dim]),
        )
        wider = torch.promote_types(self.inputs.dtype, self.outputs.dtype)
        self.dtype = torch.promote_types(wider, torch.float32)
        self.pde_parameters: Mapping[str, Tensor] = {
            name: torch.as_tensor(_as_tensor(values)).to(torch.float64)
            for name, values in (pde_parameters or {}).items()
        }
        for name, values in self.pde_parameters.items():
            if values.shape != (count,) or not bool(values.isfinite().all()):
                shape = f"PDE parameter {name} has shape {tuple(values.shape)}"
                raise ValueError(f"{shape}; expected a finite number for each of {count} samples")

    def __len__(self) -> int:
        return len(self.inputs)

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        index = torch.as_tensor(list(indices), dtype=torch.long)
        return self.inputs[index], self.outputs[index]


class FileSource(Source, ABC):
    """Samples in several HDF5 files, `counts` in each; only what is asked for is read."""

    counts: Sequence[int]

    def __len__(self) -> int:
        return sum(self.counts)

    @abstractmethod
    def opened(self, number: int) -> AbstractContextManager[h5py.File]:
        """One of the files, with errors that name it."""

    @abstractmethod
    def sample(self, file: h5py.File, row: int) -> Iterator[np.ndarray]:
        """Input and output of one sample of a file."""

    def read(self, indices: Sequence[int]) -> tuple[Tensor, Tensor]:
        frames = () if self.times is None else (len(self.times),)
        inputs, outputs = (
            torch.empty((len(indices), *ahead, len(names), *self.grid.shape), dtype=self.dtype)
            for ahead, names in zip(((), frames), self.channels, strict=True)
        )
        starts = [0, *accumulate(self.counts)]
        rows: dict[int, dict[int, int]] = {}  # by file: its row for each row of the result
        for target, index in enumerate(indices):
            number = bisect_right(starts, index) - 1
            rows.setdefault(number, {})[target] = index - starts[number]
        for number, chosen in rows.items():
            with self.opened(number) as file:
                for target, row in chosen.items():
                    for part, values in zip(
                        (inputs, outputs), self.sample(file, row), strict=True
                    ):
                        part[target] = torch.from_numpy(values)
        return inputs, outputs


class ShardSource(FileSource):
    """Samples of a dataset folder (see `pdno.open_dataset`)."""

    def __init__(self, folder: Path, *, verify: bool = True, partial: bool = False) -> None:
        self.manifest = manifest = read_manifest(folder)
        if not manifest.complete and not partial:
            raise ValueError(
                f"{folder} is partial: {manifest.made} of {manifest.samples} samples; run its "
                "`pdno generate` command again to finish it, or open it with partial=True"
            )
        self.files: list[Path] = []
        self.counts = []
        for shard in manifest.shards:
            if shard.first != len(self):  # a gap: the samples after it have other indices
                break
            path = folder / shard.file
            if not path.is_file():
                raise ValueError(f"{path} is missing: {REPAIR}")
            if verify and sha256(path) != shard.sha256:
                raise ValueError(
                    f"{path} is damaged (its SHA-256 is not in the manifest): {REPAIR}"
                )
            self.files.append(path)
            self.counts.append(shard.count)
        self.times, self.grid, self.channels = manifest.times, manifest.grid, manifest.channels
        self.dtype = getattr(torch, manifest.dtype)
        parameters = {name: [torch.empty(0).double()] for name in manifest.pde_parameters}
        for number in range(len(self.files) if parameters else 0):
            with self.opened(number) as file:
                for name, parts in parameters.items():
                    parts.append(torch.from_numpy(file["scalars"][name][()].astype("f8")))
        self.pde_parameters = {name: torch.cat(parts) for name, parts in parameters.items()}

    def symmetries(self, grid: Grid) -> Symmetries:
        """Those of the equation that the samples are solutions of."""
        problem = PROBLEMS[self.manifest.problem](**self.manifest.parameters)
        return problem.physics()[1].symmetries(grid)

    @contextmanager
    def opened(self, number: int) -> Iterator[h5py.File]:
        """A shard whose fields are those of the manifest; their chunks have checksums."""
        manifest, count = self.manifest, self.counts[number]
        expected: dict[str, tuple[tuple[int, ...], str]]
        expected = {f"scalars/{name}": ((count,), "f8") for name in manifest.pde_parameters}
        for names, shape in zip(manifest.channels, manifest.stored_shapes, strict=True):
            expected |= {f"t0_fields/{n}": ((count, *shape), manifest.dtype) for n in names}
        try:
            with h5py.File(self.files[number], "r") as file:
                for name, (shape, dtype) in expected.items():
                    if file[name].shape != shape or file[name].dtype != dtype:
                        stored = f"{name} is {file[name].shape} {file[name].dtype}"
                        raise ValueError(f"{stored}, the manifest says {shape} {dtype}")
                yield file
        except Exception as error:  # damaged bytes make h5py fail in many ways; all mean the same
            damaged = f"{self.files[number]} is damaged or cannot be read"
            raise ValueError(f"{damaged} ({error}): {REPAIR}") from error

    def sample(self, file: h5py.File, row: int) -> Iterator[np.ndarray]:
        """Input and output, whose channels are fields of their own on disk."""
        for names in self.channels:
            fields = [file["t0_fields"][name][row] for name in names]
            yield np.stack(fields, axis=-1 - self.grid.dim)


def stacked_pairs(source: object) -> tuple[Tensor, Tensor]:
    """Inputs and targets of all samples of a torch Dataset, DataLoader or iterable of pairs."""
    pairs = [_pair(item, number) for number, item in enumerate(_items(source))]
    if not pairs:
        raise ValueError(f"the {type(source).__name__} has no samples; expected at least one")
    columns = tuple(zip(*pairs, strict=True))
    for parts in columns:
        if len(shapes := {tuple(part.shape) for part in parts}) > 1:
            listed = ", ".join(map(str, sorted(shapes)[:3]))
            raise ValueError(f"the samples have different shapes {listed}: bring them to one grid")
    return torch.stack(columns[0]), torch.stack(columns[1])


def _items(source: object) -> Iterable[object]:
    """The samples of a torch Dataset, DataLoader or iterable, one by one."""
    if isinstance(source, DataLoader):
        if not isinstance(source.sampler, (SequentialSampler, RandomSampler)):
            raise ValueError(
                f"the DataLoader chooses its samples by a {type(source.sampler).__name__}: give "
                "its dataset, or torch.utils.data.Subset(dataset, indices)"
            )
        source = source.dataset
    if isinstance(source, Dataset) and (size := getattr(source, "__len__", None)):
        return (source[index] for index in range(size()))
    if isinstance(source, Iterable) and not isinstance(source, (Tensor, np.ndarray, str, Path)):
        return source
    raise ValueError(
        f"a {type(source).__name__} is no dataset: give an OperatorDataset, which OperatorDataset."
        "from_arrays makes of arrays and pdno.read_own of files, or pairs (input, target)"
    )


def _pair(item: object, number: int) -> tuple[Tensor, Tensor]:
    """Input and target of one sample."""
    pair = (item.get("x"), item.get("y")) if isinstance(item, Mapping) else item
    if isinstance(pair, (tuple, list)) and len(pair) == 2:
        first, second = map(_as_tensor, pair)
        if isinstance(first, Tensor) and isinstance(second, Tensor) and first.dim() > 1:
            return first, second
    kind = f"a {type(item).__name__} {tuple(getattr(item, 'shape', ''))}"
    if isinstance(item, Mapping):
        kind = f"keys {', '.join(map(str, item))}"
    raise ValueError(
        f"sample {number} is {kind}; expected a pair (input, target) of arrays (C, *N) or a dict "
        "with x and y: arrays of all samples go into OperatorDataset.from_arrays"
    )


def _channel_names(kind: str, names: Sequence[str], count: int) -> tuple[str, ...]:
    """The names of channels, by default numbered ones."""
    usual = (kind,) if count == 1 else tuple(f"{kind}_{k}" for k in range(count))
    if names and (len(names) != count or len(set(names)) != count or not all(names)):
        listed = f"names {', '.join(names)} of {count} {kind} channels"
        raise ValueError(f"{listed}: expected {count} different ones")
    return tuple(names) or usual


def _as_tensor(numbers: Any) -> Any:
    """NumPy arrays as tensors; all else as it is."""
    if not isinstance(numbers, np.ndarray):
        return numbers
    # torch knows neither foreign byte orders nor negative strides, and warns of read-only memory
    return torch.from_numpy(np.require(numbers, numbers.dtype.newbyteorder("="), ["C", "W"]))


def _checked_field(name: str, numbers: object, grid: Grid, *, in_time: bool) -> Tensor:
    """A finite real field (B, C, *N) or (B, T, C, *N) on the grid, or ValueError."""
    field = _as_tensor(numbers)
    if not isinstance(field, Tensor):
        raise ValueError(f"{name} are a {type(field).__name__}; expected a tensor or NumPy array")
    if not field.dtype.is_floating_point:
        cure = "convert them with .float(), or astype('float32') in NumPy"
        raise ValueError(f"{name} are of type {field.dtype}; expected real floats: {cure}")
    if field.dim() != grid.dim + 2 + in_time:
        layout = "(B, T, C, *N)" if in_time else "(B, C, *N)"
        bare = field.dim() == grid.dim + 1 + in_time and field.shape[1 + in_time :] == grid.shape
        index = "[:, :, None]" if in_time else "[:, None]"
        cure = f": {name}{index} has the axis of channels" * bare
        shape = f"{name} have shape {tuple(field.shape)}"
        raise ValueError(f"{shape}; expected {layout} on {grid.shape}{cure}")
    grid.check(field, name)
    if (bad := not_finite(field)) is not None:
        raise ValueError(f"{name} of sample {bad} have NaN or infinity: leave it out")
    return field


def not_finite(field: Tensor) -> int | None:
    """The first sample with NaN or infinity."""
    bad = (~field.isfinite()).flatten(1).any(dim=1).nonzero()
    return int(bad[0]) if len(bad) else None
