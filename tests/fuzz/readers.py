"""Files of every kind that the package reads, whole, and how each is read, to one digest.

Files of ours (`ours`) have to be what was written, to the bit, or are refused. Files of others
have no checksum in general: what they say is believed, as far as it can be.
"""

import contextlib
import hashlib
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import scipy.io
import torch
import yaml
from works import EXPERIMENT, generate, train

from pdno.data.array_files import read_arrays
from pdno.data.dataset import open_dataset
from pdno.data.problems import DataFile
from pdno.data.read import describe_data, read_own, read_published
from pdno.data.shards import MANIFEST, read_manifest
from pdno.data.well import open_well
from pdno.files.run_folder import CHECKSUMS, read_checksums
from pdno.files.tensor_file import read_tensor_file
from pdno.networks.published_weights import load_published
from pdno.runs.execute import run_experiment
from pdno.runs.run import find_runs, load, load_run, verify
from pdno.runs.specification import read_experiment
from pdno.training.checkpoint import load_checkpoint
from pdno.training.trained_operator import TrainedOperator


class Reader(NamedTuple):
    """A file under `place`, what reads it, whether it is ours and whether it is a text.

    What is `made` is damaged as if by hand, and gets a digest that agrees if it had one.
    """

    file: str
    read: Callable[[Path], Any]
    ours: bool = False
    text: bool = False
    made: bool = False


def digest(value):
    """One SHA-256 of anything that readers give."""
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()


def _feed(found, value):
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().resolve_conj().numpy()
    if isinstance(value, np.ndarray):
        found.update(
            f"{value.dtype}{value.shape}".encode() + np.ascontiguousarray(value).tobytes()
        )
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            _feed(found, (str(key), value[key]))
    elif isinstance(value, (list, tuple)):
        found.update(f"{len(value)}(".encode())
        for part in value:
            _feed(found, part)
    else:
        found.update(f"{type(value).__name__} {value!r};".encode("utf-8", "replace"))


# Readers


def dataset(place):
    """All samples, and what the manifest says of them."""
    folder = place / "dataset"
    data, manifest = open_dataset(folder), read_manifest(folder)
    return [*data.batch(), str(data.grid), data.times, manifest.model_dump(mode="json")]


def checkpoint(place):
    """The latest checkpoint; that it is not used is said, and counts as an error."""
    with contextlib.redirect_stderr(io.StringIO()) as told:
        found = load_checkpoint(place / "training" / "checkpoints")
    if found is None:
        raise ValueError(told.getvalue())
    return [found.tensors, found.state]


def operator(place):
    """What `pdno.load` and `load_run` give: weights, task, sampling, errors, numbers."""
    run = load_run(place / "run")
    model = run.operator
    facts = [model.task.model_dump(mode="json"), str(model.sampling), model.metrics]
    experiment = None if run.experiment is None else run.experiment.model_dump(mode="json")
    return [model.state_dict(), facts, experiment, [str(metric) for metric in run.metrics]]


def own_operator(place):
    """An operator without a specification."""
    model = load(place / "own")
    return [
        model.state_dict(),
        model.task.model_dump(mode="json"),
        str(model.sampling),
        model.metrics,
    ]


def reported(place):
    """What a report reads of a run folder, without a model."""
    (run,) = find_runs([place / "run"])
    arrays = {name: run.array(name) for name in run.array_names}
    experiment = None if run.experiment is None else run.experiment.model_dump(mode="json")
    metrics = [str(metric) for metric in run.metrics]
    return [arrays, run.times, metrics, [*map(str, run.history)], experiment, run.environment]


def bare_operator(place):
    """An operator without checksums: what operator.json says is believed, within limits."""
    return TrainedOperator.load(place / "bare").state_dict()


def checksums(place):
    """What `pdno verify` finds; a record names files beside it alone."""
    folder = place / "own"
    text, right = verify([folder])
    named = read_checksums(folder / CHECKSUMS) if right else {}
    outside = [name for name in named if (folder / name).resolve().parent != folder.resolve()]
    assert not outside and "passwd" not in text, text
    return [text, right]


def arrays(name):
    """All arrays of a file, and what is told of it."""

    def read(place):
        path = place / name
        describe_data(DataFile(path=path))
        return read_arrays(path)

    return read


def own(name, **layout):
    """A file as a dataset of one's own."""
    return lambda place: read_own(place / name, **layout).batch()


def published(place):
    found = read_published(place / "burgers.mat")
    return [found.kind, found.inputs, found.outputs, found.times]


def weights_of_others(place):
    return load_published(place / "published.pt", 8).state_dict()


def tensors(place):
    return read_tensor_file(place / "tensors.pt")


def well(place):
    return open_well(place / "well.h5").batch()


def specification(name):
    return lambda place: read_experiment(place / name).model_dump(mode="json")


READERS = {
    "manifest": Reader(f"dataset/{MANIFEST}", dataset, ours=True, text=True),
    "shard": Reader("dataset/shard-00000.h5", dataset, ours=True),
    "checkpoint": Reader("training/checkpoints/*.safetensors", checkpoint, ours=True),
    "weights": Reader("run/weights.safetensors", operator, ours=True),
    "operator.json": Reader("run/operator.json", operator, ours=True, text=True),
    "metrics.csv": Reader("run/metrics.csv", operator, ours=True, text=True),
    "specification in run": Reader("run/specification.json", operator, ours=True, text=True),
    "own weights": Reader("own/weights.safetensors", own_operator, ours=True),
    "own operator.json": Reader("own/operator.json", own_operator, ours=True, text=True),
    "own metrics.csv": Reader("own/metrics.csv", own_operator, ours=True, text=True),
    "operator.json alone": Reader("bare/operator.json", bare_operator, text=True, made=True),
    "checksums": Reader("own/checksums.json", checksums, text=True),
    "checksums made": Reader("own/checksums.json", checksums, text=True, made=True),
    "samples": Reader("run/samples.safetensors", reported, ours=True),
    "history.csv": Reader("run/history.csv", reported, ours=True, text=True),
    "metrics in report": Reader("run/metrics.csv", reported, ours=True, text=True),
    "environment.json": Reader("run/environment.json", reported, ours=True, text=True),
    "specification JSON": Reader("spec.json", specification("spec.json"), text=True),
    "specification YAML": Reader("spec.yaml", specification("spec.yaml"), text=True),
    ".npy": Reader("array.npy", arrays("array.npy")),
    ".npz": Reader("own.npz", own("own.npz", inputs=("a",), outputs=("u",))),
    ".npz packed": Reader("packed.npz", arrays("packed.npz")),
    ".mat v5": Reader("plain.mat", arrays("plain.mat")),
    ".mat v5 packed": Reader("packed.mat", own("packed.mat", inputs=("a",), outputs=("u",))),
    ".mat v7.3": Reader("new.mat", arrays("new.mat")),
    "published .mat": Reader("burgers.mat", published),
    "HDF5": Reader("own.h5", own("own.h5", inputs=("a",), outputs=("u",))),
    "The Well": Reader("well.h5", well),
    "torch file": Reader("tensors.pt", tensors),
    "published weights": Reader("published.pt", weights_of_others),
}


# Files


def write_all(place):
    """All files, whole; the same bytes each time where their format has no date."""
    place.mkdir(parents=True, exist_ok=True)
    generate(place / "dataset")
    run_experiment(EXPERIMENT, place / "run")
    train(place / "training")
    for older in sorted((place / "training" / "checkpoints").iterdir())[:-1]:
        older.unlink()
    train(None, epochs=1).save(place / "own")
    shutil.copytree(place / "own", place / "bare")
    (place / "bare" / CHECKSUMS).unlink()
    text = EXPERIMENT.model_dump_json(indent=1)
    (place / "spec.json").write_text(text, encoding="utf-8")
    (place / "spec.yaml").write_text(yaml.safe_dump(json.loads(text)), encoding="utf-8")
    _write_foreign(place)


def _write_foreign(place):
    rng = np.random.default_rng(0)
    a, u = rng.standard_normal((2, 3, 8))
    np.save(place / "array.npy", a)
    np.savez(place / "own.npz", a=a, u=u)
    np.savez_compressed(place / "packed.npz", a=np.zeros((3, 64)), u=u)
    scipy.io.savemat(place / "plain.mat", {"a": a, "u": u})
    scipy.io.savemat(place / "packed.mat", {"a": a, "u": u}, do_compression=True)
    scipy.io.savemat(place / "burgers.mat", {"a": a, "u": u})
    for name in ("plain.mat", "packed.mat", "burgers.mat"):  # a header of 116 bytes with a date
        data = (place / name).read_bytes()
        (place / name).write_bytes(b"MATLAB 5.0 MAT-file".ljust(116) + data[116:])
    with h5py.File(place / "new.mat", "w", userblock_size=512) as file:
        file["a"], file["u"] = a.T, u.T
    with open(place / "new.mat", "rb+") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")
    with h5py.File(place / "own.h5", "w") as file:
        file["a"] = a
        file.create_dataset("u", data=u, chunks=(1, 8), compression="gzip", fletcher32=True)
    shutil.copy(place / "dataset" / "shard-00000.h5", place / "well.h5")  # in The Well's layout
    torch.manual_seed(0)
    torch.save({"a": torch.randn(3, 4), "b": [torch.arange(5), {"c": 1.5}]}, place / "tensors.pt")
    torch.save(_published_state(), place / "published.pt")


def _published_state():
    """A small PDNO in two dimensions, by its published names."""
    sizes = {"fc0": (2, 3), "fc1": (128, 2), "fc2": (1, 128)}
    for layer in range(4):
        sizes[f"w{layer}"] = (2, 2, 1, 1)
        for part in ("net_real", "net_imag", "net_out"):
            name = f"conv{layer}.{part}"
            sizes |= {f"{name}.linear_in": (3, 2), f"{name}.linear_out": (4, 3)}
            sizes |= {f"{name}.hidden.{place}": (3, 3) for place in range(2)}
    state = {f"{name}.weight": torch.randn(size) / 10 for name, size in sizes.items()}
    return state | {f"{name}.bias": torch.zeros(size[0]) for name, size in sizes.items()}
