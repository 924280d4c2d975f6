"""Checkpoints: everything that a run needs to go on, in one file that holds no code.

A checkpoint is a safetensors file: the tensors of the learner and of the optimiser, and a header
of JSON with the position of the run and its history. Its name ends with its own SHA-256,

    step-00001200-3f5a...9c.safetensors

so a damaged file is found out, and the one before it is used instead. The last two are kept.
"""

__all__ = [
    "Checkpoint",
    "load_checkpoint",
    "read_tensors",
    "save_checkpoint",
    "sweep_checkpoints",
    "write_tensors",
]

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.optim import Optimizer

from pdno.atomic import atomic_path, sha256, sweep

KEPT = 2
DIGITS = 16
NAME = re.compile(rf"step-(\d{{8,}})-([0-9a-f]{{{DIGITS}}})\.safetensors")


@dataclass(frozen=True)
class Checkpoint:
    """Where a run stands.

    Arguments:
        tensors: Of the learner ("learner.*") and of the optimiser ("optimiser.*").
        state: Position and history, plain JSON.
    """

    tensors: dict[str, Tensor]
    state: dict[str, Any]

    def restore(self, learner: nn.Module, optimiser: Optimizer) -> None:
        """Put the tensors back."""
        try:
            learner.load_state_dict(_part(self.tensors, "learner."))
        except RuntimeError as problem:
            raise ValueError(
                f"the checkpoint is of another network or normalisation ({problem}): take another "
                "folder, or remove its checkpoints to begin anew"
            ) from problem
        _restore_optimiser(optimiser, learner, _part(self.tensors, "optimiser."))


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


def sweep_checkpoints(folder: Path) -> None:
    """Remove what a run that was killed has left half written."""
    for place in (folder, folder / "checkpoints"):
        sweep(place)
        for draft in place.glob("step-*.draft"):
            draft.unlink(missing_ok=True)


def write_tensors(path: Path, tensors: Mapping[str, Tensor], header: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    ready = {name: value.detach().contiguous().cpu() for name, value in tensors.items()}
    with atomic_path(path) as temporary:
        # tensors that share memory, such as a normaliser used twice, are written twice
        save_file({name: value.clone() for name, value in ready.items()}, temporary, dict(header))


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


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }


def _restore_optimiser(
    optimiser: Optimizer, learner: nn.Module, tensors: Mapping[str, Tensor]
) -> None:
    parameters = dict(learner.named_parameters())
    for full, value in tensors.items():
        name, key = full.rsplit(".", 1)
        # the step counter of Adam stays on the CPU
        where = "cpu" if key == "step" else parameters[name].device
        optimiser.state[parameters[name]][key] = value.to(where)


def _finite(value: Tensor) -> bool:
    return not value.is_floating_point() or bool(value.isfinite().all())
