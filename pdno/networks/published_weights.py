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

__all__ = ["convert_published_mwt", "load_published"]

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT
from pdno.networks.pdno import PDNO
from pdno.operators.multiwavelet_filters import BASES, make_filters
from pdno.tensor_file import read_tensor_file

Network = TypeVar("Network", bound=nn.Module)

_SYMBOL, _TABLE = "conv0.net_real.linear_in.weight", "conv0.weights1"
_SKELETON = {"fc0": "lift", "fc1": "project_hidden", "fc2": "project"}
_PARTS = {"net_real": "real", "net_imag": "imaginary", "net_out": "space", "table": "table"}
_MWT_NAMES = {
    "lift": "Lk",
    "project.0": "Lc0",
    "project.2": "Lc1",
    "operators": "MWT_CZ",
    "norms": "BN",
    "detail_to_detail": "A",
    "average_to_detail": "B",
    "detail_to_average": "C",
    "average_to_average": "T0",
    "convolution.table": "weights",
    "convolution": "conv.0",
    "mix": "Lo",
}


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
    dim = _count_axes(state)
    shape = (resolution,) * dim if isinstance(resolution, int) else tuple(resolution)
    if len(shape) != dim or min(shape) < 2:
        raise ValueError(f"resolution {resolution} for weights of {dim} axes: give one per axis")
    common: dict[str, Any] = {
        "dim": dim,
        "in_channels": state.matrix("fc0.weight").shape[1] - dim,
        "out_channels": state.matrix("fc2.weight").shape[0],
        "width": state.matrix("fc0.weight").shape[0],
        "layers": sum(name.startswith("w") and name.endswith(".weight") for name in state),
        "coordinate_scale": [n / (n - 1) for n in shape],
        "padding": padding,
    }
    if _TABLE in state:
        return _fno(state, common).eval()
    symbols = {"activation": activation, "first_activation": first_activation, "modes": modes}
    return _pdno(state, {**common, **symbols, "frequency_scale": shape}).eval()


class _Weights(dict[str, Tensor]):
    """Published weights by name."""

    def __missing__(self, name: str) -> Tensor:
        raise ValueError(
            f"the weights have no {name}: they are incomplete, or of another network than the "
            f"one that {', '.join(list(self)[:3])}, ... belong to"
        )

    def matrix(self, name: str) -> Tensor:
        """A weight that must be a matrix."""
        if self[name].dim() != 2:
            raise ValueError(f"{name} has shape {tuple(self[name].shape)}; expected a matrix")
        return self[name]


def _read(source: str | Path | Mapping[str, Any]) -> _Weights:
    raw = source if isinstance(source, Mapping) else read_tensor_file(Path(source))
    if not isinstance(raw, Mapping):
        raise ValueError(f"{source} holds one tensor; expected weights by name")
    state = _Weights()
    for name, value in raw.items():
        if not isinstance(value, (Tensor, np.ndarray)):
            raise ValueError(f"{name} is a {type(value).__name__}; expected arrays by name")
        tensor = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
        state[str(name).removeprefix("module.")] = tensor
    return state


def _count_axes(state: _Weights) -> int:
    """d, from what the operators hold: early FNOs have flat local maps in any dimension."""
    if _TABLE in state:
        return _complex(state[_TABLE]).dim() - 2
    if _SYMBOL in state:
        return state.matrix(_SYMBOL).shape[1]
    raise ValueError(
        f"weights named {', '.join(list(state)[:4])}, ... are none of PDNO (fc0, "
        f"{_SYMBOL}), FNO (fc0, {_TABLE}) or MWT (Lk, MWT_CZ): give one of these"
    )


def _pdno(state: _Weights, sizes: dict[str, Any]) -> PDNO:
    network = PDNO(
        **sizes,
        symbol_hidden=state[_SYMBOL].shape[0],
        symbol_layers=sum(name.startswith("conv0.net_real.hidden") for name in state) // 2,
        depends_on_x="conv0.net_out.linear_in.weight" in state,
    )
    return _fill(network, state)


def _fno(state: _Weights, sizes: dict[str, Any]) -> FNO:
    dim = sizes["dim"]
    network = FNO(**sizes, modes=tuple(_complex(state[_TABLE]).shape[2:]))
    rest = _Weights(state)
    for layer in range(sizes["layers"]):
        names = [f"conv{layer}.weights{block + 1}" for block in range(2 ** (dim - 1))]
        blocks = [_complex(state[name]) for name in names]
        if len({block.shape for block in blocks}) > 1:
            raise ValueError(f"the corner blocks {', '.join(names)} differ in shape")
        for name in names:
            del rest[name]
        joined = _join_corners(blocks).movedim(0, 1)
        table = torch.view_as_real(joined.resolve_conj().contiguous())
        rest[f"conv{layer}.table"] = table
    return _fill(network, rest)


def _join_corners(blocks: list[Tensor]) -> Tensor:
    """One table of corner blocks, which differ in the sign of the first axis fastest."""
    axis = 2
    while len(blocks) > 1:
        blocks = [torch.cat(blocks[k : k + 2], dim=axis) for k in range(0, len(blocks), 2)]
        axis += 1
    return blocks[0]


def _complex(weights: Tensor) -> Tensor:
    """A corner block, which may be stored as pairs of real numbers."""
    if weights.is_complex():
        return weights
    if weights.shape[-1] != 2:
        raise ValueError(
            f"a corner block of real numbers {tuple(weights.shape)}; expected complex numbers, or "
            "their two parts in a last axis"
        )
    return torch.view_as_complex(weights.contiguous())


def _rename(name: str) -> str | None:
    """Our name of a published weight; None if there is no such weight."""
    layer, *rest = name.split(".")
    number = layer.lstrip("convw")
    if layer in _SKELETON:
        return ".".join([_SKELETON[layer], *rest])
    if layer == f"w{number}":
        return ".".join(["locals", number, *rest])
    if layer == f"conv{number}" and rest and rest[0] in _PARTS:
        return ".".join(["operators", number, "symbol", _PARTS[rest[0]], *rest[1:]])
    return None


def _fill(network: Network, published: _Weights) -> Network:
    """Load the weights; every parameter must be there and nothing may be left over."""
    expected = {name: tuple(value.shape) for name, value in network.named_parameters()}
    weights, unknown = {}, []
    for name, value in published.items():
        ours = _rename(name)
        if ours is None or ours not in expected:
            unknown.append(name)
        else:
            # local maps are stored as convolutions with a kernel of one point
            weights[ours] = value.flatten(1) if name.startswith("w") and value.dim() > 1 else value
    missing = [name for name in expected if name not in weights]
    wrong = [name for name in weights if tuple(weights[name].shape) != expected[name]]
    if missing or unknown or wrong:
        raise ValueError(
            f"published weights do not fit: missing {missing[:3]}, of another shape {wrong[:3]}, "
            f"unknown {unknown[:3]}; leave out what the network does not use"
        )
    network.load_state_dict(weights, strict=False)
    return network


def convert_published_mwt(state: Mapping[str, Tensor], base: str | None = None) -> MWT:
    """The MWT of a published state dict, in eval mode.

    All sizes are read from the shapes; the coarsest level, which they do not tell, is 0 in all
    published experiments. Complex weights may be complex or have a last axis (re,
    im). Inputs are those of the published network but with the channels first.

    Arguments:
        state: Tensors under their published names, with or without the prefix "module.".
        base: "legendre" or "chebyshev"; None recognises it by the filters in the state. A base
            that contradicts the filters is an error.
    """
    state = {name.removeprefix("module."): value for name, value in state.items()}
    for name in ("Lk.weight", "Lc1.weight", "MWT_CZ.0.A.weights1", "MWT_CZ.0.ec_s"):
        if name not in state:
            raise ValueError(f"state has no {name!r}; expected the weights of a published MWT")
    axes = _as_real(state["MWT_CZ.0.A.weights1"]).dim() - 3
    dim = min(axes, 2)
    wavelets = round(state["MWT_CZ.0.ec_s"].shape[1] ** (1 / dim))
    model = MWT(
        dim,
        state["Lk.weight"].shape[1],
        out_channels=state["Lc1.weight"].shape[0],
        width=state["Lk.weight"].shape[0] // wavelets**dim,
        wavelets=wavelets,
        modes=state["MWT_CZ.0.A.weights1"].shape[2],
        blocks=1 + max(int(name.split(".")[1]) for name in state if name.startswith("MWT_CZ.")),
        base=_recognise_base(state["MWT_CZ.0.ec_s"], dim, wavelets=wavelets, base=base),
        space_time=axes == 3,
    ).to(state["Lk.weight"].dtype)
    model.load_state_dict(_rename_mwt(state, model.state_dict()))
    return model.eval()


def _rename_mwt(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The published tensors under the names and in the shapes of our state dict `own`."""
    renamed = {}
    for name, like in own.items():
        published = name
        for ours, theirs in _MWT_NAMES.items():
            published = published.replace(ours, theirs)
        try:
            if published.endswith("weights"):
                blocks = [state[f"{published}{i + 1}"] for i in range(2 ** (like.dim() - 4))]
                value = _join_corners([_as_real(block) for block in blocks])
            else:
                value = state[published]
            renamed[name] = value.reshape(like.shape)
        except (KeyError, RuntimeError) as error:
            raise ValueError(
                f"state does not hold {published!r} for {name!r} of shape {tuple(like.shape)}: "
                f"{error}; it is not the whole state of a published MWT"
            ) from error
    return renamed


def _as_real(weights: Tensor) -> Tensor:
    return torch.view_as_real(weights) if weights.is_complex() else weights


def _recognise_base(filters: Tensor, dim: int, *, wavelets: int, base: str | None) -> str:
    """The base whose filters [H0^T; H1^T; ...] are those of the state."""
    for candidate in BASES if base is None else (base,):
        own = torch.as_tensor(make_filters(candidate, wavelets).analysis(dim)).T
        scaling = own[:, : filters.shape[1]]
        if scaling.shape == filters.shape and torch.allclose(
            filters.double().cpu(), scaling, atol=1e-5
        ):
            return candidate
    raise ValueError(
        f"the filters of the state (k={wavelets}, dim={dim}) are not those of "
        f"{base or ' or '.join(BASES)}; leave base out to have it recognised"
    )
