"""History of a training, one row per epoch, and checkpoints to resume from.

A checkpoint, step-00001200-3f5a...9c.safetensors, has the tensors of operator and optimiser and a
header of JSON with the state of the run. Its name ends with its own SHA-256, so that a damaged
file is detected and the one before it is used. The last two are kept.
"""

import csv
import io
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from pdno.files.atomic import atomic_path, explained, sha256, sweep, write_text
from pdno.files.limits import check_memory, open_regular, read_text
from pdno.files.run_folder import CHECKPOINTS, HISTORY, verified_path
from pdno.interface.display import html_table, one_line
from pdno.interface.errors import LONGEST_MESSAGE, require
from pdno.interface.records import Options, error_message
from pdno.training.distributed import ProcessGroup
from pdno.training.optimiser import Optimiser

if TYPE_CHECKING:
    from pdno.figures.style import Figure

SPLITS = ("train", "test")
KEPT, DIGITS = 2, 16
KEPT_THERE = "the run goes on from its last checkpoint"
ANEW = "take another folder, or remove its checkpoints to begin anew"
NAME = re.compile(rf"step-\d{{8,}}-[0-9a-f]{{{DIGITS}}}\.safetensors")


@dataclass(frozen=True)
class EpochRow:
    """One epoch, counted from 1; `step` and `seconds` count from the beginning of the run.

    Loss and training error (relative L2) are means over examples, each before its update; `best`
    is the least test error so far.
    """

    epoch: int
    step: int
    learning_rate: float
    loss: float
    train: float
    test: float | None
    best: float | None
    seconds: float
    __pydantic_config__: ClassVar = ConfigDict(extra="forbid")


class History(list[EpochRow]):
    """The epochs of a training."""

    def plot(self) -> "Figure":
        """A figure of training and test errors by epoch."""
        from pdno.figures.curves import plot_history

        errors = {name: [(row.epoch, getattr(row, name)) for row in self] for name in SPLITS}
        return plot_history(errors)

    def write(self, folder: Path) -> None:
        """Write history.csv; an error that was not measured is an empty cell."""
        text = io.StringIO()
        columns = [column.name for column in fields(EpochRow)]
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(row) for row in self)
        write_text(folder / HISTORY, text.getvalue())

    def _summary(self) -> dict[str, str]:
        errors = {f"{name} error": getattr(self[-1], name) for name in SPLITS if self}
        measured = {name: f"{error:.4g}" for name, error in errors.items() if error is not None}
        return {"epochs": str(len(self)), **measured}

    def __repr__(self) -> str:
        return one_line("History", self._summary())

    def _repr_html_(self) -> str:
        return html_table("History", self._summary())


def read_history(folder: Path) -> History:
    """The history.csv of a folder, empty if there is none."""
    path = verified_path(folder / HISTORY)
    lines = csv.DictReader(read_text(path).splitlines()) if path.is_file() else ()
    try:
        rows = [{name: cell or None for name, cell in line.items()} for line in lines]
        return History(TypeAdapter(list[EpochRow]).validate_python(rows))
    except ValidationError as problem:
        reason = f"is not readable as a history ({error_message(problem)[:LONGEST_MESSAGE]})"
        raise ValueError(f"{path} {reason}: remove the folder and run it again") from problem


@dataclass
class TrainingState:
    """Progress of a run; `sums` are loss, error and number of examples of this epoch."""

    step: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    sums: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    best: float | None = None
    best_epoch: int = 0
    finished: bool = False
    history: History = field(default_factory=History)


class Checkpoint(NamedTuple):
    """Tensors "operator.*" and "optimiser.*", and the state of the run as JSON."""

    tensors: dict[str, Tensor]
    state: Options


@dataclass
class RunRecorder:
    """The checkpoints and the history of a run; what `identity` says must not change."""

    folder: Path | None
    identity: Options
    group: ProcessGroup
    every: float
    tensorboard: bool = False

    def __post_init__(self) -> None:
        if self.tensorboard:
            if self.folder is None:
                raise ValueError("tensorboard needs a folder for its event files: give one")
            self.writer = require("torch.utils.tensorboard", "track").SummaryWriter
        self.target = self.folder if self.group.is_rank_0 else None  # where this process writes
        self.saved_at = time.monotonic()

    @property
    def has_checkpoint(self) -> bool:
        return self.folder is not None and bool(_existing(self.folder / CHECKPOINTS))

    def resume(self, operator: nn.Module, optimiser: Optimiser) -> TrainingState:
        """Where the run in the folder stands; its tensors are put back."""
        if self.folder is None:
            return TrainingState()
        checkpoints = self.folder / CHECKPOINTS
        if self.target is not None:  # what a run that was killed has left half written
            sweep(self.target)
            sweep(checkpoints)
            for draft in checkpoints.glob("step-*.draft"):
                draft.unlink()
        self.group.barrier()
        checkpoint = load_checkpoint(checkpoints, self.group.device)
        if checkpoint is None:
            return TrainingState()
        if changes := differences(checkpoint.state.pop("identity"), self.identity):
            raise ValueError(f"{self.folder} holds another run ({', '.join(changes)}): {ANEW}")
        parts = split_names(checkpoint.tensors)
        try:
            operator.load_state_dict(parts["operator"])
        except RuntimeError as problem:
            other = "the checkpoint is of another network or normalisation"
            raise ValueError(f"{other}: {ANEW}") from problem
        optimiser.load_tensors(operator, parts["optimiser"])
        history = History(EpochRow(**row) for row in checkpoint.state.pop("history"))
        return TrainingState(**checkpoint.state, history=history)

    def is_due(self) -> bool:
        return self.target is not None and time.monotonic() - self.saved_at >= self.every

    def save(self, state: TrainingState, operator: nn.Module, optimiser: Optimiser) -> None:
        """Write a checkpoint, then remove all but the last ones; its tensors must be finite."""
        if self.target is None:
            return
        folder = self.target / CHECKPOINTS
        parts = {"operator": operator.state_dict(), "optimiser": optimiser.tensors(operator)}
        tensors = {f"{part}.{name}": t for part, some in parts.items() for name, t in some.items()}
        if not all(bool(value.isfinite().all()) for value in tensors.values()):
            raise FloatingPointError(f"the network is not finite at step {state.step}")
        draft = folder / f"step-{state.step:08d}.draft"
        record = {"identity": self.identity, **asdict(state)}
        with explained(self.target, KEPT_THERE):
            folder.mkdir(exist_ok=True)
            write_tensors(draft, tensors, {"state": json.dumps(record)})
            final = folder / f"{draft.stem}-{sha256(draft)[:DIGITS]}.safetensors"
            draft.replace(final)
        # what claims to be later, or of the same step, was damaged or unfinished: it is superseded
        before = [path for path in _existing(folder) if _step(path) < state.step]
        for old in {*_existing(folder)} - {final, *before[: KEPT - 1]}:
            old.unlink(missing_ok=True)
        self.saved_at = time.monotonic()

    def write_history(self, state: TrainingState) -> None:
        if self.target is None or not state.history:
            return
        with explained(self.target, KEPT_THERE):
            state.history.write(self.target)
        if self.tensorboard:
            for old in self.target.glob("events.out.tfevents.*"):
                old.unlink()
            with self.writer(str(self.target)) as events:
                for row in state.history:
                    for name, value in asdict(row).items():
                        if name not in ("epoch", "step") and value is not None:
                            events.add_scalar(name, value, row.epoch)


def differences(before: Options, now: Options) -> list[str]:
    """The keys in which two runs differ, with both values; "task.kind" is one in a dict."""

    def flat(value: object, path: str) -> Options:
        if not isinstance(value, dict):
            return {path[1:]: value}
        parts = [flat(part, f"{path}.{key}") for key, part in value.items()]
        return {key: part for some in parts for key, part in some.items()}

    a, b = flat(before, ""), flat(now, "")
    keys = [key for key in sorted({*a, *b}) if a.get(key) != b.get(key)]
    return [f"{key} was {a.get(key)}, is {b.get(key)}" for key in keys]


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> Checkpoint | None:
    """The latest valid checkpoint, or None."""
    for path in _existing(folder):
        try:
            if sha256(path)[:DIGITS] != path.stem[-DIGITS:]:
                raise ValueError("its contents do not match the SHA-256 in its name")
            tensors, header = read_tensors(path, device)
            return Checkpoint(tensors, json.loads(header["state"]))
        except (ValueError, KeyError, OSError) as problem:
            print(f"{path} is damaged ({problem}): not used", file=sys.stderr)
    return None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    # copies, as tensors may share memory: a normaliser that is used twice is written twice
    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    content = save(copies, dict(header))
    # safetensors writes its header in random order: sorted, equal tensors are equal files
    end = 8 + int.from_bytes(content[:8], "little")
    parts = json.loads(content[8:end])
    parts["__metadata__"] = dict(sorted(parts.get("__metadata__", {}).items()))
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with atomic_path(path) as temporary:
        # bytes, as save_file has a temporary file of its own that a kill would leave behind
        temporary.write_bytes(len(text).to_bytes(8, "little") + text + content[end:])


def split_names(tensors: Mapping[str, Tensor]) -> defaultdict[str, dict[str, Tensor]]:
    parts = defaultdict[str, dict[str, Tensor]](dict)
    for full, value in tensors.items():
        part, _, name = full.partition(".")
        parts[part][name] = value
    return parts


def read_tensors(
    path: Path, device: torch.device | str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the header of a safetensors file."""
    with open_regular(path) as opened:  # what safetensors declares is never more than its file
        check_memory(str(path), os.fstat(opened.fileno()).st_size)
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            # copies, as tensors of safetensors are views of the file, which may change
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except SafetensorError as problem:
        raise ValueError(f"cannot read {path}: {problem}") from problem


def _existing(folder: Path) -> list[Path]:
    """The checkpoints of a folder, latest first."""
    paths = [path for path in folder.glob("step-*.safetensors") if NAME.fullmatch(path.name)]
    return sorted(paths, key=_step, reverse=True)


def _step(path: Path) -> int:
    return int(path.name.split("-")[1])
