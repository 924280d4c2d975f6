"""One measurement in a process of its own: `python -m pdno.experiments.bench.worker TASK...`.

The allocator and the number of threads belong to a process, and so does its peak memory. The
result is one line of JSON on standard output.
"""

__all__ = ["measure"]

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor, nn

from pdno.allocator import tune_allocator
from pdno.evaluation.speed import peak_growth, time_alternately
from pdno.experiments.bench.contenders import build
from pdno.experiments.bench.settings import MAIN, SETTINGS, Setting
from pdno.experiments.bench.timing import time_long_enough
from pdno.networks.neural_operator import NeuralOperator
from pdno.networks.rollout import rollout


def measure(task: str, *arguments: str) -> dict[str, object]:
    """Run a task: "time", "memory", "rollout", "rollout-memory" or "scaling"."""
    return _TASKS[task](*arguments)


def _train_step(network: nn.Module, f: Tensor) -> Callable[[], None]:
    def step() -> None:
        network.zero_grad(set_to_none=True)
        network(f).square().mean().backward()

    return step


def _forward(network: nn.Module, f: Tensor) -> Callable[[], None]:
    def run() -> None:
        with torch.no_grad():
            network(f)

    return run


def _time(setting_name: str, repeats: str, seconds: str, *names: str) -> dict[str, object]:
    """Seconds of a training step, a forward pass and a frozen forward pass."""
    torch.manual_seed(0)
    setting = SETTINGS[setting_name]
    f = setting.inputs()
    networks = {name: build(name, setting) for name in names}
    steps = {name: _train_step(network, f) for name, network in networks.items()}
    forwards = {name: _forward(network, f) for name, network in networks.items()}
    least, long = int(repeats), float(seconds)
    step_times = time_long_enough(steps, repeats=least, seconds=long)
    for network in networks.values():
        network.zero_grad(set_to_none=True)

    def time_forward() -> dict[str, float]:
        fewer = min(least, 2)  # the steps have warmed it up
        return time_long_enough(forwards, repeats=fewer, seconds=long / 2, warm_up=False)

    forward_times = time_forward()
    _freeze(networks, setting)
    frozen_times = time_forward()
    parameters = {
        name: sum(p.numel() * (2 if p.is_complex() else 1) for p in network.parameters())
        for name, network in networks.items()
    }
    return {
        "step": step_times,
        "forward": forward_times,
        "frozen": frozen_times,
        "parameters": parameters,
    }


def _freeze(networks: Mapping[str, nn.Module], setting: Setting) -> None:
    """Freeze the networks that can be frozen."""
    for network in networks.values():
        if isinstance(network, NeuralOperator):
            network.freeze(setting.grid)


def _memory(setting_name: str, name: str) -> dict[str, object]:
    """Growth of the resident size during the first training step of a network.

    A tiny network of the same kind has loaded all libraries before, so that only the step
    itself counts: what it keeps for the backward pass, the gradients, and all it works with.
    """
    torch.manual_seed(0)
    setting = SETTINGS[setting_name]
    tiny = setting.tiny()
    _train_step(build(name, tiny), tiny.inputs())()
    network, f = build(name, setting), setting.inputs()
    return {"bytes": peak_growth(_train_step(network, f))}


def _rollout(batch: str, steps: str, repeats: str, seconds: str, *names: str) -> dict[str, object]:
    """Seconds of a rollout without gradients from frozen networks, in the main setting."""
    torch.manual_seed(0)
    setting = replace(SETTINGS[MAIN], batch=int(batch))
    window = setting.inputs()
    networks = {name: build(name, setting) for name in names}
    _freeze(networks, setting)

    def run(network: nn.Module) -> Callable[[], None]:
        def predict() -> None:
            with torch.no_grad():
                rollout(network, window, int(steps))

        return predict

    runs = {name: run(network) for name, network in networks.items()}
    return {**time_long_enough(runs, repeats=int(repeats), seconds=float(seconds))}


def _rollout_memory(steps: str, recompute: str) -> dict[str, object]:
    """The same for a rollout of PDNO a(x,ξ) with gradients, in the main setting."""
    torch.manual_seed(0)
    setting = SETTINGS[MAIN]

    def run(network: nn.Module, f: Tensor) -> None:
        frames = rollout(network, f, int(steps), recompute=recompute == "yes")
        torch.autograd.backward(frames.square().mean())

    tiny = setting.tiny()
    run(build("PDNO a(x,xi)", tiny), tiny.inputs())
    network, f = build("PDNO a(x,xi)", setting), setting.inputs()
    return {"bytes": peak_growth(lambda: run(network, f))}


def _scaling(repeats: str) -> dict[str, object]:
    """Seconds of a training step along five axes, one changed at a time."""
    torch.manual_seed(0)
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
        rows: dict[str, list[float]] = {name: [] for name in names}
        for value in values:
            sizes = {**base, axis: value}
            times = time_alternately(_scaled_steps(names, sizes), repeats=int(repeats))
            for name in names:
                rows[name].append(times[name])
        curves[axis] = {"values": values, "seconds": rows}
    return {"base": base, "curves": curves}


def _scaled_steps(names: tuple[str, ...], sizes: dict[str, int]) -> dict[str, Callable[[], None]]:
    setting = Setting(
        (sizes["resolution"],) * 2, sizes["modes"], sizes["width"], sizes["batch"], in_channels=10
    )
    f = setting.inputs()

    def step(network: nn.Module) -> Callable[[], None]:
        def run() -> None:
            network.zero_grad(set_to_none=True)
            torch.autograd.backward(rollout(network, f, sizes["rollout steps"]).square().mean())

        return run

    return {name: step(build(name, setting)) for name in names}


_TASKS: dict[str, Callable[..., dict[str, object]]] = {
    "time": _time,
    "memory": _memory,
    "rollout": _rollout,
    "rollout-memory": _rollout_memory,
    "scaling": _scaling,
}


if __name__ == "__main__":
    tune_allocator()
    warnings.filterwarnings("ignore")  # of the other packages' imports
    print(json.dumps(measure(*sys.argv[1:])))
