"""Fabricated run folders: the files of a finished run with numbers of our choice."""

import json
from dataclasses import replace

import numpy as np
from safetensors.numpy import save_file

from pdno.files.checksums import write_checksums
from pdno.files.metric_table import Metric, write_metrics
from pdno.files.run_folder import WITH_CHECKSUMS
from pdno.report.runs import old_facts

NETWORK = {
    "kind": "pdno",
    "width": 4,
    "layers": 2,
    "symbol_layers": 2,
    "symbol_hidden": 8,
    "activation": "gelu",
    "modes": 3,
    "depends_on_x": True,
    "takes_time": False,
}
TRAINING = {
    "batch_size": 20,
    "learning_rate": 5e-3,
    "weight_decay": 1e-6,
    "schedule": "step",
    "step_size": 200,
    "step_factor": 0.5,
}


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
    pictures=None,
    times=None,
    problem=None,
    more_rows=(),
):
    """A finished run; `metrics` are {split: {metric: value}} at the resolution of the training."""
    word = "".join(c if c.isalnum() else "-" for c in f"{name} {model}").lower()
    folder = out / f"{word}-{resolution}-{train}-{epochs}-seed{seed}"
    folder.mkdir(parents=True)
    specification = {
        "name": name,
        "model": model,
        "problem": problem,
        "train": train,
        "test": 4,
        "resolution": resolution,
        "task": {"kind": task_of(name, model)},
        "network": {**NETWORK, **(network or {})},
        "training": {**TRAINING, "epochs": epochs, "seed": seed},
    }
    common = {"experiment": name, "model": model, "seed": seed, "seconds": 12.0 + seed}
    rows = [
        Metric(resolution=resolution, split=split, metric=metric, value=value, **common)
        for split, values in metrics.items()
        for metric, value in values.items()
    ]
    rows += [
        Metric(resolution=points, split=split, metric="relative_l2", value=value, **common)
        for points, split, value in more_rows
    ]
    write_metrics(folder / "metrics.csv", with_facts(rows, specification))
    history = ["epoch,step,learning_rate,loss,train,test,best,seconds"]
    history += [f"{e},{e},0.1,1.0,{2 / e},{3 / e},{3 / e},{e}" for e in (1, epochs // 2, epochs)]
    (folder / "history.csv").write_text("\n".join(history) + "\n")
    (folder / "specification.json").write_text(json.dumps(specification))
    (folder / "environment.json").write_text('{"torch": "2", "device": "cpu", "threads": 1}')
    if pictures is not None:
        header = {"times": json.dumps(times)}
        arrays = {k: np.ascontiguousarray(v, dtype=np.float32) for k, v in pictures.items()}
        save_file(arrays, folder / "samples.safetensors", header)
    finish(folder)
    return folder


def finish(folder):
    """Record the checksums of a folder, also of one whose files were changed on purpose."""
    write_checksums(folder, WITH_CHECKSUMS)


def write_resources(out, lines, resolution=64):
    """A resource table; `lines` are {model: (memory, parameters, seconds per epoch)}."""
    folder = out / f"resources-{resolution}"
    folder.mkdir(parents=True)
    names = ("peak memory MB", "parameters, complex once", "seconds per epoch")
    common = {"experiment": "resources", "resolution": resolution, "seed": 0, "split": "train"}
    rows = [
        Metric(model=model, metric=name, value=value, **common)
        for model, values in lines.items()
        for name, value in zip(names, values, strict=True)
    ]
    write_metrics(folder / "metrics.csv", with_facts(rows, {}))
    finish(folder)
    return folder


def task_of(name, model):
    """How a run of this name was trained."""
    if not name.startswith("navier-stokes"):
        return "static"
    return "markov" if "Markov" in model else "rollout"


def with_facts(rows, specification):
    """The rows with the facts that their names tell."""
    return [replace(row, metadata=old_facts(row, specification)) for row in rows]


def errors(train, test):
    """The metrics of a run with these two errors."""
    return {"train": {"relative_l2": train}, "test": {"relative_l2": test}}


FLOW = "navier-stokes nu={:g} T={} N={}"


def write_paper(out):
    """The paper's own numbers as if they were runs of ours, at its budget."""
    from pdno.paper.published import BASELINES, TABLE_1, TABLE_2, TABLE_3, TABLE_6

    def epochs(model):
        return 500 if model in BASELINES else 1000

    for points, line in TABLE_1.items():
        for model, both in line.items():
            write_run(
                out, "darcy", model, metrics=errors(*both), resolution=points, epochs=epochs(model)
            )
    for points, errors_of in TABLE_3.items():
        for model, error in errors_of.items():
            metrics = errors(error, error)
            write_run(
                out, "burgers", model, metrics=metrics, resolution=points, epochs=epochs(model)
            )
    for dataset, errors_of in TABLE_2.items():
        for model, error in errors_of.items():
            write_run(
                out,
                FLOW.format(*dataset),
                model,
                metrics=errors(error, error),
                resolution=64,
                train=min(dataset.samples, 9800),
                epochs=epochs(model),
                problem={"name": "navier-stokes", "viscosity": dataset.viscosity},
            )
    write_resources(out, {f"{k[0]} k_max={k[1]} width={k[2]}": v for k, v in TABLE_6.items()})
