"""Datasets of operators: pairs (input, target) with their grid and times.

A dataset is a view on a source, arrays in memory or files: choosing samples, points or frames
makes a new view, copies nothing and reads nothing.
"""

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pdno.data import sources
from pdno.data.problems import Geometry
from pdno.data.shards import OWN, Manifest, ShardSource, pack_geometry, write_dataset
from pdno.data.sources import Channels, Numbers, Source
from pdno.equations.symmetries import Symmetries, Symmetry
from pdno.interface.display import html_table, one_line
from pdno.interface.errors import check_shape
from pdno.interface.records import Options
from pdno.spectral.grid import Grid, MaskedGrid
from pdno.spectral.points import Points

if TYPE_CHECKING:
    from pdno.figures.fields import Animation
    from pdno.figures.style import Figure

Rows: TypeAlias = int | Sequence[int]
"""How many samples, or which ones."""


class OperatorDataset(Dataset[tuple[Tensor, Tensor]]):
    """Pairs (input, target) of an operator.

    Shapes: static (C, *N) -> (C, *N); trajectories (C, *N) -> (T, C, *N); windows of k frames
    (k·C, *N) -> (T - k, C, *N).

    Example:
        >>> frames = torch.randn(6, 5, 1, 8)
        >>> data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((8,)), times=range(5))
        >>> train, test = data.window(inputs=2).split(test=2)
        >>> len(train), len(test), tuple(test[0][0].shape), tuple(test[0][1].shape)
        (4, 2, (2, 8), (3, 1, 8))
    """

    def __init__(self, source: Source) -> None:
        self.source, self.grid, self.times = source, source.grid, source.times
        self.output_grid = source.output_grid
        self.input_frames: int | None = None
        self.dtype = torch.float32
        self._rows: Sequence[int] = range(len(source))
        self._every = 1
        self._turn: Symmetry | None = None
        self._symmetries = source.symmetries

    @classmethod
    def from_arrays(
        cls,
        inputs: Numbers | Sequence[Numbers],
        outputs: Numbers | Sequence[Numbers],
        grid: Grid,
        times: Sequence[float] | None = None,
        *,
        output_grid: Grid | None = None,
        mask: Numbers | None = None,
        channels: tuple[Sequence[str], Sequence[str]] = ((), ()),
        pde_parameters: Mapping[str, Numbers] | None = None,
    ) -> "OperatorDataset":
        """A dataset of tensors or NumPy arrays: inputs (B, C, *N), outputs (B, [T,] C, *N).

        `channels` are the names of those of inputs and outputs, `pde_parameters` those of the PDE
        that each sample has for itself, (B,) by name, for example {"viscosity": ...}.

        On scattered `Points` fields are (B, C, P), or lists of (C, P_b) where sets differ in size;
        outputs may lie on an `output_grid` of their own. A `mask` of a grid, (*N) or (B, *N), is
        true inside of the domain: outside of it fields may be anything, NaN too, and become zero.
        """
        if mask is not None:
            if isinstance(grid, Points):
                raise ValueError("scattered points have no mask here: give Points(..., mask=mask)")
            grid = MaskedGrid(grid, sources.as_tensor("mask", mask))
        frames = None if times is None else tuple(map(float, times))
        sources.check_times(frames)
        f = sources.checked_field("inputs", inputs, grid, in_time=False)
        there, in_time = output_grid or grid, times is not None
        u = sources.checked_field("outputs", outputs, there, in_time=in_time)
        if len(f) != len(u):
            raise ValueError(f"{len(f)} inputs but {len(u)} outputs; expected equal numbers")
        if frames is not None and len(frames) != u.shape[1]:
            raise ValueError(f"{len(frames)} times but {u.shape[1]} frames of outputs")
        parameters = sources.checked_parameters(pde_parameters or {}, len(u))
        names = Channels(
            sources.channel_names("input", channels[0], f.shape[1]),
            sources.channel_names("output", channels[1], u.shape[-1 - there.space_axes]),
        )
        return cls(sources.ArraySource(f, u, grid, frames, names, parameters, output_grid))

    @classmethod
    def from_pairs(
        cls, source: "Pairs", grid: Grid | None = None, times: Sequence[float] | None = None
    ) -> "OperatorDataset":
        """A dataset of pairs (input (C, *N), target (C, *N) or (T, C, *N)), read once into memory.

        The source is a torch Dataset or DataLoader, read in the order of its dataset, or an
        iterable of pairs, or of dicts with x and y. Without a grid the points are i/N on a torus.
        A dataset of ours is returned as it is.
        """
        if isinstance(source, OperatorDataset):
            return source
        inputs, targets = sources.stacked_pairs(source)
        if times is None and targets.dim() == inputs.dim() + 1:
            shape = f"targets have shape {tuple(targets.shape[1:])}, which is (T, C, *N)"
            raise ValueError(f"{shape}: give the times of their frames, from_pairs(times=...)")
        return cls.from_arrays(inputs, targets, grid or Grid(tuple(inputs.shape[2:])), times)

    @property
    def target_times(self) -> tuple[float, ...] | None:
        """Times of the frames of the targets; None for a static dataset."""
        return None if self.times is None else self.times[self.input_frames or 0 :]

    @property
    def pde_parameter_names(self) -> tuple[str, ...]:
        """Names of the PDE parameters that each sample has for itself."""
        return tuple(self.source.pde_parameters)

    def pde_parameters(self, indices: Sequence[int] | None = None) -> Tensor | None:
        """PDE parameters of some samples, or of all, (B, P) float64; None where there are none."""
        if not self.source.pde_parameters:
            return None
        rows = self._source_rows(indices)
        return torch.stack([values[rows] for values in self.source.pde_parameters.values()], dim=1)

    def keyword_arguments(self, indices: Sequence[int]) -> Options:
        """The keyword arguments of `predict` for some samples."""
        parameters, (grid, output_grid) = self.pde_parameters(indices), self.grids(indices)
        extra: Options = {} if parameters is None else {"pde_parameters": parameters}
        extra |= {} if output_grid is None else {"output_grid": output_grid}
        return {"grid": grid, "times": self.target_times, **extra}

    @property
    def target_grid(self) -> Grid:
        """The grid of the targets, that of the inputs unless there is another one."""
        return self.output_grid or self.grid

    def grids(self, indices: Sequence[int]) -> tuple[Grid, Grid | None]:
        """The grid of some samples, and that of their outputs where it is another one."""
        output = None if self.output_grid is None else self.output_grid.of_samples(indices)
        return self.grid.of_samples(indices), output

    def weigh(self, fields: Tensor, indices: Sequence[int]) -> Tensor:
        """Targets or predictions of some samples times the roots of their quadrature weights."""
        return self.target_grid.of_samples(indices).weigh(fields)

    def without_pde_parameters(self) -> Self:
        """The same samples for networks that do not see the parameters of their equations."""
        source = copy.copy(self.source)
        source.pde_parameters = {}
        return self._view(source=source)

    @property
    def channels(self) -> Channels:
        """Names of the channels of inputs and targets; a window has those of its frames."""
        names = self.source.channels
        if self.input_frames is None:
            return names
        times = (self.times or ())[: self.input_frames]
        return names._replace(inputs=tuple(f"{n} t={t:g}" for t in times for n in names.outputs))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of a dataset with {len(self)} samples")
        inputs, targets = self.batch([index])
        return inputs[0], targets[0]

    def batch(self, indices: Sequence[int] | None = None) -> tuple[Tensor, Tensor]:
        """Several samples at once, or all of them: inputs and targets with a batch axis."""
        inputs, outputs = self._read(indices)
        if self.input_frames is None:
            return inputs, outputs
        # the frames of a window become channels here alone
        return outputs[:, : self.input_frames].flatten(1, 2), outputs[:, self.input_frames :]

    def trajectories(self, indices: Sequence[int] | None = None) -> Tensor:
        """All frames of some samples, or of all, inputs first, (B, T, C, *N)."""
        inputs, outputs = self._read(indices)
        if self.input_frames is not None:
            return outputs
        return torch.cat([inputs.reshape(len(inputs), -1, *outputs.shape[2:]), outputs], dim=1)

    def _read(self, indices: Sequence[int] | None) -> tuple[Tensor, Tensor]:
        inputs, outputs = self.source.read(self._source_rows(indices))
        if self._turn is not None:
            inputs, outputs = (self._turn.apply(f, self.source.grid) for f in (inputs, outputs))
        if self.times is not None:
            outputs = outputs[:, : len(self.times)]
        before, after = (grid.every(self._every) for grid in (self.grid, self.target_grid))
        return inputs[before].to(self.dtype), outputs[after].to(self.dtype)

    def _source_rows(self, rows: Sequence[int] | None, *, negative: bool = True) -> list[int]:
        size = len(self)
        rows = range(size) if rows is None else rows
        for row in rows:
            if not -size * negative <= row < size:
                raise ValueError(f"sample {row} of a dataset with {size} samples")
        return [self._rows[row] for row in rows]

    def _view(self, **changes: object) -> Self:
        view = copy.copy(self)
        view.__dict__.update(changes)
        return view

    def subset(self, rows: Sequence[int]) -> Self:
        """The samples `rows` of this dataset."""
        chosen, (grid, output_grid) = self._source_rows(rows, negative=False), self.grids(rows)
        return self._view(_rows=chosen, grid=grid, output_grid=output_grid)

    def split(self, train: Rows | None = None, *, test: Rows) -> tuple[Self, Self]:
        """Disjoint training and test sets: numbers of first and of last samples, or which ones.

        Without `train` it is all samples that are not for testing.
        """
        size, chosen = len(self), dict[str, Any]()
        for name, choice in {"test": test, "train": train}.items():
            rows: Any = choice
            if isinstance(choice, int):
                rows = range(choice) if name == "train" else range(size - choice, size)
            elif choice is None:
                rows = sorted(set(range(size)) - set(chosen["test"]))
            if not isinstance(rows, (Sequence, np.ndarray, Tensor)):
                part = round(rows * size) if isinstance(rows, float) else 0
                cure = f"; {rows} of them are {name}={part}" * (0 < part < size)
                wrong = f"{name}={rows} of {size} samples"
                raise ValueError(f"{wrong}: expected how many, or which ones{cure}")
            if not 0 < len(rows) < size:
                count = choice if isinstance(choice, int) else f"{len(rows)} chosen"
                raise ValueError(f"{name}={count} of {size} samples: expected 1 to {size - 1}")
            chosen[name] = rows
        first, second = self.subset(chosen["train"]), self.subset(chosen["test"])
        if common := len(set(first._rows) & set(second._rows)):
            share = f"training and test sets share {common} samples"
            raise ValueError(f"{share}: ask for fewer so that they are disjoint")
        return first, second

    def subsample(self, every: int) -> Self:
        """Every r-th grid point along each axis, starting with the first, as in the paper."""
        if self.output_grid is not None:
            raise ValueError("subsample takes one grid, but outputs lie on points of their own")
        return self._view(grid=self.grid.coarsen(every), _every=self._every * every)

    def window(self, inputs: int, outputs: int | None = None) -> Self:
        """The first `inputs` frames as channels, the next `outputs` (None: all) as the target."""
        if self.times is None:
            raise ValueError("a static dataset has no frames to take a window of")
        if self.input_frames is not None:
            raise ValueError("this dataset is a window already: take it of the whole dataset")
        total = len(self.times)
        end = total if outputs is None else inputs + outputs
        if not 0 < inputs < end <= total:
            window = f"a window of {inputs} input frames and {outputs or 'all others'}"
            raise ValueError(f"{window} does not fit {total} frames: leave one for the target")
        return self._view(input_frames=inputs, times=self.times[:end])

    def symmetries(self) -> Symmetries:
        """The maps of fields on this grid that turn samples into samples; at least x -> x."""
        return self._symmetries(self.grid)

    def with_symmetries(self, symmetries: Callable[[Grid], Symmetries]) -> Self:
        """The same samples, with symmetries of one's own: a function of a grid."""
        return self._view(_symmetries=symmetries)

    def turns(self) -> list[Self]:
        """These samples, reflected in all ways that are exact only before points are left out.

        Every r-th point of a box does not lie symmetrically in it, so reflected samples are other
        ones. Empty where reflections map this grid to itself and so are among its `symmetries`.
        """
        whole, straight = self._symmetries(self.source.grid).turns, tuple(range(self.grid.dim))
        turns = [turn for turn in whole if turn.axes == straight]
        reflected = any(any(turn.flips) for turn in self.symmetries().turns)
        if self.grid.periodic or reflected or len(turns) == 1:
            return []
        return [self._view(_turn=turn) for turn in turns]

    def plot(
        self,
        index: int = 0,
        prediction: Tensor | None = None,
        *,
        title: str = "",
        band: Tensor | None = None,
    ) -> "Figure":
        """A figure of one sample, beside a prediction of the shape of its target, if any.

        `band` is the half width of error bars around the prediction, of its shape. Notebooks show
        the figure; `figure.savefig(path)` writes it.
        """
        from pdno.figures.fields import plot_sample

        fields, names = self._shown(index, prediction)
        width, points = None if band is None else band.detach().cpu().numpy(), None
        if isinstance(self.grid, Points) or isinstance(self.target_grid, Points):
            sets = [Points.of(g.of_samples([index])) for g in (self.grid, self.target_grid)]
            x = [part.coordinates.reshape(-1, part.dim)[part.mask.flatten()] for part in sets]
            points = [part.detach().cpu().numpy() for part in x]
        return plot_sample(
            *fields, times=self.target_times, names=names, title=title, band=width, points=points
        )

    def animate(
        self, index: int = 0, prediction: Tensor | None = None, *, title: str = ""
    ) -> "Animation":
        """The same as an animation in time: notebooks play it, `save` writes .gif or .html."""
        if isinstance(self.grid, Points):
            raise ValueError("animations need a grid: use plot, which draws frames side by side")
        from pdno.figures.fields import animate_sample

        fields, names = self._shown(index, prediction)
        return animate_sample(*fields, times=self.target_times, names=names, title=title)

    def _shown(
        self, index: int, prediction: Tensor | None
    ) -> tuple[list[np.ndarray], tuple[list[str], list[str]]]:
        """Input, target and prediction, and titles of the channels of inputs and outputs."""
        inputs, target = self[index]
        if prediction is not None:
            check_shape("the prediction", prediction, *target.shape)
        before, after = ([n.replace("_", " ") for n in part] for part in self.source.channels)
        if self.input_frames is not None:  # of a window its last frame
            inputs = inputs[-target.shape[1] :]
            last = f", t = {(self.times or ())[self.input_frames - 1]:g}"
            before = [name.replace("output", "input") + last for name in after]
        grids = [self.grid, self.target_grid, self.target_grid]
        pairs = zip((inputs, target, prediction), grids, strict=True)
        shown = [_inside(f.detach(), g.of_samples([index])) for f, g in pairs if f is not None]
        return shown, (before, [name.replace("output", "target") for name in after])

    def _summary(self) -> dict[str, str]:
        inputs, outputs = (str(len(names)) for names in self.source.channels)
        if self.input_frames is not None:
            inputs = f"{self.input_frames} frames of {outputs}"
        summary = {"samples": f"{len(self)}", "channels": f"{inputs} -> {outputs}"}
        summary["grid"] = _describe_grid(self.grid)
        if self.output_grid is not None:
            summary["output grid"] = _describe_grid(self.output_grid)
        for name, values in self.source.pde_parameters.items():
            summary[name] = f"{float(values.min()):g} to {float(values.max()):g}"
        if (times := self.target_times) is not None:
            summary["times"] = f"{len(times)} from {times[0]:g} to {times[-1]:g}"
        return summary

    def __repr__(self) -> str:
        return one_line("OperatorDataset", self._summary())

    def _repr_html_(self) -> str:
        return html_table("OperatorDataset", self._summary())

    def to(self, dtype: torch.dtype) -> Self:
        """The same samples in another number type (float32 by default)."""
        if not dtype.is_floating_point:
            raise ValueError(f"dtype is {dtype}; expected a real one, for example torch.float64")
        return self._view(dtype=dtype)

    def save(self, folder: Path | str) -> Path:
        """Write a dataset folder (docs/data_format.md), which `open_dataset` opens again.

        It appears whole or not at all, and holds every number to the bit. An input channel with
        the name of an output is stored as input_NAME.
        """
        if self.input_frames is not None:
            raise ValueError("this is a window of frames: save the whole dataset, then take it")
        if self.output_grid is not None:
            raise ValueError("outputs on points of their own are not stored: save inputs' points")
        target = Path(folder).absolute()
        if target.is_file() or (target.is_dir() and any(target.iterdir())):
            raise ValueError(f"{folder} already exists: choose a new or an empty folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        geometry, arrays = pack_geometry(self.grid, len(self))
        data, rows = self.to(self.source.dtype), self._source_rows(None)

        def fields(rows: range) -> tuple[Tensor, Tensor]:
            before, after = data.batch(rows)
            return torch.cat([arrays[list(rows)].to(before), before], dim=1), after

        parameters = {name: x[rows] for name, x in self.source.pde_parameters.items()}
        write_dataset(target, self._manifest(geometry), fields, parameters)
        return target

    def _manifest(self, geometry: Geometry | None) -> Manifest:
        # a slash in the name of a field would be a group of the shard
        inputs, outputs = ([n.replace("/", ".") for n in part] for part in self.channels)
        geometric = geometry.names if geometry else ()
        taken = {*outputs, *geometric}
        inputs = [f"input_{name}" if name in taken else name for name in inputs]
        plain = Grid(self.grid.shape, self.grid.periodic, self.grid.offset)
        return Manifest(
            problem=OWN,
            grid=plain,
            solver_grid=plain,
            times=self.times,
            fields={"input": (*geometric, *inputs), "output": tuple(outputs)},
            dtype="float64" if self.source.dtype == torch.float64 else "float32",
            samples=len(self),
            pde_parameters=self.pde_parameter_names,
            geometry=geometry,
        )


def _inside(field: Tensor, grid: Grid) -> np.ndarray:
    """A field of one sample as an array: without padding, NaN outside of a mask."""
    inside = grid.inside(field[None])
    if inside is not None and isinstance(grid, Points):
        field = field[..., inside.flatten()]
    elif inside is not None:
        field = torch.where(inside.reshape(grid.shape), field, torch.nan)
    return field.cpu().numpy()


def _describe_grid(grid: Grid) -> str:
    if isinstance(grid, Points):
        return repr(grid)
    shape = " x ".join(map(str, grid.shape))
    kind = "masked" if isinstance(grid, MaskedGrid) else "periodic" if grid.periodic else "box"
    return f"{shape} {kind}"


# What `OperatorDataset.from_pairs` takes
Pairs: TypeAlias = OperatorDataset | Dataset[object] | DataLoader[object] | Iterable[object]


def open_dataset(
    folder: Path | str, *, verify: bool = True, partial: bool = False
) -> OperatorDataset:
    """Open a dataset folder made by `pdno generate` or by `OperatorDataset.save`.

    `verify` compares every shard with its SHA-256 first; `partial` accepts a dataset that is not
    complete, of which the samples before the first gap are used.
    """
    return OperatorDataset(ShardSource(Path(folder), verify=verify, partial=partial))
