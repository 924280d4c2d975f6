"""Published weights: the authors' PDNO, and the FNO and MWT of the papers it compares with.

The family and the sizes are read from the names and shapes of the weights; keywords say what
shapes cannot. Nothing is unpickled (see `pdno.tensor_file`).

| family | names                                                                                |
|--------|--------------------------------------------------------------------------------------|
| PDNO   | fc0, conv{i}.net_real, .net_imag and (with a1) .net_out, w{i}, fc1, fc2               |
| FNO    | fc0, conv{i}.weights1, weights2 (corner blocks), w{i}, fc1, fc2                       |
| MWT    | Lk, MWT_CZ.{i}...., Lc0, Lc1                                                          |

At the stated resolution s the networks see x·s/(s-1) and ξ/s, as the published code does.
"""

__all__ = ["load_published"]

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pdno.networks.fno import FNO
from pdno.networks.mwt import convert_published_mwt
from pdno.networks.pdno import PDNO
from pdno.tensor_file import read_tensor_file

Weights = dict[str, Tensor]
Network = TypeVar("Network", bound=nn.Module)


def load_published(
    source: str | Path | Mapping[str, Any],
    resolution: int | Sequence[int],
    *,
    activation: str = "gelu",
    first_activation: str | None = None,
    modes: int | None = None,
    padding: int = 0,
    base: str = "legendre",
) -> nn.Module:
    """A published network as one of ours, in eval mode and channels first.

    Arguments:
        source: A file of tensors, or a mapping from published names to arrays or tensors.
        resolution: Grid points per axis that the weights were trained at, one or one per axis.
        activation: Of the symbol networks (PDNO).
        first_activation: Their first one, where it differs; the published 2D code has GELU there.
        modes: Kept modes k_max (PDNO); None keeps all.
        padding: Zeros after each axis, in points (FNO).
        base: "legendre" or "chebyshev" (MWT).
    """
    state = _read(source)
    if "Lk.weight" in state:
        return convert_published_mwt(state, base).eval()
    if "fc0.weight" not in state or "w0.weight" not in state:
        raise ValueError(
            f"weights named {', '.join(list(state)[:4])}, ... are none of PDNO (fc0, "
            "conv0.net_real), FNO (fc0, conv0.weights1) or MWT (Lk, MWT_CZ): give one of these"
        )
    dim = state["w0.weight"].dim() - 2
    shape = (resolution,) * dim if isinstance(resolution, int) else tuple(resolution)
    if len(shape) != dim or min(shape) < 2:
        raise ValueError(f"resolution {resolution} for weights of {dim} axes: give one per axis")
    common: dict[str, Any] = {
        "dim": dim,
        "in_channels": state["fc0.weight"].shape[1] - dim,
        "out_channels": state["fc2.weight"].shape[0],
        "width": state["fc0.weight"].shape[0],
        "layers": sum(name.startswith("w") and name.endswith(".weight") for name in state),
        "coordinate_scale": [n / (n - 1) for n in shape],
        "padding": padding,
    }
    if "conv0.weights1" in state:
        network: nn.Module = _fno(state, common)
    else:
        symbols = {"activation": activation, "first_activation": first_activation, "modes": modes}
        network = _pdno(state, {**common, **symbols, "frequency_scale": shape})
    return network.eval()


def _read(source: str | Path | Mapping[str, Any]) -> Weights:
    raw = source if isinstance(source, Mapping) else read_tensor_file(Path(source))
    if not isinstance(raw, Mapping):
        raise ValueError(f"{source} holds one tensor; expected weights by name")
    state = {}
    for name, value in raw.items():
        if not isinstance(value, (Tensor, np.ndarray)):
            raise ValueError(f"{name} is a {type(value).__name__}; expected arrays by name")
        state[str(name).removeprefix("module.")] = torch.as_tensor(value)
    return state


def _pdno(state: Weights, sizes: dict[str, Any]) -> PDNO:
    if "conv0.net_real.linear_in.weight" not in state:
        raise ValueError("weights with fc0 and w0 but neither conv0.net_real nor conv0.weights1")
    network = PDNO(
        **sizes,
        symbol_hidden=state["conv0.net_real.linear_in.weight"].shape[0],
        symbol_layers=sum(name.startswith("conv0.net_real.hidden") for name in state) // 2,
        depends_on_x="conv0.net_out.linear_in.weight" in state,
    )
    parts = {"net_real": "real", "net_imag": "imaginary", "net_out": "space"}

    def rename(name: str) -> str:
        layer, part, *rest = name.split(".")
        return ".".join(["operators", layer.removeprefix("conv"), "symbol", parts[part], *rest])

    symbols = {rename(name): value for name, value in state.items() if name.startswith("conv")}
    return _fill(network, {**_skeleton(state), **symbols})


def _fno(state: Weights, sizes: dict[str, Any]) -> FNO:
    dim = sizes["dim"]
    corner = state["conv0.weights1"]
    network = FNO(**sizes, modes=tuple(corner.shape[2 : 2 + dim]))
    tables = {}
    for layer in range(sizes["layers"]):
        blocks = [
            _complex(state[f"conv{layer}.weights{block + 1}"], dim)
            for block in range(2 ** (dim - 1))
        ]
        # corner blocks differ in the sign of the first axis fastest: join it first
        for axis in range(2, 1 + dim):
            blocks = [torch.cat(blocks[k : k + 2], dim=axis) for k in range(0, len(blocks), 2)]
        table = torch.view_as_real(blocks[0].movedim(0, 1).contiguous())
        tables[f"operators.{layer}.symbol.table"] = table
    return _fill(network, {**_skeleton(state), **tables})


def _complex(weights: Tensor, dim: int) -> Tensor:
    return weights if weights.dim() == 2 + dim else torch.view_as_complex(weights)


def _skeleton(state: Weights) -> Weights:
    """Lift, local maps and projection under our names."""
    names = {"fc0": "lift", "fc1": "project_hidden", "fc2": "project"}
    renamed = {}
    for name, value in state.items():
        layer, _, kind = name.partition(".")
        if layer in names:
            renamed[f"{names[layer]}.{kind}"] = value
        elif layer.startswith("w") and layer[1:].isdigit():
            flat = value.flatten(1) if kind == "weight" else value
            renamed[f"locals.{layer[1:]}.{kind}"] = flat
    return renamed


def _fill(network: Network, weights: Weights) -> Network:
    """Load the weights; every parameter must be there and nothing may be left over."""
    missing, unexpected = network.load_state_dict(weights, strict=False)
    parameters = {name for name, _ in network.named_parameters()}
    lost = [name for name in missing if name in parameters]
    if lost or unexpected:
        raise ValueError(
            f"published weights do not fit: missing {lost[:3]}, unknown {unexpected[:3]}"
        )
    return network
