"""The pairwise operator as GPU kernels, written in Triton: forward and backward, float32.

    out_bj(x) = Σ_i b_ji(x) F⁻¹[c_ji f̂_bi](x)

By the FFT every triple (b, j, i) goes through memory. Here it stays in registers: a program sums
over the kept modes on a tile of the grid, multiplies by b and adds, input after input.

A grid of any dimension is seen as planes s, rows r and columns x: columns are the half axis, rows
the axis before it, planes all other axes together; there is one of what is missing. With the
phases e of the planes and a of the rows, and the weights w of the Hermitian rule (see
`pdno.spectral.fourier`), F⁻¹[c f̂] = g goes one axis after the other,

    q_mk = Σ_n e_sn c_nmk f̂_nmk,    h_rk = Σ_m a_rm q_mk,
    g_rx = Σ_k w_k [ cos(2πkx) Re h_rk - sin(2πkx) Im h_rk ].

The last sum is a matrix product; to fill it, the lines of a tile are pairs of sample and row, or
of sample and input. Back from the gradient ḡ_bj of the result goes the transposed way,

    v_rk = Σ_x w_k e^{-2πikx} b_ji(r, x) ḡ_bj(r, x),    u_mk = Σ_r conj(a_rm) v_rk,
    p_nmk = Σ_s conj(e_sn) u_smk,    c̄_ji = Σ_b conj(f̂_bi) p_bji,    f̂̄_bi = Σ_j conj(c_ji) p_bji,
    b̄_ji(x) = Σ_b ḡ_bj(x) g_bji(x).

Of all this only u is in memory, for as many outputs and samples at a time as fit `BUDGET`. Every
number of a result belongs to one program that adds in a fixed order, so the same operands give the
same bits. Products are taken in full float32, not in the shorter formats of tensor cores.

With `TRITON_INTERPRET=1` before the first import the kernels run on CPU tensors, slowly: so their
numbers are tested. `tests/operators/triton_report.py` shows what the compiler makes of them.
"""

from __future__ import annotations  # triton's names are not there where it is not installed

__all__ = ["available", "pairwise_backward", "pairwise_forward"]

import inspect
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from pdno.spectral.fourier import half_table
from pdno.spectral.grid import axis_modes, kept_per_axis

try:
    import triton
    import triton.language as tl
    from triton.language import tensor as Arg  # in annotations, which triton looks up
except ImportError:
    triton = None

Shape = tuple[int, ...]
Kept = tuple[int | None, ...]
BUDGET = 256 * 2**20  # bytes of u that the backward pass may keep at a time
LEAST = 16  # the smallest side of a matrix product in Triton
ENOUGH = 256  # programs that keep a GPU busy; with fewer of them the tiles are made smaller
# Of the compiler. Without them it gives registers away for more programs at a time, or for loads
# ahead of their use, and then moves numbers out to memory.
OPTIONS = {"num_stages": 1, "maxnreg": 255}


def available() -> bool:
    """Whether triton can be imported."""
    return triton is not None


def pairwise_forward(c: Tensor, b: Tensor, f_hat: Tensor, shape: Shape, kept: Kept) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O, I, *N), (B, I, *K) -> (B, O, *N).

    Modes are in the order of `Grid.modes(kept)`; c and f̂ are complex64, b is float32.
    """
    layer = _Layer(c, b, f_hat, shape, kept)
    out = b.new_empty(len(f_hat), len(c), *shape)
    with torch.cuda.device_of(b):  # type: ignore[no-untyped-call]
        layer.forward(out).run()
    return out


def pairwise_backward(
    c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, shape: Shape, kept: Kept
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients c̄, b̄ and f̂̄ for the gradient `grad` of the result, (B, O, *N)."""
    layer = _Layer(c, b, f_hat, shape, kept)
    grad = _checked("grad", grad, torch.float32, (len(f_hat), len(c), *shape), b.device)
    c_bar, f_bar = (torch.zeros_like(layer.operands[name]) for name in ("c", "f_hat"))
    b_bar = torch.empty_like(layer.operands["b"])
    with torch.cuda.device_of(b):  # type: ignore[no-untyped-call]
        layer.space_gradient(grad, b_bar).run()
        for launch in layer.frequency_gradients(grad, c_bar, f_bar):
            launch.run()
    return torch.view_as_complex(c_bar), b_bar, torch.view_as_complex(f_bar)


# Kernels. Complex numbers are pairs of real ones; tables and sizes have the names of `_Layer`.


def _jit(function: Callable[..., Any]) -> Any:
    """The function as Triton sees it; itself, of no use, where triton is not installed."""
    return function if triton is None else triton.jit(function)


@_jit
def _load(start: Arg, place: Arg, mask: Arg) -> Arg:
    """Real and imaginary parts at some places; 0 behind the end."""
    real = tl.load(start + 2 * place, mask=mask, other=0.0)
    return real, tl.load(start + 2 * place + 1, mask=mask, other=0.0)


@_jit
def _product(a_real: Arg, a_imag: Arg, b_real: Arg, b_imag: Arg) -> Arg:
    """a b of complex numbers."""
    return a_real * b_real - a_imag * b_imag, a_real * b_imag + a_imag * b_real


@_jit
def _add_product(
    total_real: Arg, total_imag: Arg, a_real: Arg, a_imag: Arg, b_real: Arg, b_imag: Arg
) -> Arg:
    """total + a b of complex numbers."""
    real, imag = _product(a_real, a_imag, b_real, b_imag)
    return total_real + real, total_imag + imag


@_jit
def _next_axis(program: Arg, count: Arg, tile: tl.constexpr) -> Arg:
    """Where a program's tile starts along the last axis, and its number along the others."""
    tiles = tl.cdiv(count, tile)
    return program % tiles * tile, program // tiles


@_jit
def _synthesise(
    c: Arg, f_hat: Arg, pair: Arg, spectra: Arg, place: Arg, operands: Arg, tiles: tl.constexpr
) -> Arg:
    """g of some samples, rows and columns for one pair j, i: (samples * rows, columns)."""
    tile_samples: tl.constexpr = tiles[0]
    tile_rows: tl.constexpr = tiles[1]
    tile_columns: tl.constexpr = tiles[2]
    tile_half_modes: tl.constexpr = tiles[3]
    one_plane: tl.constexpr = tiles[4]
    tables, sizes = operands
    plane_table, row_table, column_table = tables
    _, _, _, _, rows, columns, plane_modes, row_modes, half_modes = sizes
    spectrum, has_spectrum = spectra
    plane, row, column = place
    modes = plane_modes * row_modes * half_modes
    g = tl.zeros((tile_samples * tile_rows, tile_columns), tl.float32)
    for first in range(0, half_modes, tile_half_modes):
        k = first + tl.arange(0, tile_half_modes)
        in_half = k < half_modes
        in_spectra = has_spectrum[:, None] & in_half[None, :]
        h_real = tl.zeros((tile_samples, tile_rows, tile_half_modes), tl.float32)
        h_imag = tl.zeros((tile_samples, tile_rows, tile_half_modes), tl.float32)
        for m in range(row_modes):
            if one_plane:
                mode = m * half_modes + k
                c_real, c_imag = _load(c, pair * modes + mode, in_half)
                places = spectrum[:, None] * modes + mode[None, :]
                f_real, f_imag = _load(f_hat, places, in_spectra)
                q_real, q_imag = _product(c_real[None, :], c_imag[None, :], f_real, f_imag)
            else:
                q_real = tl.zeros((tile_samples, tile_half_modes), tl.float32)
                q_imag = tl.zeros((tile_samples, tile_half_modes), tl.float32)
                for n in range(plane_modes):
                    mode = (n * row_modes + m) * half_modes + k
                    e_real, e_imag = _load(plane_table, plane * plane_modes + n, n < plane_modes)
                    c_real, c_imag = _load(c, pair * modes + mode, in_half)
                    c_real, c_imag = _product(e_real, e_imag, c_real, c_imag)
                    places = spectrum[:, None] * modes + mode[None, :]
                    f_real, f_imag = _load(f_hat, places, in_spectra)
                    q_real, q_imag = _add_product(
                        q_real, q_imag, c_real[None, :], c_imag[None, :], f_real, f_imag
                    )
            a_real, a_imag = _load(row_table, row * row_modes + m, row < rows)
            phases = a_real[None, :, None], a_imag[None, :, None]
            lines = q_real[:, None, :], q_imag[:, None, :]
            h_real, h_imag = _add_product(h_real, h_imag, *phases, *lines)
        in_table = in_half[:, None] & (column < columns)[None, :]
        waves = column_table + 2 * k[:, None] * columns + column[None, :]
        cosines = tl.load(waves, mask=in_table, other=0.0)
        sines = tl.load(waves + columns, mask=in_table, other=0.0)
        h_real = tl.reshape(h_real, (tile_samples * tile_rows, tile_half_modes))
        h_imag = tl.reshape(h_imag, (tile_samples * tile_rows, tile_half_modes))
        g = tl.dot(h_real, cosines, g, input_precision="ieee")
        g = tl.dot(h_imag, sines, g, input_precision="ieee")
    return g


@_jit
def _forward(
    out: Arg, c: Arg, b: Arg, f_hat: Arg, tables: Arg, sizes: Arg, tiles: tl.constexpr
) -> None:
    """out of some samples, rows and columns, one output and plane."""
    tile_samples: tl.constexpr = tiles[0]
    tile_rows: tl.constexpr = tiles[1]
    tile_columns: tl.constexpr = tiles[2]
    samples, outputs, inputs, planes, rows, columns, _, _, _ = sizes
    sample_first, program = _next_axis(tl.program_id(0), samples, tile_samples)
    column_first, program = _next_axis(program, columns, tile_columns)
    row_first, program = _next_axis(program, rows, tile_rows)
    plane, j = _next_axis(program, planes, 1)
    j = j.to(tl.int64)
    column = column_first + tl.arange(0, tile_columns)
    sample = sample_first + tl.arange(0, tile_samples)
    row = row_first + tl.arange(0, tile_rows)
    line = tl.arange(0, tile_samples * tile_rows)
    line_sample = sample_first + line // tile_rows
    line_row = row_first + line % tile_rows
    in_field = (line_row < rows)[:, None] & (column < columns)[None, :]
    point = (plane * rows + line_row)[:, None] * columns + column[None, :]
    size = planes * rows * columns
    place = plane, row, column
    total = tl.zeros((tile_samples * tile_rows, tile_columns), tl.float32)
    for i in range(inputs):
        spectra = sample.to(tl.int64) * inputs + i, sample < samples
        g = _synthesise(c, f_hat, j * inputs + i, spectra, place, (tables, sizes), tiles)
        total += tl.load(b + (j * inputs + i) * size + point, mask=in_field, other=0.0) * g
    target = (line_sample.to(tl.int64) * outputs + j)[:, None] * size + point
    tl.store(out + target, total, mask=in_field & (line_sample < samples)[:, None])


@_jit
def _space_gradient(
    b_bar: Arg, c: Arg, grad: Arg, f_hat: Arg, tables: Arg, sizes: Arg, tiles: tl.constexpr
) -> None:
    """b̄ of some rows and columns, one pair and plane."""
    tile_samples: tl.constexpr = tiles[0]
    tile_rows: tl.constexpr = tiles[1]
    tile_columns: tl.constexpr = tiles[2]
    samples, outputs, inputs, planes, rows, columns, _, _, _ = sizes
    column_first, program = _next_axis(tl.program_id(0), columns, tile_columns)
    row_first, program = _next_axis(program, rows, tile_rows)
    plane, pair = _next_axis(program, planes, 1)
    pair = pair.to(tl.int64)
    j = pair // inputs
    i = pair % inputs
    column = column_first + tl.arange(0, tile_columns)
    row = row_first + tl.arange(0, tile_rows)
    line = tl.arange(0, tile_samples * tile_rows)
    line_row = row_first + line % tile_rows
    in_field = (line_row < rows)[:, None] & (column < columns)[None, :]
    point = (plane * rows + line_row)[:, None] * columns + column[None, :]
    size = planes * rows * columns
    place = plane, row, column
    total = tl.zeros((tile_samples * tile_rows, tile_columns), tl.float32)
    for sample_first in range(0, samples, tile_samples):
        sample = sample_first + tl.arange(0, tile_samples)
        line_sample = sample_first + line // tile_rows
        spectra = sample.to(tl.int64) * inputs + i, sample < samples
        g = _synthesise(c, f_hat, pair, spectra, place, (tables, sizes), tiles)
        source = (line_sample.to(tl.int64) * outputs + j)[:, None] * size + point
        in_grad = in_field & (line_sample < samples)[:, None]
        total += tl.load(grad + source, mask=in_grad, other=0.0) * g
    sums = tl.sum(tl.reshape(total, (tile_samples, tile_rows, tile_columns)), axis=0)
    target = pair * size + (plane * rows + row)[:, None] * columns + column[None, :]
    tl.store(b_bar + target, sums, mask=(row < rows)[:, None] & (column < columns)[None, :])


@_jit
def _analyse(
    u: Arg, b: Arg, grad: Arg, tables: Arg, first_output: Arg, sizes: Arg, tiles: tl.constexpr
) -> None:
    """u of some samples, inputs and modes, one output and plane; outputs count from the first."""
    tile_samples: tl.constexpr = tiles[0]
    tile_inputs: tl.constexpr = tiles[1]
    tile_columns: tl.constexpr = tiles[2]
    tile_row_modes: tl.constexpr = tiles[3]
    tile_half_modes: tl.constexpr = tiles[4]
    _, row_table, column_table = tables
    samples, outputs, inputs, planes, rows, columns, _, row_modes, half_modes = sizes
    half_first, program = _next_axis(tl.program_id(0), half_modes, tile_half_modes)
    mode_first, program = _next_axis(program, row_modes, tile_row_modes)
    sample_first, program = _next_axis(program, samples, tile_samples)
    input_first, program = _next_axis(program, inputs, tile_inputs)
    plane, j = _next_axis(program, planes, 1)
    j = j.to(tl.int64)
    k = half_first + tl.arange(0, tile_half_modes)
    m = mode_first + tl.arange(0, tile_row_modes)
    line = tl.arange(0, tile_samples * tile_inputs)
    sample = sample_first + line // tile_inputs
    i = input_first + line % tile_inputs
    in_lines = (sample < samples) & (i < inputs)
    size = planes * rows * columns
    factor = b + ((j + first_output) * inputs + i)[:, None] * size
    field = grad + (sample.to(tl.int64) * outputs + j + first_output)[:, None] * size
    u_real = tl.zeros((tile_samples * tile_inputs, tile_row_modes, tile_half_modes), tl.float32)
    u_imag = tl.zeros((tile_samples * tile_inputs, tile_row_modes, tile_half_modes), tl.float32)
    for row in range(rows):
        v_real = tl.zeros((tile_samples * tile_inputs, tile_half_modes), tl.float32)
        v_imag = tl.zeros((tile_samples * tile_inputs, tile_half_modes), tl.float32)
        for column_first in range(0, columns, tile_columns):
            column = column_first + tl.arange(0, tile_columns)
            in_columns = column < columns
            point = ((plane * rows + row) * columns + column)[None, :]
            in_field = in_lines[:, None] & in_columns[None, :]
            product = tl.load(factor + point, mask=in_field, other=0.0)
            product *= tl.load(field + point, mask=in_field, other=0.0)
            waves = column_table + 2 * k[None, :] * columns + column[:, None]
            in_table = (k < half_modes)[None, :] & in_columns[:, None]
            cosines = tl.load(waves, mask=in_table, other=0.0)
            sines = tl.load(waves + columns, mask=in_table, other=0.0)
            v_real = tl.dot(product, cosines, v_real, input_precision="ieee")
            v_imag = tl.dot(product, sines, v_imag, input_precision="ieee")
        a_real, a_imag = _load(row_table, row * row_modes + m, m < row_modes)
        phases = a_real[None, :, None], -a_imag[None, :, None]
        lines = v_real[:, None, :], v_imag[:, None, :]
        u_real, u_imag = _add_product(u_real, u_imag, *phases, *lines)
    spectrum = ((j * samples + sample) * inputs + i) * planes + plane
    place = (m[:, None] * half_modes + k[None, :])[None, :, :]
    target = u + 2 * (spectrum[:, None, None] * row_modes * half_modes + place)
    in_modes = (m < row_modes)[:, None] & (k < half_modes)[None, :]
    mask = in_lines[:, None, None] & in_modes[None, :, :]
    tl.store(target, u_real, mask=mask)
    tl.store(target + 1, u_imag, mask=mask)


@_jit
def _reduce(
    total: Arg, factor: Arg, u: Arg, tables: Arg, steps: Arg, sizes: Arg, tiles: tl.constexpr
) -> None:
    """total += Σ conj(factor) p over samples for c̄, over outputs for f̂̄."""
    tile_modes: tl.constexpr = tiles[0]
    terms, total_step, term_step = steps
    _, _, inputs, planes, _, _, plane_modes, row_modes, half_modes = sizes
    modes = row_modes * half_modes
    first, program = _next_axis(tl.program_id(0), modes, tile_modes)
    n, program = _next_axis(program, plane_modes, 1)
    i, y = _next_axis(program, inputs, 1)
    i, y = i.to(tl.int64), y.to(tl.int64)
    place = first + tl.arange(0, tile_modes)
    mask = place < modes
    target = ((y * inputs + i) * plane_modes + n) * modes + place
    total_real, total_imag = _load(total, target, mask)
    for term in range(terms):
        p_real = tl.zeros((tile_modes,), tl.float32)
        p_imag = tl.zeros((tile_modes,), tl.float32)
        spectrum = (y * total_step + term * term_step) * inputs + i
        for plane in range(planes):
            e_real, e_imag = _load(tables[0], plane * plane_modes + n, n < plane_modes)
            u_real, u_imag = _load(u, (spectrum * planes + plane) * modes + place, mask)
            p_real, p_imag = _add_product(p_real, p_imag, e_real, -e_imag, u_real, u_imag)
        source = ((term * inputs + i) * plane_modes + n) * modes + place
        c_real, c_imag = _load(factor, source, mask)
        total_real, total_imag = _add_product(
            total_real, total_imag, c_real, -c_imag, p_real, p_imag
        )
    tl.store(total + 2 * target, total_real, mask=mask)
    tl.store(total + 2 * target + 1, total_imag, mask=mask)


# Launches


@dataclass(frozen=True)
class _Launch:
    """A kernel, how many programs of it, and what they are given."""

    kernel: Any
    programs: int
    operands: dict[str, Any]
    tiles: tuple[int, ...]
    warps: int

    def run(self) -> None:
        self.kernel[(self.programs,)](**self.operands, tiles=self.tiles, **self.options)

    @property
    def options(self) -> dict[str, int]:
        return {"num_warps": self.warps, **OPTIONS}


class _Sizes(NamedTuple):
    """Of a layer, in the order in which the kernels take them."""

    samples: int
    outputs: int
    inputs: int
    planes: int
    rows: int
    columns: int
    plane_modes: int
    row_modes: int
    half_modes: int


class _Layer:
    """The operands of one operator as the kernels take them, and the launches that it needs."""

    def __init__(self, c: Tensor, b: Tensor, f_hat: Tensor, shape: Shape, kept: Kept) -> None:
        if triton is None:
            raise RuntimeError("triton is not installed; these kernels need it: install triton")
        if c.device.type == "cpu" and isinstance(_forward, triton.JITFunction):
            raise ValueError(
                "tensors are on the cpu; these kernels need a GPU. Move them there, or set "
                "TRITON_INTERPRET=1 before the start to run the kernels slowly on the cpu"
            )
        kept = kept_per_axis(shape, kept)
        axes = zip(shape[:-1], kept[:-1], strict=True)
        full = [len(axis_modes(n, k, half=False)) for n, k in axes]
        half = len(axis_modes(shape[-1], kept[-1], half=True))
        outputs, inputs, samples, device = len(c), c.shape[1], len(f_hat), c.device
        spectrum = (inputs, *full, half)
        c = _checked("c", c, torch.complex64, (outputs, *spectrum), device)
        b = _checked("b", b, torch.float32, (outputs, inputs, *shape), device)
        f_hat = _checked("f_hat", f_hat, torch.complex64, (samples, *spectrum), device)
        planes, rows = (math.prod(shape[:-2]), math.prod(shape[-2:-1]))
        modes = (math.prod(full[:-1]), math.prod(full[-1:]), half)
        self.sizes = _Sizes(samples, outputs, inputs, planes, rows, shape[-1], *modes)
        tables = (
            _phases(shape[:-2], kept[:-2], device),
            _phases(shape[-2:-1], kept[-2:-1], device),
            half_table(shape[-1], half, torch.float32, device),
        )
        spectra = {"c": torch.view_as_real(c), "f_hat": torch.view_as_real(f_hat)}
        self.operands: dict[str, Any] = {**spectra, "b": b, "tables": tables}

    def forward(self, out: Tensor) -> _Launch:
        return self._synthesis(_forward, self.sizes.outputs, by_samples=True, out=out)

    def space_gradient(self, grad: Tensor, b_bar: Tensor) -> _Launch:
        pairs = self.sizes.outputs * self.sizes.inputs
        return self._synthesis(_space_gradient, pairs, by_samples=False, grad=grad, b_bar=b_bar)

    def frequency_gradients(self, grad: Tensor, c_bar: Tensor, f_bar: Tensor) -> Iterator[_Launch]:
        """What adds c̄ and f̂̄ to zeros, block after block of outputs and samples."""
        sizes, modes = self.sizes, self.sizes.row_modes * self.sizes.half_modes
        numbers = 2 * sizes.inputs * sizes.planes * modes
        fit = max(1, BUDGET // (4 * numbers))
        most_samples = min(fit, sizes.samples)
        most_outputs = min(fit // most_samples, sizes.outputs)
        u = grad.new_empty(most_outputs * most_samples * numbers)
        c, f_hat = self.operands["c"], self.operands["f_hat"]
        tile = _tile(modes, 128)
        programs = sizes.inputs * sizes.plane_modes * -(-modes // tile)
        for j in _blocks(sizes.outputs, most_outputs):
            for n in _blocks(sizes.samples, most_samples):
                outputs, samples = j.stop - j.start, n.stop - n.start
                yield self._analysis(u, grad[n], j)
                of_c = {"total": c_bar[j], "factor": f_hat[n], "steps": (samples, samples, 1)}
                of_f = {"total": f_bar[n], "factor": c[j], "steps": (outputs, 1, samples)}
                yield self._launch(_reduce, outputs * programs, (tile,), u=u, **of_c)
                yield self._launch(_reduce, samples * programs, (tile,), u=u, **of_f)

    def _synthesis(self, kernel: Any, count: int, *, by_samples: bool, **more: Tensor) -> _Launch:
        """For `count` fields on all planes, with the largest tiles that make enough programs."""
        sizes = self.sizes
        for side in (64, 32, LEAST):
            lines, columns = _tile(sizes.samples * sizes.rows, side), _tile(sizes.columns, side)
            samples, rows = _share(lines, sizes.samples, sizes.rows)
            programs = count * sizes.planes * -(-sizes.rows // rows) * -(-sizes.columns // columns)
            programs *= -(-sizes.samples // samples) if by_samples else 1
            if programs >= ENOUGH:
                break
        # where rows are not aligned, each number of a large tile has an address of its own
        warps = 8 if lines * columns > 2048 and sizes.columns % 16 != 0 else 4
        tiles = (samples, rows, columns, LEAST, int(sizes.planes == 1))
        return self._launch(kernel, programs, tiles, warps=warps, **more)

    def _analysis(self, u: Tensor, grad: Tensor, outputs: slice) -> _Launch:
        sizes = self.sizes._replace(samples=len(grad))
        row_modes = min(32, _power(sizes.row_modes))
        # u stays in registers: few lines where there are many modes
        lines = _tile(sizes.samples * sizes.inputs, max(LEAST, min(64, 512 // row_modes)))
        samples, inputs = _share(lines, sizes.samples, sizes.inputs)
        programs = (outputs.stop - outputs.start) * sizes.planes * -(-sizes.inputs // inputs)
        programs *= -(-sizes.samples // samples) * -(-sizes.row_modes // row_modes)
        programs *= -(-sizes.half_modes // LEAST)
        tiles = (samples, inputs, _tile(sizes.columns, 32), row_modes, LEAST)
        more = {"u": u, "grad": grad, "first_output": outputs.start, "sizes": sizes}
        warps = 8 if lines * row_modes > 256 else 4
        return self._launch(_analyse, programs, tiles, warps=warps, **more)

    def _launch(
        self, kernel: Any, programs: int, tiles: tuple[int, ...], *, warps: int = 4, **more: Any
    ) -> _Launch:
        """Of all operands a kernel is given those that it names."""
        operands = {"sizes": self.sizes, **self.operands, **more}
        operands["sizes"] = tuple(operands["sizes"])
        named = inspect.signature(kernel.fn).parameters
        given = {name: operand for name, operand in operands.items() if name in named}
        return _Launch(kernel, programs, given, tiles, warps)


def _checked(
    name: str, given: Tensor, dtype: torch.dtype, shape: Shape, device: torch.device
) -> Tensor:
    """The tensor without gaps, if it is of the expected kind."""
    if (given.dtype, tuple(given.shape), given.device) != (dtype, shape, device):
        raise ValueError(
            f"{name} is {given.dtype} of shape {tuple(given.shape)} on {given.device}; the kernel "
            f"needs {dtype} of shape {shape} on {device}"
        )
    return given.detach().resolve_conj().resolve_neg().contiguous()


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def _phases(shape: Shape, kept: Kept, device: torch.device) -> Tensor:
    """e^{2πi ξ·x} for all points and modes of full axes together, shape (points, modes, 2)."""
    angles = torch.zeros(1, 1, dtype=torch.float64)
    for n, k in zip(shape, kept, strict=True):
        # reduced modulo n before it is rounded, so that no digit is lost
        turns = torch.outer(torch.arange(n), axis_modes(n, k, half=False)) % n
        angle = turns.to(torch.float64) * (2 * math.pi / n)
        angles = (angles[:, None, :, None] + angle[None, :, None, :]).flatten(2).flatten(0, 1)
    return torch.stack([torch.cos(angles), torch.sin(angles)], dim=-1).to(device, torch.float32)


def _blocks(count: int, most: int) -> list[slice]:
    return [slice(first, min(first + most, count)) for first in range(0, count, most)]


def _power(count: int) -> int:
    """The power of two that is not less."""
    return 1 << (count - 1).bit_length()


def _tile(count: int, most: int) -> int:
    """A side of a matrix product for an axis of `count` places."""
    return min(most, max(LEAST, _power(count)))


def _share(lines: int, outer: int, inner: int) -> tuple[int, int]:
    """How many of two axes make the lines of a tile: with the fewest empty ones, then square."""
    sides = [1 << power for power in range(lines.bit_length())]
    empty = {side: -(-outer // side) * -(-inner // (lines // side)) for side in sides}
    side = min(sides, key=lambda side: (empty[side], abs(side - lines // side)))
    return side, lines // side
