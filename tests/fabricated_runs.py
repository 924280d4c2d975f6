"""Fabricated run folders: the files of a finished run with numbers of our choice."""

import json
import math

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from pdno.evaluation.symbol_recovery import roughness
from pdno.files.metric_table import Metadata, Metric, write_metrics
from pdno.files.run_folder import WITH_CHECKSUMS, write_checksums
from pdno.paper.published import (
    BASELINES,
    CLASSICAL,
    ONE_SHOT,
    PDNO,
    PLAIN,
    RELU,
    TABLE_1,
    TABLE_2,
    TABLE_3,
    TABLE_6,
    Dataset,
)
from pdno.runs.run import find_runs

SYMBOL_NETWORK = {"symbol_layers": 2, "symbol_hidden": 8, "activation": "gelu", "modes": 3}
NETWORKS = {
    "pdno": {"kind": "pdno", "width": 4, "layers": 2, **SYMBOL_NETWORK},
    "pdio": {"kind": "pdio", "takes_time": False, **SYMBOL_NETWORK},
    "fno": {"kind": "fno", "width": 4, "modes": 3},
    "mwt": {"kind": "mwt", "width": 2, "modes": 3},
}
TRAINING = {
    "optimiser": "adam",
    "batch_size": 20,
    "learning_rate": 5e-3,
    "weight_decay": 1e-6,
    "schedule": "step",
    "step_size": 200,
    "step_factor": 0.5,
}
NAMES = {
    **{name: name for name in (ONE_SHOT, PLAIN, CLASSICAL, "MWT Chb", "FNO-3D", "FNO")},
    **{"PDIO a(x,ξ,t)": ONE_SHOT, "PDNO ReLU": RELU, "PDNO": PDNO, "MWT": "MWT Leg", "": ""},
}
"""The network by how the name of a model begins; the first that fits counts."""


def metadata_of(experiment, model, **training):
    """Metadata by names such as "navier-stokes nu=1e-05 T=20 N=200" and "PDNO k_max=4"."""
    named = dict(word.split("=", 1) for word in f"{experiment} {model}".split() if "=" in word)
    study, markov = experiment.split()[0], "Markov" in model
    viscosity = float(named["nu"]) if "nu" in named else None
    dataset = experiment
    if "T" in named:
        dataset = str(Dataset(viscosity, int(named["T"]), int(named["N"])))
    network = next(network for start, network in NAMES.items() if model.startswith(start))
    family, _, variant = network.partition(" ")
    swept = {"modes": named.get("k_max"), "width": named.get("width")}
    sweep = {k: math.inf if v == "all" else float(v) for k, v in swept.items() if v}
    mode = "markov" if markov else "rollout" if study.startswith("navier-stokes") else "static"
    of_paper = network not in ("", CLASSICAL) and not markov
    about = (study, dataset, viscosity, family, variant, mode, of_paper, sweep)
    return Metadata(*about, **training)


def write_run(
    out,
    name,
    model,
    *,
    metrics,
    resolution=32,
    seed=0,
    train=1000,
    epochs=1000,
    network=None,
    arrays=None,
    times=None,
    metadata=None,
    more_metrics=(),
):
    """A finished run; `metrics` are {split: {metric: value}} at the resolution of the training."""
    word = "".join(c if c.isalnum() else "-" for c in f"{name} {model}").lower()
    folder = out / f"{word}-{resolution}-{train}-{epochs}-seed{seed}"
    folder.mkdir(parents=True)
    about = metadata or metadata_of(name, model)
    size = {"samples": train, "epochs": epochs, "training_resolution": resolution}
    about = Metadata(**{**vars(about), **size})
    common = {"experiment": name, "model": model, "seed": seed, "seconds": 12.0 + seed}
    common |= {"metadata": about}
    symbols = sorted(key for key in arrays or {} if key.endswith(".real"))
    rough = {f"block {k}": roughness(tensor(arrays[key])) for k, key in enumerate(symbols, 1)}
    lines = [
        Metric(resolution=resolution, split=split, metric=metric, value=value, **common)
        for split, values in (metrics | {"roughness": rough}).items()
        for metric, value in values.items()
    ]
    lines += [
        Metric(resolution=points, split=split, metric="relative_l2", value=value, **common)
        for points, split, value in more_metrics
    ]
    write_metrics(folder / "metrics.csv", lines)
    write_history(folder, epochs)
    kind = (network or {}).get("kind", "pdno")
    specification = {
        "name": name,
        "model": model,
        "file": "data",
        "train": train,
        "test": 4,
        "resolution": resolution,
        "network": {**NETWORKS[kind], **(network or {})},
        "training": {**TRAINING, "epochs": epochs, "seed": seed},
    }
    (folder / "specification.json").write_text(json.dumps(specification))
    (folder / "environment.json").write_text('{"torch": "2", "device": "cpu", "threads": 1}')
    if arrays is not None:
        header = {"times": json.dumps(times)}
        kept = {k: np.ascontiguousarray(v, dtype=np.float32) for k, v in arrays.items()}
        save_file(kept, folder / "samples.safetensors", header)
    write_checksums(folder, WITH_CHECKSUMS)
    return folder


def write_history(folder, epochs):
    """Three epochs of a training."""
    history = ["epoch,step,learning_rate,loss,train,test,best,seconds"]
    history += [f"{e},{e},0.1,1.0,{2 / e},{3 / e},{3 / e},{e}" for e in (1, epochs // 2, epochs)]
    (folder / "history.csv").write_text("\n".join(history) + "\n")


def tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array))


def write_resources(out, lines, resolution=64):
    """A resource table; `lines` are {model: (memory, parameters, seconds per epoch)}."""
    folder = out / f"resources-{resolution}"
    folder.mkdir(parents=True)
    names = ("peak memory MB", "parameters, complex once", "seconds per epoch")
    common = {"experiment": "resources", "resolution": resolution, "seed": 0, "split": "train"}
    metrics = [
        Metric(model=m, metric=name, value=x, metadata=metadata_of("resources", m), **common)
        for m, values in lines.items()
        for name, x in zip(names, values, strict=True)
    ]
    write_metrics(folder / "metrics.csv", metrics)
    write_checksums(folder, WITH_CHECKSUMS)
    return folder


def read(*folders):
    """The results of some folders."""
    from pdno.paper.results import Results

    return Results.of(find_runs(folders), folders)


def errors(train, test):
    """The metrics of a run with these two errors."""
    return {"train": {"relative_l2": train}, "test": {"relative_l2": test}}


FLOW = "navier-stokes nu={:g} T={} N={}"


def write_paper(out):
    """The paper's own numbers as if they were runs of ours, at its budget."""

    def epochs(model):
        return 500 if model in BASELINES else 1000

    def write(name, model, both, **options):
        write_run(out, name, model, metrics=errors(*both), epochs=epochs(model), **options)

    for study, table in (("darcy", TABLE_1), ("burgers", TABLE_3)):
        for points, line in table.items():
            for model, (train, test) in line.items():
                write(study, model, (train or test, test), resolution=points)
    for dataset, line in TABLE_2.items():
        size = {"resolution": 64, "train": min(dataset.samples, 9800)}
        for model, (_, error) in line.items():
            write(FLOW.format(*dataset), model, (error, error), **size)
    write_resources(out, {f"{k[0]} k_max={k[1]} width={k[2]}": v for k, v in TABLE_6.items()})


@pytest.fixture
def make_run():
    return write_run


@pytest.fixture
def make_resources():
    return write_resources


@pytest.fixture(scope="session")
def paper_runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    write_paper(out)
    return out
