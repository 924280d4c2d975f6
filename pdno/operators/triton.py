"""The pairwise operator as GPU kernels, written in Triton: forward and backward, float32.

    out_bj(x) = Σ_i b_ji(x) F⁻¹[c_ji f̂_bi](x)

A program sums over the kept modes on a tile of the grid, multiplies by b and adds, input after
input. A grid is seen as planes s, rows r and columns x: columns are the half axis, rows the axis
before it, planes all others together. With the phases e of the planes and a of the rows, and the
weights w of the Hermitian rule (`pdno.spectral.fourier`),

    q_mk = Σ_n e_sn c_nmk f̂_nmk,    h_rk = Σ_m a_rm q_mk,
    g_rx = Σ_k w_k [ cos(2πkx) Re h_rk - sin(2πkx) Im h_rk ].

The last sum is a matrix product, whose lines are pairs of sample and row, or of sample and input.
The gradient ḡ_bj of the result goes the transposed way,

    v_rk = Σ_x w_k e^{-2πikx} b_ji(r, x) ḡ_bj(r, x),    u_mk = Σ_r conj(a_rm) v_rk,
    p_nmk = Σ_s conj(e_sn) u_smk,    c̄_ji = Σ_b conj(f̂_bi) p_bji,    f̂̄_bi = Σ_j conj(c_ji) p_bji,
    b̄_ji(x) = Σ_b ḡ_bj(x) g_bji(x).

Only u is in memory, within `BUDGET`. Each number of a result is added up by one program in a fixed
order, in full float32. With `TRITON_INTERPRET=1` before the import the kernels run on CPU tensors.
"""

from __future__ import annotations  # triton's names are not there where it is not installed

import math
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import torch
from torch import Tensor

from pdno.spectral.fourier import axis_waves, half_table, spectrum_shape
from pdno.spectral.grid import axis_modes

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
OPTIONS = {"num_stages": 1, "maxnreg": 255}  # else the compiler moves numbers out to memory


def available() -> bool:
    """Whether triton can be imported."""
    return triton is not None


def pairwise_forward(c: Tensor, b: Tensor, f_hat: Tensor, shape: Shape, kept: Kept) -> Tensor:
    """Σ_i b_ji F⁻¹[c_ji f̂_i], (O, I, *K), (O, I, *N), (B, I, *K) -> (B, O, *N).

    Modes are in the order of `Grid.modes(kept)`; c and f̂ are complex64, b is float32, all dense.
    """
    out = b.new_empty(len(f_hat), len(c), *shape)
    with torch.cuda.device_of(b):  # type: ignore[no-untyped-call]
        _Layer(c, b, f_hat, shape, kept).forward(out).run()
    return out


def pairwise_backward(
    c: Tensor, b: Tensor, f_hat: Tensor, grad: Tensor, shape: Shape, kept: Kept
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients c̄, b̄ and f̂̄ for the gradient `grad` of the result, (B, O, *N)."""
    layer = _Layer(c, b, f_hat, shape, kept)
    c_bar, b_bar, f_bar = torch.zeros_like(c), torch.empty_like(b), torch.zeros_like(f_hat)
    with torch.cuda.device_of(b):  # type: ignore[no-untyped-call]
        layer.space_gradient(grad, b_bar).run()
        for launch in layer.frequency_gradients(grad, c_bar, f_bar):
            launch.run()
    return c_bar, b_bar, f_bar


# Kernels. A complex number is a pair of real ones; tables and sizes have the names of `_Layer`.


def _jit(function: Callable[..., Any]) -> Any:
    """The function as Triton sees it; itself, of no use, where triton is not installed."""
    return function if triton is None else triton.jit(function)


@_jit
def _load(start: Arg, place: Arg, mask: Arg) -> Arg:
    """Complex numbers at some places; 0 behind the end."""
    real = tl.load(start + 2 * place, mask=mask, other=0.0)
    return real, tl.load(start + 2 * place + 1, mask=mask, other=0.0)


@_jit
def _store(start: Arg, place: Arg, numbers: Arg, mask: Arg) -> None:
    tl.store(start + 2 * place, numbers[0], mask=mask)
    tl.store(start + 2 * place + 1, numbers[1], mask=mask)


@_jit
def _zeros(shape: tl.constexpr) -> Arg:
    return tl.zeros(shape, tl.float32), tl.zeros(shape, tl.float32)


@_jit
def _product(a: Arg, b: Arg) -> Arg:
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


@_jit
def _add_product(total: Arg, a: Arg, b: Arg) -> Arg:
    """total + a b of complex numbers."""
    real, imag = _product(a, b)
    return total[0] + real, total[1] + imag


@_jit
def _waves(table: Arg, k: Arg, column: Arg, mask: Arg, columns: Arg) -> Arg:
    """w cos(2πkx) and -w sin(2πkx)."""
    place = table + 2 * k * columns + column
    return tl.load(place, mask=mask, other=0.0), tl.load(place + columns, mask=mask, other=0.0)


@_jit
def _next_axis(program: Arg, count: Arg, tile: tl.constexpr) -> Arg:
    """Where a program's tile starts along the last axis, and its number along the others."""
    tiles = tl.cdiv(count, tile)
    return program % tiles * tile, program // tiles


@_jit
def _synthesise(
    target: Arg, factor: Arg, c: Arg, f_hat: Arg, tables: Arg, strides: Arg, sizes: Arg,
    tiles: tl.constexpr,
) -> None:  # fmt: skip
    """Σ_t factor_jt F⁻¹[c f̂] of some lines, rows and columns, one output j and plane.

    Forward lines are samples and terms inputs, for b̄ it is the other way round.
    """
    tile_lines: tl.constexpr = tiles[0]
    tile_rows: tl.constexpr = tiles[1]
    tile_columns: tl.constexpr = tiles[2]
    tile_half_modes: tl.constexpr = tiles[3]
    lines, _, terms, planes, rows, columns, plane_modes, row_modes, half_modes = sizes
    c_output, c_line, c_term = strides[0]
    f_line, f_term = strides[1]
    factor_output, factor_term = strides[2]
    target_output, target_line = strides[3]
    line_first, program = _next_axis(tl.program_id(0), lines, tile_lines)
    column_first, program = _next_axis(program, columns, tile_columns)
    row_first, program = _next_axis(program, rows, tile_rows)
    plane, j = _next_axis(program, planes, 1)
    j = j.to(tl.int64)
    line = (line_first + tl.arange(0, tile_lines)).to(tl.int64)
    row = row_first + tl.arange(0, tile_rows)
    column = column_first + tl.arange(0, tile_columns)
    size, modes = planes * rows * columns, plane_modes * row_modes * half_modes
    place = tl.arange(0, tile_lines * tile_rows)
    place_line, place_row = line_first + place // tile_rows, row_first + place % tile_rows
    point = (plane * rows + place_row)[:, None] * columns + column[None, :]
    in_field = (place_row < rows)[:, None] & (column < columns)[None, :]
    total = tl.zeros((tile_lines * tile_rows, tile_columns), tl.float32)
    for term in range(terms):
        pair = (j * c_output + line * c_line + term * c_term)[:, None] * modes
        spectrum = (line * f_line + term * f_term)[:, None] * modes
        g = tl.zeros((tile_lines * tile_rows, tile_columns), tl.float32)
        for first in range(0, half_modes, tile_half_modes):
            k = first + tl.arange(0, tile_half_modes)
            in_spectra = (line < lines)[:, None] & (k < half_modes)[None, :]
            h = _zeros((tile_lines, tile_rows, tile_half_modes))
            for m in range(row_modes):
                q = _zeros((tile_lines, tile_half_modes))
                for n in range(plane_modes):
                    mode = ((n * row_modes + m) * half_modes + k)[None, :]
                    e = _load(tables[0], plane * plane_modes + n, n < plane_modes)
                    c_part = _load(c, pair + mode, in_spectra)
                    f_part = _load(f_hat, spectrum + mode, in_spectra)
                    q = _add_product(q, _product(e, c_part), f_part)
                a_real, a_imag = _load(tables[1], row * row_modes + m, row < rows)
                phases = a_real[None, :, None], a_imag[None, :, None]
                h = _add_product(h, phases, (q[0][:, None, :], q[1][:, None, :]))
            in_table = (k < half_modes)[:, None] & (column < columns)[None, :]
            cosines, sines = _waves(tables[2], k[:, None], column[None, :], in_table, columns)
            h_real = tl.reshape(h[0], (tile_lines * tile_rows, tile_half_modes))
            h_imag = tl.reshape(h[1], (tile_lines * tile_rows, tile_half_modes))
            g = tl.dot(h_real, cosines, g, input_precision="ieee")
            g = tl.dot(h_imag, sines, g, input_precision="ieee")
        source = factor + (j * factor_output + term * factor_term) * size
        total += tl.load(source + point, mask=in_field, other=0.0) * g
    field = (j * target_output + place_line.to(tl.int64) * target_line)[:, None] * size
    tl.store(target + field + point, total, mask=in_field & (place_line < lines)[:, None])


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
    u_tile = _zeros((tile_samples * tile_inputs, tile_row_modes, tile_half_modes))
    for row in range(rows):
        v_real, v_imag = _zeros((tile_samples * tile_inputs, tile_half_modes))
        for column_first in range(0, columns, tile_columns):
            column = column_first + tl.arange(0, tile_columns)
            point = ((plane * rows + row) * columns + column)[None, :]
            in_field = in_lines[:, None] & (column < columns)[None, :]
            product = tl.load(factor + point, mask=in_field, other=0.0)
            product *= tl.load(field + point, mask=in_field, other=0.0)
            in_table = (k < half_modes)[None, :] & (column < columns)[:, None]
            cosines, sines = _waves(tables[2], k[None, :], column[:, None], in_table, columns)
            v_real = tl.dot(product, cosines, v_real, input_precision="ieee")
            v_imag = tl.dot(product, sines, v_imag, input_precision="ieee")
        a_real, a_imag = _load(tables[1], row * row_modes + m, m < row_modes)
        phases = a_real[None, :, None], -a_imag[None, :, None]
        u_tile = _add_product(u_tile, phases, (v_real[:, None, :], v_imag[:, None, :]))
    spectrum = (((j * samples + sample) * inputs + i) * planes + plane)[:, None, None]
    place = (m[:, None] * half_modes + k[None, :])[None, :, :]
    in_modes = ((m < row_modes)[:, None] & (k < half_modes)[None, :])[None, :, :]
    mask = in_lines[:, None, None] & in_modes
    _store(u, spectrum * row_modes * half_modes + place, u_tile, mask)


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
    sums = _load(total, target, mask)
    for term in range(terms):
        p = _zeros((tile_modes,))
        spectrum = (y * total_step + term * term_step) * inputs + i
        for plane in range(planes):
            e_real, e_imag = _load(tables[0], plane * plane_modes + n, n < plane_modes)
            part = _load(u, (spectrum * planes + plane) * modes + place, mask)
            p = _add_product(p, (e_real, -e_imag), part)
        source = ((term * inputs + i) * plane_modes + n) * modes + place
        c_real, c_imag = _load(factor, source, mask)
        sums = _add_product(sums, (c_real, -c_imag), p)
    _store(total, target, sums, mask)


# Launches

_Sizes = namedtuple(
    "_Sizes", "samples outputs inputs planes rows columns plane_modes row_modes half_modes"
)  # of a layer, in the order in which the kernels take them


@dataclass(frozen=True)
class _Launch:
    """A kernel, how many programs of it, and their arguments."""

    kernel: Any
    programs: int
    operands: dict[str, Any]
    tiles: tuple[int, ...]
    options: dict[str, int]

    def run(self) -> None:
        self.kernel[(self.programs,)](**self.operands, tiles=self.tiles, **self.options)


class _Layer:
    """The operands of one operator as the kernels take them, and the launches that it needs."""

    def __init__(self, c: Tensor, b: Tensor, f_hat: Tensor, shape: Shape, kept: Kept) -> None:
        if triton is None:
            raise RuntimeError("triton is not installed; these kernels need it: install triton")
        modes = spectrum_shape(shape, kept)
        sides = [(math.prod(s[:-2]), math.prod(s[-2:-1]), s[-1]) for s in (shape, modes)]
        self.sizes = _Sizes._make((len(f_hat), *c.shape[:2], *sides[0], *sides[1]))
        full = [_phases(shape[part], kept[part], c.device) for part in (slice(-2), slice(-2, -1))]
        self.tables = (*full, half_table(shape[-1], modes[-1], torch.float32, c.device))
        self.c, self.b, self.f_hat = torch.view_as_real(c), b, torch.view_as_real(f_hat)

    def forward(self, out: Tensor) -> _Launch:
        _, outputs, inputs, *_ = self.sizes
        strides = ((inputs, 0, 1), (inputs, 1), (inputs, 1), (1, outputs))
        return self._synthesis(out, self.b, strides, self.sizes)

    def space_gradient(self, grad: Tensor, b_bar: Tensor) -> _Launch:
        samples, outputs, inputs, *_ = self.sizes
        strides = ((inputs, 1, 0), (1, inputs), (1, outputs), (inputs, 1))
        sizes = self.sizes._replace(samples=inputs, inputs=samples)
        return self._synthesis(b_bar, grad, strides, sizes)

    def _synthesis(
        self, target: Tensor, factor: Tensor, strides: tuple[Shape, ...], sizes: _Sizes
    ) -> _Launch:
        """With the largest tiles that make enough programs."""
        for side in (64, 32, LEAST):
            places, columns = _tile(sizes.samples * sizes.rows, side), _tile(sizes.columns, side)
            lines, rows = _share(places, sizes.samples, sizes.rows)
            programs = sizes.outputs * sizes.planes * -(-sizes.columns // columns)
            programs *= -(-sizes.rows // rows) * -(-sizes.samples // lines)
            if programs >= ENOUGH:
                break
        # where rows are not aligned, each number of a large tile has an address of its own
        warps = 8 if places * columns > 2048 and sizes.columns % 16 != 0 else 4
        more = {"c": self.c, "f_hat": self.f_hat, "strides": strides, "sizes": tuple(sizes)}
        tiles = lines, rows, columns, LEAST
        return self._launch(
            _synthesise, programs, tiles, warps, target=target, factor=factor, **more
        )

    def _launch(
        self, kernel: Any, programs: int, tiles: Shape, warps: int = 4, **operands: Any
    ) -> _Launch:
        operands = {"tables": self.tables, "sizes": tuple(self.sizes), **operands}
        return _Launch(kernel, programs, operands, tiles, {"num_warps": warps, **OPTIONS})

    def frequency_gradients(self, grad: Tensor, c_bar: Tensor, f_bar: Tensor) -> Iterator[_Launch]:
        """What adds c̄ and f̂̄ to zeros, block after block of outputs and samples."""
        sizes, modes = self.sizes, self.sizes.row_modes * self.sizes.half_modes
        c_bar, f_bar = torch.view_as_real(c_bar), torch.view_as_real(f_bar)
        numbers = 2 * sizes.inputs * sizes.planes * modes
        fit = max(1, BUDGET // (4 * numbers))
        most_samples = max(1, min(fit, sizes.samples))
        most_outputs = min(fit // most_samples, sizes.outputs)
        u = grad.new_empty(most_outputs * most_samples * numbers)
        tile = _tile(modes, 128)
        programs = sizes.inputs * sizes.plane_modes * -(-modes // tile)
        output_blocks = _blocks(sizes.outputs, most_outputs)
        for j, n in product(output_blocks, _blocks(sizes.samples, most_samples)):
            outputs, samples = j.stop - j.start, n.stop - n.start
            yield self._analysis(u, grad[n], j)
            of_c = c_bar[j], self.f_hat[n], (samples, samples, 1)
            of_f = f_bar[n], self.c[j], (outputs, 1, samples)
            for count, (total, factor, steps) in ((outputs, of_c), (samples, of_f)):
                operands: Any = {"u": u, "total": total, "factor": factor, "steps": steps}
                yield self._launch(_reduce, count * programs, (tile,), **operands)

    def _analysis(self, u: Tensor, grad: Tensor, outputs: slice) -> _Launch:
        sizes = self.sizes._replace(samples=len(grad))
        row_modes = _tile(sizes.row_modes, 32, least=1)
        # u stays in registers: few lines where there are many modes
        lines = _tile(sizes.samples * sizes.inputs, max(LEAST, min(64, 512 // row_modes)))
        samples, inputs = _share(lines, sizes.samples, sizes.inputs)
        programs = (outputs.stop - outputs.start) * sizes.planes * -(-sizes.inputs // inputs)
        programs *= -(-sizes.samples // samples) * -(-sizes.row_modes // row_modes)
        programs *= -(-sizes.half_modes // LEAST)
        tiles = (samples, inputs, _tile(sizes.columns, 32), row_modes, LEAST)
        more = {"u": u, "grad": grad, "first_output": outputs.start, "sizes": tuple(sizes)}
        warps = 8 if lines * row_modes > 256 else 4
        return self._launch(_analyse, programs, tiles, warps, b=self.b, **more)


@lru_cache(maxsize=64)
@torch.inference_mode(False)  # a table made during inference serves training too
def _phases(shape: Shape, kept: Kept, device: torch.device) -> Tensor:
    """e^{2πi ξ·x} for all points and modes of full axes together, shape (points, modes, 2)."""
    phases = torch.ones(1, 1, dtype=torch.complex128)
    for n, k in zip(shape, kept, strict=True):
        phases = torch.kron(phases, axis_waves(n, axis_modes(n, k, half=False)))
    return torch.view_as_real(phases).to(device, torch.float32)


def _blocks(count: int, most: int) -> list[slice]:
    return [slice(first, min(first + most, count)) for first in range(0, count, most)]


def _tile(count: int, most: int, least: int = LEAST) -> int:
    """A side of a matrix product for an axis of `count` places, a power of two."""
    return min(most, max(least, 1 << (count - 1).bit_length()))


def _share(lines: int, outer: int, inner: int) -> tuple[int, int]:
    """How many of two axes make the lines of a tile: with the fewest empty ones, then square."""
    sides = [1 << power for power in range(lines.bit_length())]
    empty = {side: -(-outer // side) * -(-inner // (lines // side)) for side in sides}
    side = min(sides, key=lambda side: (empty[side], abs(side - lines // side)))
    return side, lines // side
