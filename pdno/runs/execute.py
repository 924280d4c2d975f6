"""Run an experiment: data, training, evaluation, and the run folder."""

import contextlib
import itertools
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, replace
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
import yaml

from pdno.files import run_folder
from pdno.files.atomic import explained, only_writer, write_text
from pdno.files.metric_table import Metric, make_metrics, metrics_of_run
from pdno.files.run_folder import verified_path
from pdno.interface.arguments import describe
from pdno.interface.records import Options
from pdno.native import allocator_state
from pdno.native.build import status
from pdno.networks.neural_operator import count_parameters
from pdno.runs import specification
from pdno.runs.measure import measure
from pdno.runs.specification import Experiment, ExperimentData
from pdno.training.checkpoint import KEPT_THERE, differences
from pdno.training.distributed import ProcessGroup, process_group
from pdno.training.fit import fit
from pdno.training.operator_record import Sampling
from pdno.training.statistics import Normalization
from pdno.training.trained_operator import TrainedOperator


def run_experiment(
    experiment: Experiment,
    folder: Path | str,
    *,
    data: Path | str | None = None,
    device: torch.device | str | None = None,
    tensorboard: bool = False,
    wait: bool = False,
) -> list[Metric]:
    """Run an experiment, continue an interrupted one, or return the metrics of a finished one.

    Datasets lie in the folder `data`, or else in `data` beside the run folder. Raises if another
    process writes to the folder; with `wait`, blocks instead. What is finished needs no lock.
    """
    folder, digests = Path(folder), specification.data_digests(experiment)
    store = folder.parent / run_folder.DATA if data is None else Path(data)
    with process_group(device) as group, contextlib.ExitStack() as stack:
        if group.is_rank_0 and not _is_finished(folder, experiment, digests):
            stack.enter_context(only_writer(folder, wait=wait))
            if not _is_finished(folder, experiment, digests):  # by the process that held the lock
                _begin(experiment, folder, group, digests)
                if experiment.problem is not None:
                    specification.ensure_dataset(experiment.problem, store)
        group.barrier()
        if _is_finished(folder, experiment, digests):
            return metrics_of_run(folder)
        samples = specification.open_experiment_data(experiment, store)
        network, normalization = _start(experiment, samples)
        operator = fit(
            network,
            samples.train,
            samples.validation or samples.test,
            task=experiment.task,
            normalization=normalization,
            settings=experiment.training,
            folder=folder,
            device=group.device,
            tensorboard=tensorboard,
            title=f"{experiment.name}: {experiment.model}",
            save=False,
        )
        if group.is_rank_0:
            _measure_and_save(experiment, operator, samples, folder)
        group.barrier()
    return list(operator.metrics)


def _is_finished(folder: Path, experiment: Experiment, digests: Mapping[str, str]) -> bool:
    """Whether the folder holds this run, finished; ValueError where it holds another one."""
    path, finished = folder / run_folder.SPECIFICATION, run_folder.is_finished(folder)
    if not path.is_file() or not (finished or _has_checkpoint(folder)):
        return False
    earlier = specification.read_experiment(verified_path(path))
    if changes := differences(*(e.model_dump(mode="json") for e in (earlier, experiment))):
        wrong = f"{folder} holds a run with another specification ({', '.join(changes)})"
        raise ValueError(f"{wrong}: take another folder")
    trained = run_folder.read_values(folder / run_folder.ENVIRONMENT).get("data", {})
    if other := [name for name, digest in digests.items() if trained.get(name, digest) != digest]:
        wrong = f"{folder} holds a run on other data: {', '.join(other)} changed since it began"
        raise ValueError(f"{wrong}; bring the file back, or take another folder")
    return finished


def _has_checkpoint(folder: Path) -> bool:
    return any((folder / run_folder.CHECKPOINTS).glob("step-*.safetensors"))


def _begin(
    experiment: Experiment, folder: Path, group: ProcessGroup, digests: Mapping[str, str]
) -> None:
    """Write the specification and the environment, to which a run that continues adds its own."""
    run_folder.reopen(folder)
    more = {"commit": clone_commit(), "device": str(group.device), "processes": group.size}
    now: Options = {**describe_environment(), **more, "native": str(status())}
    now["data"] = dict(digests)
    path = folder / run_folder.ENVIRONMENT
    began = run_folder.read_values(path) if _has_checkpoint(folder) else now
    last = began | {k: v for part in began.get("continued", []) for k, v in part.items()}
    changes = {k: v for k, v in now.items() if k != "data" and last.get(k) != v}
    if changes:
        before, after = (", ".join(f"{k} {some.get(k)}" for k in changes) for some in (last, now))
        message = f"pdno: this run began with {before} and continues with {after}"
        print(f"{message}: its last digits may differ", file=sys.stderr)
        began.setdefault("continued", []).append(changes)
    write_text(path, json.dumps(began, indent=2) + "\n")
    write_text(folder / run_folder.SPECIFICATION, experiment.model_dump_json(indent=2) + "\n")


def _build_network(experiment: Experiment, samples: ExperimentData) -> torch.nn.Module:
    """PDE parameters are further input channels of a network whose symbols do not take them."""
    sampling, network = Sampling.of(samples.train), experiment.network
    inputs, outputs = sampling.input_channels, sampling.output_channels
    if (frames := getattr(experiment.task, "frames", None)) is not None:
        inputs = frames * outputs
    if not network.option("pde_parameters"):
        inputs += len(sampling.pde_parameters)
    return network.build(sampling.grid.dim, inputs, outputs, seed=experiment.seed)


def _start(
    experiment: Experiment, samples: ExperimentData
) -> tuple[torch.nn.Module, Normalization | None]:
    """What is trained, and its normalisation; None where the operator or own data decide it."""
    network, folder = _build_network(experiment, samples), experiment.start
    if folder is None:
        chosen = experiment.problem or "normalization" in experiment.model_fields_set
        return network, experiment.normalization if chosen else None
    operator = TrainedOperator.load(folder)
    record = operator.training_record
    if describe(operator.network) != describe(network):
        try:
            network.load_state_dict(operator.network.state_dict())
        except RuntimeError as error:
            wrong = f"start={folder} has a network of other weights"
            raise ValueError(f"{wrong}: leave network out") from error
        operator.network = network
    if record is not None and record.normalization != experiment.normalization:
        raise ValueError(f"start={folder} has its own normalisers: leave normalization out")
    return operator, None


def _measure_and_save(
    experiment: Experiment, operator: TrainedOperator, samples: ExperimentData, folder: Path
) -> None:
    """Metrics, sample arrays and weights; then the checkpoints are not needed any more."""
    measured, operator.sample_arrays = measure(experiment, operator, samples)
    commit = run_folder.read_values(folder / run_folder.ENVIRONMENT).get("commit") or ""
    common = {
        "experiment": experiment.name,
        "model": experiment.model,
        "seed": experiment.seed,
        "seconds": operator.history[-1].seconds,
        "parameters": count_parameters(operator.network, complex_once=False),
        "metadata": replace(experiment.metadata, commit=commit),
    }
    parts = [make_metrics(v, resolution=n, split=split, **common) for n, split, v in measured]
    operator.metrics = tuple(itertools.chain(*parts))
    with explained(folder, KEPT_THERE):
        operator.write(folder)
    shutil.rmtree(folder / run_folder.CHECKPOINTS, ignore_errors=True)


def describe_environment() -> dict[str, object]:
    """Versions and threads of this process."""
    return {
        "pdno": version("pdno"),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "machine": f"{platform.system()} {platform.machine()}",
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "allocator": allocator_state(),
    }


def describe_backends() -> dict[str, dict[str, object]]:
    """What can evaluate operators here, and why something cannot."""
    native, cuda = status(), torch.cuda.is_available()
    why = "no GPU that it can use" if torch.version.cuda else "this torch was built without CUDA"
    try:
        triton = {"available": True, "reason": f"triton {import_module('triton').__version__}"}
    except ImportError as problem:
        triton = {"available": False, "reason": str(problem)}
    return {
        "reference": {"available": True, "reason": f"torch {torch.__version__}"},
        "native": {**asdict(native), "path": native.path and str(native.path)},
        "triton": triton,
        "cuda": {"available": cuda, "reason": torch.cuda.get_device_name() if cuda else why},
    }


def show_environment(*, as_json: bool = False) -> str:
    """Environment and backends as text, for a reader or as JSON."""
    everything = {**describe_environment(), "backends": describe_backends()}
    text = json.dumps(everything, indent=2)
    return text if as_json else yaml.safe_dump(json.loads(text), sort_keys=False).rstrip()


def clone_commit() -> str | None:
    """The commit of the clone that this package is run from; None where it was installed."""
    root = Path(__file__).resolve().parents[2]
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=7"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # no git, or a foreign clone
        if (root / ".git").exists():
            text = subprocess.check_output(command, text=True, timeout=10, stderr=subprocess.PIPE)
            return text.strip() or None
    return None
