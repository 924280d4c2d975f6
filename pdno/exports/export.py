"""Export: a trained operator as one file that runs without pdno, from raw inputs to outputs.

A file is written, read again, run on samples and compared with torch; one that differs by more
than `TOLERANCE` is not kept. Its model card lies beside it, as NAME.md.
"""

import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from pdno.evaluation.speed import time_alternately
from pdno.exports.frozen import FrozenPredictor, freeze, shrink
from pdno.files import run_folder
from pdno.files.atomic import atomic_path, write_text
from pdno.files.run_folder import verified_path, write_checksums
from pdno.interface.display import render
from pdno.interface.errors import check_choice, require
from pdno.spectral.calculus import interpolate, resample
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import read_tensors, write_tensors
from pdno.training.trained_operator import TrainedOperator

Format = Literal["onnx", "torch-export", "aoti", "safetensors"]
Predict = Callable[[Tensor], Tensor]
TOLERANCE = 1e-5  # relative difference in L2 from torch, of every sample
FORMATS: dict[Format, str] = {
    "onnx": ".onnx",  # ONNX Runtime, on any machine and in a browser
    "torch-export": ".pt2",  # a graph of torch.export
    "aoti": ".aoti.pt2",  # compiled by AOTInductor for this machine, for Python and C++
    "safetensors": ".safetensors",  # the tables and weights of the graph by name
}
"""How the names of files end."""
OPSET = 20
WAVES = 4  # of the samples that are drawn where none are given
BATCHES = (1, 20)


@dataclass(frozen=True)
class Exported:
    """An exported file: its difference from torch, and its inputs and outputs."""

    path: Path
    format: Format
    difference: float
    description: Mapping[str, object]
    run: Predict  #: by the file
    predict: Predict  #: by torch
    inputs: Tensor  #: that both were compared on

    def __str__(self) -> str:
        size = self.path.stat().st_size / 2**20
        difference = f"relative difference from torch {self.difference:.1e}"
        return f"{self.path}: {size:.1f} MiB, {difference} (limit {TOLERANCE:g})"

    def model_card(self, usage: str, folder: Path | None) -> str:
        """The model card of the file, followed by that of the operator in a folder, if any."""
        path = None if folder is None else verified_path(folder / run_folder.MODEL_CARD)
        operator = path.read_text(encoding="utf-8") if path and path.is_file() else ""
        return render(
            Path(__file__).with_name("model_card.md.jinja"),
            **{"file": self, "usage": usage, "most": TOLERANCE, "operator": operator},
            description=json.dumps(self.description, indent=2),
        )

    def speed(self) -> str:
        """Best milliseconds of a prediction by torch and by the file, which take turns."""
        lines, contenders = [], {"torch": self.predict, self.format: self.run}
        for size in BATCHES:
            batch = self.inputs[torch.arange(size) % len(self.inputs)].contiguous()
            best = time_alternately({name: partial(f, batch) for name, f in contenders.items()})
            both = ", ".join(f"{name} {1e3 * seconds:.2f} ms" for name, seconds in best.items())
            lines.append(f"batch of {size}: {both}")
        return "\n".join(lines)


def export(
    operator: TrainedOperator,
    out: Path | str,
    *,
    format: Format = "onnx",
    resolution: int | None = None,
    frames: int | None = None,
    pde_parameters: Mapping[str, float] | None = None,
    samples: tuple[Tensor, Grid] | None = None,
    card: Path | None = None,
) -> Exported:
    """Write a trained operator as a file of some format, run the file and compare it with torch.

    Shapes: (B, C, *N) -> (B, O, *N), or (B, T, O, *N) with frames; B is free, *N is not.

    Arguments:
        resolution: Points of the longest axis; those of the training by default.
        frames: T of a rollout as one graph. Without it the file is one step, from a window of
            frames to the next one. Operators with time give the first T times, by default all.
        pde_parameters: What an operator of a family needs, for example {"viscosity": 1e-3}.
        samples: Inputs (B, C, *N) to compare on, and their grid; smooth random ones by default.
        card: Folder of the operator, whose model card becomes part of that of the file.
    """
    check_choice("format", format, FORMATS)
    target, operator = Path(out), operator.fixed(pde_parameters)
    if not target.name.endswith(FORMATS[format]):
        raise ValueError(f"{target.name} is {format}: expected a name that ends {FORMATS[format]}")
    frozen = freeze(operator, resolution, frames)
    inputs, predict = _inputs(frozen, samples), partial(_predict, operator, frozen)
    description = {
        "inputs": ["batch", frozen.input_channels, *frozen.grid.shape],
        "outputs": ["batch", *frozen(inputs[:1]).shape[1:]],
        "task": frozen.task.kind,
        "times": frozen.times,
        "grid": asdict(frozen.grid),
        "pdno": version("pdno"),
        "pde_parameters": dict(pde_parameters or {}),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_path(target) as temporary, tempfile.TemporaryDirectory() as folder:
        path, (write, usage) = Path(folder) / target.name, WRITERS[format]
        run = write(frozen, inputs, path, json.dumps(description))
        difference = _compare(run, predict, inputs, format)
        temporary.write_bytes(path.read_bytes())
        # the checksums of an earlier file of this name no longer hold
        checksums = target.with_name(f"{target.name}.{run_folder.CHECKSUMS}")
        checksums.unlink(missing_ok=True)
        exported = Exported(target, format, difference, description, run, predict, inputs)
        text = exported.model_card(usage.format(target.name), card)
        write_text(target.with_name(f"{target.name}.md"), text)
    write_checksums(target.parent, [target.name, f"{target.name}.md"], record=checksums.name)
    return exported


def _inputs(frozen: FrozenPredictor, samples: tuple[Tensor, Grid] | None) -> Tensor:
    """Inputs on the grid of the file, of as many channels as it takes."""
    grid = frozen.grid
    if samples is None:
        shape = (2, frozen.input_channels, *[2 * WAVES] * grid.dim)
        waves = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        inputs = resample(waves, grid.shape)
        inputs = inputs if frozen.inputs is None else frozen.inputs.decode(inputs, grid)
    else:
        inputs, old = samples
        if old != grid:
            periodic = grid.periodic
            inputs = resample(inputs, grid.shape) if periodic else interpolate(inputs, old, grid)
    return inputs[:, -frozen.input_channels :].float().cpu().contiguous()


def _compare(run: Predict, predict: Predict, inputs: Tensor, format: Format) -> float:
    """The largest relative difference of a sample; ValueError where it is not small."""
    target, outputs = predict(inputs), run(inputs)
    if outputs.shape != target.shape or not bool(outputs.isfinite().all()):
        raise ValueError(f"the {format} file gives {tuple(outputs.shape)}, or no numbers")
    outputs, target = torch.cat([outputs, run(inputs[:1])]), torch.cat([target, target[:1]])
    errors = (outputs - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)
    if not errors.max() <= TOLERANCE:
        wrong = f"the {format} file differs from torch by {errors.max():.2e} > {TOLERANCE:g}"
        raise ValueError(f"{wrong} relative, was not kept: take fewer frames, or another format")
    return float(errors.max())


def _predict(operator: TrainedOperator, frozen: FrozenPredictor, inputs: Tensor) -> Tensor:
    """The prediction of the operator itself, not of the frozen one."""
    return frozen.frames(lambda times: operator.predict(inputs, grid=frozen.grid, times=times))


def _graph(frozen: nn.Module, inputs: Tensor) -> ExportedProgram:
    """The graph with a free batch; the example has two samples, for one would be a constant."""
    example = inputs[:2] if len(inputs) > 1 else torch.cat([inputs, inputs])
    with torch.no_grad():
        return torch.export.export(frozen, (example,), dynamic_shapes=({0: Dim("batch")},))


def _write_onnx(frozen: FrozenPredictor, inputs: Tensor, path: Path, header: str) -> Predict:
    runtime, _ = require("onnxruntime", "export"), require("onnxscript", "export")
    # the exporter reports packages that it would support, and deprecations inside itself
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _graph(shrink(frozen), inputs),
            input_names=["inputs"],
            output_names=["outputs"],
            dynamo=True,
            opset_version=OPSET,
            verbose=False,
            optimize=False,
        )
    assert program is not None
    program.model.metadata_props["pdno"] = header
    graph = program.model.graph
    for value in (*graph.inputs, *(output for node in graph for output in node.outputs)):
        if value.shape is not None:  # torch.export has a name of its own for a free batch
            sizes = [n if isinstance(n, int) else "batch" for n in value.shape]
            value.shape = type(value.shape)(sizes)
    program.save(str(path), external_data=False)
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"inputs": x.numpy()})[0])


def _write_graph(frozen: FrozenPredictor, inputs: Tensor, path: Path, header: str) -> Predict:
    torch.export.save(_graph(frozen, inputs), path, extra_files={"pdno.json": header})
    return torch.no_grad()(torch.export.load(path).module())


def _write_compiled(frozen: FrozenPredictor, inputs: Tensor, path: Path, header: str) -> Predict:
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    try:
        with warnings.catch_warnings():  # deprecations inside the compiler
            warnings.simplefilter("ignore")
            package = aoti_compile_and_package(_graph(frozen, inputs), package_path=str(path))
    except Exception as error:
        if "compiler" not in str(error).lower():
            raise
        wrong = f"AOTInductor found no C++ compiler ({error})"
        raise ValueError(f"{wrong}: install g++, or take --format onnx") from error
    model: Predict = aoti_load_package(package)
    return model


def _write_tables(frozen: FrozenPredictor, inputs: Tensor, path: Path, header: str) -> Predict:
    state = frozen.state_dict()
    names = {tensor.data_ptr(): name for name, tensor in state.items()}  # layers share tables
    write_tensors(path, {name: state[name] for name in names.values()}, {"pdno": header})
    frozen.load_state_dict(read_tensors(path, "cpu")[0], strict=False)
    return torch.no_grad()(frozen)


Writer = Callable[[FrozenPredictor, Tensor, Path, str], Predict]
WRITERS: dict[Format, tuple[Writer, str]] = {
    "onnx": (_write_onnx, 'onnxruntime.InferenceSession("{}").run(None, {{"inputs": inputs}})[0]'),
    "torch-export": (_write_graph, 'torch.export.load("{}").module()(inputs)'),
    "aoti": (_write_compiled, 'torch._inductor.aoti_load_package("{}")(inputs)'),
    "safetensors": (_write_tables, 'safetensors.numpy.load_file("{}")  # the tables'),
}
"""What writes a format, and how a program reads it."""
