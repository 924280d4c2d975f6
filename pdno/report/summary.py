"""A study as plain text: the tables that a command prints when it is done."""

__all__ = ["summarise"]

import math
from collections import Counter
from collections.abc import Sequence

from pdno.files.metric_table import Metric, table
from pdno.report.runs import ERROR


def summarise(rows: Sequence[Metric]) -> str:
    """Errors, seconds and parameters by model, then times, resolutions and the symbol."""
    texts = []
    for experiment in dict.fromkeys(row.experiment for row in rows):
        ours = [row for row in rows if row.experiment == experiment]
        parts = [_errors(ours), _times(ours), _resolutions(ours), _others(ours)]
        texts.append(f"{experiment}\n" + "\n\n".join(part for part in parts if part))
    return "\n\n".join(texts) if texts else "no finished run"


def _errors(rows: Sequence[Metric]) -> str:
    ours = [row for row in rows if row.metric == ERROR and row.split in ("train", "test")]
    lines = []
    for model, points in dict.fromkeys((row.model, row.resolution) for row in ours):
        mine = [row for row in ours if (row.model, row.resolution) == (model, points)]
        seconds = [row.seconds for row in mine if row.split == "test" and row.seconds is not None]
        mean = f"{math.fsum(seconds) / len(seconds):.0f}" if seconds else ""
        errors = table(mine, columns="split")[model]
        cells = (f"{mine[0].parameters or 0:,}", errors.get("train", ""), errors.get("test", ""))
        lines.append([model, points, *cells, mean, len({row.seed for row in mine})])
    return _text(["model", "resolution", "parameters", "train", "test", "seconds", "seeds"], lines)


def _times(rows: Sequence[Metric]) -> str:
    """Test error by time."""
    prefix = f"{ERROR} t="
    ours = [row for row in rows if row.metric.startswith(prefix) and row.split == "test"]
    heads = list(dict.fromkeys(row.metric for row in ours))
    # heat has twenty times, more than fit into a line
    step = math.ceil(len(heads) / 10) or 1
    heads = heads[step - 1 :: step]
    points = sorted({row.resolution for row in ours})
    lines = [
        [model + (f", {s} points" if len(points) > 1 else ""), *(line.get(h, "") for h in heads)]
        for s in points
        for model, line in table(ours, columns="metric", resolution=s).items()
    ]
    return _text(["test error at t", *(head.removeprefix(prefix) for head in heads)], lines)


def _resolutions(rows: Sequence[Metric]) -> str:
    """Zero-shot errors beside those of the interpolated prediction.

    Without what several trainings claim: a row does not tell the resolution it was trained at.
    """
    splits = ("zero-shot", "interpolated")
    known = [row for row in rows if row.metric == ERROR and row.split in splits]
    claims = Counter((row.model, row.resolution, row.split, row.seed) for row in known)
    ours = [r for r in known if claims[r.model, r.resolution, r.split, r.seed] == 1]
    found = {split: table(ours, split=split) for split in splits}
    cells = [(s, split) for s in sorted({row.resolution for row in ours}) for split in splits]
    lines = [
        [model, *(found[split].get(model, {}).get(s, "") for s, split in cells)]
        for model in found["zero-shot"]
    ]
    return _text(["other resolutions", *(f"{s} {split}" for s, split in cells)], lines)


def _others(rows: Sequence[Metric]) -> str:
    """The learned symbol, and what the resource table holds."""
    known = [row for row in rows if row.split == "symbol" or row.experiment == "resources"]
    heads = list(dict.fromkeys(row.metric for row in known))
    found = table(known, columns="metric")
    lines = [[model, *(line.get(head, "") for head in heads)] for model, line in found.items()]
    return _text(["model", *heads], lines)


def _text(head: Sequence[object], lines: Sequence[Sequence[object]]) -> str:
    """Columns below each other; nothing without a line."""
    cells = [[str(cell) for cell in line] for line in (head, *lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    # the first column stands to the left
    form = "  ".join(f"{{:{'>' if k else '<'}{width}}}" for k, width in enumerate(widths))
    return "\n".join(f"  {form.format(*line)}".rstrip() for line in cells) if lines else ""
