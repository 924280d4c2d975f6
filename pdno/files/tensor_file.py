"""Tensor files: files of `torch.save`, read without unpickling.

A file of torch >= 1.6 is a zip archive: `NAME/data.pkl` describes the object, `NAME/data/0`, ...
hold the raw numbers of its storages. The description is a pickle, a program that may call any
function it names. Here it is only tokenised (`pickletools.genops` executes nothing), and
interpreted by a machine that knows plain containers, numbers, text and tensors.
"""

import math
import pickletools
import zipfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from torch import Tensor

from pdno.files.limits import DEEPEST, MemoryLimitError, check_memory, open_regular, walk
from pdno.interface.errors import LONGEST_MESSAGE, printable

_Containers: TypeAlias = "list[Contents] | tuple[Contents, ...] | dict[str | int, Contents]"
_Value: TypeAlias = Any  # containers, tensors, and the functions that make them
Contents: TypeAlias = "Tensor | str | int | float | None | _Containers"

AGAIN = "the file is damaged or incomplete: download or copy it again"
PLAIN = 'save tensors in plain containers, e.g. torch.save(model.state_dict(), "weights.pt")'
_REFUSED = f"refused because loading it could run code: {PLAIN}"
# About 40 instructions of 150 bytes describe a tensor: enough for 50,000 tensors in one file.
_MOST_INSTRUCTIONS = 2_000_000
_CHUNK = 1 << 24

_LITERALS = {"BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
_CONSTANTS: dict[str, Callable[[], object]] = {
    **{"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple},
    **{"NONE": lambda: None, "NEWTRUE": lambda: True, "NEWFALSE": lambda: False},
}


class TensorFileError(ValueError):
    """The file cannot be read, or is refused; the message says why and what to do."""


def read_tensor_file(path: str | Path) -> Contents:
    """The object that `torch.save` wrote to `path`: tensors on the CPU in plain containers.

    Views of one storage share memory, as they did when they were saved.
    """
    with open_regular(path) as file:
        try:
            start, size = file.read(4), file.seek(0, 2)
            if start[:1] == b"\x80":
                old = "this is a bare pickle, as torch.save wrote before torch 1.6; refused"
                raise TensorFileError(f"{old} because loading it could run code: save it again")
            if start != b"PK\x03\x04":
                raise TensorFileError(f"it starts with {start!r}, unlike torch.save; {AGAIN}")
            check_memory("its tensors", size)  # records are not packed
            with zipfile.ZipFile(file) as archive:
                contents = _Machine(archive, size).run()
            plain = (dict, list, tuple, Tensor, str, int, float, type(None))
            if not all(isinstance(value, plain) for value in walk(contents)):
                raise TensorFileError(f"this file holds a pickled object; {_REFUSED}")
            return cast(Contents, contents)
        except (TensorFileError, MemoryLimitError) as problem:
            raise TensorFileError(f"cannot read {path}: {printable(str(problem))}") from problem
        # Damaged bytes make zipfile, pickletools and the machine fail in many ways: all mean this.
        except Exception as problem:
            reason = printable(str(problem)[:LONGEST_MESSAGE])
            raise TensorFileError(f"cannot read {path}: {reason}; {AGAIN}") from problem


class _Machine:
    """The stack machine of a pickle, reduced to what tensors in plain containers need."""

    def __init__(self, archive: zipfile.ZipFile, file_size: int) -> None:
        self.archive, infos = archive, archive.infolist()
        self.records = {info.filename: info for info in infos}
        self.stack, self.below = list[_Value](), list[list[_Value]]()  # of them before the mark
        self.memo, self.storages = dict[object, object](), dict[object, Tensor]()
        roots = [name[: -len("data.pkl")] for name in self.records if name.endswith("/data.pkl")]
        if len(roots) != 1 or len(self.records) != len(infos):
            raise TensorFileError("it is a zip archive, but not of torch.save: unpack it first")
        self.root = roots[0]
        # zipfile makes room for what is declared to be packed before it reads
        packed = any(info.compress_type or info.compress_size != info.file_size for info in infos)
        if packed or sum(info.file_size for info in infos) > file_size:
            raise TensorFileError("its records are compressed or too large; save it again")
        order = f"{self.root}byteorder"
        if order in self.records and archive.read(order) != b"little":
            raise TensorFileError("its numbers are big-endian; save it on a little-endian machine")

    def run(self) -> object:
        """The value that the description leaves on the stack."""
        program = pickletools.genops(self.archive.read(f"{self.root}data.pkl"))
        for opcode, argument, _ in islice(program, _MOST_INSTRUCTIONS):
            self.step(opcode.name, argument)
        if opcode.name != "STOP":
            raise TensorFileError(f"its description is too long; {PLAIN}")
        (result,) = self.stack
        return result

    def step(self, opcode: str, argument: object) -> None:
        """Change what was put on the stack, or push a value."""
        match opcode:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "MARK":
                self.below.append(self.stack)
                self.stack = []
            case "BINPUT" | "LONG_BINPUT" | "MEMOIZE":
                self.memo[len(self.memo) if argument is None else argument] = self.stack[-1]
            case "APPEND" | "APPENDS":
                values = self.pop(1 if opcode == "APPEND" else None)
                self.stack[-1].extend(values)
            case "SETITEM" | "SETITEMS":
                values = self.pop(2 if opcode == "SETITEM" else None)
                if not all(type(key) in (str, int) for key in values[::2]):
                    raise TensorFileError(f"a dict has a key that is no word or number; {PLAIN}")
                self.stack[-1].update(zip(values[::2], values[1::2], strict=True))
            case "BUILD" if isinstance(self.stack[-2], dict):
                self.pop(1)  # attributes of an ordered dict: versions of the modules of a state
            case _:
                value = self.value(opcode, argument)  # which may take from the stack
                self.stack.append(value)

    def value(self, opcode: str, argument: object) -> object:
        """A literal, or a value recalled or put together from those on the stack."""
        if opcode in _LITERALS:
            return argument
        if opcode in _CONSTANTS:
            return _CONSTANTS[opcode]()
        match opcode:
            case "BINGET" | "LONG_BINGET":
                return self.memo[argument]
            case "TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3":
                return tuple(self.pop(None if opcode == "TUPLE" else int(opcode[-1])))
            case "GLOBAL" | "STACK_GLOBAL":
                name = str(argument) if opcode == "GLOBAL" else " ".join(map(str, self.pop(2)))
                if name in _NAMES:
                    return _NAMES[name]
                opcode = repr(name[:80].replace(" ", "."))
            case "BINPERSID":
                return self.storage(*self.pop(1)[0])
            case "REDUCE":
                function, arguments = self.pop(2)
                return function(*arguments)
        raise TensorFileError(f"this file holds a pickled {opcode}; {_REFUSED}")

    def pop(self, count: int | None) -> list[_Value]:
        """The last `count` values, or those since the last mark."""
        if count is not None:
            return [self.stack.pop() for _ in range(count)][::-1]
        values, self.stack = self.stack, self.below.pop()
        return values

    def storage(self, kind: str, dtype: torch.dtype, name: str, device: str, count: int) -> Tensor:
        """The numbers of record `data/name`, as a flat tensor; read once."""
        if (name, dtype, count) in self.storages:
            return self.storages[name, dtype, count]
        info = self.records.get(f"{self.root}data/{name}")
        if info is None or info.file_size != count * dtype.itemsize:
            size = "is missing" if info is None else f"has {info.file_size} bytes"
            raise TensorFileError(f"storage {name!r} of {count} {dtype} numbers {size}; {AGAIN}")
        # Bytes other than 0 and 1 are no bools.
        numbers = torch.empty(count, dtype=torch.uint8 if dtype == torch.bool else dtype)
        target = numbers.view(torch.uint8).numpy()
        with self.archive.open(info) as record:
            for start in range(0, len(target), _CHUNK):  # zipfile verifies the checksum
                target[start : start + _CHUNK] = np.frombuffer(record.read(_CHUNK), np.uint8)
        numbers = numbers.ne(0) if dtype == torch.bool else numbers
        return self.storages.setdefault((name, dtype, count), numbers)


def _tensor(
    storage: Tensor, offset: int, size: tuple[int, ...], stride: tuple[int, ...], *others: object
) -> Tensor:
    """A view of a storage; others are whether it has a gradient, hooks, and what is lazy."""
    if any(others[2:]):
        raise TensorFileError("a tensor is a lazy conjugate; save tensor.resolve_conj()")
    bounded = all(type(n) is int and 0 <= n < 1 << 63 for n in (offset, *size, *stride))
    if not bounded or len(size) > DEEPEST:
        raise TensorFileError(f"the size of a tensor is malformed; {AGAIN}")
    last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    count, held = math.prod(list(size)), storage.numel()
    if count > held or (count > 0 and last >= held):
        raise TensorFileError(f"a tensor {size} exceeds its storage; save tensor.contiguous()")
    return storage.as_strided(size, stride, offset)


_DTYPES = {"Char": torch.int8, "Short": torch.int16, "Int": torch.int32, "Long": torch.int64}
_DTYPES |= {"Byte": torch.uint8, "Bool": torch.bool, "Half": torch.float16}
_DTYPES |= {"BFloat16": torch.bfloat16, "Float": torch.float32, "Double": torch.float64}
_DTYPES |= {"ComplexFloat": torch.complex64, "ComplexDouble": torch.complex128}
# All that a description may name. Nothing else callable ever gets on the stack.
_NAMES: dict[str, torch.dtype | Callable[..., object]] = {
    **{f"torch {kind}Storage": dtype for kind, dtype in _DTYPES.items()},
    "collections OrderedDict": lambda: {},
    "torch._utils _rebuild_tensor_v2": _tensor,
    "torch._utils _rebuild_parameter": lambda tensor, requires_grad, hooks: tensor,
}
