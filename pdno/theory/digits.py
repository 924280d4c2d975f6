"""Torch's operations with any number of digits: what a function is, apart from its rounding.

    with exact_digits(50) as digits:
        digits.follow(xi)              # from here on the numbers of xi are exact
        exact = digits.read(a(x, xi))  # numbers of mpmath, while torch computes in float64

Every float64 in memory has a number of mpmath beside it, and operations compute both. Comparisons
take the exact numbers, so that a function branches as it would without rounding. A float such as
6.283185307179586 stands for the multiple of π that it rounds. What leaves torch, or has no
counterpart here, raises `NoDigits`.
"""

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import mpmath
import numpy as np
import torch
from mpmath import mp
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

Numbers = np.ndarray[tuple[int, ...], np.dtype[np.object_]]
Arguments = tuple[object, ...]
Keywords = Mapping[str, object]
FLOATS = (torch.float64, torch.complex128)


class NoDigits(Exception):
    """A function does something that is known in float64 alone."""


def _power(z: mpmath.mpf, p: mpmath.mpf) -> object:
    return z ** int(p) if mp.isint(p) and abs(p) < 2**20 else mp.power(z, p)


NAMES = (
    "exp expm1 log log1p log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "erf erfc floor ceil digamma sign atan2 hypot fmod isfinite isnan"
)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
POINTWISE: dict[str, Callable[..., object]] = {
    **{name: getattr(mp, name) for name in NAMES.split()},
    **{name: getattr(operator, name) for name in (*COMPARISONS, "neg", "mul")},
    "add": lambda a, b, alpha=1: a + alpha * b, "sub": lambda a, b, alpha=1: a - alpha * b,
    "abs": abs, "maximum": max, "max": max, "clamp_min": max, "minimum": min, "min": min,
    "clamp_max": min, "pow": _power, "sgn": mp.sign, "round": mp.nint, "complex": mp.mpc,
    "conj_physical": mp.conj, "_conj_physical": mp.conj, "angle": mp.arg, "lgamma": mp.loggamma,
    "reciprocal": lambda z: 1 / z, "rsqrt": lambda z: 1 / mp.sqrt(z), "div": operator.truediv,
    "exp2": lambda z: mp.mpf(2) ** z, "log2": lambda z: mp.log(z, 2),
    "polar": lambda r, t: mp.mpc(r * mp.cos(t), r * mp.sin(t)),
    "sigmoid": lambda z: 1 / (1 + mp.exp(-z)), "relu": lambda z: max(z, mp.mpf(0)),
    "silu": lambda z: z / (1 + mp.exp(-z)), "gelu": lambda z: z * mp.erfc(-z / mp.sqrt(2)) / 2,
    "softplus": lambda z, beta=1, threshold=20: mp.log1p(mp.exp(beta * z)) / beta,
    "trunc": lambda z: mp.sign(z) * mp.floor(abs(z)), "where": lambda c, a, b: a if c else b,
    "remainder": lambda a, b: a - b * mp.floor(a / b), "zero": lambda z: mp.mpf(0),
    "fill": lambda _, z: z, "copy": lambda _, z: z, "clone": lambda z: z,
}  # fmt: skip
COPIES = {"clone": 1, "copy": 2}  # arguments that count
REDUCED: dict[str, Callable[..., object]] = {
    "sum": operator.add, "mean": operator.add, "prod": operator.mul, "amax": max, "amin": min,
}  # fmt: skip
ARRAYS: dict[str, Callable[..., object]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), operator.matmul),
    "cumsum": lambda values, axis: np.cumsum(values, axis=int(axis)),
    "isin": lambda ones, many: _each(set(many.flatten()).__contains__, ones),
    "linalg_matrix_exp": np.vectorize(
        lambda a: np.array(mp.expm(mp.matrix(a.tolist())).tolist(), dtype=object),
        otypes=[object], signature="(n,n)->(n,n)",
    ),
}  # fmt: skip
MOVES = (
    "cat", "stack", "index", "index_select", "gather", "flip", "roll", "repeat", "index_put",
    "tril", "triu", "select_scatter", "slice_scatter", "select_backward",
)  # fmt: skip


class _Refusing(TorchFunctionMode):
    """Keeps numbers from leaving torch."""

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Arguments = (),
        kwargs: Keywords | None = None,
    ) -> object:
        if getattr(func, "__name__", "") in ("numpy", "__array__", "tolist"):
            raise NoDigits("a function that leaves torch")
        return func(*args, **(kwargs or {}))


@contextmanager
def exact_digits(digits: int) -> Iterator["Digits"]:
    """Torch with so many digits for what is followed."""
    with mpmath.workdps(digits), _Refusing(), Digits() as mode:
        yield mode


class Digits(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Exact numbers beside the float64 of each storage, two for a complex one."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.memory, self.alive = dict[int, Numbers](), list[Tensor]()

    def follow(self, *tensors: Tensor) -> None:
        """Take the numbers of tensors as exact."""
        for tensor in tensors:
            self._write(tensor, _constants(tensor))

    def read(self, tensor: Tensor) -> Numbers:
        """The exact numbers of a tensor."""
        memory = self.memory.get(_storage(tensor)) if tensor.dtype in FLOATS else None
        if memory is None:
            return _constants(tensor)
        slots = _slots(tensor)
        if not tensor.is_complex():
            return -memory[slots] if tensor.is_neg() else memory[slots]
        values = _each(mp.mpc, memory[2 * slots], memory[2 * slots + 1])
        return _each(mp.conj, values) if tensor.is_conj() else values

    def _write(self, tensor: Tensor, values: Numbers) -> None:
        """Numbers of a tensor; those of another type are computed, and end here."""
        values = np.broadcast_to(np.asarray(values, dtype=object), tuple(tensor.shape))
        if tensor.dtype not in FLOATS:
            exact = [n if isinstance(n, bool) else int(n) for n in values.flatten()]
            tensor.copy_(torch.tensor(exact).reshape(tensor.shape))
            return
        self.alive.append(tensor)
        storage = tensor.untyped_storage()
        if _storage(tensor) not in self.memory:
            flat = torch.empty(0, dtype=torch.float64).set_(storage)
            self.memory[_storage(tensor)] = _constants(flat)
        memory, slots = self.memory[_storage(tensor)], _slots(tensor)
        if tensor.is_complex():
            values = _each(mp.mpc, values)
            values = _each(mp.conj, values) if tensor.is_conj() else values
            memory[2 * slots], memory[2 * slots + 1] = _each(mp.re, values), _each(mp.im, values)
        else:
            # a real function has no root of a negative number
            memory[slots] = _each(lambda z: mp.nan if mp.im(z) else mp.re(z), values)

    def __torch_dispatch__(
        self,
        func: OpOverload[..., object],
        types: object,
        args: Arguments = (),
        kwargs: Keywords | None = None,
    ) -> object:
        kwargs = kwargs or {}
        leaves = tree_flatten((args, kwargs))[0]
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        followed = [t for t in tensors if t.dtype in FLOATS and _storage(t) in self.memory]
        name = func._schema.name.split("::")[-1]
        if not followed or name.startswith("new_") or name.endswith("_like"):
            out = func(*args, **kwargs)
            for tensor in tree_flatten(out)[0]:
                if isinstance(tensor, Tensor):
                    self.memory.pop(_storage(tensor), None)
            return out
        plain = name.removesuffix("_")
        try:
            values = self._compute(plain, func, args, kwargs)
        except (TypeError, ValueError, IndexError, RuntimeError) as problem:
            raise NoDigits(f"{name}: {problem}") from None
        if values is None and func in decomposition_table and not func.is_view:
            with self:
                return decomposition_table[func](*args, **kwargs)
        out = func(*args, **kwargs)
        first = tree_flatten(out)[0][0]
        if values is not None:
            if name == plain:
                self.memory.pop(_storage(first), None)
            self._write(first, values)
        elif not isinstance(first, Tensor) or (
            first.dtype in FLOATS and _storage(first) not in self.memory
        ):
            raise NoDigits(f"{name} is known in float64 alone")
        return out

    def _compute(
        self, name: str, func: Callable[..., object], args: Arguments, kwargs: Keywords
    ) -> Numbers | None:
        """The numbers of a result, None for a view or where there are none."""
        if name in MOVES:
            return self._moved(func, args, kwargs)
        if name in ("max", "min") and not (len(args) > 1 and isinstance(args[1], Tensor)):
            name = "a" + name
        if name in REDUCED and "dtype" not in kwargs:
            return _reduce(name, self._number(args[0]), *args[1:])
        if name == "_to_copy":
            if kwargs.get("dtype") in (torch.float32, torch.float16, torch.bfloat16):
                raise NoDigits("a function that computes in float32")
            whole = kwargs.get("dtype") not in (None, *FLOATS)
            return _each(POINTWISE["trunc" if whole else "clone"], self._number(args[0]))
        if name in COPIES:
            args, kwargs = args[: COPIES[name]], {}
        mode = kwargs.get("rounding_mode")
        alpha = [kwargs["alpha"]] if "alpha" in kwargs else []
        if not (name in POINTWISE or name in ARRAYS) or kwargs.keys() - {"alpha", "rounding_mode"}:
            return None
        parts = [self._number(part) for part in (*args, *alpha)]
        if name in ARRAYS:
            return np.asarray(ARRAYS[name](*parts), dtype=object)
        values = _each(POINTWISE[name], *parts)
        return _each(POINTWISE[str(mode)], values) if mode else values

    def _moved(self, func: Callable[..., object], args: Arguments, kwargs: Keywords) -> Numbers:
        """What only moves numbers moves their positions."""
        pool = list[object]()

        def numbered(part: object) -> object:
            if not isinstance(part, Tensor) or not (part.is_floating_point() or part.is_complex()):
                return part
            start = len(pool)
            pool.extend(self.read(part).flatten())
            return torch.arange(start, len(pool)).reshape(part.shape)

        where = func(*tree_map(numbered, args), **tree_map(numbered, kwargs))
        assert isinstance(where, Tensor)
        positions = np.array(_list(where), dtype=np.int64).reshape(tuple(where.shape))
        return np.array(pool, dtype=object)[positions]

    def _number(self, part: object) -> Numbers:
        return (
            self.read(part) if isinstance(part, Tensor) else _each(_known, np.array(part, object))
        )


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _slots(tensor: Tensor) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Where the numbers of a tensor are in its storage."""
    strides, indices = np.array(tensor.stride(), dtype=np.int64), np.indices(tuple(tensor.shape))
    return np.asarray(tensor.storage_offset() + np.tensordot(strides, indices, 1))


def _list(tensor: Tensor) -> list[complex]:
    with torch._C.DisableTorchFunction():
        numbers: list[complex] = tensor.flatten().tolist()
    return numbers


def _constants(tensor: Tensor) -> Numbers:
    """Numbers as they are; one alone may stand for a multiple of π."""
    values = np.array(_list(tensor.detach().resolve_conj().resolve_neg()), dtype=object)
    exact = _each(_known if tensor.dim() == 0 else mp.mpmathify, values)
    return exact.reshape(tuple(tensor.shape))


def _known(value: float | complex) -> object:
    """A number, or the multiple of π with a small denominator that it rounds."""
    if isinstance(value, complex):
        return mp.mpc(_known(value.real), _known(value.imag))
    for q in range(1, 13) if math.isfinite(value) else ():
        turns = value / float(mp.pi) * q
        if 0 < abs(round(turns)) < 1e4 and abs(turns - round(turns)) <= 4e-16 * abs(turns):
            return mp.pi * round(turns) / q
    return mp.mpmathify(value)


def _each(function: Callable[..., object], *values: Numbers) -> Numbers:
    """A function of numbers, one by one."""

    def safe(*numbers: object) -> object:
        try:
            return function(*numbers)
        except (ZeroDivisionError, ValueError, OverflowError):
            return mp.nan

    with np.errstate(invalid="ignore"):
        return np.asarray(np.frompyfunc(safe, len(values), 1)(*values), dtype=object)


def _reduce(name: str, values: Numbers, axes: object = None, keep: object = False) -> Numbers:
    """Sums, products and extrema along axes, which may be kept."""
    several = [axes] if isinstance(axes, int) else axes if isinstance(axes, list) else []
    chosen = tuple(several or range(values.ndim))
    combine = np.frompyfunc(REDUCED[name], 2, 1, identity=None)
    total = np.asarray(combine.reduce(values, axis=chosen, keepdims=bool(keep)), dtype=object)
    count = values.size // total.size if name == "mean" else 1
    return np.asarray(total / count, dtype=object)
