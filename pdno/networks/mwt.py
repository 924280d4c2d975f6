"""MWT, the multiwavelet neural operator that the paper compares with.

    u = Q ∘ K_n ∘ σ ∘ K_{n-1} ∘ ... ∘ σ ∘ K_1 ∘ P [f]

The lift P gives every point the k^d coefficients of `width` functions, each K is a
`MultiwaveletOperator` without a local term, σ is ReLU, and the projection Q has one hidden layer
of 128. The space-time network takes a whole block of frames at once, (B, C, N_1, N_2, T), and
normalises over the batch after each K.

`convert_published_mwt` reads published weights.
"""

__all__ = ["MWT", "convert_published_mwt"]

from collections.abc import Mapping, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from pdno.grid import Grid
from pdno.operators.multiwavelet import CONVOLUTION, MultiwaveletOperator
from pdno.operators.multiwavelet_filters import BASES, make_filters

HIDDEN_CHANNELS = 128  # of the projection, in all published multiwavelet networks


class MWT(nn.Module):
    """The multiwavelet neural operator; the defaults are those of Darcy flow.

    Shapes: (B, in_channels, *N) -> (B, out_channels, *N), in space-time with a last axis T.
    Every axis of *N is a power of two; T is free.

    Arguments:
        dim: Number of axes of space, 1 or 2.
        in_channels: Number of input functions, coordinates not counted if they are appended.
        out_channels: Number of output functions.
        width: Number of functions c inside; the channels inside are c k^d.
        wavelets: Number of wavelets k per axis of a cell.
        modes: Number of Fourier modes α of the kernels.
        blocks: Number of multiwavelet operators.
        coarsest: L, the coarsest level has 2^L points.
        base: "legendre" or "chebyshev".
        space_time: Whether a time axis follows the axes of space.
        append_coordinates: Whether the network adds x (and t) as channels after its input. The
            published networks expect them in the data: after it for Darcy flow, before it for
            Navier-Stokes, none in 1D.

    Example:
        >>> network = MWT(1, 1, width=2, wavelets=3, modes=5, blocks=2)
        >>> network(torch.zeros(7, 1, 32)).shape
        torch.Size([7, 1, 32])
    """

    def __init__(
        self,
        dim: int,
        in_channels: int,
        out_channels: int = 1,
        *,
        width: int = 4,
        wavelets: int = 4,
        modes: int = 12,
        blocks: int = 4,
        coarsest: int = 0,
        base: str = "legendre",
        space_time: bool = False,
        append_coordinates: bool = False,
    ) -> None:
        super().__init__()
        if blocks < 1:
            raise ValueError(f"blocks is {blocks}; expected at least one multiwavelet operator")
        self.dim = dim
        self.in_channels = in_channels
        self.space_time = space_time
        self.append_coordinates = append_coordinates
        operator = partial(MultiwaveletOperator, dim, width, wavelets=wavelets, modes=modes)
        operator = partial(operator, coarsest=coarsest, base=base, space_time=space_time)
        self.operators = nn.ModuleList(operator() for _ in range(blocks))
        self.axes = dim + 1 if space_time else dim
        channels = width * wavelets**dim
        pointwise = CONVOLUTION[self.axes]
        lifted = in_channels + self.axes if append_coordinates else in_channels
        self.lift = pointwise(lifted, channels, 1)
        self.norms = nn.ModuleList(nn.BatchNorm3d(channels) for _ in range(blocks * space_time))
        hidden = pointwise(channels, HIDDEN_CHANNELS, 1)
        output = pointwise(HIDDEN_CHANNELS, out_channels, 1)
        nn.init.xavier_normal_(hidden.weight)
        nn.init.xavier_normal_(output.weight)
        self.project = nn.Sequential(hidden, nn.ReLU(), output)

    def forward(self, f: Tensor) -> Tensor:
        """Map f (B, in_channels, *N) to u (B, out_channels, *N)."""
        if f.dim() != 2 + self.axes or f.shape[1] != self.in_channels:
            layout = "(B, C, N_1, N_2, T)" if self.space_time else "(B, C, *N)"
            raise ValueError(
                f"input has shape {tuple(f.shape)}; expected {layout} with C={self.in_channels} "
                f"and dim={self.dim}: put the channels first, or build MWT for this input"
            )
        v = self.lift(self._add_coordinates(f) if self.append_coordinates else f)
        for layer, operator in enumerate(self.operators):
            v = v if layer == 0 else torch.relu(v)
            v = operator(v)
            v = self.norms[layer](v) if self.space_time else v
        u: Tensor = self.project(v)
        return u

    def _add_coordinates(self, f: Tensor) -> Tensor:
        """Append x with both ends and t = 1/T .. 1, as the published data have them."""
        space, time = f.shape[2 : 2 + self.dim], f.shape[2 + self.dim :]
        axes = Grid(tuple(space), periodic=False).axes(dtype=f.dtype, device=f.device)
        for n in time:
            (start,) = Grid((n,)).axes(dtype=f.dtype, device=f.device)
            axes.append(start + 1 / n)
        coordinates = torch.stack(torch.meshgrid(*axes, indexing="ij"))
        return torch.cat([f, coordinates.expand(f.shape[0], *coordinates.shape)], dim=1)


def convert_published_mwt(
    state: Mapping[str, Tensor], base: str | None = None, *, coarsest: int = 0
) -> MWT:
    """The MWT of a published state dict, in eval mode.

    All sizes are read from the shapes. Complex weights may be complex or have a last axis (re,
    im). Inputs are those of the published network but with the channels first.

    Arguments:
        state: Tensors under their published names, with or without the prefix "module.".
        base: "legendre" or "chebyshev"; None recognises it by the filters in the state. A base
            that contradicts the filters is an error.
        coarsest: L, which the state does not tell; 0 in all published experiments.
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
        coarsest=coarsest,
        base=_recognise_base(state["MWT_CZ.0.ec_s"], dim, wavelets=wavelets, base=base),
        space_time=axes == 3,
    ).to(state["Lk.weight"].dtype)
    model.load_state_dict(_rename(state, model.state_dict()))
    return model.eval()


_PUBLISHED_NAMES = {
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


def _rename(state: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The published tensors under the names and in the shapes of our state dict `own`."""
    renamed = {}
    for name, like in own.items():
        published = name
        for ours, theirs in _PUBLISHED_NAMES.items():
            published = published.replace(ours, theirs)
        try:
            if published.endswith("weights"):
                blocks = [state[f"{published}{i + 1}"] for i in range(2 ** (like.dim() - 4))]
                value = _join_blocks([_as_real(block) for block in blocks])
            else:
                value = state[published]
            renamed[name] = value.reshape(like.shape)
        except (KeyError, RuntimeError) as error:
            raise ValueError(
                f"state does not hold {published!r} for {name!r} of shape {tuple(like.shape)}: "
                f"{error}; it is not the whole state of a published MWT"
            ) from error
    return renamed


def _join_blocks(blocks: Sequence[Tensor]) -> Tensor:
    """One table of the published corner blocks, ordered ++, -+, +-, -- in (ξ_1, ξ_2)."""
    pairs = [torch.cat(list(blocks[i : i + 2]), dim=2) for i in range(0, len(blocks), 2)]
    return torch.cat(pairs, dim=3) if len(pairs) > 1 else pairs[0]


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
