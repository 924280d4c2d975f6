"""Tensor files: what `torch.save` wrote, read without unpickling.

A file of torch >= 1.6 is a zip archive of uncompressed records: `NAME/data.pkl` describes the
object, `NAME/data/0`, `NAME/data/1`, ... hold the raw numbers of its storages. The description
is interpreted, never executed (see `pdno.tensor_pickle`); it says which tensors and plain
containers the numbers are. A storage must lie inside the file, and the checksum of each record
that is read must agree. Everything comes back on the CPU.
"""

__all__ = ["Contents", "TensorFileError", "read_tensor_file"]

import io
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from pdno.tensor_pickle import AGAIN, PLAIN, Contents, TensorFileError, interpret

_CHUNK = 1 << 24
_MOST_DESCRIPTION_BYTES = 1 << 26


def read_tensor_file(path: str | Path) -> Contents:
    """The object that `torch.save` wrote to `path`, made of tensors and plain containers.

    Views of one storage share memory, as they did when they were saved.

    Raises:
        TensorFileError: A ValueError: the file is damaged, in another format, or asks for more
            than tensors and plain containers.
    """
    with open(path, "rb") as file:
        try:
            _check_signature(file.read(4))
            size = file.seek(0, io.SEEK_END)
            with zipfile.ZipFile(file) as archive:
                records = _Records(archive, size)
                return interpret(records.description(), records.storage)
        except TensorFileError as problem:
            raise TensorFileError(f"cannot read {path}: {problem}") from problem
        # Damaged bytes make zipfile and pickletools stumble in many ways; all mean the same.
        except Exception as problem:
            raise TensorFileError(f"cannot read {path}: {problem}; {AGAIN}") from problem


def _check_signature(start: bytes) -> None:
    if start[:1] == b"\x80":
        raise TensorFileError(
            "this is a bare pickle, as torch.save wrote before torch 1.6; refused because loading "
            "it could run code. Ask its author to save it again with torch >= 1.6"
        )
    if start != b"PK\x03\x04":
        raise TensorFileError(
            f"it starts with {start!r}, but a torch.save file is a zip archive; {AGAIN}"
        )


class _Records:
    """The records of the archive: uncompressed, no larger than the file, checksums verified."""

    def __init__(self, archive: zipfile.ZipFile, file_size: int) -> None:
        self.archive = archive
        infos = archive.infolist()
        self.records = {info.filename: info for info in infos}
        roots = [name[: -len("data.pkl")] for name in self.records if name.endswith("/data.pkl")]
        if len(roots) != 1:
            raise TensorFileError(
                "it is a zip archive without the single data.pkl of torch.save; "
                "if it is a download that holds a data file, unpack it first"
            )
        self.root = roots[0]
        if len(self.records) != len(infos):
            raise TensorFileError(f"two records have the same name; {AGAIN}")
        packed = any(info.compress_type != zipfile.ZIP_STORED for info in infos)
        if packed or sum(info.file_size for info in infos) > file_size:
            raise TensorFileError(
                "its records are compressed or larger than the file, which torch.save never "
                "writes; save the tensors again with torch.save"
            )
        order = f"{self.root}byteorder"
        if order in self.records and archive.read(order) != b"little":
            raise TensorFileError("its numbers are big-endian; save it on a little-endian machine")

    def description(self) -> bytes:
        """The description of the object, a pickle."""
        size = self.records[f"{self.root}data.pkl"].file_size
        if size > _MOST_DESCRIPTION_BYTES:
            raise TensorFileError(f"its description has {size} bytes; {PLAIN}")
        return self.archive.read(f"{self.root}data.pkl")

    def storage(self, key: str, dtype: torch.dtype, count: int) -> Tensor:
        """The numbers of record `data/key`, as a flat tensor."""
        info = self.records.get(f"{self.root}data/{key}")
        if info is None or count < 0 or info.file_size != count * dtype.itemsize:
            held = "is missing" if info is None else f"has {info.file_size} bytes"
            raise TensorFileError(f"storage {key!r} of {count} {dtype} numbers {held}; {AGAIN}")
        # Bytes other than 0 and 1 are no bools.
        storage = torch.empty(count, dtype=torch.uint8 if dtype == torch.bool else dtype)
        target = storage.view(torch.uint8).numpy()
        with self.archive.open(info) as record:
            for start in range(0, len(target), _CHUNK):
                target[start : start + _CHUNK] = np.frombuffer(record.read(_CHUNK), np.uint8)
        return storage.ne(0) if dtype == torch.bool else storage
