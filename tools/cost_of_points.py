"""Cost of a layer on scattered points: time and memory of a step, and which transform is faster.

    python tools/cost_of_points.py            steps on grids and on as many scattered points
    python tools/cost_of_points.py --crossover   products with a table against FINUFFT

A step is forward and backward through one `PDIO` of 16 channels, 8 samples and 8 modes per axis,
on one thread. The variants take turns, and each CPU time is the least of all turns, as other
programs only ever add to it. Memory is the peak of a first step above the size of the process
before it, on Linux.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import pdno
from pdno.spectral.nonuniform import PointMethod, inverse_points, transform_points

SIDES = (32, 64, 128)
VARIANTS = ("grid", "points of all samples", "points of each sample")
METHODS: tuple[PointMethod, ...] = ("direct", "nufft")
SAMPLES, WIDTH, MODES = 8, 16, 8


def step(variant: str, side: int) -> Callable[[], None]:
    """Forward and backward of a layer; points of each sample are new in every step, as in fit."""
    torch.manual_seed(0)
    layer = pdno.PDIO(2, WIDTH, WIDTH, modes=MODES, symbol="low-rank", symbol_hidden=16)
    f = torch.randn(SAMPLES, WIDTH, side, side)
    grid: pdno.Grid = pdno.Grid((side, side))
    if variant != VARIANTS[0]:
        shape = (side**2, 2) if variant == VARIANTS[1] else (SAMPLES, side**2, 2)
        f, grid = f.flatten(2), pdno.Points(torch.rand(shape), weights="equal")

    def run() -> None:
        layer(f, grid.of_samples(range(SAMPLES))).square().sum().backward()

    return run


def memory(run: Callable[[], None]) -> float:
    """MB that a step takes at its peak, above the size of the process before (on Linux)."""
    process = Path("/proc/self")

    def peak() -> int:
        lines = (process / "status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))

    ctypes.CDLL("libc.so.6").malloc_trim(0)
    (process / "clear_refs").write_text("5")  # the peak is the present size from now on
    before = peak()
    run()
    return (peak() - before) / 1024


def least_times(runs: dict[str, Callable[[], None]], turns: int) -> dict[str, float]:
    """Milliseconds of CPU time of each, the least of all turns."""
    least = dict.fromkeys(runs, float("inf"))
    for turn in range(turns + 1):
        for name, run in runs.items():
            begun = time.process_time()
            run()
            if turn:
                least[name] = min(least[name], 1000 * (time.process_time() - begun))
    return least


def compare_steps(turns: int) -> None:
    """Print a row for each size and variant."""
    step(VARIANTS[1], 16)()  # what is loaded once
    for side in SIDES:
        runs = {variant: step(variant, side) for variant in VARIANTS}
        used = {variant: memory(step(variant, side)) for variant in VARIANTS}
        for variant, milliseconds in least_times(runs, turns).items():
            cost = f"{milliseconds:8.1f} ms {used[variant]:7.1f} MB"
            print(f"{side**2:6,} points  {variant:22} {cost}", flush=True)


def there_and_back(f: Tensor, points: pdno.Points, modes: int, method: PointMethod) -> None:
    """F and F⁻¹."""
    inverse_points(transform_points(f, points, modes, method=method), points, modes, method=method)


def find_crossover(turns: int) -> None:
    """Print times of both transforms, there and back, for more and more modes."""
    for count in (1000, 4000, 16000):
        points = pdno.Points(torch.rand(count, 2), weights="equal")
        f = torch.randn(SAMPLES, WIDTH, count)
        for modes in (4, 8, 16, 24, 32):
            if count < 2 * modes * (2 * modes - 1):
                continue

            runs = {m: partial(there_and_back, f, points, modes, m) for m in METHODS}
            direct, fast = least_times(runs, turns).values()
            kept = 2 * modes * modes
            print(f"{count:6,} points {kept:5,} modes  {direct:8.1f} ms  FINUFFT {fast:8.1f} ms")


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--crossover", action="store_true")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    if chosen.crossover:
        find_crossover(chosen.turns)
    else:
        compare_steps(chosen.turns)


if __name__ == "__main__":
    main()
