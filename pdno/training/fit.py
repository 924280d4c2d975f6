"""`fit`: train any network on any dataset, and ensembles of such trainings."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset, Pairs
from pdno.files.atomic import only_writer
from pdno.files.metric_table import Metadata, Metric, make_metrics
from pdno.interface.errors import TrainingStopped
from pdno.interface.records import refuse_unknown
from pdno.networks.neural_operator import count_parameters
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_l2
from pdno.training.distributed import process_group
from pdno.training.loop import Callback, TrainingLoop
from pdno.training.losses import Loss
from pdno.training.normalizer import Normalization, move
from pdno.training.operator_record import SampleArrays, TrainingRecord
from pdno.training.samples import BATCH_SIZE, Samples
from pdno.training.settings import TrainingSettings
from pdno.training.task import Task, make_task
from pdno.training.trained_operator import TrainedOperator

FAR_FROM_ONE = 30.0  # a root mean square beyond it, or below its inverse, wants a normaliser


def fit(
    network: nn.Module,
    train: Pairs,
    test: Pairs | None = None,
    *,
    task: Task | str | None = None,
    normalization: Normalization | None = None,
    settings: TrainingSettings | None = None,
    folder: Path | str | None = None,
    device: torch.device | str | None = None,
    tensorboard: bool = False,
    title: str = "training",
    save: bool = True,
    loss: Loss | None = None,
    callbacks: Sequence[Callback] = (),
    **changes: Any,
) -> TrainedOperator:
    """Train a network; run under torchrun it uses all processes.

    The operator predicts in the units of the data and has the `history` of its training.

    Arguments:
        network: Any module from (B, C, *N) to (B, C, *N); trained in place.
        train: A dataset, or what gives pairs (input, target): see `OperatorDataset.from_pairs`.
        test: Samples whose error is measured after the epochs.
        task: How the network meets the data: a `Task` or its kind, "static" by default.
        normalization: Of inputs and targets, "channel", "pointwise" or "none"; None has none, too,
            and warns where the data are far from 1.
        folder: For checkpoints, history and the trained operator (see `pdno.load`); a run found
            there is continued. None keeps nothing.
        device: Where to train; None takes CUDA where there is one.
        save: Whether the operator is written to the folder at the end.
        loss: What is made small (see `training.losses`); None is the relative error in H^s, s the
            loss_order of the settings.
        callbacks: Each is called after every epoch with its row of the history and the model,
            which may predict; under torchrun by the first process.
        **changes: Settings by name, for example epochs=20.

    Example:
        >>> from pdno.spectral.grid import Grid
        >>> from pdno.networks.pdno import FNO
        >>> f = torch.randn(8, 1, 16, generator=torch.Generator().manual_seed(0))
        >>> data = OperatorDataset.from_arrays(f, 2 * f, Grid((16,)))
        >>> operator = fit(FNO(1, 1, 1, width=4, modes=4), data, epochs=2, batch_size=4)
        >>> [row.epoch for row in operator.history]
        [1, 2]
    """
    _check_network(network)
    refuse_unknown("fit", TrainingSettings.model_fields, changes)
    chosen = TrainingSettings(**{**(settings or TrainingSettings()).model_dump(), **changes})
    dtype = torch.float64 if chosen.precision == "float64" else torch.float32
    path = None if folder is None else Path(folder)
    with process_group(device) as group, only_writer(path if group.is_rank_0 else None):
        lacks = group.device.type == "cuda" and not torch.cuda.is_bf16_supported()
        if chosen.precision == "bfloat16" and lacks:
            raise ValueError("this device has no bfloat16: take precision='float32'")
        move(network, group.device, dtype)
        train = OperatorDataset.from_pairs(train)
        test = None if test is None else OperatorDataset.from_pairs(test)
        samples = Samples(train, group.device, dtype)
        if normalization is None:
            normalization = "none"
            _warn_of_size(samples)
        task = make_task(task or "static")
        operator = TrainedOperator.untrained(network, task, samples, normalization)
        tests = None if test is None else Samples(test, group.device, dtype)
        loop = TrainingLoop(operator, samples, tests, chosen, group, loss, callbacks)
        try:
            state = loop.run(path, title=title, tensorboard=tensorboard)
        except FloatingPointError as problem:
            raise _stopped(problem, loop, path) from problem
        record = TrainingRecord(
            samples=len(samples),
            normalization=normalization,
            settings=chosen,
            seconds=state.seconds,
            cpu_seconds=state.cpu_seconds,
        )
        operator.history, operator.training_record = state.history, record
        operator.metrics = tuple(_metrics(operator, record, train.grid))
        operator.sample_arrays = _first_sample(operator, test or train)
        if save and path is not None and group.is_rank_0:
            operator.save(path)
        group.barrier()  # every process may load it now
        return operator


def _metrics(operator: TrainedOperator, record: TrainingRecord, grid: Grid) -> list[Metric]:
    """The errors after the last epoch; saving names the experiment by its folder."""
    last, points = operator.history[-1], max(grid.shape)
    test = last.best if record.settings.keep == "best" else last.test
    values = {"training": {"relative_l2 of the last epoch": last.train}}
    values |= {} if test is None else {"test": {"relative_l2": test}}
    metadata = Metadata(
        dataset="own data",
        mode=operator.task.kind,
        samples=record.samples,
        epochs=last.epoch,
        training_resolution=points,
    )
    metrics: list[Metric] = []
    for split, errors in values.items():
        metrics += make_metrics(
            errors,
            experiment="operator",
            model=type(operator.network).__name__,
            resolution=points,
            seed=record.settings.seed,
            split=split,
            seconds=record.seconds,
            parameters=count_parameters(operator.network, complex_once=False),
            metadata=metadata,
        )
    return metrics


def _first_sample(operator: TrainedOperator, data: OperatorDataset) -> SampleArrays:
    """The first sample of a dataset, its prediction and its error."""
    inputs, target = data.batch([0])
    prediction = operator.predict(inputs, **data.keyword_arguments([0]))
    error = relative_l2(prediction, target)
    return {"input": inputs, "target": target, "prediction": prediction, "error": error}


def _warn_of_size(samples: Samples) -> None:
    """Networks begin with outputs of size one, and reach data of another size slowly."""
    parts = samples.batch(range(min(len(samples), BATCH_SIZE)))
    for name, part in zip(("inputs", "targets"), parts, strict=True):
        size = float(part.double().square().mean().sqrt())
        if size > 0 and not 1 / FAR_FROM_ONE < size < FAR_FROM_ONE:  # and where it is not finite
            problem = f"the {name} have the size {size:.2g}, far from 1, and training may be slow"
            warnings.warn(f"{problem}: pass normalization='channel'", UserWarning, stacklevel=3)


def _check_network(network: object) -> None:
    if not isinstance(network, nn.Module):
        expected = "a torch module, for example pdno.PDNO(dim=1, in_channels=1, out_channels=1)"
        raise ValueError(f"the network is {network!r:.60}; expected {expected}")
    if isinstance(network, TrainedOperator):
        raise ValueError("a trained operator cannot be trained again: give operator.network")


def _stopped(
    problem: FloatingPointError, loop: TrainingLoop, folder: Path | None
) -> TrainingStopped:
    """What to try after a loss that is no number."""
    has = loop.recorder.has_checkpoint
    kept = f" The last good checkpoint is in {folder}." if has else ""
    cure = "a smaller learning_rate, clip=1.0, schedule='one-cycle' or precision='float64'"
    message = f"{problem}.{kept} Try {cure}; look for NaN in the data"
    return TrainingStopped(message, resumable=False)


class Ensemble:
    """v = 1/M Σ_m v_m of M operators, and their spread, the standard deviation of the v_m.

    It predicts as an operator does, so that `pdno.evaluate` takes it. The spread says where the
    seeds disagree; it is no error bar before it is calibrated (see `training.error_bars`).
    """

    def __init__(self, members: Sequence[TrainedOperator]) -> None:
        if len(members) < 2:
            raise ValueError(f"{len(members)} members: an ensemble has two or more")
        self.members = list(members)

    def predict(self, inputs: Tensor, **options: Any) -> Tensor:
        """The mean prediction; the arguments are those of `TrainedOperator.predict`."""
        return self._all(inputs, options).mean(dim=0)

    def spread(self, inputs: Tensor, **options: Any) -> Tensor:
        """The standard deviation of the predictions at each point."""
        return self._all(inputs, options).std(dim=0)

    def _all(self, inputs: Tensor, options: dict[str, Any]) -> Tensor:
        return torch.stack([member.predict(inputs, **options) for member in self.members])


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
        path = None if folder is None else Path(folder) / f"seed-{seed}"
        members.append(fit(network, train, test, folder=path, seed=seed, **options))
    return Ensemble(members)
