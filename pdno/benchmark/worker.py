"""One measurement in a process of its own: `python -m pdno.benchmark.worker TASK...`.

The allocator and the number of threads belong to a process, and so does its peak memory. The
result is one line of JSON on standard output.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from pdno.benchmark.contenders import JSON, MAIN, SETTINGS, Setting, build
from pdno.evaluation.speed import peak_growth, time_alternately
from pdno.native import tune_allocator
from pdno.networks.neural_operator import NeuralOperator, count_parameters, rollout
from pdno.spectral.grid import Grid


def time_long_enough(
    contenders: Mapping[str, Callable[[], object]],
    *,
    repeats: int,
    seconds: float,
    warm_up: bool = True,
) -> dict[str, float]:
    """Best seconds of each contender; they take turns, and the quick ones have more of them."""
    best = dict.fromkeys(contenders, float("inf"))
    spent = dict.fromkeys(contenders, 0.0)
    unfinished, turns = dict(contenders), 0
    while unfinished:
        taken = time_alternately(unfinished, repeats=1, warm_up=warm_up and turns == 0)
        turns += 1
        for name, time in taken.items():
            best[name] = min(best[name], time)
            spent[name] += time
            if turns >= repeats and spent[name] >= seconds:
                del unfinished[name]
    return best


def _train_step(network: nn.Module, predict: Callable[[], Tensor]) -> Callable[[], None]:
    def step() -> None:
        network.zero_grad(set_to_none=True)
        torch.autograd.backward(predict().square().mean())

    return step


def _freeze(networks: Mapping[str, nn.Module], setting: Setting) -> None:
    """Freeze the networks that can be frozen."""
    for network in networks.values():
        if isinstance(network, NeuralOperator):
            network.freeze(Grid(setting.shape))


def _time(setting_name: str, repeats: str, seconds: str, *names: str) -> JSON:
    """Seconds of a training step, a forward pass and a frozen forward pass."""
    setting = SETTINGS[setting_name]
    f = setting.inputs()
    networks = {name: build(name, setting) for name in names}
    calls = {name: partial(network, f) for name, network in networks.items()}
    steps = {name: _train_step(network, calls[name]) for name, network in networks.items()}
    forwards = {name: torch.no_grad()(call) for name, call in calls.items()}
    result = {"step": time_long_enough(steps, repeats=int(repeats), seconds=float(seconds))}
    for network in networks.values():
        network.zero_grad(set_to_none=True)
    fewer: JSON = {
        "repeats": min(int(repeats), 2),
        "seconds": float(seconds) / 2,
        "warm_up": False,
    }
    result["forward"] = time_long_enough(forwards, **fewer)
    _freeze(networks, setting)
    result["frozen"] = time_long_enough(forwards, **fewer)
    counts = {
        name: count_parameters(network, complex_once=False) for name, network in networks.items()
    }
    return {**result, "parameters": counts}


def _memory(setting_name: str, name: str, steps: str = "0", recompute: str = "") -> JSON:
    """Growth of the resident size during the first training step, of a rollout if it has steps.

    A tiny network of the same kind has loaded all libraries before, so that only the step
    itself counts: what it keeps for the backward pass, the gradients, and all it works with.
    """

    def step(size: Setting) -> Callable[[], None]:
        network, f = build(name, size), size.inputs()
        predict = partial(network, f)
        if int(steps):
            predict = partial(rollout, network, f, int(steps), recompute=recompute == "yes")
        return _train_step(network, predict)

    setting = SETTINGS[setting_name]
    few = None if setting.modes is None else 4
    step(replace(setting, shape=(16,) * len(setting.shape), modes=few, batch=1))()
    return {"bytes": peak_growth(step(setting))}


def _rollout(batch: str, steps: str, repeats: str, seconds: str, *names: str) -> JSON:
    """Seconds of a rollout without gradients from frozen networks, in the main setting."""
    setting = replace(SETTINGS[MAIN], batch=int(batch))
    window = setting.inputs()
    networks = {name: build(name, setting) for name in names}
    _freeze(networks, setting)
    runs = {
        name: torch.no_grad()(partial(rollout, network, window, int(steps)))
        for name, network in networks.items()
    }
    return {**time_long_enough(runs, repeats=int(repeats), seconds=float(seconds))}


def _scaling(repeats: str) -> JSON:
    """Seconds of a training step along five axes, one changed at a time."""
    names = ("PDNO a(x,xi)", "PDNO a(xi)", "PDNO low rank 2", "FNO")
    base = {"resolution": 32, "modes": 8, "width": 12, "batch": 8, "rollout steps": 1}
    axes = {
        "resolution": [16, 32, 64, 128],
        "modes": [4, 8, 12, 16],
        "width": [6, 12, 24, 36],
        "batch": [2, 4, 8, 16, 32],
        "rollout steps": [1, 2, 4, 8],
    }
    curves: dict[str, object] = {}
    for axis, values in axes.items():
        sizes = [{**base, axis: value}.values() for value in values]
        times = [_scaled_times(names, repeats, *chosen) for chosen in sizes]
        rows = {name: [time[name] for time in times] for name in names}
        curves[axis] = {"values": values, "seconds": rows}
    return {"base": base, "curves": curves}


def _scaled_times(names: tuple[str, ...], repeats: str, *sizes: int) -> dict[str, float]:
    resolution, modes, width, batch, frames = sizes
    setting = Setting((resolution,) * 2, modes, width=width, batch=batch, in_channels=10)
    f, steps = setting.inputs(), {}
    for name in names:
        network = build(name, setting)
        steps[name] = _train_step(network, partial(rollout, network, f, frames))
    return time_alternately(steps, repeats=int(repeats))


def measure(task: str, *arguments: str) -> JSON:
    """Run a task: "time", "memory", "rollout" or "scaling"."""
    tasks: dict[str, Callable[..., JSON]]
    tasks = {"time": _time, "memory": _memory, "rollout": _rollout, "scaling": _scaling}
    torch.manual_seed(0)
    return tasks[task](*arguments)


if __name__ == "__main__":
    tune_allocator()
    if os.environ.get("OMP_NUM_THREADS") == "1" and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    warnings.filterwarnings("ignore")  # of the other packages' imports
    print(json.dumps(measure(*sys.argv[1:])))
