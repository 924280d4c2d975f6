"""One measurement in a process of its own: `python -m pdno.experiments.bench.worker TASK...`.

The allocator and the number of threads belong to a process, and so does its peak memory. The
result is one line of JSON on standard output.
"""

__all__ = ["measure", "time_long_enough"]

import json
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor, nn

from pdno.allocator import tune_allocator
from pdno.evaluation.speed import peak_growth, time_alternately
from pdno.experiments.bench.contenders import MAIN, SETTINGS, Setting, build
from pdno.networks.neural_operator import NeuralOperator
from pdno.networks.rollout import rollout


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


def _time(setting_name: str, repeats: str, seconds: str, *names: str) -> dict[str, object]:
    """Seconds of a training step, a forward pass and a frozen forward pass."""
    torch.manual_seed(0)
    setting = SETTINGS[setting_name]
    f = setting.inputs()
    networks = {name: build(name, setting) for name in names}
    calls = {name: partial(network, f) for name, network in networks.items()}
    steps = {name: _train_step(network, calls[name]) for name, network in networks.items()}
    forwards = {name: torch.no_grad()(call) for name, call in calls.items()}
    step_times = time_long_enough(steps, repeats=int(repeats), seconds=float(seconds))
    for network in networks.values():
        network.zero_grad(set_to_none=True)
    fewer, shorter = min(int(repeats), 2), float(seconds) / 2  # the steps have warmed it up
    time_forwards = partial(
        time_long_enough, forwards, repeats=fewer, seconds=shorter, warm_up=False
    )
    forward_times = time_forwards()
    _freeze(networks, setting)
    frozen_times = time_forwards()
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


def _growth(
    name: str, setting: Setting, predict: Callable[[nn.Module, Tensor], Tensor]
) -> dict[str, object]:
    """Growth of the resident size during the first training step of a network.

    A tiny network of the same kind has loaded all libraries before, so that only the step
    itself counts: what it keeps for the backward pass, the gradients, and all it works with.
    """
    torch.manual_seed(0)

    def step(size: Setting) -> Callable[[], None]:
        network = build(name, size)
        return _train_step(network, partial(predict, network, size.inputs()))

    step(setting.tiny())()
    return {"bytes": peak_growth(step(setting))}


def _memory(setting_name: str, name: str) -> dict[str, object]:
    return _growth(name, SETTINGS[setting_name], lambda network, f: network(f))


def _rollout_memory(steps: str, recompute: str) -> dict[str, object]:
    """The same for a rollout of PDNO a(x,ξ) with gradients, in the main setting."""

    def predict(network: nn.Module, f: Tensor) -> Tensor:
        return rollout(network, f, int(steps), recompute=recompute == "yes")

    return _growth("PDNO a(x,xi)", SETTINGS[MAIN], predict)


def _rollout(batch: str, steps: str, repeats: str, seconds: str, *names: str) -> dict[str, object]:
    """Seconds of a rollout without gradients from frozen networks, in the main setting."""
    torch.manual_seed(0)
    setting = replace(SETTINGS[MAIN], batch=int(batch))
    window = setting.inputs()
    networks = {name: build(name, setting) for name in names}
    _freeze(networks, setting)
    runs = {
        name: torch.no_grad()(partial(rollout, network, window, int(steps)))
        for name, network in networks.items()
    }
    return {**time_long_enough(runs, repeats=int(repeats), seconds=float(seconds))}


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
        times = [_scaled_times(names, {**base, axis: value}, int(repeats)) for value in values]
        rows = {name: [time[name] for time in times] for name in names}
        curves[axis] = {"values": values, "seconds": rows}
    return {"base": base, "curves": curves}


def _scaled_times(
    names: tuple[str, ...], sizes: Mapping[str, int], repeats: int
) -> dict[str, float]:
    shape = (sizes["resolution"],) * 2
    setting = Setting(shape, sizes["modes"], sizes["width"], sizes["batch"], in_channels=10)
    f, steps = setting.inputs(), {}
    for name in names:
        network = build(name, setting)
        predict = partial(rollout, network, f, sizes["rollout steps"])
        steps[name] = _train_step(network, predict)
    return time_alternately(steps, repeats=repeats)


_TASKS: dict[str, Callable[..., dict[str, object]]] = {
    "time": _time,
    "memory": _memory,
    "rollout": _rollout,
    "rollout-memory": _rollout_memory,
    "scaling": _scaling,
}


def measure(task: str, *arguments: str) -> dict[str, object]:
    """Run a task: "time", "memory", "rollout", "rollout-memory" or "scaling"."""
    return _TASKS[task](*arguments)


if __name__ == "__main__":
    tune_allocator()
    warnings.filterwarnings("ignore")  # of the other packages' imports
    print(json.dumps(measure(*sys.argv[1:])))
