"""The names of the files of a run folder; one with checksums.json, written last, is finished."""

from pathlib import Path

SPECIFICATION = "specification.json"  # the experiment
ENVIRONMENT = "environment.json"  # versions, device, threads and whether there was compiled code
HISTORY = "history.csv"  # one row per epoch
CHECKPOINTS = "checkpoints"  # the state of the training; removed at the end
WEIGHTS = "weights.safetensors"  # the trained operator: network and normalisers
OPERATOR = "operator.json"  # how to make the network, its task, grid, times and training
MODEL_CARD = "model_card.md"  # the same for a reader, with errors and limits
SAMPLES = "samples.safetensors"  # sample arrays: fields and symbols for figures
METRICS = "metrics.csv"  # all metrics as a tidy table
CHECKSUMS = "checksums.json"  # the SHA-256 of all of these (`pdno.files.checksums`)
WITH_CHECKSUMS = (
    *(SPECIFICATION, ENVIRONMENT, HISTORY, WEIGHTS),
    *(OPERATOR, MODEL_CARD, SAMPLES, METRICS),
)
SYMBOL_FOLDER, SYMBOL = "symbol", "symbol.json"  # the results of `pdno symbol`
DATA = "data"  # datasets, beside the run folders


def is_finished(folder: Path) -> bool:
    """Whether the run in this folder has ended."""
    return (folder / CHECKSUMS).is_file()


def reopen(folder: Path) -> None:
    """Mark the run in this folder as unfinished, so that its files may be written."""
    (folder / CHECKSUMS).unlink(missing_ok=True)
