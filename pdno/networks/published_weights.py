"""Published weights: the authors' PDNO, and the FNO and MWT of the papers it compares with.

The family and the sizes are read from the names and shapes of the weights; keywords say what
shapes cannot. At the stated resolution s the networks see x·s/(s-1) and ξ/s, as published.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from torch import Tensor, nn

from pdno.files.tensor_file import read_tensor_file
from pdno.interface.errors import check_shape
from pdno.interface.records import Options
from pdno.networks.mwt import MWT, Base
from pdno.networks.pdno import FNO, PDNO
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


class _Weights(dict[str, Tensor]):
    """Published weights by name."""

    def __missing__(self, name: str) -> Tensor:
        existing = f"the weights have no {name!r}, but {', '.join(list(self)[:3])}, ..."
        raise ValueError(f"{existing}; expected all weights of a published PDNO, FNO or MWT")

    def matrix(self, name: str) -> Tensor:
        check_shape(name, self[name], "O", "I")
        return self[name]


def load_published(
    source: str | Path | Mapping[str, object],
    resolution: int | Sequence[int],
    *,
    activation: str = "gelu",
    first_activation: str | None = None,
    modes: int | None = None,
    padding: int = 0,
    base: str | None = None,
) -> nn.Module:
    """A published network as one of ours, in eval mode and channels first.

    `source` is a file or a mapping from published names to arrays, `resolution` the grid points
    that they were trained at. What shapes do not tell: the activations of a PDNO (the published 2D
    code has GELU first) and its modes, the padding of an FNO in points. The base of an MWT is
    recognised by its filters.
    """
    state = _read(source)
    if "Lk.weight" in state:
        return _load_mwt(state, base)
    kept = _as_real(state[_TABLE]).shape[2:-1] if _TABLE in state else ()
    if not kept and _SYMBOL not in state:
        kinds = f"PDNO (fc0, {_SYMBOL}), FNO (fc0, {_TABLE}) or MWT (Lk, MWT_CZ)"
        raise ValueError(f"weights named {', '.join(list(state)[:4])}, ...; expected {kinds}")
    dim = len(kept) or state.matrix(_SYMBOL).shape[1]
    shape = (resolution,) * dim if isinstance(resolution, int) else tuple(resolution)
    if len(shape) != dim or min(shape) < 2:
        raise ValueError(f"resolution {resolution} for weights of {dim} axes: give one per axis")
    make: Callable[..., nn.Module] = partial(FNO, modes=tuple(kept))
    if not kept:
        activations = {"activation": activation, "first_activation": first_activation}
        symbol = _symbol_options(state) | activations
        make = partial(PDNO, modes=modes, frequency_scale=shape, **symbol)
    width, channels = state.matrix("fc0.weight").shape
    network = make(
        dim,
        channels - dim,
        len(state.matrix("fc2.weight")),
        width=width,
        layers=sum(name.startswith("w") and name.endswith(".weight") for name in state),
        coordinate_scale=tuple(n / (n - 1) for n in shape),
        padding=padding,
    )
    if unknown := set(state) - _fill(network, dict(network.named_parameters()), state):
        raise ValueError(f"published weights that the network does not use: {sorted(unknown)[:3]}")
    return network.eval()


def _symbol_options(state: _Weights) -> Options:
    return {
        "symbol_layers": sum(name.startswith("conv0.net_real.hidden") for name in state) // 2,
        "symbol_hidden": len(state[_SYMBOL]),
        "depends_on_x": "conv0.net_out.linear_in.weight" in state,
    }


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


def _as_real(weights: Tensor) -> Tensor:
    """A corner block of complex numbers as pairs of real ones, which it may be already."""
    if weights.is_complex():
        return torch.view_as_real(weights.resolve_conj())
    if weights.shape[-1:] != (2,):
        shape = tuple(weights.shape)
        raise ValueError(f"a corner block of real numbers {shape}; expected complex ones or pairs")
    return weights


def _fill(network: nn.Module, own: Mapping[str, Tensor], published: _Weights) -> set[str]:
    """Load what is published of our weights `own`; the published names that were used."""
    weights, used, is_mwt = dict[str, Tensor](), set[str](), isinstance(network, MWT)
    for name, like in own.items():
        theirs = name
        for ours, replacement in (_MWT_NAMES if is_mwt else _NAMES).items():
            theirs = theirs.replace(ours, replacement)
        is_table = theirs.endswith(".weights")
        corners = [f"{theirs}{corner + 1}" for corner in range(2 ** max(0, like.dim() - 4))]
        names = corners if is_table else [theirs]
        try:
            blocks = [published[each] for each in names]
            value = _join_corners(blocks) if is_table else blocks[0]
            value = value.movedim(0, 1) if is_table and isinstance(network, FNO) else value
            # local maps are stored as convolutions with a kernel of one point, or ours are
            local = is_mwt or name.startswith("locals.")
            same = value.numel() == like.numel() and (local or value.dim() == like.dim())
            if not same or any(n != m for n, m in zip(value.shape, like.shape, strict=False)):
                raise ValueError(f"shape {tuple(value.shape)}; expected {tuple(like.shape)}")
        except ValueError as error:
            raise ValueError(f"{theirs!r} for {name!r}: {error}") from error
        weights[name] = value.reshape(like.shape)
        used.update(names)
    network.load_state_dict(weights, strict=False)
    return used


def _join_corners(blocks: list[Tensor]) -> Tensor:
    """One table of corner blocks, which differ in the sign of the first axis fastest."""
    blocks, axis = [_as_real(block) for block in blocks], 2
    if len({block.shape for block in blocks}) > 1:
        raise ValueError("its corner blocks differ in shape")
    while len(blocks) > 1:
        blocks = [torch.cat(blocks[k : k + 2], dim=axis) for k in range(0, len(blocks), 2)]
        axis += 1
    return blocks[0]


def _load_mwt(state: _Weights, base: str | None) -> MWT:
    """The MWT of a published state, whose coarsest level is 0, as always published."""
    lift, filters = state["Lk.weight"], state["MWT_CZ.0.ec_s"]
    table = _as_real(state["MWT_CZ.0.A.weights1"])
    axes, dim = table.dim() - 3, min(table.dim() - 3, 2)
    wavelets = round(filters.shape[1] ** (1 / dim))
    blocks = {name.split(".")[1] for name in state if name.startswith("MWT_CZ.")}

    def has_filters(candidate: Base) -> bool:  # [H0^T; H1^T; ...]
        analysis = torch.as_tensor(make_filters(candidate, wavelets).analysis(dim))
        scaling, stated = analysis.T[:, : filters.shape[1]], filters.double().cpu()
        return scaling.shape == stated.shape and torch.allclose(stated, scaling, atol=1e-5)

    candidates = [candidate for candidate in get_args(Base) if base in (None, candidate)]
    bases = [candidate for candidate in candidates if has_filters(candidate)]
    if not bases:
        wrong = f"the filters (k={wavelets}, dim={dim}) are not those of {base or candidates}"
        raise ValueError(f"{wrong}; leave base out to have it recognised")
    model = MWT(
        dim, lift.shape[1], len(state["Lc1.weight"]), width=len(lift) // wavelets**dim,
        wavelets=wavelets, modes=table.shape[2], blocks=len(blocks), base=bases[0],
        space_time=axes == 3, append_coordinates=False,
    ).to(lift.dtype)  # fmt: skip
    _fill(model, model.state_dict(), state)
    return model.eval()
