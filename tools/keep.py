"""Keep finished runs in results/: their numbers, or an operator whole.

    python tools/keep.py FOLDER RUNS...          the numbers of all finished runs in or below RUNS
    python tools/keep.py --operator NAME RUN     results/operators/NAME, for `pdno.load`

The same command again, when more runs are finished, adds these. Numbers are specification,
environment, history and rows, what `pdno symbol` found, and of networks of the paper what verdicts
go by besides: the learned symbols and the errors of each test sample. An operator has its weights
and its card as well, and of its test samples the first; it is small enough to be in the
repository. The checksums are written anew; `make results` then writes tables and figures.
"""

import argparse
import re
import shutil
from pathlib import Path

from pdno.files.checksums import verified_path, write_checksums
from pdno.files.metric_table import metrics_of_run
from pdno.files.run_folder import (
    ENVIRONMENT,
    HISTORY,
    METRICS,
    MODEL_CARD,
    OPERATOR,
    SAMPLES,
    SPECIFICATION,
    SYMBOL,
    SYMBOL_FOLDER,
    WEIGHTS,
    WITH_CHECKSUMS,
)
from pdno.report.runs import find_runs
from pdno.training.checkpoint import read_tensors, write_tensors

RESULTS = Path(__file__).resolve().parent.parent / "results"
MOST_BYTES = 4_000_000
NUMBERS = (SPECIFICATION, ENVIRONMENT, HISTORY, METRICS)
WHOLE = (*NUMBERS, WEIGHTS, OPERATOR, MODEL_CARD)
OF_SAMPLES = ("input", "target", "prediction", "error", "frame_error")
OF_VERDICTS = re.compile(r"error|frame_error|symbol\.\d+\.real")


def keep(run: Path, place: Path, *, whole: bool = False) -> Path:
    """Copy a finished run into a folder; ValueError where another run is, or it is too large."""
    if place.exists():
        if (place / METRICS).read_bytes() == (run / METRICS).read_bytes():
            return place
        raise ValueError(f"{place} is another run: remove it first, or take another name")
    names = WHOLE if whole else NUMBERS
    found = [verified_path(run / name) for name in names if (run / name).is_file()]
    place.mkdir(parents=True)
    for path in found:
        shutil.copyfile(path, place / path.name)
    of_paper = metrics_of_run(run)[0].metadata.of_paper
    if (run / SAMPLES).is_file() and (whole or of_paper):
        tensors, header = read_tensors(verified_path(run / SAMPLES))
        if whole:
            tensors |= {name: tensors[name][:1] for name in OF_SAMPLES if name in tensors}
        else:
            tensors = {n: tensor for n, tensor in tensors.items() if OF_VERDICTS.fullmatch(n)}
        write_tensors(place / SAMPLES, tensors, header)
    write_checksums(place, WITH_CHECKSUMS)
    if (inside := run / SYMBOL_FOLDER / SYMBOL).is_file():
        (place / SYMBOL_FOLDER).mkdir()
        shutil.copyfile(verified_path(inside), place / SYMBOL_FOLDER / SYMBOL)
        write_checksums(place / SYMBOL_FOLDER, [SYMBOL])
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    if size > MOST_BYTES:
        shutil.rmtree(place)
        raise ValueError(f"{run} has {size:,} bytes, more than {MOST_BYTES:,}: take a smaller one")
    return place


def main() -> None:
    """Keep what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operator", action="store_true", help="keep one run with its weights")
    parser.add_argument("name", help="folder in results/, or in results/operators/")
    parser.add_argument(
        "runs", nargs="+", type=Path, help="run folders, or folders that hold some"
    )
    given = parser.parse_args()
    try:
        found = find_runs(given.runs)
        if given.operator and len(found) > 1:
            raise ValueError(f"an operator is one run, and these are {len(found)}: name one")
        for record in found:
            place = RESULTS / ("operators" if given.operator else given.name)
            place /= given.name if given.operator else record.folder.name
            print(keep(record.folder, place, whole=given.operator))
    except ValueError as problem:
        raise SystemExit(str(problem)) from problem


if __name__ == "__main__":
    main()
