"""Finished runs: what a folder (`pdno.files.run_folder`) holds, and whether it is unchanged."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import TypeAdapter
from torch import Tensor, nn

from pdno.data.array_files import read_arrays
from pdno.data.dataset import OperatorDataset
from pdno.data.problems import DataFile
from pdno.data.read import open_file, read_inputs, read_points
from pdno.data.shards import MANIFEST, read_manifest
from pdno.data.sources import not_finite
from pdno.evaluation.evaluate import evaluate
from pdno.exports.export import FORMATS, Exported, Format, export
from pdno.files import run_folder
from pdno.files.atomic import atomic_path
from pdno.files.metric_table import Metadata, Metric, metrics_of_run
from pdno.files.run_folder import verified_path
from pdno.interface.records import Options
from pdno.runs.specification import Experiment, on_points, open_experiment_data, read_experiment
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import History, read_history, read_tensors
from pdno.training.distributed import check_device
from pdno.training.operator_record import SavedGrid
from pdno.training.task import Times
from pdno.training.trained_operator import PDEParameters, TrainedOperator

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
SAMPLES_OF_EXPORT = 4  # inputs that an exported file is compared on
Finding = tuple[Path, run_folder.State, str]  # a file, its state, and what to do about it
BEGUN = (run_folder.SPECIFICATION, run_folder.OPERATOR)  # a folder with one is that of a run
RECORDS = {
    run_folder.CHECKSUMS: "bring it back from a copy, or remove the folder and run it again",
    f"*.{run_folder.CHECKSUMS}": "bring it back from a copy, or export it again",
    MANIFEST: "run the dataset's `pdno generate` command again, or bring it back from a copy",
}


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A finished run folder: metrics are read and verified at once, all else at its first use."""

    folder: Path
    metrics: tuple[Metric, ...]
    device: str = "cpu"  #: of the operator

    @classmethod
    def open(cls, folder: Path | str, device: torch.device | str = "cpu") -> "Run":
        """The run of a folder; ValueError where it is not finished or was changed."""
        path = Path(folder)
        if not path.is_dir():
            raise ValueError(f"there is no folder {path}: give one of `pdno.fit` or `pdno train`")
        if not run_folder.is_finished(path):
            names = (*run_folder.WITH_CHECKSUMS, run_folder.CHECKPOINTS)
            if not any((path / name).exists() for name in names):
                raise ValueError(f"{path} holds no run: give a folder of `pdno.fit` or `train`")
            missing = f"no finished run ({run_folder.CHECKSUMS} is missing)"
            raise ValueError(f"{path} holds {missing}: finish it with the command that began it")
        check_device(device)
        if not (metrics := metrics_of_run(path)):
            raise ValueError(f"{path} has no metric: remove the folder and run it again")
        return cls(path, tuple(metrics), str(device))

    @cached_property
    def experiment(self) -> Experiment | None:
        """Its specification; None where `pdno.fit` wrote the folder."""
        path = verified_path(self.folder / run_folder.SPECIFICATION)
        return read_experiment(path) if path.is_file() else None

    @cached_property
    def operator(self) -> TrainedOperator:
        """The trained operator, on the device of this run."""
        return TrainedOperator.load(self.folder, device=self.device)

    @cached_property
    def history(self) -> History:
        """One row per epoch; empty where nothing was trained."""
        return read_history(self.folder)

    @cached_property
    def environment(self) -> Options:
        """Versions, device and threads that it ran with; empty where they were not written."""
        return run_folder.read_values(self.folder / run_folder.ENVIRONMENT)

    @cached_property
    def symbol_report(self) -> Options:
        """What `pdno symbol` wrote; empty where it did not run."""
        return run_folder.read_values(self.folder / run_folder.SYMBOL_FOLDER / run_folder.SYMBOL)

    @cached_property
    def _samples(self) -> tuple[dict[str, Tensor], dict[str, str]]:
        path = verified_path(self.folder / run_folder.SAMPLES)
        return read_tensors(path) if path.is_file() else ({}, {})

    @property
    def array_names(self) -> tuple[str, ...]:
        """Names of the sample arrays (see `pdno.training.operator_record` and `runs.measure`)."""
        return tuple(sorted(self._samples[0]))

    def array(self, name: str) -> Array:
        if name not in self.array_names:
            raise ValueError(f"{self.folder} has no sample array {name}: run it again")
        return self._samples[0][name].double().numpy()

    @property
    def channels(self) -> tuple[Sequence[str], Sequence[str]]:
        """Names of the channels of inputs and targets."""
        inputs, targets = json.loads(self._samples[1].get("channels", "[[], []]"))
        return inputs or ["input"], targets or ["target"]

    @property
    def times(self) -> tuple[float, ...] | None:
        """Times of the frames of the sample arrays; None for a static problem."""
        times = json.loads(self._samples[1].get("times", "null"))
        return None if times is None else tuple(times)

    @property
    def metadata(self) -> Metadata:
        """What tables go by; of a resource table that of its first network."""
        return self.metrics[0].metadata

    @property
    def model(self) -> str:
        """The name of the network in tables."""
        return self.metrics[0].model

    @property
    def seed(self) -> int:
        """Seed of the weights and of the order of the samples."""
        return self.metrics[0].seed or 0

    @property
    def resolution(self) -> int:
        """Points per axis in training."""
        return self.metadata.training_resolution or self.metrics[0].resolution

    def __repr__(self) -> str:
        return f"Run({self.folder}, {self.metrics[0].experiment}: {self.model}, seed {self.seed})"

    def evaluate(
        self, *, file: DataFile | Path | None = None, resolution: int | None = None
    ) -> list[Metric]:
        """Metrics on the test samples, or on all samples of a file.

        A file that does not name its arrays is read as that of the training. A resolution of None
        takes the points of the training, or of the file.
        """
        file = DataFile(path=file) if isinstance(file, Path) else file
        data = self._open_data(file)
        if resolution is None:
            resolution = self.resolution if file is None else max(data.grid.shape)
        errors = evaluate(self.operator, on_points(data, resolution), device=self.device)
        split = "test" if file is None else file.path.name
        first = replace(self.metrics[0], split=split, resolution=resolution)
        return [replace(first, metric=name, value=x) for name, x in errors.metrics().items()]

    def _open_data(self, file: DataFile | None) -> OperatorDataset:
        """The samples of a file with the window of the training, or the test samples."""
        if self.experiment is not None:
            store = self.folder.resolve().parent / run_folder.DATA
            if file is None:
                return open_experiment_data(self.experiment, store).finest_test
            return self.experiment.open_file(file)
        if file is None:
            missing = f"{self.folder} does not hold the test samples, which were in memory"
            raise ValueError(f"{missing}: give a dataset with --file")
        data, frames = open_file(file), self.operator.trained_sampling.input_frames
        return data if frames is None or data.input_frames else data.window(frames)

    def predict(
        self,
        inputs: Path,
        out: Path,
        *,
        array: str | None = None,
        at: Path | None = None,
        times: Times = None,
        pde_parameters: PDEParameters = None,
    ) -> tuple[int, ...]:
        """Predict for the inputs (B, C, *N) or (B, *N) of a file, write .npy, return its shape.

        Scattered points of the inputs are read from their file, where it has them as in training;
        those `at` which the prediction is wanted from another one, the only array of it or of the
        same name.
        """
        file = None if self.experiment is None else self.experiment.file
        layout = file or DataFile(path=self.folder)
        f, grid, output_grid = self._read_inputs(inputs, array, layout), None, None
        if layout.coordinates is not None and layout.coordinates in (own := read_arrays(inputs)):
            grid = read_points(own, layout, layout.coordinates)
        if at is not None:
            wanted = read_arrays(at)
            name = layout.output_coordinates or layout.coordinates
            name = name if name in wanted else next(iter(wanted), None)
            if name is None:
                raise ValueError(f"{at} has no array of coordinates (P, d)")
            output_grid = read_points(wanted, layout, name, own=True)
        prediction = self.operator.predict(
            f, grid=grid, output_grid=output_grid, times=times, pde_parameters=pde_parameters
        )
        if (bad := not_finite(prediction)) is not None:
            raise ValueError(f"the prediction of sample {bad} has NaN or infinity: leave it out")
        with atomic_path(out) as temporary, open(temporary, "wb") as target:
            np.save(target, prediction.numpy())
        return tuple(prediction.shape)

    def _read_inputs(self, path: Path, name: str | None, layout: DataFile) -> Tensor:
        """The inputs (B, C, *N) of a file, where no array is named those of the training data."""
        arrays = read_arrays(path, None if name is None else [name])
        if name is None and layout.inputs and {*layout.inputs} <= {*arrays}:
            return read_inputs(arrays, layout)
        if len(arrays) != 1:
            existing = f"{path} has the arrays of real numbers {', '.join(arrays) or 'none'}"
            example = f"for example --array {next(iter(arrays), 'NAME')}"
            raise ValueError(f"{existing}: choose one by its name, {example}")
        (array,) = arrays.values()
        f = torch.from_numpy(np.array(array, dtype=np.float32))
        axes = self.operator.trained_sampling.grid.space_axes
        return f[:, None] if f.dim() == axes + 1 else f

    def export(
        self, out: Path | None = None, *, format: Format = "onnx", **options: Any
    ) -> Exported:
        """Write the operator as one file, compared on its test samples; see `pdno.export`."""
        target, samples = out or self.folder / f"operator{FORMATS[format]}", self.sample_inputs()
        more: Options = {"samples": samples, "card": self.folder, **options}
        return export(self.operator, target, format=format, **more)

    def sample_inputs(self, count: int = SAMPLES_OF_EXPORT) -> tuple[Tensor, Grid] | None:
        """A few test inputs and their grid; None where the folder has none."""
        tensors, header = self._samples
        if "input" not in tensors:
            return None
        return tensors["input"][:count], TypeAdapter(SavedGrid).validate_json(header["grid"])


def load(
    folder: Path | str, network: nn.Module | None = None, *, device: torch.device | str = "cpu"
) -> TrainedOperator:
    """The trained operator of a folder of `pdno.fit`, `save`, `pdno train` or `reproduce`.

    A network that is not of this package has to be made as for the training and given here.
    """
    return TrainedOperator.load(Run.open(folder, device).folder, network, device)


load_run = Run.open


def find_runs(folders: Sequence[Path]) -> list[Run]:
    """All finished runs in or below run folders, studies or their parents; none is an error."""
    if not folders:
        raise ValueError("no folder is named: give folders of finished runs")
    finished = sorted(filter(run_folder.is_finished, _containing(folders, run_folder.METRICS)))
    if not finished:
        named = ", ".join(map(str, folders))
        raise ValueError(f"no finished run in {named}: finish one by `pdno reproduce` or `train`")
    return [Run.open(folder) for folder in finished]


def find_unfinished(folders: Sequence[Path]) -> list[str]:
    """Names of the folders whose run began and has not finished."""
    begun = _containing(folders, run_folder.SPECIFICATION)
    return sorted(folder.name for folder in begun if not run_folder.is_finished(folder))


def _containing(folders: Sequence[Path], name: str) -> set[Path]:
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder: give folders of finished runs")
    return {path.parent for folder in folders for path in folder.resolve().rglob(name)}


def verify(paths: Sequence[Path]) -> tuple[str, bool]:
    """A line per file of datasets, runs and exports, a sum of them, and whether all is right.

    A path is a file with a record beside it, or a folder that has some in it or below it. Each
    file is right, missing, changed, or unknown: no record names it. Unknown files do no harm, but
    under the name of a file of a run, where they would be read, they are wrong.
    """
    findings: list[Finding] = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"there is no {path}: give a dataset, a run, or an exported file")
        folders, names = {path if path.is_dir() else path.parent}, (*RECORDS, *BEGUN)
        folders |= {record.parent for name in names for record in path.rglob(name)}
        checked = [finding for folder in sorted(folders) for finding in _check(folder)]
        mine = [finding for finding in checked if path.is_dir() or finding[0] == path]
        if all(state == "unknown" for _, state, _ in mine):
            raise ValueError(f"{path} has no checksums: it is no finished dataset, run or export")
        findings += mine
    # a file may be named by several records, and all have to agree: the worst state counts
    findings.sort(key=lambda finding: (finding[1] != "unknown", finding[1] != "right"))
    states = {path: (state, cure) for path, state, cure in findings}
    lines = [f"{s:8} {path}{f': {cure}' * bool(cure)}" for path, (s, cure) in states.items()]
    counts = Counter(state for state, _ in states.values())
    lines.append(f"checked: {', '.join(f'{n} {s}' for s, n in counts.items())}")
    return "\n".join(lines), not any(cure for _, cure in states.values())


def _check(folder: Path) -> Iterator[Finding]:
    named = set[Path]()
    for record, cure in [(r, RECORDS[name]) for name in RECORDS for r in folder.glob(name)]:
        states: dict[str, run_folder.State] = {record.name: "right"}
        digests = dict[str, str]()
        try:
            if record.name == MANIFEST:
                digests = {shard.file: shard.sha256 for shard in read_manifest(folder).shards}
            else:
                digests = run_folder.read_checksums(record)
        except ValueError:
            states = {record.name: "changed"}
        states |= {name: run_folder.file_state(folder / name, d) for name, d in digests.items()}
        for name, state in states.items():
            named.add(folder / name)
            yield folder / name, state, "" if state == "right" else cure
    cure = f"it is not listed in {run_folder.CHECKSUMS}: remove it"
    if not (finished := run_folder.is_finished(folder)):
        cure = f"its run has no {run_folder.CHECKSUMS}: finish it by the command that began it"
    is_run = finished or any((folder / name).is_file() for name in BEGUN)
    for path in sorted(folder.iterdir()):
        if path not in named and path.is_file() and not path.name.startswith("."):
            yield path, "unknown", cure * (is_run and path.name in run_folder.WITH_CHECKSUMS)
