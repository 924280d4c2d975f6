"""`fit`: train any network on any dataset, exact to the bit after any interruption.

Everything random is a function of (seed, epoch, example) and the learning rate one of the step, so
weights, optimiser and step number determine a run. These are in a checkpoint: a run that is killed
at any moment and started again ends with the weights of a run that was not.
"""

__all__ = ["fit"]

import contextlib
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pdno.data.dataset import OperatorDataset, Pairs
from pdno.files import run_folder
from pdno.files.atomic import only_writer
from pdno.files.metric_table import Metadata, Metric
from pdno.interface.display import Advance, track
from pdno.interface.errors import TrainingStopped
from pdno.interface.records import refuse_unknown
from pdno.networks.neural_operator import count_parameters
from pdno.spectral.metrics import relative_l2
from pdno.training.checkpoint import EpochRow, RunRecorder, TrainingState
from pdno.training.distributed import ProcessGroup, process_group
from pdno.training.losses import Loss, RelativeError
from pdno.training.normalizer import Normalization, move
from pdno.training.operator_record import TrainingRecord
from pdno.training.optimiser import Optimiser
from pdno.training.predictor import BATCH_SIZE, predict_batches
from pdno.training.sample_arrays import SampleArrays
from pdno.training.samples import Samples, augmented, epoch_order
from pdno.training.settings import TrainingSettings, learning_rate
from pdno.training.task import Task, make_task
from pdno.training.trained_operator import TrainedOperator

FAR_FROM_ONE = 30.0  # a root mean square beyond it, or below its inverse, wants a normaliser
Callback = Callable[[EpochRow, TrainedOperator], object]
# settings that do not decide the weights: a run may go on with others
MAY_CHANGE = {"checkpoint_seconds", "evaluate_every", "patience"}


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
        >>> from pdno.networks.fno import FNO
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
        loop = _Loop(operator, samples, tests, chosen, group, loss, callbacks)
        try:
            state = loop.run(path, title=title, tensorboard=tensorboard)
        except FloatingPointError as problem:
            raise _stopped(problem, loop, path) from problem
        operator.history = state.history
        operator.training_record = TrainingRecord(
            samples=len(samples),
            normalization=normalization,
            settings=chosen,
            seconds=state.seconds,
            cpu_seconds=state.cpu_seconds,
        )
        operator.metrics = _metrics(operator, chosen)
        operator.sample_arrays = _first_sample(operator, test or train)
        if save and path is not None and group.is_rank_0:
            operator.save(path)
        group.barrier()  # every process may load it now
        return operator


def _metrics(operator: TrainedOperator, settings: TrainingSettings) -> tuple[Metric, ...]:
    """The errors after the last epoch, by split and points."""
    assert operator.sampling is not None and operator.training_record is not None
    last = operator.history[-1]
    test = last.best if settings.keep == "best" else last.test
    errors = {("training", "relative_l2 of the last epoch"): last.train}
    errors |= {} if test is None else {("test", "relative_l2"): test}
    points, name = max(operator.sampling.grid.shape), "operator"
    metadata = Metadata(
        study=name,
        dataset="own data",
        mode=operator.task.kind,
        samples=operator.training_record.samples,
        epochs=last.epoch,
        training_resolution=points,
    )
    return tuple(
        Metric(
            experiment=name,
            model=type(operator.network).__name__,
            resolution=points,
            seed=settings.seed,
            split=split,
            metric=metric,
            value=value,
            seconds=operator.training_record.seconds,
            parameters=count_parameters(operator.network, complex_once=False),
            metadata=metadata,
        )
        for (split, metric), value in errors.items()
    )


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


def _stopped(problem: FloatingPointError, loop: "_Loop", folder: Path | None) -> TrainingStopped:
    """What to try after a loss that is no number."""
    has = loop.recorder.has_checkpoint
    kept = f" The last good checkpoint is in {folder}." if has else ""
    cure = "a smaller learning_rate, clip=1.0, schedule='one-cycle' or precision='float64'"
    message = f"{problem}.{kept} Try {cure}; look for NaN in the data"
    return TrainingStopped(message, resumable=False)


@dataclass
class _Loop:
    """All steps of a run."""

    operator: TrainedOperator
    samples: Samples
    tests: Samples | None
    settings: TrainingSettings
    group: ProcessGroup
    loss: Loss | None = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        settings, operator = self.settings, self.operator
        for name, value in (("patience", settings.patience), ("keep", settings.keep)):
            if value not in (None, "last") and self.tests is None:
                raise ValueError(f"{name}={value} needs test samples to measure")
        if self.loss is not None and settings.loss_order:
            order = f"loss_order={settings.loss_order:g}"
            raise ValueError(f"{order} and a loss: give loss=RelativeError(order) alone")
        make, self.grid = operator.task.examples, self.samples.data.grid
        self.examples = augmented(make, self.samples) if settings.augment else make(self.samples)
        self.steps_per_epoch = math.ceil(len(self.examples) / settings.batch_size)
        self.optimiser = Optimiser(operator, settings)
        many = self.group.size > 1
        self.wrapped: nn.Module = DistributedDataParallel(operator) if many else operator

    def run(self, folder: Path | None, *, title: str, tensorboard: bool) -> TrainingState:
        """Take all steps that are left; what `folder` holds is continued."""
        every, group = self.settings.checkpoint_seconds, self.group
        task = self.operator.task.model_dump(mode="json")
        identity = {
            **self.settings.model_dump(mode="json", exclude=MAY_CHANGE),
            **{f"task.{name}": value for name, value in task.items()},
            "examples": len(self.examples),
            "grid": str(self.grid),
            **({} if self.loss is None else {"loss": self.loss.describe()}),
        }
        self.recorder = RunRecorder(folder, identity, group, every, tensorboard)
        self.state = self.recorder.resume(self.operator, self.optimiser)
        if self.state.history:  # its patience may be another one now
            self.state.finished = self._is_over()
        if self.recorder.target is not None and not self.state.finished:
            run_folder.reopen(self.recorder.target)
        self.recorder.write_history(self.state)
        total = self.settings.epochs * self.steps_per_epoch
        cuda = [group.device] if group.device.type == "cuda" else []
        with contextlib.ExitStack() as stack:
            self.signals = stack.enter_context(_stop_signals(listen=folder is not None))
            stack.enter_context(torch.random.fork_rng(devices=cuda))
            advance: Advance = lambda amount, note=None: None  # noqa: E731
            if group.is_rank_0:
                advance = stack.enter_context(track(title, total=total, done=self.state.step))
            self.operator.train()
            while not self.state.finished:
                self._epoch(advance)
            self._save()
            self._stop_if(self._sum([len(self.signals)])[0])
        self.optimiser.finish()
        self.optimiser.restore_best()
        self.operator.eval()
        return self.state

    def _epoch(self, advance: Advance) -> None:
        # a checkpoint may lie between the last step of an epoch and its end
        epoch, size = len(self.state.history), self.settings.batch_size
        first = self.state.step - epoch * self.steps_per_epoch
        order = epoch_order(len(self.examples), seed=self.settings.seed, epoch=epoch)
        for index in range(first, self.steps_per_epoch):
            self._step(epoch, order[index * size : (index + 1) * size])
            if index < self.steps_per_epoch - 1:
                advance(1)
        self._end_epoch()
        last = self.state.history[-1]
        name, error = ("train", last.train) if last.test is None else ("test", last.test)
        advance(1 if first < self.steps_per_epoch else 0, f"{name} error {error:.4g}")

    def _step(self, epoch: int, indices: Sequence[int]) -> None:
        start = time.monotonic(), time.process_time()
        rate = learning_rate(self.settings, self.state.step, self.steps_per_epoch)
        sums = self._backward(epoch, indices)
        *sums, received, due = self._sum([*sums, len(self.signals), self.recorder.is_due()])
        if not math.isfinite(sums[0]):
            raise FloatingPointError(f"the loss is not finite at step {self.state.step + 1}")
        self.optimiser.step(rate, self.state.step)
        self.state.step += 1
        self.state.sums = [a + b for a, b in zip(self.state.sums, sums, strict=True)]
        self._spend(*start)
        if received or due:
            self._save()
        self._stop_if(received)

    def _backward(self, epoch: int, indices: Sequence[int]) -> list[float]:
        """The gradient of a batch; returns loss, error and examples of this process."""
        settings, group = self.settings, self.group
        # networks with dropout and the like: their noise is a function of the step, too
        torch.manual_seed((settings.seed * 1_000_003 + self.state.step) * 64 + group.rank)
        share = group.share(indices)
        # a process without a share of a small last batch still has to take part
        batch = self.examples.batch(share or indices[:1], seed=settings.seed, epoch=epoch)
        half = settings.precision == "bfloat16"
        with torch.autocast(group.device.type, dtype=torch.bfloat16, enabled=half):
            loss = self.loss or RelativeError(settings.loss_order)
            terms, errors = self.wrapped(batch, self.grid, loss)
        weight = 1.0 if share else 0.0
        total: Tensor = terms.sum() * weight
        # gradients are averaged over the processes; the sum is wanted
        count = len(indices) * terms.shape[1] if settings.reduction == "mean" else 1
        self.optimiser.zero_grad()
        torch.autograd.backward(total * (group.size / count))
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.operator.parameters(), settings.clip)
        return [float(total.detach()), float(errors.sum()) * weight, float(len(share))]

    def _end_epoch(self) -> None:
        """Measure and note; an error that is no number is not better than anything."""
        state, settings = self.state, self.settings
        start = time.monotonic(), time.process_time()
        if not all(bool(weight.isfinite().all()) for weight in self.operator.parameters()):
            raise FloatingPointError(f"the network is not finite at step {state.step}")
        epoch, test = len(state.history) + 1, None
        due = epoch == settings.epochs or epoch % settings.evaluate_every == 0
        if due and self.tests is not None:
            with self.optimiser.mean_weights():
                test = self._test_error(self.tests)
                if test < (math.inf if state.best is None else state.best):
                    state.best, state.best_epoch = test, epoch
                    if settings.keep == "best":
                        self.optimiser.remember()
        rate = learning_rate(settings, state.step - 1, self.steps_per_epoch)
        means = (state.sums[0] / state.sums[2], state.sums[1] / state.sums[2])
        self._spend(*start)
        row = EpochRow(epoch, state.step, rate, *means, test, state.best, state.seconds)
        state.history.append(row)
        state.sums = [0.0, 0.0, 0.0]
        state.finished = self._is_over()
        self.recorder.write_history(state)
        for callback in self.callbacks if self.group.is_rank_0 else ():
            callback(row, self.operator)

    def _spend(self, clock: float, processor: float) -> None:
        """Count what has passed since these times."""
        self.state.seconds += time.monotonic() - clock
        self.state.cpu_seconds += time.process_time() - processor

    def _is_over(self) -> bool:
        epoch, patience = len(self.state.history), self.settings.patience
        impatient = patience is not None and epoch - self.state.best_epoch >= patience
        return epoch == self.settings.epochs or impatient

    def _test_error(self, tests: Samples) -> float:
        """Mean relative L2 error of the test samples; every process measures its share."""
        errors = torch.zeros(len(tests), dtype=torch.float64)
        share = self.group.share(range(len(tests)))
        parts = [relative_l2(*pair) for pair in predict_batches(self.operator, tests, rows=share)]
        if parts:
            errors[share] = torch.cat(parts).double()
        return float(self.group.all_reduce(errors).mean())

    def _sum(self, numbers: list[float]) -> list[float]:
        sums = self.group.all_reduce(torch.tensor(numbers, dtype=torch.float64))
        return [float(one) for one in sums]

    def _save(self) -> None:
        self.recorder.save(self.state, self.operator, self.optimiser)

    def _stop_if(self, received: float) -> None:
        if received:
            done = f"stopped after step {self.state.step}; the same command goes on from there"
            raise TrainingStopped(done, resumable=True)


@contextlib.contextmanager
def _stop_signals(*, listen: bool) -> Iterator[list[int]]:
    """Within this block SIGTERM and SIGINT only fill the list; the run ends after its step."""
    received: list[int] = []
    # signals reach the main thread only
    listen = listen and threading.current_thread() is threading.main_thread()
    before = {
        number: signal.signal(number, lambda number, frame: received.append(number))
        for number in ((signal.SIGTERM, signal.SIGINT) if listen else ())
    }
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
