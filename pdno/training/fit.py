"""`fit`: train any network on any dataset, exact to the bit after any interruption.

Everything random is a function of (seed, epoch, example) and the learning rate one of the step, so
weights, optimiser and step number determine a run. These are in a checkpoint: a run that is killed
at any moment and started again ends with the weights of a run that was not.
"""

__all__ = ["History", "Run", "fit"]

import contextlib
import math
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pdno.data.dataset import OperatorDataset, Pairs
from pdno.evaluation.metric_table import metrics_of_fit, write_metrics
from pdno.files import run_folder
from pdno.files.atomic import only_writer
from pdno.interface.display import Advance, html_table, one_line, track
from pdno.interface.errors import TrainingStopped
from pdno.interface.records import refuse_unknown
from pdno.networks.neural_operator import count_parameters
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_l2
from pdno.training.checkpoint import EpochRow, RunRecorder, TrainingState, write_history
from pdno.training.distributed import ProcessGroup, process_group
from pdno.training.losses import Loss, RelativeError
from pdno.training.normalizer import Normalization, move
from pdno.training.operator_folder import save_operator
from pdno.training.operator_record import TrainingRecord
from pdno.training.optimiser import Optimiser
from pdno.training.sample_arrays import first_sample, symbol_pictures, write_pictures
from pdno.training.samples import Samples, augmented, epoch_order
from pdno.training.settings import TrainingSettings, learning_rate
from pdno.training.task import Task, Times, TrainedOperator, make_trained_operator, task_of

EVALUATION_BATCH = 20
FAR_FROM_ONE = 30.0  # a root mean square beyond it, or below its inverse, wants a normaliser
Callback = Callable[[EpochRow, TrainedOperator], object]
# settings that do not decide the weights: a run may go on with others
MAY_CHANGE = {"checkpoint_seconds", "evaluate_every", "patience"}


class History(list[EpochRow]):
    """The rows of a training, one per epoch."""

    def plot(self) -> Any:
        """A figure of training and test errors by epoch."""
        splits = ("train", "test")
        errors = {name: [(row.epoch, getattr(row, name)) for row in self] for name in splits}
        from pdno.figures.curves import plot_history

        return plot_history(errors)

    def facts(self) -> dict[str, str]:
        """Epochs and errors at the end, in words."""
        last = self[-1] if self else None
        errors = {} if last is None else {"train error": last.train, "test error": last.test}
        known = {name: f"{error:.4g}" for name, error in errors.items() if error is not None}
        return {"epochs": str(len(self)), **known}

    def __repr__(self) -> str:
        return one_line("History", self.facts())

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html_table("History", self.facts())


class Run(NamedTuple):
    """What training gives: the learner, which predicts, one row per epoch, and training time.

    `seconds` are those of the clock, `cpu_seconds` those of the processor, in all threads.
    `data` are the samples that it was tested on, or else trained on: `plot` and `animate` show
    them.
    """

    model: TrainedOperator
    history: History
    seconds: float
    cpu_seconds: float
    training: TrainingRecord
    data: OperatorDataset

    @property
    def network(self) -> nn.Module:
        """The network alone."""
        return self.model.network

    def predict(self, inputs: Any, *, grid: Grid | None = None, times: Times = None) -> Any:
        """As `model` does, whose normalisers and task it has: see `TrainedOperator.predict`."""
        return self.model.predict(inputs, grid=grid, times=times)

    def save(
        self, folder: Path | str, *, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
    ) -> None:
        """Write the operator with its errors and a model card, for `pdno.load` and the commands.

        `inputs` and `outputs` are names of the channels, for the card. What the folder holds of
        another operator is replaced; the folder of an experiment is not touched.
        """
        place = Path(folder)
        if (place / run_folder.SPECIFICATION).is_file():
            raise ValueError(f"{place} is the run folder of an experiment: take another one")
        if inputs or outputs:
            assert self.model.sampling is not None
            self.model.sampling = self.model.sampling.named(inputs, outputs)
        shown = {**first_sample(self.model, self.data), **symbol_pictures(self.model, self.data)}
        with only_writer(place):
            run_folder.reopen(place)
            write_history(place, self.history)
            write_pictures(place, shown, self.data)
            metrics = self._metrics()
            about = (place.resolve().name, type(self.network).__name__, self.model.task.kind)
            rows = metrics_of_fit(*about, metrics, self.training.settings.seed)
            write_metrics(place / run_folder.METRICS, rows)
            save_operator(place, self.model, self.training, metrics)

    def _metrics(self) -> dict[str, Any]:
        """The errors after the last epoch, by split and points."""
        assert self.model.sampling is not None
        points, last = max(self.model.sampling.grid.shape), self.history[-1]
        count = count_parameters(self.network, complex_once=False)
        found: dict[str, Any] = {"seconds": self.seconds, "parameters": count}
        found[f"training {points}"] = {"relative_l2 of the last epoch": last.train}
        test = last.best if self.training.settings.keep == "best" else last.test
        if test is not None:
            found[f"test {points}"] = {"relative_l2": test}
        return found

    def plot(self, index: int = 0, data: OperatorDataset | None = None) -> Any:
        """A figure of input, target, prediction and error of a sample of the test, or of `data`.

        Error bars are drawn where the model has been calibrated. Notebooks show the figure;
        `figure.savefig(path)` writes it.
        """
        return self._predicted("plot", index, data)

    def animate(self, index: int = 0, data: OperatorDataset | None = None) -> Any:
        """The same as an animation in time: notebooks play it, `save` writes .gif or .html."""
        return self._predicted("animate", index, data)

    def _predicted(self, kind: str, index: int, data: OperatorDataset | None) -> Any:
        return self.model.draw(kind, self.data if data is None else data, index)

    def _facts(self) -> dict[str, str]:
        numbers = f"{count_parameters(self.network):,}"
        about = {"network": type(self.network).__name__, "parameters": numbers}
        return {**about, **self.history.facts(), "seconds": f"{self.seconds:.3g}"}

    def __repr__(self) -> str:
        return one_line("Run", self._facts())

    def _repr_html_(self) -> str:
        """For notebooks."""
        return html_table("Run", self._facts())


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
) -> Run:
    """Train a network; run under torchrun it uses all processes.

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
        >>> run = fit(FNO(1, 1, 1, width=4, modes=4), data, epochs=2, batch_size=4)
        >>> [row.epoch for row in run.history]
        [1, 2]
    """
    _check_network(network)
    refuse_unknown("fit", TrainingSettings.model_fields, changes)
    chosen = TrainingSettings(**{**(settings or TrainingSettings()).model_dump(), **changes})
    dtype = torch.float64 if chosen.precision == "float64" else torch.float32
    place = None if folder is None else Path(folder)
    with process_group(device) as group, only_writer(place if group.is_rank_0 else None):
        lacks = group.device.type == "cuda" and not torch.cuda.is_bf16_supported()
        if chosen.precision == "bfloat16" and lacks:
            raise ValueError("this device has no bfloat16: take precision='float32'")
        move(network, group.device, dtype)
        train = OperatorDataset.from_pairs(train)
        test = None if test is None else OperatorDataset.from_pairs(test)
        samples = Samples(train, group.device, dtype)
        if normalization is None:
            normalization = "none"
            _tell_of_size(samples)
        learner = make_trained_operator(network, task_of(task or "static"), samples, normalization)
        tests = None if test is None else Samples(test, group.device, dtype)
        loop = _Loop(learner, samples, tests, chosen, group, loss, callbacks)
        try:
            state = loop.run(place, title=title, tensorboard=tensorboard)
        except FloatingPointError as problem:
            raise _stopped(problem, loop, place) from problem
        told: Any = {"normalization": normalization, "settings": chosen}
        record = TrainingRecord(samples=len(samples), seconds=state.seconds, **told)
        spent = (state.seconds, state.cpu_seconds)
        run = Run(learner, History(state.history), *spent, record, test or train)
        if save and place is not None and group.is_rank_0:
            run.save(place)
        group.barrier()  # every process may load it now
        return run


def _tell_of_size(samples: Samples) -> None:
    """Networks begin with outputs of size one, and reach data of another size slowly."""
    parts = samples.batch(range(min(len(samples), EVALUATION_BATCH)))
    for name, part in zip(("inputs", "targets"), parts, strict=True):
        size = float(part.double().square().mean().sqrt())
        if size > 0 and not 1 / FAR_FROM_ONE < size < FAR_FROM_ONE:  # and where it is not finite
            told = f"the {name} have the size {size:.2g}, far from 1, and training may be slow"
            warnings.warn(f"{told}: pass normalization='channel'", UserWarning, stacklevel=3)


def _check_network(given: Any) -> None:
    if not isinstance(given, nn.Module):
        wanted = "a torch module, for example pdno.PDNO(dim=1, in_channels=1, out_channels=1)"
        raise ValueError(f"the network is {given!r:.60}; expected {wanted}")


def _stopped(problem: FloatingPointError, loop: "_Loop", folder: Path | None) -> TrainingStopped:
    """What to try after a loss that is no number."""
    has = loop.recorder.has_checkpoint
    kept = f" The last good checkpoint is in {folder}." if has else ""
    cure = "a smaller learning_rate, clip=1.0, schedule='one-cycle' or precision='float64'"
    told = f"{problem}.{kept} Try {cure}; look for NaN in the data"
    return TrainingStopped(told, resumable=False)


@dataclass
class _Loop:
    """All steps of a run."""

    learner: TrainedOperator
    samples: Samples
    tests: Samples | None
    settings: TrainingSettings
    group: ProcessGroup
    loss: Loss | None = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        settings, learner = self.settings, self.learner
        for name, value in (("patience", settings.patience), ("keep", settings.keep)):
            if value not in (None, "last") and self.tests is None:
                raise ValueError(f"{name}={value} needs test samples to measure")
        if self.loss is not None and settings.loss_order:
            order = f"loss_order={settings.loss_order:g}"
            raise ValueError(f"{order} and a loss: give loss=RelativeError(order) alone")
        make, self.grid = learner.task.examples, self.samples.data.grid
        self.examples = augmented(make, self.samples) if settings.augment else make(self.samples)
        self.steps_per_epoch = math.ceil(len(self.examples) / settings.batch_size)
        self.optimiser = Optimiser(learner, settings)
        many = self.group.size > 1
        self.wrapped: nn.Module = DistributedDataParallel(learner) if many else learner

    def run(self, folder: Path | None, *, title: str, tensorboard: bool) -> TrainingState:
        """Take all steps that are left; what `folder` holds is continued."""
        every, group = self.settings.checkpoint_seconds, self.group
        task = self.learner.task.model_dump(mode="json")
        identity = {
            **self.settings.model_dump(mode="json", exclude=MAY_CHANGE),
            **{f"task.{name}": value for name, value in task.items()},
            "examples": len(self.examples),
            "grid": str(self.grid),
            **({} if self.loss is None else {"loss": self.loss.describe()}),
        }
        self.recorder = RunRecorder(folder, identity, group, every, tensorboard)
        self.state = self.recorder.resume(self.learner, self.optimiser)
        if self.state.history:  # its patience may be another one now
            self.state.finished = self._is_over()
        if self.recorder.place is not None and not self.state.finished:
            run_folder.reopen(self.recorder.place)
        self.recorder.write_history(self.state)
        total = self.settings.epochs * self.steps_per_epoch
        cuda = [group.device] if group.device.type == "cuda" else []
        with contextlib.ExitStack() as stack:
            self.signals = stack.enter_context(_stop_signals(listen=folder is not None))
            stack.enter_context(torch.random.fork_rng(devices=cuda))
            advance: Advance = lambda amount, note=None: None  # noqa: E731
            if group.is_rank_0:
                advance = stack.enter_context(track(title, total=total, done=self.state.step))
            self.learner.train()
            while not self.state.finished:
                self._epoch(advance)
            self._save()
            self._stop_if(self._sum([len(self.signals)])[0])
        self.optimiser.finish()
        self.optimiser.restore_best()
        self.learner.eval()
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
            nn.utils.clip_grad_norm_(self.learner.parameters(), settings.clip)
        return [float(total.detach()), float(errors.sum()) * weight, float(len(share))]

    def _end_epoch(self) -> None:
        """Measure and note; an error that is no number is not better than anything."""
        state, settings = self.state, self.settings
        start = time.monotonic(), time.process_time()
        if not all(bool(weight.isfinite().all()) for weight in self.learner.parameters()):
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
            callback(row, self.learner)

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
        data = tests.data
        errors = torch.zeros(len(data), dtype=torch.float64)
        share = self.group.share(range(len(data)))
        for start in range(0, len(share), EVALUATION_BATCH):
            rows = share[start : start + EVALUATION_BATCH]
            inputs, targets = tests.batch(rows)
            prediction = self.learner.predict(inputs, **data.keyword_arguments(rows))
            errors[rows] = relative_l2(prediction, targets).double().cpu()
        return float(self.group.all_reduce(errors).mean())

    def _sum(self, numbers: list[float]) -> list[float]:
        sums = self.group.all_reduce(torch.tensor(numbers, dtype=torch.float64))
        return [float(one) for one in sums]

    def _save(self) -> None:
        self.recorder.save(self.state, self.learner, self.optimiser)

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
