"""`fit`: train any network on any dataset."""

__all__ = ["Run", "fit"]

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pdno.data.dataset import OperatorDataset
from pdno.training.distributed import crew
from pdno.training.examples import Samples
from pdno.training.history import EpochRow
from pdno.training.learner import Learner, make_learner
from pdno.training.loop import Loop
from pdno.training.normalizer import Normalization
from pdno.training.settings import TrainingSettings
from pdno.training.task import StaticMap, Task


@dataclass(frozen=True)
class Run:
    """What training gives.

    Arguments:
        model: The learner: network, normalisers and task; `model.predict` answers.
        history: One row per epoch.
        seconds: Training time.
    """

    model: Learner
    history: list[EpochRow]
    seconds: float

    @property
    def network(self) -> nn.Module:
        """The network alone."""
        return self.model.network


def fit(
    network: nn.Module,
    train: OperatorDataset,
    test: OperatorDataset | None = None,
    *,
    task: Task | None = None,
    normalization: Normalization = "none",
    settings: TrainingSettings | None = None,
    folder: Path | str | None = None,
    device: torch.device | str | None = None,
    tensorboard: bool = False,
    title: str = "training",
    **changes: Any,
) -> Run:
    """Train a network; run under torchrun it uses all processes.

    Arguments:
        network: Any module from (B, C, *N) to (B, C, *N); trained in place.
        train: Training samples.
        test: Samples whose error is measured after the epochs.
        task: How the network meets the data; a static map by default.
        normalization: "none", "pointwise" or "channel".
        settings: How to train.
        folder: Where checkpoints and the history go; a run found there is continued. None keeps
            nothing.
        device: Where to train; None takes CUDA where there is one.
        tensorboard: Whether to write event files into `folder` as well.
        title: What the progress bar says.
        **changes: Settings by name, for example epochs=20.

    Example:
        >>> from pdno.grid import Grid
        >>> from pdno.networks.fno import FNO
        >>> f = torch.randn(8, 1, 16, generator=torch.Generator().manual_seed(0))
        >>> data = OperatorDataset.from_arrays(f, 2 * f, Grid((16,)))
        >>> run = fit(FNO(1, 1, 1, width=4, modes=4), data, epochs=2, batch_size=4)
        >>> [row.epoch for row in run.history]
        [1, 2]
    """
    base = settings or TrainingSettings()
    chosen = TrainingSettings(**{**base.model_dump(), **changes})
    dtype = torch.float64 if chosen.precision == "float64" else torch.float32
    with crew(device) as ours:
        _check_precision(chosen, ours.device)
        network.to(ours.device, dtype)
        samples = Samples(train, ours.device, dtype)
        learner = make_learner(network, task or StaticMap(), samples, normalization)
        tests = None if test is None else Samples(test, ours.device, dtype)
        place = None if folder is None else Path(folder)
        loop = Loop(learner, samples, tests, chosen, ours)
        position = loop.run(place, title=title, tensorboard=tensorboard)
        return Run(learner, [EpochRow(**row) for row in position.history], position.seconds)


def _check_precision(settings: TrainingSettings, device: torch.device) -> None:
    lacks = device.type == "cuda" and not torch.cuda.is_bf16_supported()
    if settings.precision == "bfloat16" and lacks:
        raise ValueError("this device has no bfloat16: take precision='float32'")
