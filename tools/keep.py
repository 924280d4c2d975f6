"""Keep finished runs in results/: their metrics, or an operator whole.

    python tools/keep.py STUDY RUNS... [--history] [--errors]   metrics of finished runs in RUNS
    python tools/keep.py --operator NAME RUN                    results/operators/NAME

A study has one metrics.csv with all metrics that tables, figures and claims use; with `--history`
also history.csv, training and test error of at most 250 epochs of each run, and with `--errors`
samples.safetensors, the errors of each test sample. An operator is a run folder, with the first
test sample. The same command again, when more runs are finished, adds these. `make results` then
writes tables and figures.
"""

import argparse
import csv
import io
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from pdno.figures.style import spread
from pdno.files.atomic import write_text
from pdno.files.metric_table import ERROR, Metric, read_metrics, write_metrics
from pdno.files.run_folder import (
    ENVIRONMENT,
    HISTORY,
    METRICS,
    MODEL_CARD,
    OPERATOR,
    SAMPLES,
    SPECIFICATION,
    WEIGHTS,
    WITH_CHECKSUMS,
    verified_path,
    write_checksums,
)
from pdno.paper.results import metrics_of, run_name
from pdno.runs.run import Run, find_runs
from pdno.training.checkpoint import read_tensors, write_tensors

RESULTS = Path(__file__).resolve().parent.parent / "results"
MOST_BYTES = 4_000_000
MOST_EPOCHS = 250
OF_SAMPLES = re.compile(
    r"input|target|prediction|error|frame_error|heat\.(?!space).*|velocity\..*"
)
NAMES_OF_ALL_SPLITS = re.compile(rf"{ERROR}( [a-z].*| t .*)?|seconds per (prediction|solve|epoch)")
NOT_KEPT = re.compile(rf"{ERROR} band .*")
WHOLE_SPLITS = ("training", "symbol", "symbol class", "roughness", "by scalar", "outside")


def is_kept(metric: Metric) -> bool:
    """Whether a table, a figure or a claim uses a metric."""
    if metric.split in WHOLE_SPLITS or metric.experiment == "resources":
        return True
    if metric.metric.startswith(f"{ERROR} t="):
        return metric.split == "test"
    return bool(NAMES_OF_ALL_SPLITS.fullmatch(metric.metric)) and not NOT_KEPT.match(metric.metric)


def keep_metrics(study: Path, metrics: Sequence[Metric]) -> bool:
    """Add the metrics of a run to a study; False where they are already there."""
    path = study / METRICS
    kept = [metric for metric in metrics if is_kept(metric)]
    existing = read_metrics(path) if path.is_file() else []
    same = [metric for metric in existing if run_name(metric) == run_name(kept[0])]
    if same:
        if same != kept:
            raise ValueError(f"{path} has another run {run_name(kept[0])}: remove it first")
        return False
    study.mkdir(parents=True, exist_ok=True)
    write_metrics(path, [*existing, *kept])
    return True


def keep_history(
    study: Path, name: str, epochs: Sequence[tuple[int, float, float | None]]
) -> None:
    """Add epoch, training and test error of a run to a study, of evenly spread epochs."""
    measured = [row for row in epochs if row[2] is not None]
    rows = [measured[k] for k in spread(len(measured), MOST_EPOCHS)]
    path = study / HISTORY
    text = io.StringIO(path.read_text(encoding="utf-8") if path.is_file() else "")
    text.seek(0, io.SEEK_END)
    writer = csv.writer(text, lineterminator="\n")
    if not path.is_file():
        writer.writerow(("run", "epoch", "train", "test"))
    writer.writerows((name, epoch, f"{train:.4g}", f"{test:.4g}") for epoch, train, test in rows)
    write_text(path, text.getvalue())


def keep_arrays(study: Path, name: str, arrays: dict[str, Tensor]) -> None:
    """Add the errors of each test sample of a run to a study."""
    path = study / SAMPLES
    existing = read_tensors(path)[0] if path.is_file() else {}
    ours = {f"{name}/{key}": arrays[key] for key in ("error", "frame_error") if key in arrays}
    write_tensors(path, existing | ours, {})


def keep_operator(run: Path, folder: Path) -> None:
    """Copy a run folder with its weights; ValueError where another is, or it is too large."""
    if folder.exists():
        if (folder / METRICS).read_bytes() == (run / METRICS).read_bytes():
            return
        raise ValueError(f"{folder} is another run: remove it first, or take another name")
    names = (SPECIFICATION, ENVIRONMENT, HISTORY, METRICS, WEIGHTS, OPERATOR, MODEL_CARD)
    present = [verified_path(run / name) for name in names if (run / name).is_file()]
    folder.mkdir(parents=True)
    for path in present:
        shutil.copyfile(path, folder / path.name)
    tensors, header = read_tensors(verified_path(run / SAMPLES))
    tensors = {name: array for name, array in tensors.items() if OF_SAMPLES.fullmatch(name)}
    first = {k: array if k.startswith("heat.") else array[:1] for k, array in tensors.items()}
    write_tensors(folder / SAMPLES, first, header)
    write_checksums(folder, WITH_CHECKSUMS)
    size = sum(path.stat().st_size for path in folder.iterdir())
    if size > MOST_BYTES:
        shutil.rmtree(folder)
        raise ValueError(f"{run} has {size:,} bytes, more than {MOST_BYTES:,}: take a smaller one")


def keep_run(study: Path, run: Run, *, history: bool = False, errors: bool = False) -> None:
    """Add a run to a study."""
    if not keep_metrics(study, metrics_of(run)):
        return
    name = run_name(run.metrics[0])
    if history:
        keep_history(study, name, [(row.epoch, row.train, row.test) for row in run.history])
    if errors:
        keep_arrays(study, name, read_tensors(verified_path(run.folder / SAMPLES))[0])


def main() -> None:
    """Keep what is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--operator", action="store_true", help="keep one run with its weights")
    parser.add_argument("--history", action="store_true", help="keep errors by epoch")
    parser.add_argument("--errors", action="store_true", help="keep the errors of each sample")
    parser.add_argument("name", help="folder in results/, or in results/operators/")
    parser.add_argument(
        "runs", nargs="+", type=Path, help="run folders, or folders that hold some"
    )
    options = parser.parse_args()
    try:
        runs = find_runs(options.runs)
        if options.operator:
            if len(runs) > 1:
                raise ValueError(f"an operator is one run, and these are {len(runs)}: name one")
            keep_operator(runs[0].folder, RESULTS / "operators" / options.name)
        else:
            for run in runs:
                study = RESULTS / options.name
                keep_run(study, run, history=options.history, errors=options.errors)
    except ValueError as problem:
        raise SystemExit(str(problem)) from problem


if __name__ == "__main__":
    main()
