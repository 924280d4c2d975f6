"""Ensembles: operators that were trained alike with other seeds, their mean and their spread."""

__all__ = ["Ensemble", "fit_ensemble"]

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pdno.data.dataset import Pairs
from pdno.training.fit import fit
from pdno.training.trained_operator import TrainedOperator


class Ensemble:
    """v = 1/M Σ_m v_m of M operators, and their spread, the standard deviation of the v_m.

    It predicts as an operator does, so that `pdno.evaluate` takes it. The spread says where the
    seeds disagree; it is no error bar before it is calibrated (see `training.error_bars`).
    """

    def __init__(self, members: Sequence[TrainedOperator]) -> None:
        if len(members) < 2:
            raise ValueError(f"{len(members)} members: an ensemble has two or more")
        self.members = list(members)

    def predict(self, inputs: Tensor, **given: Any) -> Tensor:
        """The mean prediction; the arguments are those of `TrainedOperator.predict`."""
        return self._all(inputs, given).mean(dim=0)

    def spread(self, inputs: Tensor, **given: Any) -> Tensor:
        """The standard deviation of the predictions at each point."""
        return self._all(inputs, given).std(dim=0)

    def _all(self, inputs: Tensor, given: dict[str, Any]) -> Tensor:
        return torch.stack([member.predict(inputs, **given) for member in self.members])


def fit_ensemble(
    make: Callable[[], nn.Module],
    train: Pairs,
    test: Pairs | None = None,
    *,
    seeds: Sequence[int] = range(4),
    folder: Path | str | None = None,
    **options: Any,
) -> Ensemble:
    """Train a network for each seed: of its weights, which `make` draws, and of the training.

    `options` are those of `fit`; with a folder the run of a seed is in its folder seed-N, where it
    goes on after an interruption.
    """
    members = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = make()
        place = None if folder is None else Path(folder) / f"seed-{seed}"
        members.append(fit(network, train, test, folder=place, seed=seed, **options))
    return Ensemble(members)
