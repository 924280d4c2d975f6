"""Checkpoints: everything that a run needs to go on, in one file that holds no code.

A checkpoint is a safetensors file: the tensors of the learner and of the optimiser, and a header
of JSON with the position of the run and its history. Its name ends with its own SHA-256,

    step-00001200-3f5a...9c.safetensors

so a damaged file is found out, and the one before it is used instead. The last two are kept.
A run is continued only as what it was begun: `RunRecorder` compares what decides the weights.
"""

__all__ = [
    "Checkpoint",
    "RunRecorder",
    "load_checkpoint",
    "read_tensors",
    "save_checkpoint",
    "write_tensors",
]

import json
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from pdno.atomic import atomic_path, sha256, sweep
from pdno.run_folder import CHECKPOINTS, HISTORY
from pdno.training.distributed import ProcessGroup
from pdno.training.history import TrainingState, write_history, write_tensorboard

KEPT = 2
DIGITS = 16
NAME = re.compile(rf"step-(\d{{8,}})-([0-9a-f]{{{DIGITS}}})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """Tensors "learner.*" and "optimiser.*", and the state of the run as plain JSON."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def restore(self, learner: nn.Module, optimiser: Optimizer) -> None:
        """Put the tensors back."""
        try:
            learner.load_state_dict(self._part("learner."))
        except RuntimeError as problem:
            raise ValueError(
                f"the checkpoint is of another network or normalisation ({problem}): take another "
                "folder, or remove its checkpoints to begin anew"
            ) from problem
        parameters = dict(learner.named_parameters())
        for full, value in self._part("optimiser.").items():
            name, key = full.rsplit(".", 1)
            # the step counter of Adam stays on the CPU
            where = "cpu" if key == "step" else parameters[name].device
            optimiser.state[parameters[name]][key] = value.to(where)

    def _part(self, prefix: str) -> dict[str, Tensor]:
        named = self.tensors.items()
        return {name.removeprefix(prefix): v for name, v in named if name.startswith(prefix)}


class RunRecorder:
    """The checkpoints and the history of a run; without a folder nothing is kept.

    Arguments:
        folder: The run folder, or None.
        identity: All that has to stay where a run goes on, as plain JSON.
        group: The processes of the run; rank 0 writes.
        every: Seconds between two checkpoints.
        tensorboard: Whether to write event files, too.
    """

    def __init__(
        self,
        folder: Path | None,
        identity: Mapping[str, Any],
        group: ProcessGroup,
        *,
        every: float,
        tensorboard: bool = False,
    ) -> None:
        self.folder, self.identity, self.group = folder, identity, group
        self.every, self.tensorboard = every, tensorboard
        self.saved_at = time.monotonic()

    @property
    def has_checkpoint(self) -> bool:
        """Whether there is something to go on from."""
        return self.folder is not None and bool(_existing(self.folder / CHECKPOINTS))

    def resume(self, learner: nn.Module, optimiser: Optimizer) -> TrainingState:
        """Where the run in the folder stands; its tensors are put back."""
        if self.folder is None:
            return TrainingState()
        checkpoints = self.folder / CHECKPOINTS
        if self.group.is_rank_0:  # what a run that was killed has left half written
            sweep(self.folder)
            sweep(checkpoints)
            for draft in checkpoints.glob("step-*.draft"):
                draft.unlink(missing_ok=True)
        self.group.barrier()
        found = load_checkpoint(checkpoints, self.group.device)
        if found is None:
            return TrainingState()
        state = dict(found.state)
        self._check_identity(state.pop("identity"))
        found.restore(learner, optimiser)
        return TrainingState(**state)

    def is_due(self) -> bool:
        """Whether it is time for a checkpoint."""
        writes = self.folder is not None and self.group.is_rank_0
        return writes and time.monotonic() - self.saved_at >= self.every

    def save(self, state: TrainingState, learner: nn.Module, optimiser: Optimizer) -> None:
        """Write a checkpoint; FloatingPointError where a tensor is no longer finite."""
        if self.folder is not None and self.group.is_rank_0:
            record = {"identity": self.identity, **asdict(state)}
            save_checkpoint(self.folder / CHECKPOINTS, state.step, learner, optimiser, record)
            self.saved_at = time.monotonic()

    def write_history(self, state: TrainingState) -> None:
        """Write the epochs so far."""
        if self.folder is not None and self.group.is_rank_0 and state.history:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_history(self.folder / HISTORY, state.rows)
            if self.tensorboard:
                write_tensorboard(self.folder, state.rows)

    def _check_identity(self, then: Mapping[str, Any]) -> None:
        now = self.identity
        names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
        if names:
            changes = [f"{name} was {then.get(name)}, is {now.get(name)}" for name in names]
            raise ValueError(
                f"{self.folder} holds another run ({', '.join(changes)}): take another folder, or "
                "remove its checkpoints to begin anew"
            )


def save_checkpoint(
    folder: Path, step: int, learner: nn.Module, optimiser: Optimizer, state: Mapping[str, Any]
) -> Path:
    """Write a checkpoint, then remove all but the last ones."""
    tensors = {f"learner.{name}": value for name, value in learner.state_dict().items()}
    names = {id(parameter): name for name, parameter in learner.named_parameters()}
    for parameter, values in optimiser.state.items():
        for key, value in values.items():
            tensors[f"optimiser.{names[id(parameter)]}.{key}"] = value
    folder.mkdir(parents=True, exist_ok=True)
    for bad in [name for name, value in tensors.items() if not _finite(value)]:
        raise FloatingPointError(f"{bad} is no longer finite")
    draft = folder / f"step-{step:08d}.draft"
    write_tensors(draft, tensors, {"state": json.dumps(dict(state))})
    final = folder / f"step-{step:08d}-{sha256(draft)[:DIGITS]}.safetensors"
    draft.replace(final)
    # what claims to be later, or of the same step, was damaged or unfinished: it is superseded
    before = [path for path in _existing(folder) if _step(path) < step]
    for old in {*_existing(folder)} - {final, *before[: KEPT - 1]}:
        old.unlink(missing_ok=True)
    return final


def load_checkpoint(folder: Path, device: torch.device | str = "cpu") -> Checkpoint | None:
    """The latest checkpoint that is whole; None where there is none."""
    for path in _existing(folder):
        match = NAME.fullmatch(path.name)
        assert match is not None
        try:
            if sha256(path)[:DIGITS] != match[2]:
                raise ValueError("its contents do not match the SHA-256 in its name")
            tensors, header = read_tensors(path, device)
            return Checkpoint(tensors, json.loads(header["state"]))
        except (ValueError, KeyError, OSError) as problem:
            print(f"{path} is damaged ({problem}): not used", file=sys.stderr)
    return None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    ready: dict[str, Tensor] = {}
    written: set[int] = set()
    for name, value in tensors.items():
        plain = value.detach().cpu().contiguous()
        # tensors that share memory, such as a normaliser used twice, are written twice
        place = plain.untyped_storage().data_ptr()
        ready[name] = plain.clone() if place in written else plain
        written.add(place)
    with atomic_path(path) as temporary:
        save_file(ready, temporary, dict(header))


def read_tensors(
    path: Path, device: torch.device | str = "cpu"
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the header of a safetensors file."""
    try:
        with safe_open(path, framework="pt", device=str(device)) as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except SafetensorError as problem:
        raise ValueError(f"cannot read {path}: {problem}") from problem


def _existing(folder: Path) -> list[Path]:
    """The checkpoints of a folder, latest first."""
    found = [path for path in folder.glob("step-*.safetensors") if NAME.fullmatch(path.name)]
    return sorted(found, key=_step, reverse=True)


def _step(path: Path) -> int:
    return int(path.name.split("-")[1])


def _finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(value.isfinite().all())
