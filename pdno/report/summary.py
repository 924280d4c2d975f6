"""A study as plain text: the tables that a command prints when it is done."""

__all__ = ["summarise"]

import math
from collections.abc import Iterable, Sequence

from pdno.evaluation.rows import Row, Summary, table

ERROR = "relative_l2"


def summarise(rows: Sequence[Row]) -> str:
    """Errors, seconds and parameters by model, then times, resolutions and the symbol."""
    texts = []
    for experiment in dict.fromkeys(row.experiment for row in rows):
        own = [row for row in rows if row.experiment == experiment]
        parts = [_errors(own), _times(own), _resolutions(own), _others(own)]
        texts.append(f"{experiment}\n" + "\n\n".join(part for part in parts if part))
    return "\n\n".join(texts) if texts else "no finished run"


def _errors(rows: Sequence[Row]) -> str:
    lines = []
    own = [row for row in rows if row.metric == ERROR and row.split in ("train", "test")]
    for model, resolution in dict.fromkeys((row.model, row.resolution) for row in own):
        mine = [row for row in own if (row.model, row.resolution) == (model, resolution)]
        cells = [str(_mean(mine, split)) for split in ("train", "test")]
        seconds = [row.seconds for row in mine if row.split == "test" and row.seconds is not None]
        mean = f"{math.fsum(seconds) / len(seconds):.0f}" if seconds else ""
        seeds = len({row.seed for row in mine})
        lines.append([model, resolution, f"{mine[0].parameters or 0:,}", *cells, mean, seeds])
    head = ["model", "resolution", "parameters", "train", "test", "seconds", "seeds"]
    return _text(head, lines) if lines else ""


def _mean(rows: Iterable[Row], split: str) -> Summary | str:
    found = table(rows, columns="split", split=split)
    return next((line[split] for line in found.values()), "")


def _times(rows: Sequence[Row]) -> str:
    """Test error by time."""
    prefix = f"{ERROR} t="
    own = [row for row in rows if row.metric.startswith(prefix) and row.split == "test"]
    heads = list(dict.fromkeys(row.metric for row in own))
    points = sorted({row.resolution for row in own})
    lines: list[list[object]] = []
    for resolution in points:
        found = table(own, columns="metric", resolution=resolution)
        where = f", {resolution} points" if len(points) > 1 else ""
        lines += [
            [f"{model}{where}", *(line.get(head, "") for head in heads)]
            for model, line in found.items()
        ]
    times = [head.removeprefix(prefix) for head in heads]
    # heat has twenty times; a terminal has no room for them all
    step = math.ceil(len(times) / 10)
    chosen = range(step - 1, len(times), step or 1)
    lines = [[line[0], *(line[1 + k] for k in chosen)] for line in lines]
    return _text(["test error at t", *(times[k] for k in chosen)], lines) if lines else ""


def _resolutions(rows: Sequence[Row]) -> str:
    """Zero-shot errors beside those of the interpolated prediction."""
    splits = ("zero-shot", "interpolated")
    own = _unambiguous(row for row in rows if row.metric == ERROR and row.split in splits)
    points = sorted({row.resolution for row in own})
    found = {split: table(own, split=split) for split in splits}
    lines = [
        [model, *(found[split].get(model, {}).get(r, "") for r in points for split in splits)]
        for model in found["zero-shot"]
    ]
    heads = [f"{r} {split}" for r in points for split in splits]
    return _text(["other resolutions", *heads], lines) if lines else ""


def _unambiguous(rows: Iterable[Row]) -> list[Row]:
    """Without what several trainings claim: a row does not tell the resolution it was trained at.

    The rows of the run folders do.
    """
    claims: dict[tuple[str, int, str, int | None], list[Row]] = {}
    for row in rows:
        claims.setdefault((row.model, row.resolution, row.split, row.seed), []).append(row)
    return [found[0] for found in claims.values() if len(found) == 1]


def _others(rows: Sequence[Row]) -> str:
    """The learned symbol, and what the resource table holds."""
    known = [row for row in rows if row.split == "symbol" or row.experiment == "resources"]
    found = table(known, columns="metric")
    heads = list(dict.fromkeys(row.metric for row in known))
    lines = [[model, *(line.get(head, "") for head in heads)] for model, line in found.items()]
    return _text(["model", *heads], lines) if lines else ""


def _text(head: Sequence[object], lines: Sequence[Sequence[object]]) -> str:
    cells = [[str(cell) for cell in line] for line in (head, *lines)]
    widths = [max(len(line[k]) for line in cells) for k in range(len(head))]
    return "\n".join(
        "  "
        + "  ".join(
            cell.ljust(width) if k == 0 else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in cells
    )
