"""Run folders, read without a model: the specification, the numbers, the history, the pictures.

    specification.json    the experiment, as a plain dictionary; the resource table has none
    environment.json      versions, device and threads
    history.csv           one row per epoch
    rows.csv              the numbers
    pictures.safetensors  fields and symbols
    metrics.json          written last, so a folder with it is a finished run

Reports are made of these files and of nothing else.
"""

__all__ = ["RunRecord", "find_runs", "find_unfinished"]

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from pdno.evaluation.rows import Row, read_rows
from pdno.run_folder import (
    ENVIRONMENT,
    HISTORY,
    METRICS,
    PICTURES,
    ROWS,
    SPECIFICATION,
    is_finished,
)


@dataclass(frozen=True, eq=False)
class RunRecord:
    """A finished run.

    Arguments:
        folder: Where it is.
        specification: What was run; empty for the resource table.
        environment: Where it ran; empty where that is not known.
        rows: Its numbers.
        history: Its epochs; what was not measured is NaN.
    """

    folder: Path
    specification: Mapping[str, Any]
    environment: Mapping[str, Any]
    rows: tuple[Row, ...]
    history: tuple[Mapping[str, float], ...]

    @property
    def experiment(self) -> str:
        """Name of the experiment, for example "navier-stokes nu=1e-05 T=20 N=200"."""
        return str(self.specification.get("name") or self.rows[0].experiment)

    @property
    def study(self) -> str:
        """What `pdno reproduce` calls it: the first word of the experiment."""
        return self.experiment.split()[0]

    @property
    def model(self) -> str:
        """What the tables call the network."""
        return str(self.specification.get("model") or self.rows[0].model)

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.specification.get("training", {}).get("seed", 0))

    @property
    def resolution(self) -> int:
        """Grid points per axis in training."""
        return int(self.specification.get("resolution") or self.rows[0].resolution)

    @property
    def picture_names(self) -> tuple[str, ...]:
        """The arrays of its pictures."""
        if not (self.folder / PICTURES).is_file():
            return ()
        with safe_open(self.folder / PICTURES, framework="numpy") as file:
            return tuple(sorted(file.keys()))

    def picture(self, name: str) -> "np.ndarray[Any, np.dtype[np.float64]] | None":
        """One array of its pictures, float64; None where it was not kept."""
        if name not in self.picture_names:
            return None
        with safe_open(self.folder / PICTURES, framework="numpy") as file:
            return np.asarray(file.get_tensor(name), dtype=np.float64)

    @property
    def times(self) -> tuple[float, ...] | None:
        """Times of the frames of its pictures; None for a static problem."""
        if not (self.folder / PICTURES).is_file():
            return None
        with safe_open(self.folder / PICTURES, framework="numpy") as file:
            found = json.loads((file.metadata() or {}).get("times", "null"))
        return None if found is None else tuple(float(t) for t in found)


def find_runs(places: Sequence[Path]) -> list[RunRecord]:
    """All finished runs in or below some folders, by folder; none at all is an error.

    Arguments:
        places: Run folders, studies that hold several, or parents of studies.
    """
    folders = sorted({path.parent for path in _files(places, METRICS)})
    if not folders:
        named = ", ".join(str(place) for place in places) or "nothing"
        raise ValueError(
            f"no finished run in {named}: give folders of `pdno reproduce` or `pdno train` (a "
            f"finished run has {METRICS})"
        )
    return [_read_run(folder) for folder in folders]


def find_unfinished(places: Sequence[Path]) -> list[str]:
    """Names of the folders whose run began and did not finish yet."""
    begun = {path.parent for path in _files(places, SPECIFICATION)}
    return sorted(folder.name for folder in begun if not is_finished(folder))


def _files(places: Sequence[Path], name: str) -> Iterator[Path]:
    for place in places:
        if not place.is_dir():
            raise ValueError(f"{place} is not a folder: give folders of finished runs")
        yield from place.resolve().rglob(name)


def _read_run(folder: Path) -> RunRecord:
    rows = tuple(read_rows(folder / ROWS))
    if not rows:
        raise ValueError(f"{folder / ROWS} has no row: remove the folder and run it again")
    return RunRecord(
        folder,
        _read_json(folder / SPECIFICATION),
        _read_json(folder / ENVIRONMENT),
        rows,
        tuple(_read_history(folder / HISTORY)),
    )


def _read_json(path: Path) -> Mapping[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as problem:
        raise ValueError(f"{path} is not readable as JSON: {problem}") from problem
    if not isinstance(found, dict):
        raise ValueError(f"{path} holds {type(found).__name__}; expected keys and values")
    return found


def _read_history(path: Path) -> Iterator[Mapping[str, float]]:
    if not path.is_file():
        return
    with open(path, encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            yield {name: float(cell) if cell else math.nan for name, cell in line.items()}
