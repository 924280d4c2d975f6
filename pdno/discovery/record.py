"""Discovered equations as files: `pdno discover FILE --out folder`.

equation.txt      the equation, as it is printed
equation.tex      the equation as LaTeX, where one fits
discovery.json    coefficients, covariance, noise, residuals, and the equations that were tried
symbol.svg        A(ξ) of the linear terms with its bars, in one dimension
"""

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from pdno.data.problems import DataFile
from pdno.data.read import read_trajectories
from pdno.discovery.discover import Discovery, discover
from pdno.discovery.equation import NORMAL_95
from pdno.discovery.generator import Generator
from pdno.discovery.terms import field_names
from pdno.figures.curves import plot_learned_symbol
from pdno.figures.style import Figure, save_figure
from pdno.files.atomic import write_text


def discover_file(
    file: DataFile,
    out: Path,
    terms: Sequence[str] = (),
    *,
    period: float = 1.0,
    window: int | None = None,
    tolerance: float = 1e-4,
) -> Discovery:
    """Find the equation of a file of trajectories and write the result into a folder."""
    u, times = read_trajectories(file)
    library = {name: list(terms) for name in field_names(u.shape[2])} if terms else None
    discovery = discover(u, times, library, period=period, window=window, tolerance=tolerance)
    write_discovery(discovery, out)
    return discovery


def write_discovery(discovery: Discovery, out: Path) -> None:
    """Write equation, numbers and figure."""
    out.mkdir(parents=True, exist_ok=True)
    write_text(out / "equation.txt", f"{discovery}\n")
    if discovery.accepted:
        write_text(out / "equation.tex", f"{discovery.equation().latex}\n")
    generator, covariance = discovery.generator, discovery.generator.covariance
    assert covariance is not None
    record = {
        "accepted": discovery.accepted,
        "terms": [
            {"field": generator.names[term.field], "term": term.text, "coefficient": c}
            for term, c in zip(generator.listed(), generator.coefficients.tolist(), strict=True)
        ],
        "covariance": covariance.tolist(),
        "period": generator.period,
        "misfit": discovery.misfit,
        "limit": discovery.limit,
        "window": discovery.window,
        "noise": discovery.noise,
        "reach": discovery.reach,
        "trajectories": discovery.trajectories,
        "alike": discovery.alike,
        "path": [[n, e if e < float("inf") else None] for n, e in discovery.path],
    }
    write_text(out / "discovery.json", json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    if generator.dim == 1 and generator.fields == 1 and discovery.accepted:
        save_figure(plot_symbol(discovery), out / "symbol.svg")


def symbol_with_bars(generator: Generator, xi: Tensor) -> tuple[Tensor, Tensor]:
    """A(ξ) of one field at integers ξ (M, d), and the half widths of its 95 % intervals.

    Both are complex: bars of the real part are real, those of the imaginary part imaginary.
    """
    terms = generator.listed()
    rows = [k for k, term in enumerate(terms) if term.diagonal]
    if not rows:
        zero = torch.zeros(len(xi), dtype=torch.complex128)
        return zero, zero
    scaled = xi.double() / generator.period
    tables = torch.stack([terms[k].tables(scaled, generator.dim)[0][0] for k in rows]).detach()
    c = generator.coefficients.detach()[rows]
    learned = torch.einsum("k,km->m", c.to(tables.dtype), tables)
    if generator.covariance is None:
        return learned, torch.zeros_like(learned)
    covariance = generator.covariance[rows][:, rows]
    parts = [
        torch.einsum("km,kl,lm->m", part, covariance, part).clamp(min=0).sqrt()
        for part in (tables.real, tables.imag)
    ]
    return learned, NORMAL_95 * torch.complex(*parts)


def plot_symbol(discovery: Discovery, exact: Generator | None = None) -> Figure:
    """A(ξ) with bars in one dimension, beside that of an exact equation."""
    xi = torch.arange(max(4, round(1.5 * discovery.reach)) + 1)[:, None]
    learned, bars = symbol_with_bars(discovery.generator, xi)
    truth = None if exact is None else symbol_with_bars(exact, xi)[0].numpy()
    numbers = xi[:, 0].numpy(), learned.numpy(), bars.numpy()
    return plot_learned_symbol(*numbers, discovery.reach, truth)
