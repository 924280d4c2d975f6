"""`fit`: train any network on any dataset, with bit-exact resume; ensembles.

Everything random is a function of (seed, epoch, example) and the learning rate one of the step, so
weights, optimiser and step number determine a training. These are in a checkpoint.
"""

import contextlib
import inspect
import math
import re
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from pdno.data.dataset import Pairs
from pdno.files import run_folder
from pdno.files.atomic import only_writer
from pdno.files.metric_table import Metadata, Metric
from pdno.interface.display import Advance, track
from pdno.interface.errors import TrainingStopped, check_choice
from pdno.interface.records import Options, refuse_unknown
from pdno.networks.neural_operator import count_parameters
from pdno.spectral.metrics import relative_l2
from pdno.training.checkpoint import EpochRow, RunRecorder
from pdno.training.distributed import ProcessGroup, process_group
from pdno.training.losses import Loss, RelativeError
from pdno.training.operator_record import TrainingRecord
from pdno.training.optimiser import BEST, Optimiser
from pdno.training.samples import BATCH_SIZE, Samples, augmented, epoch_order, predict_batches
from pdno.training.settings import TrainingSettings, learning_rate
from pdno.training.statistics import Normalization
from pdno.training.task import Task, make_task
from pdno.training.trained_operator import TrainedOperator, move

Callback = Callable[[EpochRow, TrainedOperator], object]
# settings that do not decide the weights: a training may be resumed with others
MAY_CHANGE = {"checkpoint_seconds", "evaluate_every", "patience"}
OUT_OF_MEMORY = re.compile("MemoryError|out of memory|not enough memory|n't allocate memory")
LARGE_ERROR = 0.8  # near that of predicting zero, which is 1
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
    **changes: object,
) -> TrainedOperator:
    """Train a network; run under torchrun it uses all processes.

    Arguments:
        network: A module from (B, C, *N) to (B, C, *N), trained in place; or a trained
            operator, of which a copy is trained further, with its normalisers and its task.
        train: A dataset, or what gives pairs (input, target): see `OperatorDataset.from_pairs`.
        test: Samples whose error is measured after the epochs.
        task: How the network meets the data: a `Task` or its kind, "static" by default.
        normalization: Of inputs and targets; None has none and warns of data far from 1. That of a
            trained operator stays.
        folder: For checkpoints, history and the trained operator (see `pdno.load`); a run in it
            is continued. None keeps nothing.
        device: Where to train; None takes CUDA where there is one.
        save: Whether the errors are recorded and the operator is written to the folder.
        loss: What is made small; None is the relative error in H^s, s = settings.loss_order.
        callbacks: Called after every epoch with its row of the history and the operator.
        **changes: Settings by name, for example epochs=20.
    """
    own = [name for name in inspect.signature(fit).parameters if name != "changes"]
    refuse_unknown([*own, *TrainingSettings.model_fields], changes)
    chosen = (settings or TrainingSettings()).with_changes(**changes)
    dtype = torch.float64 if chosen.precision == "float64" else torch.float32
    path = None if folder is None else Path(folder)
    with process_group(device) as group, only_writer(path if group.is_rank_0 else None):
        samples = Samples(train, group.device, dtype)
        tests = None if test is None else Samples(test, group.device, dtype)
        usual = network.task if isinstance(network, TrainedOperator) else "static"
        examples = (how := make_task(task or usual)).examples(samples)
        operator, kind = _start(network, how, samples, normalization)
        move(operator, group.device, dtype)
        if tests is not None and operator.sampling is not None:
            operator.sampling.check(tests.batch([0])[0], tests.data.grids([0])[0])
        with _frozen(operator.network, chosen.frozen):
            loop = TrainingLoop(operator, samples, examples, tests, chosen, group, loss, callbacks)
            operator.training_record = loop.run(path, title, tensorboard, kind)
        if save:
            _record_errors(operator, samples, tests)
            if path is not None and group.is_rank_0:
                operator.save(path)
        group.barrier()  # every process may load it now
        return operator


def _start(
    network: object, task: Task, samples: Samples, kind: Normalization | None
) -> tuple[TrainedOperator, str]:
    if not isinstance(network, nn.Module):
        expected = "a torch module, for example pdno.PDNO(dim=1, in_channels=1, out_channels=1)"
        raise ValueError(f"the network is {network!r:.60}; expected {expected}")
    if isinstance(network, TrainedOperator):
        if kind is not None:
            raise ValueError("a trained operator keeps its normalisers: leave normalization out")
        record = network.training_record
        return network.continued(task, samples), record.normalization if record else "none"
    if kind is None:
        _warn_of_size(samples)
    return TrainedOperator.untrained(network, task, samples, kind or "none"), kind or "none"


@contextlib.contextmanager
def _frozen(network: nn.Module, parts: Sequence[str]) -> Iterator[None]:
    """Within this block some parts of a network have no gradients."""
    weights = {name: p for name, p in network.named_parameters() if p.requires_grad}
    frozen: dict[str, nn.Parameter] = {}
    for part in parts:
        inside = {n: p for n, p in weights.items() if f"{n}.".startswith(f"{part}.")}
        if not inside:
            check_choice("frozen", part, dict.fromkeys(n.split(".")[0] for n in weights))
        frozen |= inside
    if parts and len(frozen) == len(weights):
        raise ValueError("frozen has all parts of the network: leave one out, to be trained")
    chosen = nn.ParameterList(frozen.values())
    try:
        chosen.requires_grad_(False)
        yield
    finally:
        chosen.requires_grad_(True)


def _warn_of_size(samples: Samples) -> None:
    """Networks begin with outputs of size one, and reach data of another size slowly."""
    parts = samples.batch(range(min(len(samples), BATCH_SIZE)))
    for name, part in zip(("inputs", "targets"), parts, strict=True):
        size = float(part.double().square().mean().sqrt())
        if size > 0 and not 1 / FAR_FROM_ONE < size < FAR_FROM_ONE:  # and where it is not finite
            problem = f"the {name} have the size {size:.2g}, far from 1, and training may be slow"
            warnings.warn(f"{problem}: pass normalization='channel'", UserWarning, stacklevel=4)


def _record_errors(operator: TrainedOperator, samples: Samples, tests: Samples | None) -> None:
    """The errors after the last epoch, and the arrays of a sample; saving names them."""
    last, record = operator.history[-1], operator.training_record
    assert record is not None
    points = max(samples.data.grid.shape)
    metric = partial(
        Metric,
        experiment="operator",
        model=type(operator.network).__name__,
        resolution=points,
        seed=record.settings.seed,
        seconds=record.seconds,
        parameters=count_parameters(operator.network, complex_once=False),
        metadata=Metadata(
            dataset="own data",
            mode=operator.task.kind,
            samples=record.samples,
            epochs=last.epoch,
            training_resolution=points,
        ),
    )
    train = metric(split="training", metric="relative_l2 of the last epoch", value=last.train)
    operator.metrics = (train,)
    test = last.best if record.settings.keep == "best" else last.test
    if test is not None:
        operator.metrics += (metric(split="test", metric="relative_l2", value=test),)
    drawn = tests or samples
    prediction, target = next(predict_batches(operator, drawn, rows=[0]))
    error = relative_l2(*(drawn.data.weigh(field, [0]) for field in (prediction, target)))
    arrays = {"input": drawn.data.batch([0])[0], "target": target, "prediction": prediction}
    operator.sample_arrays = arrays | {"error": error}


@dataclass
class TrainingLoop:
    """All steps of a run."""

    operator: TrainedOperator
    samples: Samples
    examples: int
    tests: Samples | None
    settings: TrainingSettings
    group: ProcessGroup
    loss: Loss | None = None
    callbacks: Sequence[Callback] = ()

    def __post_init__(self) -> None:
        settings, operator, cuda = self.settings, self.operator, self.group.device.type == "cuda"
        if settings.precision == "bfloat16" and cuda and not torch.cuda.is_bf16_supported():
            raise ValueError("this device has no bfloat16: take precision='float32'")
        for name, value in (("patience", settings.patience), ("keep", settings.keep)):
            if value not in (None, "last") and self.tests is None:
                raise ValueError(f"{name}={value} needs test samples to measure")
        if self.loss is not None and settings.loss_order:
            order = f"{settings.loss_order:g}"
            raise ValueError(f"loss_order={order} and a loss: give loss=RelativeError({order})")
        batch = operator.task.batch
        self.batch = augmented(batch, self.samples) if settings.augment else batch
        self.steps_per_epoch = math.ceil(self.examples / settings.batch_size)
        self.optimiser = Optimiser(operator, settings)
        parallel = operator if self.group.size == 1 else DistributedDataParallel(operator)
        self.wrapped: nn.Module = parallel

    def run(
        self, folder: Path | None, title: str, tensorboard: bool, normalization: str
    ) -> TrainingRecord:
        """Take all steps that are left; what `folder` holds is continued."""
        group, settings, operator = self.group, self.settings, self.operator
        identity = {} if folder is None else self._identity()
        every = settings.checkpoint_seconds
        self.recorder = RunRecorder(folder, identity, group, every, tensorboard)
        self.state = state = self.recorder.resume(operator, self.optimiser)
        state.finished = self._is_over()  # its patience may be another one now
        if self.recorder.target is not None and not state.finished:
            run_folder.reopen(self.recorder.target)
        self.recorder.write_history(state)
        total = settings.epochs * self.steps_per_epoch
        devices = [group.device] if group.device.type == "cuda" else []
        with contextlib.ExitStack() as stack:
            self.signals = stack.enter_context(_stop_signals(listen=folder is not None))
            stack.enter_context(torch.random.fork_rng(devices=devices))
            advance: Advance = lambda amount, note=None: None  # noqa: E731
            if group.is_rank_0:
                advance = stack.enter_context(track(title, total=total, done=state.step))
            operator.train()
            stack.enter_context(self._explained_failures())
            while not state.finished:
                self._epoch(advance)
            self._save_and_stop(due=True, received=group.sum([len(self.signals)])[0])
        self.optimiser.finish()
        self.optimiser.finish(BEST)
        operator.eval()
        operator.history = state.history
        return TrainingRecord(
            samples=len(self.samples),
            normalization=normalization,
            settings=settings,
            seconds=state.seconds,
            cpu_seconds=state.cpu_seconds,
        )

    def _identity(self) -> Options:
        """What must not change when a run continues, as JSON."""
        return {
            **self.settings.model_dump(mode="json", exclude=MAY_CHANGE),
            "task": self.operator.task.model_dump(mode="json"),
            "examples": self.examples,
            "grid": str(self.samples.data.grid),
            "data": self.samples.digest(),
            **({} if self.loss is None else {"loss": self.loss.describe()}),
        }

    @contextlib.contextmanager
    def _explained_failures(self) -> Iterator[None]:
        """Raise a loss that is not finite, or too little memory, with a remedy."""
        try:
            yield
        except FloatingPointError as error:
            kept = f" The last good checkpoint is in {self.recorder.folder}."
            kept *= self.recorder.has_checkpoint
            cure = "Try a smaller learning_rate, clip=1.0 or float64; look for NaN in the data"
            raise TrainingStopped(f"{error}.{kept} {cure}", resumable=False) from error
        except (MemoryError, RuntimeError) as error:
            if not OUT_OF_MEMORY.search(f"{type(error).__name__} {error}"):
                raise
            batches = f"batches of {self.settings.batch_size} examples"
            wrong = f"not enough memory for step {self.state.step + 1} with {batches}"
            cure = "take a smaller batch_size or network, or Rollout(recompute=True)"
            raise TrainingStopped(f"{wrong}: {cure}", resumable=False) from error

    def _epoch(self, advance: Advance) -> None:
        # a checkpoint may lie between the last step of an epoch and its end
        epoch, size = len(self.state.history), self.settings.batch_size
        steps = self.steps_per_epoch
        first = self.state.step - epoch * steps
        order = epoch_order(self.examples, seed=self.settings.seed, epoch=epoch)
        for index in range(first, steps):
            self._step(epoch, order[index * size : (index + 1) * size])
            advance(int(index < steps - 1))
        row = self._end_epoch()
        name, error = ("train", row.train) if row.test is None else ("test", row.test)
        note = f"{name} error {error:.4g}"
        if self.state.finished and error > LARGE_ERROR:  # said once, at the end
            other = ", or take Markov() or OneShot()" * (self.operator.task.kind == "rollout")
            note += f" (predicting zero has 1: train longer{other})"
        advance(int(first < steps), note)

    def _step(self, epoch: int, indices: Sequence[int]) -> None:
        state = self.state
        with self._timed():
            mine = [*self._backward(epoch, indices), len(self.signals), self.recorder.is_due()]
            *sums, received, due = self.group.sum(mine)
            if not math.isfinite(sums[0]):
                raise FloatingPointError(f"the loss is not finite at step {state.step + 1}")
            rate = learning_rate(self.settings, state.step, self.steps_per_epoch)
            self.optimiser.step(rate, state.step)
            state.step += 1
            state.sums = [a + b for a, b in zip(state.sums, sums, strict=True)]
        self._save_and_stop(due=bool(due), received=received)

    def _backward(self, epoch: int, indices: Sequence[int]) -> list[float]:
        """The gradient of a batch; returns loss, error and examples of this process."""
        settings, group = self.settings, self.group
        # networks with dropout and the like: their noise is a function of the step, too
        torch.manual_seed((settings.seed * 1_000_003 + self.state.step) * 64 + group.rank)
        share = group.share(indices)
        # a process without a share of a small last batch still has to take part
        batch = self.batch(self.samples, share or indices[:1], seed=settings.seed, epoch=epoch)
        half = settings.precision == "bfloat16"
        with torch.autocast(group.device.type, dtype=torch.bfloat16, enabled=half):
            loss = self.loss or RelativeError(settings.loss_order)
            terms, errors = self.wrapped(batch, self.samples.data.grid, loss)
        weight = 1.0 if share else 0.0
        total: Tensor = terms.sum() * weight
        # gradients are averaged over the processes; the sum is wanted
        count = len(indices) * terms.shape[1] if settings.reduction == "mean" else 1
        self.operator.zero_grad()
        torch.autograd.backward(total * (group.size / count))
        if settings.clip is not None:
            nn.utils.clip_grad_norm_(self.operator.parameters(), settings.clip)
        return [float(total.detach()), float(errors.sum()) * weight, float(len(share))]

    def _end_epoch(self) -> EpochRow:
        state, settings, operator = self.state, self.settings, self.operator
        with self._timed():
            if not all(bool(weight.isfinite().all()) for weight in operator.parameters()):
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
            loss, train = state.sums[0] / state.sums[2], state.sums[1] / state.sums[2]
        row = EpochRow(epoch, state.step, rate, loss, train, test, state.best, state.seconds)
        state.history.append(row)
        state.sums = [0.0, 0.0, 0.0]
        state.finished = self._is_over()
        self.recorder.write_history(state)
        for callback in self.callbacks if self.group.is_rank_0 else ():
            callback(row, operator)
        return row

    @contextlib.contextmanager
    def _timed(self) -> Iterator[None]:
        clock, processor = time.monotonic(), time.process_time()
        yield
        self.state.seconds += time.monotonic() - clock
        self.state.cpu_seconds += time.process_time() - processor

    def _is_over(self) -> bool:
        epoch, patience = len(self.state.history), self.settings.patience
        impatient = patience is not None and epoch - self.state.best_epoch >= patience
        return epoch == self.settings.epochs or impatient

    def _test_error(self, tests: Samples) -> float:
        errors = torch.zeros(len(tests), dtype=torch.float64)
        waiting = iter(share := self.group.share(range(len(tests))))
        for pair in predict_batches(self.operator, tests, rows=share):
            rows = list(islice(waiting, len(pair[0])))
            errors[rows] = relative_l2(*(tests.data.weigh(field, rows) for field in pair)).double()
        return float(self.group.all_reduce(errors).mean())

    def _save_and_stop(self, *, due: bool, received: float) -> None:
        if due or received:
            self.recorder.save(self.state, self.operator, self.optimiser)
        if received:
            done = f"stopped after step {self.state.step}; the same command goes on from there"
            raise TrainingStopped(done, resumable=True)


@contextlib.contextmanager
def _stop_signals(*, listen: bool) -> Iterator[list[int]]:
    """Within this block SIGTERM and SIGINT only fill the list; the run ends after its step."""
    received: list[int] = []
    before = {}
    if listen and threading.current_thread() is threading.main_thread():  # no other gets signals
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, lambda number, _: received.append(number))
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class Ensemble:
    """v = 1/M Σ_m v_m of M operators, which predicts as one, and the spread of the v_m."""

    members: Sequence[TrainedOperator]

    def __post_init__(self) -> None:
        if len(self.members) < 2:
            raise ValueError(f"{len(self.members)} members: an ensemble has two or more")

    def predict(self, inputs: Tensor, **options: Any) -> Tensor:
        """The mean prediction; the arguments are those of `TrainedOperator.predict`."""
        return torch.stack([each.predict(inputs, **options) for each in self.members]).mean(dim=0)

    def spread(self, inputs: Tensor, **options: Any) -> Tensor:
        return torch.stack([each.predict(inputs, **options) for each in self.members]).std(dim=0)


def fit_ensemble(
    make: Callable[[], nn.Module],
    train: Pairs,
    test: Pairs | None = None,
    *,
    seeds: Sequence[int] = range(4),
    folder: Path | str | None = None,
    **options: Any,
) -> Ensemble:
    """Train a network of `make` for each seed, in folders seed-N; `options` are those of `fit`."""
    members = []
    for seed in seeds:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            network = make()
        path = None if folder is None else Path(folder) / f"seed-{seed}"
        members.append(fit(network, train, test, folder=path, seed=seed, **options))
    return Ensemble(members)
