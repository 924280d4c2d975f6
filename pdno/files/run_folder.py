"""The files of a run folder: their names stand here and nowhere else.

A folder with metrics.json is a finished run. Datasets lie in `data` beside the runs.
"""

from pathlib import Path

SPECIFICATION = "specification.json"  # the experiment
ENVIRONMENT = "environment.json"  # versions, device, threads and whether there was compiled code
HISTORY = "history.csv"  # one row per epoch
CHECKPOINTS = "checkpoints"  # where training stands; removed at the end
WEIGHTS = "weights.safetensors"  # the learner: network and normalisers
OPERATOR = "operator.json"  # how to make the network, its task, grid, times and training
MODEL_CARD = "model_card.md"  # the same for a reader, with errors and limits
PICTURES = "pictures.safetensors"  # fields and symbols for figures
ROWS = "rows.csv"  # the numbers, as tidy rows
METRICS = "metrics.json"  # the same by split and metric, and the seconds; written last
SEAL = "seal.json"  # the SHA-256 of all of these, written just before (`pdno.files.checksums`)
SEALED = (SPECIFICATION, ENVIRONMENT, HISTORY, WEIGHTS, OPERATOR, MODEL_CARD, PICTURES, ROWS)
SYMBOL_FOLDER, SYMBOL = "symbol", "symbol.json"  # what `pdno symbol` found
DATA = "data"


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder has ended."""
    return (folder / METRICS).is_file()


def reopen(folder: Path) -> None:
    """From now on the run in this folder is not finished, and its files may be written."""
    (folder / METRICS).unlink(missing_ok=True)
    (folder / SEAL).unlink(missing_ok=True)
