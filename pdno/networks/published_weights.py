"""Published weights: the authors' PDNO, and the FNO and MWT of the papers it compares with.

The family and the sizes are read from the names and shapes of the weights; keywords say what
shapes cannot. At the stated resolution s the networks see x·s/(s-1) and ξ/s, as published.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from pdno.files.tensor_file import read_tensor_file
from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT, Base
from pdno.networks.pdno import PDNO
from pdno.operators.multiwavelet import make_filters

_SYMBOL, _TABLE = "conv0.net_real.linear_in.weight", "conv0.weights1"
# what becomes what in our names, in this order; an FNO has corner blocks weights1, weights2, ...
_NAMES = {"lift": "fc0", "project_hidden": "fc1", "project": "fc2", "locals.": "w"}
_NAMES |= {"operators.": "conv", "symbol.real": "net_real", "symbol.imaginary": "net_imag"}
_NAMES |= {"symbol.space": "net_out", "symbol.table": "weights"}
_MWT_NAMES = {"lift": "Lk", "project.0": "Lc0", "project.2": "Lc1", "operators": "MWT_CZ"}
_MWT_NAMES |= {"norms": "BN", "detail_to_detail": "A", "average_to_detail": "B"}
_MWT_NAMES |= {"detail_to_average": "C", "average_to_average": "T0"}
_MWT_NAMES |= {"convolution.table": "weights", "convolution": "conv.0", "mix": "Lo"}


def load_published(
    source: str | Path | Mapping[str, object],
    resolution: int | Sequence[int],
    *,
    activation: str = "gelu",
    first_activation: str | None = None,
    modes: int | None = None,
    padding: int = 0,
    base: str = "legendre",
) -> nn.Module:
    """A published network as one of ours, in eval mode and channels first.

    `source` is a file or a mapping from published names to arrays, `resolution` the grid
    points that they were trained at, one or one per axis. What shapes do not tell: the activations
    of a PDNO (the published 2D code has GELU first) and its modes, the padding of an FNO in
    points, the base of an MWT, "legendre" or "chebyshev".
    """
    state = _read(source)
    if "Lk.weight" in state:
        return convert_published_mwt(state, base)
    dim = _count_axes(state)
    shape = (resolution,) * dim if isinstance(resolution, int) else tuple(resolution)
    if len(shape) != dim or min(shape) < 2:
        raise ValueError(f"resolution {resolution} for weights of {dim} axes: give one per axis")
    width, channels = state.matrix("fc0.weight").shape
    sizes = (dim, channels - dim, state.matrix("fc2.weight").shape[0])
    layers = sum(name.startswith("w") and name.endswith(".weight") for name in state)
    scale = tuple(n / (n - 1) for n in shape)
    if _TABLE in state:
        network: nn.Module = FNO(
            *sizes,
            width=width,
            layers=layers,
            modes=tuple(_as_real(state[_TABLE]).shape[2:-1]),
            coordinate_scale=scale,
            padding=padding,
        )
    else:
        network = PDNO(
            *sizes,
            width=width,
            layers=layers,
            modes=modes,
            padding=padding,
            symbol_layers=sum(name.startswith("conv0.net_real.hidden") for name in state) // 2,
            symbol_hidden=state[_SYMBOL].shape[0],
            activation=activation,
            first_activation=first_activation,
            depends_on_x="conv0.net_out.linear_in.weight" in state,
            frequency_scale=shape,
            coordinate_scale=scale,
        )
    _fill(network, dict(network.named_parameters()), state)
    return network.eval()


class _Weights(dict[str, Tensor]):
    """Published weights by name."""

    def __missing__(self, name: str) -> Tensor:
        raise ValueError(
            f"the weights have no {name!r}, but {', '.join(list(self)[:3])}, ...; expected all "
            "weights of a published PDNO, a published FNO or a published MWT"
        )

    def matrix(self, name: str) -> Tensor:
        if self[name].dim() != 2:
            raise ValueError(f"{name} has shape {tuple(self[name].shape)}; expected a matrix")
        return self[name]

    def take(self, name: str) -> Tensor:
        return self.pop(name) if name in self else self[name]


def _read(source: str | Path | Mapping[str, object]) -> _Weights:
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
        return _as_real(state[_TABLE]).dim() - 3
    if _SYMBOL in state:
        return state.matrix(_SYMBOL).shape[1]
    raise ValueError(
        f"weights named {', '.join(list(state)[:4])}, ... are none of PDNO (fc0, {_SYMBOL}), FNO "
        f"(fc0, {_TABLE}) or MWT (Lk, MWT_CZ): give one of these"
    )


def _as_real(weights: Tensor) -> Tensor:
    """A corner block of complex numbers as pairs of real ones, which it may be already."""
    if weights.is_complex():
        return torch.view_as_real(weights.resolve_conj())
    if weights.shape[-1] != 2:
        raise ValueError(
            f"a corner block of real numbers {tuple(weights.shape)}; expected complex numbers, or "
            "their two parts in a last axis"
        )
    return weights


def _join_corners(state: _Weights, name: str, count: int) -> Tensor:
    """One table of corner blocks, which differ in the sign of the first axis fastest."""
    blocks, axis = [_as_real(state.take(f"{name}{block + 1}")) for block in range(count)], 2
    if len({block.shape for block in blocks}) > 1:
        raise ValueError(f"the corner blocks {name}1, ... differ in shape")
    while len(blocks) > 1:
        blocks = [torch.cat(blocks[k : k + 2], dim=axis) for k in range(0, len(blocks), 2)]
        axis += 1
    return blocks[0]


def _fill(network: nn.Module, own: Mapping[str, Tensor], published: _Weights) -> None:
    """Load what is published of our weights `own`, taking it out of `published`."""
    weights = {}
    for name, like in own.items():
        theirs = name
        for ours, replacement in (_MWT_NAMES if isinstance(network, MWT) else _NAMES).items():
            theirs = theirs.replace(ours, replacement)
        try:
            if theirs.endswith(".weights"):
                value = _join_corners(published, theirs, 2 ** (like.dim() - 4))
                value = value.movedim(0, 1) if isinstance(network, FNO) else value
            else:
                value = published.take(theirs)
            # local maps are stored as convolutions with a kernel of one point, or ours are
            local = isinstance(network, MWT) or name.startswith("locals.")
            same = value.numel() == like.numel() and (local or value.dim() == like.dim())
            if not same or any(n != m for n, m in zip(value.shape, like.shape, strict=False)):
                raise ValueError(f"shape {tuple(value.shape)}; expected {tuple(like.shape)}")
        except ValueError as error:
            raise ValueError(f"{theirs!r} for {name!r}: {error}") from error
        weights[name] = value.reshape(like.shape)
    if published and not isinstance(network, MWT):  # whose filters are made, not loaded
        raise ValueError(
            f"published weights do not fit: unknown {list(published)[:3]}, or theirs are missing; "
            "leave out what the network does not use"
        )
    network.load_state_dict(weights, strict=False)


def convert_published_mwt(state: Mapping[str, object], base: str | None = None) -> MWT:
    """The MWT of a published state dict, in eval mode; `load_published` for this family.

    Without a base it is recognised by the filters. The coarsest level is 0, as always published.
    """
    weights = _read(state)
    lift, filters = weights["Lk.weight"], weights["MWT_CZ.0.ec_s"]
    table = _as_real(weights["MWT_CZ.0.A.weights1"])
    axes, dim = table.dim() - 3, min(table.dim() - 3, 2)
    wavelets = round(filters.shape[1] ** (1 / dim))
    last = max(int(name.split(".")[1]) for name in weights if name.startswith("MWT_CZ."))
    model = MWT(
        dim,
        lift.shape[1],
        weights["Lc1.weight"].shape[0],
        width=lift.shape[0] // wavelets**dim,
        wavelets=wavelets,
        modes=table.shape[2],
        blocks=last + 1,
        base=_recognise_base(filters, dim, wavelets, base),
        space_time=axes == 3,
        append_coordinates=False,
    ).to(lift.dtype)
    _fill(model, model.state_dict(), weights)
    return model.eval()


def _recognise_base(filters: Tensor, dim: int, wavelets: int, base: str | None) -> Base:
    """The base whose filters [H0^T; H1^T; ...] are those of the state."""
    stated = filters.double().cpu()
    candidates: tuple[Base, ...] = get_args(Base)
    for candidate in candidates:
        if base not in (None, candidate):
            continue
        analysis = torch.as_tensor(make_filters(candidate, wavelets).analysis(dim))
        scaling = analysis.T[:, : filters.shape[1]]
        if scaling.shape == stated.shape and torch.allclose(stated, scaling, atol=1e-5):
            return candidate
    raise ValueError(
        f"the filters of the state (k={wavelets}, dim={dim}) are not those of "
        f"{base or ' or '.join(candidates)}; leave base out to have it recognised"
    )
