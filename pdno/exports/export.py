"""Export: a trained operator as one file that maps raw inputs to raw outputs, without pdno.

    onnx          ONNX Runtime, on any machine and in a browser
    torch-export  a graph of torch.export, for torch.export.load
    aoti          compiled by AOTInductor for this machine, for Python and C++ (libtorch)
    safetensors   the tables and weights of the graph by name, for programs of your own

A file is written, read again, run on samples and compared with torch; one that differs by more
than `TOLERANCE` is not kept. Its model card lies beside it, as NAME.md.
"""

__all__ = ["FORMATS", "TOLERANCE", "Exported", "Format", "export"]

import importlib
import json
import logging
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor
from torch.export import Dim, ExportedProgram

from pdno.exports.frozen import FrozenPredictor, freeze
from pdno.files import run_folder
from pdno.files.atomic import atomic_path, write_text
from pdno.files.checksums import verified_path, write_checksums
from pdno.spectral.calculus import interpolate, resample
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import read_tensors, write_tensors
from pdno.training.trained_operator import TrainedOperator

Format = Literal["onnx", "torch-export", "aoti", "safetensors"]
Run = Callable[[Tensor], Tensor]
TOLERANCE = 1e-5  # relative difference in L2 from torch, of every sample
FORMATS: dict[Format, str] = {
    "onnx": ".onnx",
    "torch-export": ".pt2",
    "aoti": ".aoti.pt2",
    "safetensors": ".safetensors",
}
"""By what their files end."""
OPSET = 20
WAVES = 4  # of the samples that are drawn where none are given
BATCHES = (1, 20)
REPEATS = 5


@dataclass(frozen=True)
class Exported:
    """A file that was written: how much it differs from torch, and what it takes and gives."""

    path: Path
    format: Format
    difference: float
    description: dict[str, Any]
    run: Run  #: by the file
    predict: Run  #: by torch
    inputs: Tensor  #: that both were given

    def __str__(self) -> str:
        size = self.path.stat().st_size / 2**20
        told = f"{size:.1f} MiB, relative difference from torch {self.difference:.1e}"
        return f"{self.path}: {told} (at most {TOLERANCE:g} is kept)"

    def speed(self) -> str:
        """Best milliseconds of a prediction by torch and by the file, which take turns."""
        lines = []
        for size in BATCHES:
            batch = self.inputs[torch.arange(size) % len(self.inputs)].contiguous()
            best = [float("inf"), float("inf")]
            for turn in range(REPEATS + 1):  # the first warms up
                for place, predict in enumerate((self.predict, self.run)):
                    start = time.perf_counter()
                    predict(batch)
                    seconds = time.perf_counter() - start
                    best[place] = min(best[place], seconds if turn else best[place])
            both = f"torch {1e3 * best[0]:.2f} ms, {self.format} {1e3 * best[1]:.2f} ms"
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
        operator: What `pdno.load` returns.
        resolution: Points of the longest axis; those of the training by default.
        frames: T of a rollout as one graph. Without it the file is one step, from a window of
            frames to the next one, and the loop is yours. Operators with time give the first T of
            the times of their training, by default all.
        pde_parameters: Numbers of the equation by name, which an operator of a family needs and the file
            fixes, for example {"viscosity": 1e-3}.
        samples: Inputs (B, C, *N) to compare on, and their grid; smooth random ones by default.
        card: Folder of the operator, whose model card becomes part of that of the file.
    """
    if format not in FORMATS:
        raise ValueError(f"format {format!r}; expected one of {', '.join(FORMATS)}")
    target = Path(out)
    if not target.name.endswith(FORMATS[format]):
        raise ValueError(f"{target.name} is {format}: expected a name that ends {FORMATS[format]}")
    operator = operator.fixed(pde_parameters)
    frozen = freeze(operator, resolution, _times(operator, frames))
    inputs = _inputs(operator, frozen, samples)
    target.parent.mkdir(parents=True, exist_ok=True)
    description, predict = describe(frozen), partial(_predict, operator, frozen)
    if pde_parameters:
        description["pde_parameters"] = dict(pde_parameters)
    with atomic_path(target) as temporary, tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / target.name
        run = WRITERS[format](frozen, inputs, made, description)
        difference = _compare(run, predict, inputs, format)
        temporary.write_bytes(made.read_bytes())
        told = _card(target.name, format, description, difference, card)
        # what the folder knows of another file of this name is no longer true
        target.with_name(f"{target.name}.{run_folder.CHECKSUMS}").unlink(missing_ok=True)
        write_text(target.with_name(f"{target.name}.md"), told)
    names = [target.name, f"{target.name}.md"]
    write_checksums(target.parent, names, record=f"{target.name}.{run_folder.CHECKSUMS}")
    return Exported(target, format, difference, description, run, predict, inputs)


def describe(frozen: FrozenPredictor) -> dict[str, Any]:
    """What goes in and what comes out, as plain JSON."""
    space, times = list(frozen.grid.shape), frozen.times
    frames = [] if times is None else [len(times)]
    return {
        "inputs": ["batch", frozen.input_channels, *space],
        "outputs": ["batch", *frames, frozen.output_channels, *space],
        "task": frozen.task.kind,
        "times": None if times is None else list(times),
        "periodic": frozen.grid.periodic,
        "offset": frozen.grid.offset,
        "pdno": version("pdno"),
    }


def _times(learner: TrainedOperator, frames: int | None) -> Sequence[float] | None:
    """The times of the wanted frames."""
    if frames is None or learner.sampling is None:
        return None
    known, step = learner.sampling.times, learner.sampling.step
    if frames < 1 or learner.task.times_wanted == "none" or known is None or step is None:
        wanted = "an operator that predicts frames, and at least one of them"
        raise ValueError(f"frames is {frames}; expected {wanted}: leave it out")
    if frames > len(known) and learner.task.times_wanted == "any":
        raise ValueError(f"frames is {frames}; the training had {len(known)} times: ask for those")
    return [*known, *(known[-1] + step * k for k in range(1, frames + 1))][:frames]


def _inputs(
    learner: TrainedOperator, frozen: FrozenPredictor, samples: tuple[Tensor, Grid] | None
) -> Tensor:
    """Inputs on the grid of the file, of as many channels as it takes."""
    grid, normalizer = frozen.grid, learner.inputs
    assert learner.sampling is not None
    if samples is None:
        generator = torch.Generator().manual_seed(0)
        coarse = (2, learner.sampling.input_channels, *[2 * WAVES] * grid.dim)
        smooth = resample(torch.randn(coarse, generator=generator), grid.shape)
        like = next(learner.parameters())
        smooth = smooth.to(like)
        given = smooth if normalizer is None else normalizer.decode(smooth, grid)
    else:
        given, old = samples
        if old != grid:
            given = resample(given, grid.shape) if grid.periodic else interpolate(given, old, grid)
    return given[:, -frozen.input_channels :].float().cpu().contiguous()


def _compare(run: Run, predict: Run, inputs: Tensor, format: Format) -> float:
    """The largest relative difference of a sample; ValueError where it is not small."""
    expected, worst = predict(inputs), 0.0
    for batch in (inputs, inputs[:1]):
        found = run(batch)
        wanted = expected[: len(batch)]
        if found.shape != wanted.shape or not bool(found.isfinite().all()):
            raise ValueError(f"the {format} file gives {tuple(found.shape)}, or no numbers")
        difference = (found - wanted).flatten(1).norm(dim=1) / wanted.flatten(1).norm(dim=1)
        worst = max(worst, float(difference.max()))
    if not worst <= TOLERANCE:
        raise ValueError(
            f"the {format} file differs from torch by {worst:.2e}, more than {TOLERANCE:g} "
            "relative, and was not kept: ask for fewer frames, or for another format"
        )
    return worst


def _predict(learner: TrainedOperator, frozen: FrozenPredictor, inputs: Tensor) -> Tensor:
    """What torch says: the operator itself, not what was frozen of it."""
    one_step = frozen.times is None and learner.task.times_wanted == "in turn"
    times = [0.0] if one_step else frozen.times
    prediction = learner.predict(inputs, grid=frozen.grid, times=times).float().cpu()
    return prediction[:, 0] if one_step else prediction


def _graph(frozen: FrozenPredictor, inputs: Tensor) -> ExportedProgram:
    """The graph with a free batch; the example has two samples, for one would be a constant."""
    example = inputs[:2] if len(inputs) > 1 else inputs.repeat(2, *[1] * (inputs.dim() - 1))
    with torch.no_grad():
        return torch.export.export(frozen, (example,), dynamic_shapes=({0: Dim("batch")},))


def _write_onnx(
    frozen: FrozenPredictor, inputs: Tensor, path: Path, description: dict[str, Any]
) -> Run:
    runtime = _need("onnxruntime")
    _need("onnxscript")
    options: Any = {"input_names": ["inputs"], "output_names": ["outputs"]}
    # what it says is of its own making: packages that it would know, and names to come
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            _graph(frozen, inputs),
            dynamo=True,
            opset_version=OPSET,
            verbose=False,
            optimize=False,
            **options,
        )
    assert program is not None
    program.model.metadata_props["pdno"] = json.dumps(description)
    program.save(str(path), external_data=False)
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = torch.get_num_threads()
    session = runtime.InferenceSession(str(path), settings, providers=["CPUExecutionProvider"])
    return lambda x: torch.from_numpy(session.run(None, {"inputs": x.numpy()})[0])


def _write_graph(
    frozen: FrozenPredictor, inputs: Tensor, path: Path, description: dict[str, Any]
) -> Run:
    extra = {"pdno.json": json.dumps(description)}
    torch.export.save(_graph(frozen, inputs), path, extra_files=extra)
    module = torch.export.load(path).module()

    def run(x: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = module(x)
            return found

    return run


def _write_compiled(
    frozen: FrozenPredictor, inputs: Tensor, path: Path, description: dict[str, Any]
) -> Run:
    from torch._inductor import aoti_compile_and_package, aoti_load_package

    try:
        with warnings.catch_warnings():  # about its own future
            warnings.simplefilter("ignore")
            graph = _graph(frozen, inputs)
            made = aoti_compile_and_package(graph, package_path=str(path))
    except Exception as problem:
        if "compiler" not in str(problem).lower():
            raise
        raise ValueError(
            f"AOTInductor found no C++ compiler ({problem}): install g++, or take --format onnx"
        ) from problem
    model: Any = aoti_load_package(made)
    run: Run = model
    return run


def _write_tables(
    frozen: FrozenPredictor, inputs: Tensor, path: Path, description: dict[str, Any]
) -> Run:
    places = {tensor.data_ptr(): name for name, tensor in frozen.state_dict().items()}
    once = {name: frozen.state_dict()[name] for name in places.values()}  # layers share tables
    write_tensors(path, once, {"pdno": json.dumps(description)})
    tensors, _ = read_tensors(path, "cpu")
    frozen.load_state_dict(tensors, strict=False)

    def run(x: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = frozen(x)
            return found

    return run


Writer = Callable[[FrozenPredictor, Tensor, Path, dict[str, Any]], Run]
WRITERS: dict[Format, Writer] = {
    "onnx": _write_onnx,
    "torch-export": _write_graph,
    "aoti": _write_compiled,
    "safetensors": _write_tables,
}


def _need(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as problem:
        raise ValueError(
            f"ONNX files need the package {module}: pip install 'pdno[export]'"
        ) from problem


HOW: dict[Format, str] = {
    "onnx": """import onnxruntime
session = onnxruntime.InferenceSession("{name}")
outputs = session.run(None, {{"inputs": inputs}})[0]""",
    "torch-export": """import torch
outputs = torch.export.load("{name}").module()(inputs)""",
    "aoti": """import torch
outputs = torch._inductor.aoti_load_package("{name}")(inputs)""",
    "safetensors": """import safetensors.numpy
tables = safetensors.numpy.load_file("{name}")""",
}
LOOP = (
    "\nOne step: `outputs` is the frame after those of `inputs`. For more, drop the oldest frame "
    "of `inputs`, append `outputs`, and go on.\n"
)


def _card(
    name: str, format: Format, description: dict[str, Any], difference: float, home: Path | None
) -> str:
    """The model card of the file, followed by that of the operator where it has one."""
    used = HOW[format].format(name=name)
    one_step = description["times"] is None and description["task"] != "static"
    text = (
        f"# {name}\n\nA trained operator as {format}, written by pdno {description['pdno']}. Raw "
        "inputs to raw outputs in the units of the data, float32; normalisers and coordinates are "
        f"inside. The batch is free, the grid is not.\n\n```python\n{used}\n```\n"
        f"{LOOP if one_step else ''}\n```json\n{json.dumps(description, indent=2)}\n```\n\n"
        f"Run after it was written: it differs from torch by {difference:.1e} relative in L2 at "
        f"most; more than {TOLERANCE:g} would not have been kept.\n"
    )
    path = None if home is None else verified_path(home / run_folder.MODEL_CARD)
    if path is None or not path.is_file():
        return text
    return f"{text}\n## The operator\n\n{path.read_text(encoding='utf-8').replace('# ', '## ')}"
