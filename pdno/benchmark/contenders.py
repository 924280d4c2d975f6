"""What `pdno bench` compares: problem sizes and networks, in one, two and three dimensions.

A ratio is the time of a training step over that of the neuraloperator FNO with the same width and
modes, on one thread and with the tuned allocator; each setting has the largest ones it may have.
"""

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.networks.mwt import MWT
from pdno.networks.neural_operator import PointwiseLinear
from pdno.networks.pdno import FNO, PDNO
from pdno.operators.reference import apply_straight
from pdno.spectral.grid import Grid

JSON = dict[str, Any]
"""Options, or the numbers of a measurement, as JSON holds them."""


@dataclass(frozen=True)
class Setting:
    """A problem size, and the largest ratios of PDNO a(x,ξ) and a(ξ) that are aimed at."""

    shape: tuple[int, ...]
    modes: int | None
    limits: tuple[float, float] = (1.0, 1.0)
    width: int = 20
    batch: int = 20
    in_channels: int = 1
    symbol_hidden: int = 32

    @property
    def title(self) -> str:
        """What a table calls it."""
        points = "x".join(map(str, self.shape))
        modes = "all modes" if self.modes is None else f"k {self.modes}"
        return f"{len(self.shape)}D {points}, {modes}, width {self.width}, batch {self.batch}"

    def inputs(self) -> Tensor:
        """Random input fields."""
        return torch.randn(self.batch, self.in_channels, *self.shape)


MAIN = "2d-64-k12"
"""The paper's Navier-Stokes setting."""
SETTINGS = {
    MAIN: Setting((64, 64), 12, (0.75, 0.50), in_channels=10),
    "2d-64-all": Setting((64, 64), None, (1.0, 0.6), in_channels=10),
    "2d-85-k12": Setting((85, 85), 12, (0.9, 0.4)),
    "2d-241-k12": Setting((241, 241), 12, (1.1, 0.6), batch=4),
    "2d-256-k12": Setting((256, 256), 12, (1.1, 0.6), batch=4),
    "2d-64-k12-batch1": Setting((64, 64), 12, (1.5, 0.9), batch=1, in_channels=10),
    "1d-1024-k16": Setting((1024,), 16, (1.5, 0.5), width=64, symbol_hidden=64),
    "1d-1024-all": Setting((1024,), None, (1.5, 0.8), width=64, symbol_hidden=64),
    "1d-8192-k16": Setting((8192,), 16, (1.5, 0.5), width=64, symbol_hidden=64),
    "3d-32-k8": Setting((32, 32, 32), 8, (1.5, 0.8), width=12, batch=2),
}
ROLLOUT_LIMITS: dict[int, float | None] = {1: 1.5, 20: None}
"""The same of a frozen rollout of PDNO a(x,ξ), by the number of samples."""

NEURALOPERATOR, STRAIGHT = "neuraloperator FNO", "straight a(x,xi)"
SPACE_AND_FREQUENCY, FREQUENCY = "PDNO a(x,xi)", "PDNO a(xi)"
ROUGH = "PDNO a(x,xi), rough a1"
ALWAYS = (NEURALOPERATOR, SPACE_AND_FREQUENCY, FREQUENCY)
"""Whose memory is measured in every setting."""
EVERYWHERE = (*ALWAYS, "PDNO classical a(x,xi)", "PDNO low rank 2", "FNO")
"""Whose time is measured in every setting."""
SLOWEST = ("MWT", STRAIGHT)
STRAIGHT_FITS = (MAIN, "2d-64-all", "1d-1024-k16")
"""Settings where the (B, O, I, *N) tensors of the straight formula take a few gigabytes."""
ROUGHNESS = 8.0
"""How many times larger the first weights of a rough a1 are, as training may make them."""
SYMBOLS: dict[str, JSON] = {
    FREQUENCY: {"depends_on_x": False},
    "PDNO classical a(x,xi)": {"symbol": "classical"},
    "PDNO low rank 2": {"symbol": "low-rank", "rank": 2},
    "PDNO low rank 2 shared": {"symbol": "low-rank", "rank": 2, "shared": True},
}


def contenders_of(setting_name: str) -> list[str]:
    """Who is compared in a setting; the neuraloperator FNO only where it is installed."""
    names = list(EVERYWHERE)
    if setting_name == MAIN:
        names += ["PDNO low rank 2 shared", "MWT"]
    if len(SETTINGS[setting_name].shape) == 1:
        names.append(ROUGH)
    if setting_name in STRAIGHT_FITS:
        names.append(STRAIGHT)
    return names if find_spec("neuralop") else names[1:]


def build(name: str, setting: Setting) -> nn.Module:
    """A contender by name."""
    dim, width, modes = len(setting.shape), setting.width, setting.modes
    channels: JSON = {"in_channels": setting.in_channels, "out_channels": 1}
    if name == NEURALOPERATOR:
        from neuralop.models import FNO as NeuralOperatorFNO

        kept = tuple(2 * modes if modes else points for points in setting.shape)
        theirs: nn.Module = NeuralOperatorFNO(kept, hidden_channels=width, n_layers=4, **channels)
        return theirs
    if name == "FNO":
        kept = tuple(modes or points // 2 for points in setting.shape)
        return FNO(dim, **channels, width=width, modes=kept)
    if name == "MWT":
        return MWT(dim, **channels, append_coordinates=True)
    network = PDNO(
        dim, **channels, width=width, symbol_hidden=setting.symbol_hidden, modes=modes,
        **SYMBOLS.get(name, {}),
    )  # fmt: skip
    if name == ROUGH:
        with torch.no_grad():
            for weight in (p for n, p in network.named_parameters() if "space.linear_in.w" in n):
                weight.mul_(ROUGHNESS)
    return StraightPDNO(network) if name == STRAIGHT else network


class StraightPDNO(nn.Module):
    """The published network written straight down, which everything is measured against.

    Linear layers on the last axis, 1x1 convolutions, and the formula of the operator with its
    (B, O, I, *N) tensors. It has the parameters of `pdno.PDNO` and gives the same numbers.
    """

    def __init__(self, network: PDNO) -> None:
        super().__init__()
        self.network: Any = network

    def forward(self, f: Tensor) -> Tensor:
        """u, with everything materialised."""
        network, grid = self.network, Grid(tuple(f.shape[2:]))
        convolve = getattr(functional, f"conv{grid.dim}d")
        x = (grid.points() * network.coordinate_scale).to(f.dtype).expand(len(f), *grid.shape, -1)
        v = _linear(network.lift, torch.cat([f.movedim(1, -1), x], dim=-1)).movedim(-1, 1)
        for layer, operator in enumerate(network.operators):
            v = functional.gelu(v) if layer else v
            values, local = operator.symbol.evaluate(grid, operator.modes), network.locals[layer]
            mixed = convolve(v, local.weight[(..., *[None] * grid.dim)], local.bias)
            v = apply_straight(values, v, grid, operator.modes) + mixed
        v = functional.gelu(_linear(network.project_hidden, v.movedim(1, -1)))
        return _linear(network.project, v).movedim(-1, 1)


def _linear(layer: PointwiseLinear, v: Tensor) -> Tensor:
    return functional.linear(v, layer.weight, layer.bias)
