"""What makes a run the same run: it is continued only as what it was begun.

The settings, the task, the number of examples and their grid decide the weights. How often a run
saves or measures and how patient it is may change at any time.
"""

__all__ = ["check_identity", "run_identity"]

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pdno.grid import Grid
from pdno.training.settings import TrainingSettings
from pdno.training.task import Task

MAY_CHANGE = {"checkpoint_seconds", "evaluate_every", "patience"}


def run_identity(
    settings: TrainingSettings, task: Task, examples: int, grid: Grid
) -> dict[str, Any]:
    """All that has to stay, as plain JSON."""
    of_task = {f"task.{name}": value for name, value in task.model_dump(mode="json").items()}
    return {
        **settings.model_dump(mode="json", exclude=MAY_CHANGE),
        **of_task,
        "examples": examples,
        "grid": str(grid),
    }


def check_identity(then: Mapping[str, Any], now: Mapping[str, Any], folder: Path) -> None:
    """ValueError that names what changed since the run in `folder` was begun."""
    names = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if names:
        listed = ", ".join(f"{name} was {then.get(name)}, is {now.get(name)}" for name in names)
        raise ValueError(
            f"{folder} holds another run ({listed}): take another folder, or remove its "
            "checkpoints to begin anew"
        )
