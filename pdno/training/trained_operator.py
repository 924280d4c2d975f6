"""Trained operators: a network with its normalisers and task.

Nothing in its folder is unpickled, and no code is imported by name: see `interface.arguments`.
"""

import contextlib
import copy
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor, nn

from pdno.data.dataset import OperatorDataset
from pdno.data.sources import as_tensor
from pdno.files import run_folder
from pdno.files.atomic import explained, only_writer, sha256, write_text
from pdno.files.metric_table import Metric, metrics_of_run, write_metrics
from pdno.files.run_folder import verified_path, write_checksums
from pdno.interface.arguments import describe
from pdno.interface.display import html_table, one_line
from pdno.interface.records import Options
from pdno.networks.neural_operator import NeuralOperator, count_parameters
from pdno.operators.pseudo_differential import CachedLayer, PseudoDifferentialOperator
from pdno.spectral.grid import Grid
from pdno.spectral.metrics import relative_l2
from pdno.spectral.points import Points
from pdno.training import checkpoint, operator_record, samples
from pdno.training.losses import Loss, RelativeError
from pdno.training.operator_record import OperatorRecord, SampleArrays, Sampling, TrainingRecord
from pdno.training.samples import BATCH_SIZE, Batch, Predictor, Samples
from pdno.training.statistics import ErrorBars, Kind, Normalization, Normalizer, ParameterScale
from pdno.training.task import NormalizedNetwork, StaticMap, Task, Times, count_seen, make_task

if TYPE_CHECKING:
    from pdno.figures.fields import Animation
    from pdno.figures.style import Figure

Array = np.ndarray
Fields = TypeVar("Fields", Tensor, Array)
PDEParameters = Mapping[str, float | Tensor | Sequence[float]] | Tensor | None
"""By name or as (B, P) numbers."""
NORMALISED: WeakSet[nn.Module] = WeakSet()
"""Networks inside normalisers: alone, they do not predict in the units of the data."""


class TrainedOperator(nn.Module):
    """decode ∘ network ∘ encode, applied by the task, in the units of the data.

    After a training it has `history`, `training_record` and `metrics`, calibrated error `bars`.
    """

    def __init__(
        self,
        network: nn.Module,
        task: Task | None = None,
        sampling: Sampling | None = None,
        *,
        inputs: Normalizer | None = None,
        outputs: Normalizer | None = None,
        pde_scale: ParameterScale | None = None,
    ) -> None:
        super().__init__()
        self.network, self.inputs, self.outputs = network, inputs, outputs
        self.pde_scale, self.task, self.sampling = pde_scale, task or StaticMap(), sampling
        self.bars: ErrorBars | None = None
        self.history, self.metrics = checkpoint.History(), tuple[Metric, ...]()
        self.training_record: TrainingRecord | None = None
        self.sample_arrays: SampleArrays = {}
        self._member: Tensor | None = None  # the PDE parameters of `fixed`, (1, P)
        self.task.check_head(getattr(network, "head", None))
        count, seen = 0 if pde_scale is None else len(pde_scale.low), count_seen(network)
        if seen not in (0, count):
            problem = f"the symbols see {seen} PDE parameters, the samples have {count}"
            raise ValueError(f"{problem}: build the network with pde_parameters={count}")
        if inputs is not None or outputs is not None:
            NORMALISED.add(network)

    @classmethod
    def untrained(
        cls, network: nn.Module, task: Task, samples: Samples, kind: Normalization = "none"
    ) -> "TrainedOperator":
        """The operator before its training, with normalisers fitted to the training samples."""
        # statistics need all samples in memory
        inputs, outputs = (None, None) if kind == "none" else task.normalizers(samples, kind)
        numbers = samples.pde_parameters(range(len(samples)))
        scale = None if numbers is None else ParameterScale(numbers.amin(0), numbers.amax(0))
        sampling = Sampling.of(samples.data)
        return cls(network, task, sampling, inputs=inputs, outputs=outputs, pde_scale=scale)

    def continued(self, task: Task, samples: Samples) -> "TrainedOperator":
        """A copy to be trained further: its weights, normalisers and task, on other samples."""
        before, now = self.trained_sampling, Sampling.of(samples.data)
        before.check(samples.batch([0])[0], now.grid)
        for name in ("input_channels", "output_channels", "pde_parameters"):
            if (old := getattr(before, name)) != (new := getattr(now, name)):
                wrong = f"these samples have {name.replace('_', ' ')} {new}"
                raise ValueError(f"{wrong}; expected {old}, as in the training of this operator")
        return TrainedOperator(
            copy.deepcopy(self.network),
            task,
            replace(now, input_names=before.input_names, output_names=before.output_names),
            inputs=self.inputs and self.inputs.moved(now.grid),
            outputs=self.outputs and self.outputs.moved(now.grid),
            pde_scale=copy.deepcopy(self.pde_scale),
        )

    @property
    def operators(self) -> list[PseudoDifferentialOperator]:
        """Its pseudo-differential layers, from the first to the last."""
        return [m for m in self.network.modules() if isinstance(m, PseudoDifferentialOperator)]

    def on(
        self,
        grid: Grid,
        pde_parameters: Tensor | None = None,
        output_grid: Grid | None = None,
    ) -> NormalizedNetwork:
        """The normalised network on a grid, at PDE parameters (B, P) in the units of the data."""
        pde_parameters = self._member if pde_parameters is None else pde_parameters
        scale = self.pde_scale
        if (pde_parameters is None) != (scale is None):
            trained = 0 if scale is None else len(scale.low)
            number = 0 if pde_parameters is None else pde_parameters.shape[-1]
            raise ValueError(f"{number} PDE parameters; the training had {trained}")
        return NormalizedNetwork(
            self.network,
            grid,
            self.inputs,
            self.outputs,
            channels=1 if self.sampling is None else self.sampling.output_channels,
            pde_parameters=None if scale is None else scale(pde_parameters),
            time_scale=self.task.time_scale,
            residual=getattr(self.task, "residual", False),
            output_grid=output_grid,
        )

    def forward(self, batch: Batch, grid: Grid, loss: Loss | None = None) -> tuple[Tensor, Tensor]:
        """Terms of the loss (B, K), relative L2 by default, and relative L2 errors (B,)."""
        where, output_grid = batch.grids or (grid, None)
        net = self.on(where, batch.pde_parameters, output_grid)
        output = self.task.forward(net, batch)
        output = output.to(batch.targets.dtype)  # autocast may have left it in half precision
        terms = (loss or RelativeError()).terms(net, batch, output)
        with torch.no_grad():
            pair = [net.target_grid.weigh(field) for field in (output, batch.targets)]
            return terms, relative_l2(*pair)

    def predict(
        self,
        inputs: Fields,
        *,
        grid: Grid | None = None,
        output_grid: Grid | None = None,
        times: Times = None,
        pde_parameters: PDEParameters = None,
        batch_size: int = BATCH_SIZE,
    ) -> Fields:
        """The prediction for inputs (B, C, *N) of any resolution: (B, C, *N), or (B, T, C, *N).

        Inputs are a tensor or a numpy array in the units of the data, and so is the prediction.
        Without a grid they are taken as the training samples were (see `Sampling`), without times
        frames come at those of the training. An operator of a family of equations needs
        `pde_parameters`: by name, for example {"viscosity": 1e-4}, one for all inputs or one for
        each, or as (B, P) numbers. The grid may be scattered `Points`, and the prediction may be
        wanted at the points of an `output_grid`, where nothing was measured.
        """
        f = as_tensor("inputs", inputs)
        if f.is_complex():
            raise ValueError(f"inputs are of type {f.dtype}; expected real numbers")
        f = f if f.is_floating_point() else f.to(torch.get_default_dtype())
        if self.sampling is not None:
            self.sampling.check(f, grid)
        if grid is None:
            grid, wanted = self.trained_sampling.grid_of(f), self.task.times_wanted
            if wanted == "in turn" or (wanted == "any" and times is None):
                times = self.trained_sampling.frames_at(times)
        numbers = self._numbers(pde_parameters, len(f))
        like = next((p for p in self.parameters() if p.is_floating_point()), f)
        parts = []
        with samples.evaluation_mode(self):
            for first in range(0, max(len(f), 1), batch_size):
                some = slice(first, first + batch_size)
                rows = range(len(f))[some]
                there = output_grid and output_grid.of_samples(rows)
                given = None if numbers is None else numbers[some].to(like)
                member = self.on(grid.of_samples(rows), given, there)
                parts.append(self.task.predict(member, f[some].to(like), times).to(f))
        prediction = torch.cat(parts) if len(parts) > 1 else parts[0]
        return prediction if isinstance(inputs, Tensor) else prediction.numpy()

    def freeze(self, grid: Grid | None = None, *, tolerance: float = 0.0) -> list[CachedLayer]:
        """Evaluate all symbols once, for inference on a grid, by default that of the training."""
        network, grid = self.network, grid or self.trained_sampling.grid
        if isinstance(network, PseudoDifferentialOperator):
            return [network.cache_values(grid, tolerance)]
        if not isinstance(network, NeuralOperator):
            raise ValueError(f"a {type(network).__name__} has no symbols to freeze")
        return network.freeze(grid, tolerance=tolerance)

    def fixed(self, pde_parameters: PDEParameters) -> "TrainedOperator":
        """This operator for one member of the family; itself where it is of none."""
        numbers = self._numbers(pde_parameters, 1)
        if numbers is None:
            return self
        member = copy.deepcopy(self)
        member._member = numbers.to(next(self.parameters()))
        return member

    def calibrate(self, data: OperatorDataset, coverage: float = 0.9) -> ErrorBars:
        """Error bars for a share `coverage` of samples to come, from samples it has never seen."""
        predictions, targets = zip(*samples.predict_batches(self, data), strict=True)
        self.bars = ErrorBars.fit(torch.cat(predictions), torch.cat(targets), data.grid, coverage)
        return self.bars

    def interval(
        self,
        inputs: Tensor,
        *,
        kind: Kind = "field",
        grid: Grid | None = None,
        times: Times = None,
        pde_parameters: PDEParameters = None,
    ) -> tuple[Tensor, Tensor]:
        """The lower and upper end of the error bars, for whole fields or for each point alone."""
        if self.bars is None:
            raise ValueError("no error bars yet: call calibrate(data) with samples never seen")
        middle = self.predict(inputs, grid=grid, times=times, pde_parameters=pde_parameters)
        where = grid or self.trained_sampling.grid_of(inputs)
        width = self.bars.band(where, kind).to(middle)
        return middle - width, middle + width

    def plot(self, data: OperatorDataset, index: int = 0) -> "Figure":
        """A figure of input, target, prediction and error of a sample, with error bars if any."""
        prediction, title = self._predict_sample(data, index)
        bars = self.bars
        band = None if bars is None else bars.band(data.grid).cpu().expand(prediction.shape)
        return data.plot(index, prediction, title=title, band=band)

    def animate(self, data: OperatorDataset, index: int = 0) -> "Animation":
        """The same as an animation in time: notebooks play it, `save` writes .gif or .html."""
        prediction, title = self._predict_sample(data, index)
        return data.animate(index, prediction, title=title)

    def _predict_sample(self, data: OperatorDataset, index: int) -> tuple[Tensor, str]:
        inputs, target = data[index]
        prediction = self.predict(inputs[None], **data.keyword_arguments([index]))[0]
        pair = (data.weigh(field[None], [index]) for field in (prediction, target))
        error = float(relative_l2(*pair))
        return prediction, f"sample {index}, relative L2 error {error:.3g}"

    def save(
        self, folder: Path | str, *, inputs: Sequence[str] = (), outputs: Sequence[str] = ()
    ) -> None:
        """Write the operator, its errors and a model card; `inputs`, `outputs` name channels."""
        folder = Path(folder)
        if (folder / run_folder.SPECIFICATION).is_file():
            raise ValueError(f"{folder} is the run folder of an experiment: take another one")
        if inputs or outputs:
            self.sampling = self.trained_sampling.named(inputs, outputs)
        name = folder.resolve().name.lstrip("=+-@\t")
        self.metrics = tuple(
            replace(metric, experiment=name, metadata=replace(metric.metadata, study=name))
            for metric in self.metrics
        )
        with only_writer(folder), explained(folder, checkpoint.KEPT_THERE):
            self.write(folder)

    def write(self, folder: Path) -> None:
        """Write all files of the operator; a folder that is not written to its end holds none."""
        sampling, record = self.trained_sampling, self.training_record
        if record is None:
            raise ValueError("this operator has no record of its training: train it by pdno.fit")
        run_folder.reopen(folder)
        self.history.write(folder)
        grid, times = sampling.grid, sampling.times
        arrays = self.sample_arrays
        if not any(name.startswith("symbol.") for name in arrays):
            arrays = arrays | operator_record.symbol_arrays(self.network, self.task, grid, times)
        names = [sampling.input_names, sampling.output_names]
        parts = {"grid": operator_record.plain_grid(grid), "times": times, "channels": names}
        header = {name: json.dumps(part) for name, part in parts.items()}
        single = {name: array.float() for name, array in arrays.items()}
        checkpoint.write_tensors(folder / run_folder.SAMPLES, single, header)
        write_metrics(folder / run_folder.METRICS, self.metrics)
        checkpoint.write_tensors(folder / run_folder.WEIGHTS, self.state_dict(), {})
        network: Options | None = None
        with contextlib.suppress(ValueError):  # one that does not record its arguments
            network = describe(self.network)
        versions = {"pdno": version("pdno"), "torch": torch.__version__}
        about = OperatorRecord(
            sha256=sha256(folder / run_folder.WEIGHTS),
            network=network,
            network_class=type(self.network).__name__,
            parameters=count_parameters(self.network, complex_once=False),
            dtype="float64" if record.settings.precision == "float64" else "float32",
            task=self.task.model_dump(mode="json"),
            sampling=sampling,
            training=record,
            versions=versions | {"python": platform.python_version()},
            coverage=None if self.bars is None else float(self.bars.coverage),
        )
        write_text(folder / run_folder.OPERATOR, about.model_dump_json(indent=2) + "\n")
        write_text(folder / run_folder.MODEL_CARD, operator_record.model_card(about, self.metrics))
        write_checksums(folder, run_folder.WITH_CHECKSUMS)

    @classmethod
    def load(
        cls,
        folder: Path | str,
        network: nn.Module | None = None,
        device: torch.device | str = "cpu",
    ) -> "TrainedOperator":
        """The operator of a folder; into `network`, where that does not record its arguments."""
        folder = Path(folder)
        record = operator_record.read_record(folder)
        weights = verified_path(folder / run_folder.WEIGHTS)
        if (state := run_folder.file_state(weights, record.sha256)) != "right":
            problem = "missing" if state == "missing" else "damaged, or of another operator"
            cure = "copy the whole folder again, or save it anew"
            raise ValueError(f"cannot read {weights}, which is {problem}: {cure}")
        tensors, _ = checkpoint.read_tensors(weights, device)
        grid, parts = record.sampling.grid, checkpoint.split_names(tensors)
        most = sum(tensor.numel() for tensor in parts["network"].values())
        normalizer = partial(Normalizer, grid=grid)
        kinds: Options = {"inputs": normalizer, "outputs": normalizer, "pde_scale": ParameterScale}
        try:
            operator = cls(
                record.build(folder, most) if network is None else network,
                make_task(record.task),
                record.sampling,
                **{name: make(**parts[name]) for name, make in kinds.items() if parts[name]},
            )
            operator.bars = ErrorBars(**parts["bars"], grid=grid) if parts["bars"] else None
            move(operator, device, getattr(torch, record.dtype))
            operator.load_state_dict(tensors)
        except (RuntimeError, TypeError) as problem:
            other = f"the weights of {folder} are of another {record.network_class} than this one"
            raise ValueError(f"{other}: {' '.join(str(problem).split())}") from problem
        operator.training_record = record.training
        operator.history = checkpoint.read_history(folder)
        operator.metrics = tuple(metrics_of_run(folder))
        return operator.eval()

    def _numbers(self, pde_parameters: PDEParameters, count: int) -> Tensor | None:
        """PDE parameters as (B, P) numbers, in the order of the training."""
        names = () if self.sampling is None else self.sampling.pde_parameters
        if pde_parameters is None:
            if names and self._member is None:
                cure = f'pde_parameters={{"{names[0]}": ...}}'
                raise ValueError(f"this operator is one of a family: give {cure}, by name")
            return None
        if isinstance(pde_parameters, Mapping):
            if set(pde_parameters) != set(names):
                listed = (", ".join(map(str, keys)) or "none" for keys in (pde_parameters, names))
                raise ValueError(f"pde_parameters {'; expected '.join(listed)}")
            values = [torch.as_tensor(pde_parameters[name], dtype=torch.float64) for name in names]
            pde_parameters = torch.stack([value.expand(count) for value in values], dim=1)
        numbers = torch.as_tensor(pde_parameters, dtype=torch.float64)
        if numbers.shape != (count, len(names)):
            expected = f"expected ({count}, {len(names)}) for {', '.join(names)}"
            raise ValueError(f"pde_parameters have shape {tuple(numbers.shape)}; {expected}")
        return numbers

    @property
    def trained_sampling(self) -> Sampling:
        """The sampling of its training; ValueError where it had none."""
        if self.sampling is None:
            raise ValueError("this network was not trained by pdno.fit: give a grid")
        return self.sampling

    def _facts(self) -> dict[str, str]:
        facts = {
            "network": type(self.network).__name__,
            "parameters": f"{count_parameters(self.network):,}",
            "task": self.task.kind,
            "normalisers": "none" if self.inputs is None and self.outputs is None else "yes",
        }
        if (sampling := self.sampling) is not None:
            kind = "periodic" if sampling.grid.periodic else "box"
            kind = "points" if isinstance(sampling.grid, Points) else kind
            facts["channels"] = f"{sampling.input_channels} -> {sampling.output_channels}"
            facts["trained on"] = f"{' x '.join(map(str, sampling.grid.shape))} {kind}"
        splits = ("train", "test", "validation")
        errors = [m for m in self.metrics if m.metric == "relative_l2" and m.split in splits]
        return facts | {f"error of {m.split} {m.resolution}": f"{m.value:.4g}" for m in errors}

    def __repr__(self) -> str:
        return one_line("TrainedOperator", self._facts())

    def _repr_html_(self) -> str:
        return html_table("TrainedOperator", self._facts())


def as_predictor(network: Predictor | nn.Module) -> Predictor:
    """A network from (B, C, *N) to (B, C, *N) as a predictor; predictors stay as they are."""
    name = type(network).__name__
    if isinstance(network, Predictor):
        return network
    if not isinstance(network, nn.Module):
        raise ValueError(f"a {name} does not predict; expected a network or one with `predict`")
    if network in NORMALISED:
        problem = f"this {name} was trained inside normalisers and does not predict alone"
        raise ValueError(f"{problem}: give the trained operator")
    return TrainedOperator(network)


def move(module: nn.Module, device: torch.device | str, dtype: torch.dtype) -> None:
    """As `module.to`, which makes complex weights real; here they stay complex."""

    def moved(tensor: Tensor) -> Tensor:
        if tensor.is_complex():
            return tensor.to(device, dtype.to_complex())
        return tensor.to(device, dtype if tensor.is_floating_point() else None)

    apply: Callable[..., nn.Module] = module._apply
    apply(moved)
