"""MAT v7.3 files: HDF5, as MATLAB writes it.

MATLAB counts the first axis fastest, HDF5 the last one, so a matrix (N, s, s, T) is stored as a
dataset (T, s, s, N): *all* axes are reversed. Undoing only the first and last would swap x1 and
x2, which is no symmetry of the forced vorticity equation. Which program wrote a plain HDF5 file
is not known, so its arrays are listed as they lie and not read.

A cell array is a dataset of references to matrices that lie in the group `#refs#`. If the
matrices have one shape, the cells become the first axis of one array.

Only this file is ever opened: datasets that lie in other files are refused.
"""

__all__ = ["hdf5_arrays"]

import math
from functools import partial
from typing import Any

import h5py
import numpy as np

from pdno.data.arrays import Array, Cut, Numbers, PublishedFileError, check_size


def hdf5_arrays(source: h5py.File, size: int, *, matlab: bool) -> dict[str, Array]:
    """The arrays of an open file of `size` bytes; those of MATLAB can be read."""
    # Visiting follows hard links only, so no other file is ever opened.
    items: dict[str, Any] = {}
    source.visititems(items.__setitem__)
    arrays = {}
    for name, item in items.items():
        if isinstance(item, h5py.Dataset) and not name.startswith("#"):
            cells = matlab and h5py.check_ref_dtype(item.dtype) is h5py.Reference
            make = partial(_cell_array, source) if cells else partial(_dataset_array, matlab)
            arrays[name] = make(name, item, size)
    return arrays


def _dataset_array(matlab: bool, name: str, dataset: Any, size: int) -> Array:
    shape = tuple(dataset.shape or ())
    # A chunk is read whole, whatever part of it is asked for.
    count = max(math.prod(shape), math.prod(dataset.chunks or ()))
    check_size(name, count * dataset.dtype.itemsize, size)
    if dataset.is_virtual or dataset.external:
        raise PublishedFileError(f"array {name} is stored in another file; give a whole file")
    real = dataset.dtype.kind in "fiu" and len(shape) > 0
    read = partial(_read_dataset, dataset) if real and matlab else None
    return Array(shape[::-1] if matlab else shape, str(dataset.dtype), read)


def _read_dataset(dataset: Any, cut: Cut) -> Numbers:
    block: Numbers = dataset[cut[::-1]]
    return block.transpose()


def _cell_array(source: h5py.File, name: str, dataset: Any, size: int) -> Array:
    """A cell array of matrices of one shape, as one array with the cells along its first axis."""
    shape = tuple(dataset.shape or (0,))[::-1]
    check_size(name, math.prod(shape) * dataset.dtype.itemsize, size)
    cells = [source[reference] for reference in np.ravel(dataset[()]) if reference]
    if len(cells) != math.prod(shape) or any(not isinstance(c, h5py.Dataset) for c in cells):
        return Array(shape, "cell")
    parts = [_dataset_array(True, name, cell, size) for cell in cells]
    if len({(part.shape, part.dtype) for part in parts}) != 1 or parts[0].read is None:
        return Array(shape, "cell")
    check_size(name, math.prod(parts[0].shape) * len(parts) * cells[0].dtype.itemsize, size)
    dtype = f"cell of {parts[0].dtype}"
    return Array((len(parts), *parts[0].shape), dtype, partial(_read_cells, cells))


def _read_cells(cells: list[Any], cut: Cut) -> Numbers:
    return np.stack([_read_dataset(cell, cut[1:]) for cell in cells[cut[0]]])
