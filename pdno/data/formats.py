"""File formats: a data file opened as a table of arrays, whichever program wrote it.

The format is recognised by the first bytes of a file, never by its name:

    MAT v5          byte 124 on: version 1 and the byte order
    MAT v7.3        HDF5 behind 512 bytes that begin with "MATLAB 7.3"
    HDF5            its signature at byte 0, or at byte 512 behind another header
    torch archive   a zip archive, read without unpickling (see `pdno.tensor_file`)

The tensors of nested dicts in a torch file are named by their path, as in `layers.0.weight`; one
that is in no dict is called `BARE`.
"""

__all__ = ["BARE", "open_arrays"]

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

import h5py
from torch import Tensor

from pdno.data.arrays import AGAIN, Array, Cut, Numbers, PublishedFileError
from pdno.data.matlab_hdf5 import hdf5_arrays
from pdno.data.matlab_v5 import mat5_arrays
from pdno.tensor_file import Contents, TensorFileError, read_tensor_file

BARE = "(tensor)"


@contextmanager
def open_arrays(path: str | Path) -> Iterator[tuple[str, dict[str, Array]]]:
    """The format and the arrays of a file; they can be read until the block ends."""
    with open(path, "rb") as file, ExitStack() as stack:
        try:
            file_format, arrays = _arrays(path, file, stack)
            # A name that could drive a terminal never gets into a message.
            yield file_format, {_printable(name): array for name, array in arrays.items()}
        except TensorFileError:
            raise
        except PublishedFileError as problem:
            raise PublishedFileError(f"cannot read {path}: {problem}") from problem
        # Damaged bytes make h5py and zlib stumble in many ways; all mean the same.
        except Exception as problem:
            raise PublishedFileError(f"cannot read {path}: {problem}; {AGAIN}") from problem


def _printable(name: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _arrays(path: str | Path, file: BinaryIO, stack: ExitStack) -> tuple[str, dict[str, Array]]:
    size = os.fstat(file.fileno()).st_size
    head = file.read(520)
    if head[:2] == b"PK" or head[:1] == b"\x80":
        return "torch archive", dict(_torch_arrays(read_tensor_file(path), ""))
    if b"\x89HDF\r\n\x1a\n" in (head[:8], head[512:]):
        matlab = head.startswith(b"MATLAB 7.3")
        source = stack.enter_context(h5py.File(path, "r"))
        return "MAT v7.3" if matlab else "HDF5", hdf5_arrays(source, size, matlab=matlab)
    if head[124:128] in (b"\x00\x01IM", b"\x01\x00MI"):
        return "MAT v5", dict(mat5_arrays(file, size))
    if 0 in head[:4]:
        raise PublishedFileError(
            "it may be a MAT v4 file, a format of no published file; save it with -v7 in MATLAB"
        )
    raise PublishedFileError(
        f"it starts with {head[:12]!r} and is no MAT v5, MAT v7.3, HDF5 or torch file; "
        "download it again: a server may have sent a web page instead"
    )


def _torch_arrays(contents: Contents, name: str) -> Iterator[tuple[str, Array]]:
    if isinstance(contents, dict):
        for key, value in contents.items():
            yield from _torch_arrays(value, f"{name}.{key}" if name else str(key))
    elif isinstance(contents, Tensor):
        read = None if contents.is_complex() else partial(_read_tensor, contents)
        dtype = str(contents.dtype).removeprefix("torch.")
        yield name or BARE, Array(tuple(contents.shape), dtype, read)
    else:
        shape = (len(contents),) if isinstance(contents, (list, tuple)) else ()
        yield name or BARE, Array(shape, type(contents).__name__)


def _read_tensor(tensor: Tensor, cut: Cut) -> Numbers:
    numbers: Numbers = tensor[cut].float().numpy()
    return numbers
