"""The files of a run folder: their names stand here and nowhere else.

    specification.json    the experiment
    environment.json      versions, device, threads and whether there was compiled code
    history.csv           one row per epoch
    checkpoints/          where training stands; removed at the end
    weights.safetensors   the learner: network and normalisers
    pictures.safetensors  fields and symbols for figures
    rows.csv              the numbers, as tidy rows
    metrics.json          the same by split and metric, and the seconds; written last
    symbol/symbol.json    what `pdno symbol` found

A folder with metrics.json is a finished run. Datasets lie in `data` beside the runs.
"""

__all__ = [
    "CHECKPOINTS",
    "DATA",
    "ENVIRONMENT",
    "HISTORY",
    "METRICS",
    "PICTURES",
    "ROWS",
    "SPECIFICATION",
    "SYMBOL",
    "SYMBOL_FOLDER",
    "WEIGHTS",
    "is_finished",
]

from pathlib import Path

SPECIFICATION = "specification.json"
ENVIRONMENT = "environment.json"
HISTORY = "history.csv"
CHECKPOINTS = "checkpoints"
WEIGHTS = "weights.safetensors"
PICTURES = "pictures.safetensors"
ROWS = "rows.csv"
METRICS = "metrics.json"
SYMBOL_FOLDER, SYMBOL = "symbol", "symbol.json"
DATA = "data"


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder has ended; its metrics are written last."""
    return (folder / METRICS).is_file()
