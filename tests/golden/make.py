"""Small networks with weights of the published names: `python tests/golden/make.py` writes them.

Their outputs are what this package gave when it agreed with the published implementations on the
golden vectors of these (tests/paper/test_golden.py), which are too large for the repository.
Weights and inputs are multiples of 1/32 in int8, complex ones in pairs.
"""

import json
from pathlib import Path

import numpy as np
import torch

FOLDER = Path(__file__).parent
PROJECT = 128  # channels of fc1
CONFIGS = {
    "pdno_burgers": {"seed": 0, "dim": 1, "shape": (16, 1), "hidden": 3, "activation": "tanh"},
    "pdno_darcy_tanh": {
        "seed": 1,
        "dim": 2,
        "shape": (8, 8, 1),
        "hidden": 3,
        "activation": "tanh",
        "first_activation": "gelu",
    },
    "pdno_navier_stokes_xi_only": {
        "seed": 7,
        "dim": 2,
        "shape": (8, 6, 3),
        "hidden": 3,
        "networks": 2,
    },
    "fno_darcy": {"seed": 8, "dim": 2, "shape": (8, 8, 1), "modes": 2, "padding": 2},
}


def linear(name, outputs, inputs, *ones):
    return {f"{name}.weight": (outputs, inputs, *ones), f"{name}.bias": (outputs,)}


def shapes_of(name, config, width=2):
    """Names and shapes of the weights; those of complex ones end with 2."""
    dim, hidden, last = config["dim"], config.get("hidden", 0), config["shape"][-1]
    shapes = linear("fc0", width, last + dim)
    for layer in range(4):
        if name.startswith("fno"):
            for corner in ("weights1", "weights2"):
                shapes[f"conv{layer}.{corner}"] = (width, width, *[config["modes"]] * dim, 2)
        for part in ("net_real", "net_imag", "net_out")[: config.get("networks", 3)]:
            if hidden:
                network = f"conv{layer}.{part}"
                shapes |= linear(f"{network}.linear_in", hidden, dim)
                shapes |= linear(f"{network}.hidden.0", hidden, hidden)
                shapes |= linear(f"{network}.linear_out", width**2, hidden)
        shapes |= linear(f"w{layer}", width, width, *[1] * dim)
    return shapes | linear("fc1", PROJECT, width) | linear("fc2", 1, PROJECT)


def unpack(file):
    """Configuration and weights by name of a file."""
    config, state, start = json.loads(str(file["config"])), {}, 0
    for name, shape in config["shapes"].items():
        size = int(np.prod(shape))
        values = (file["weights"][start : start + size] / np.float32(32)).reshape(shape)
        is_complex = ".weights" in name
        state[name] = (values[..., 0] + 1j * values[..., 1]) if is_complex else values
        start += size
    return config, state


def make(name):
    from pdno import load_published

    config = CONFIGS[name]
    draw, shapes = np.random.default_rng(config["seed"]), shapes_of(name, config)
    count = sum(int(np.prod(shape)) for shape in shapes.values())
    record = {"model": name.split("_")[0], **config, "shapes": shapes}
    file = {
        "weights": draw.integers(-24, 25, count).astype(np.int8),
        "input": draw.integers(-32, 33, (2, *config["shape"])).astype(np.float32) / 32,
        "config": np.array(json.dumps(record)),
    }
    _, state = unpack(file)
    names = ("activation", "first_activation", "padding")
    options = {key: config[key] for key in names if key in config}
    network = load_published(state, resolution=config["shape"][:-1], **options).double()
    with torch.no_grad():
        output = network(torch.from_numpy(file["input"]).double().movedim(-1, 1)).movedim(1, -1)
    file["output"] = output.float().numpy()
    np.savez_compressed(FOLDER / f"{name}.npz", **file)


if __name__ == "__main__":
    for name in CONFIGS:
        make(name)
