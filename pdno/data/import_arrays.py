"""Users' own data: named arrays of a MAT, HDF5, torch or NumPy file as a dataset.

The axes of an array are told by letters: n samples, t time, c channels, and x, y, z space. So
"nxyt" is (samples, N1, N2, frames), as in the published Navier-Stokes files. Channels may be left
out where there is one.
"""

__all__ = ["read_arrays", "read_own"]

from collections.abc import Sequence
from pathlib import Path
from zipfile import BadZipFile

import numpy as np
import torch
from torch import Tensor

from pdno.data.array_files import Numbers, open_arrays
from pdno.data.dataset import OperatorDataset
from pdno.grid import Grid

SPACE = "xyz"


def read_own(
    path: Path | str,
    *,
    inputs: str,
    outputs: str,
    input_axes: str = "nxy",
    output_axes: str | None = None,
    periodic: bool = True,
    offset: float = 0.0,
    times: Sequence[float] | None = None,
) -> OperatorDataset:
    """A dataset from the arrays `inputs` and `outputs` of a .mat, .h5, .npz or torch file.

    Arguments:
        path: The file.
        inputs: Name of the array of inputs.
        outputs: Name of the array of outputs.
        input_axes: Axes of the inputs, as letters.
        output_axes: Those of the outputs; None takes `input_axes`.
        periodic: Whether the box is a torus.
        offset: Place of the first point in its cell, see `Grid`.
        times: Times of the frames; None counts them 1, 2, ... where there are such.
    """
    arrays = read_arrays(path, [inputs, outputs])
    output_axes = output_axes or input_axes
    fields = _canonical(arrays[inputs], input_axes, inputs)
    solutions = _canonical(arrays[outputs], output_axes, outputs)
    if "t" in input_axes:
        raise ValueError(
            f"axes {input_axes!r} of the inputs have a time: use `outputs` for frames"
        )
    space = sum(letter in SPACE for letter in input_axes)
    grid = Grid(tuple(fields.shape[-space:]), periodic, offset)
    counted = range(1, solutions.shape[1] + 1) if times is None else times
    return OperatorDataset.from_arrays(
        fields, solutions, grid, counted if "t" in output_axes else None
    )


def read_arrays(path: Path | str, names: Sequence[str] | None = None) -> dict[str, Numbers]:
    """Arrays of a file by name; None reads all that hold real numbers.

    An .npy file has one array, called after the file.
    """
    find = _numpy_arrays if Path(path).suffix in (".npy", ".npz") else _arrays_of
    found = find(Path(path), names)
    for name in names or ():
        if name not in found:
            raise ValueError(f"{path} has no array {name!r}: it has {', '.join(found)}")
        if found[name] is None:
            raise ValueError(f"array {name!r} of {path} holds no real numbers")
    return {name: array for name, array in found.items() if array is not None}


# The arrays of a file; None for those that are not asked for or not real.


def _arrays_of(path: Path, names: Sequence[str] | None) -> dict[str, Numbers | None]:
    with open_arrays(path) as (_, arrays):
        return dict.fromkeys(arrays) | {
            name: array.read((slice(None),) * len(array.shape))
            for name, array in arrays.items()
            if array.read is not None and (names is None or name in names)
        }


def _numpy_arrays(path: Path, names: Sequence[str] | None) -> dict[str, Numbers | None]:
    try:
        with open(path, "rb") as file:
            loaded = np.load(file)  # which unpickles nothing unless told to
            alone = isinstance(loaded, np.ndarray)
            arrays = (
                {path.stem: loaded} if alone else {name: loaded[name] for name in loaded.files}
            )
    except (ValueError, EOFError, BadZipFile) as problem:
        raise ValueError(f"cannot read {path}: {problem}") from problem
    return {name: one if one.dtype.kind in "fiub" else None for name, one in arrays.items()}


def _canonical(array: Numbers, axes: str, name: str) -> Tensor:
    """(n, [t,] c, x, ...) from any order of axes."""
    letters = axes.replace(" ", "")
    space = [letter for letter in SPACE if letter in letters]
    good = set(letters) <= set("ntc" + SPACE) and len(set(letters)) == len(letters)
    if not good or "n" not in letters or not space:
        raise ValueError(
            f"axes {axes!r} of {name!r}; expected letters once each: n samples, t time, c "
            "channels, x y z space, for example 'nxy' or 'nxyt'"
        )
    if len(letters) != array.ndim:
        shape = f"array {name!r} has shape {array.shape}"
        raise ValueError(f"{shape}, but {axes!r} names {len(letters)} axes")
    order = [letters.index(letter) for letter in ("n", "t", "c", *space) if letter in letters]
    moved = np.ascontiguousarray(np.transpose(array, order), dtype=np.float32)
    tensor = torch.from_numpy(moved)
    return tensor if "c" in letters else tensor.unsqueeze(-1 - len(space))
