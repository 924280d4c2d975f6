"""What `pdno bench` compares: problem sizes and networks, in one, two and three dimensions.

A ratio is the time of a training step over that of the neuraloperator FNO with the same width and
modes, on one thread and with the tuned allocator; each setting has the largest ones it may have.

`StraightPDNO` is the published network written straight down, the reference that everything is
measured against: linear layers on the last axis, 1x1 convolutions, and the formula of the operator
with its (B, O, I, *N) tensors. It has the parameters of `pdno.PDNO` and gives the same numbers.
"""

__all__ = [
    "ALWAYS",
    "LIMITS",
    "MAIN",
    "NEURALOPERATOR",
    "ROLLOUT_LIMITS",
    "ROUGH",
    "SETTINGS",
    "SLOWEST",
    "STRAIGHT",
    "Setting",
    "StraightPDNO",
    "build",
    "contenders_of",
]

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.grid import Grid
from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT
from pdno.networks.pdno import PDNO
from pdno.operators.backends.reference import apply_straight

MAIN = "2d-64-k12"
"""The paper's Navier-Stokes setting."""


@dataclass(frozen=True)
class Setting:
    """A problem size."""

    shape: tuple[int, ...]
    modes: int | None
    width: int = 20
    batch: int = 20
    in_channels: int = 1
    symbol_layers: int = 2
    symbol_hidden: int = 32

    @property
    def grid(self) -> Grid:
        """The periodic grid of the fields."""
        return Grid(self.shape)

    @property
    def title(self) -> str:
        """What a table calls it."""
        points = "x".join(map(str, self.shape))
        modes = "all modes" if self.modes is None else f"k {self.modes}"
        return f"{len(self.shape)}D {points}, {modes}, width {self.width}, batch {self.batch}"

    def inputs(self) -> Tensor:
        """Random input fields."""
        return torch.randn(self.batch, self.in_channels, *self.shape)

    def tiny(self) -> "Setting":
        """The same with one sample, few points and few modes; it takes the same code."""
        modes = None if self.modes is None else 4
        return replace(self, shape=(16,) * len(self.shape), modes=modes, batch=1)


SETTINGS = {
    MAIN: Setting((64, 64), 12, in_channels=10),
    "2d-64-all": Setting((64, 64), None, in_channels=10),
    "2d-85-k12": Setting((85, 85), 12),
    "2d-241-k12": Setting((241, 241), 12, batch=4),
    "2d-256-k12": Setting((256, 256), 12, batch=4),
    "2d-64-k12-batch1": Setting((64, 64), 12, batch=1, in_channels=10),
    "1d-1024-k16": Setting((1024,), 16, width=64, symbol_hidden=64),
    "1d-1024-all": Setting((1024,), None, width=64, symbol_hidden=64),
    "1d-8192-k16": Setting((8192,), 16, width=64, symbol_hidden=64),
    "3d-32-k8": Setting((32, 32, 32), 8, width=12, batch=2),
}

LIMITS = {
    MAIN: (0.75, 0.50),
    "2d-64-all": (1.0, 0.6),
    "2d-85-k12": (0.9, 0.4),
    "2d-241-k12": (1.1, 0.6),
    "2d-256-k12": (1.1, 0.6),
    "2d-64-k12-batch1": (1.5, 0.9),
    "1d-1024-k16": (1.5, 0.5),
    "1d-1024-all": (1.5, 0.8),
    "1d-8192-k16": (1.5, 0.5),
    "3d-32-k8": (1.5, 0.8),
}
"""The largest ratios to the neuraloperator FNO of PDNO a(x,ξ) and a(ξ) that are aimed at."""

ROLLOUT_LIMITS: dict[int, float | None] = {1: 1.5, 20: None}
"""The same of a frozen rollout of PDNO a(x,ξ), by the number of samples."""

NEURALOPERATOR, STRAIGHT = "neuraloperator FNO", "straight a(x,xi)"
ROUGH = "PDNO a(x,xi), rough a1"
ALWAYS = (NEURALOPERATOR, "PDNO a(x,xi)", "PDNO a(xi)")
"""Whose memory is measured in every setting."""
EVERYWHERE = (*ALWAYS, "PDNO classical a(x,xi)", "PDNO low rank 2", "FNO")
"""Whose time is measured in every setting."""
MAIN_ONLY = ("PDNO low rank 2 shared", "MWT")
SLOWEST = ("MWT", STRAIGHT)
STRAIGHT_FITS = (MAIN, "2d-64-all", "1d-1024-k16")
"""Settings where the (B, O, I, *N) tensors of the straight formula take a few gigabytes."""
ROUGHNESS = 8.0
"""How many times larger the first weights of a rough a1 are, as training may make them."""


def contenders_of(setting_name: str) -> list[str]:
    """Who is compared in a setting; the neuraloperator FNO only where it is installed."""
    names = list(EVERYWHERE)
    if setting_name == MAIN:
        names += MAIN_ONLY
    if len(SETTINGS[setting_name].shape) == 1:
        names.append(ROUGH)
    if setting_name in STRAIGHT_FITS:
        names.append(STRAIGHT)
    return names if find_spec("neuralop") else names[1:]


def build(name: str, setting: Setting) -> nn.Module:
    """A contender by name."""
    return _BUILDERS[name](setting)


class StraightPDNO(nn.Module):
    """The published network, straight from the formula."""

    def __init__(self, network: PDNO) -> None:
        super().__init__()
        self.network = network

    def forward(self, f: Tensor) -> Tensor:
        """u, with everything materialised."""
        network, grid = self.network, Grid(tuple(f.shape[2:]))
        x = (grid.points() * network.coordinate_scale).to(f.dtype).expand(len(f), *grid.shape, -1)
        v = torch.cat([f.movedim(1, -1), x], dim=-1)
        v = functional.linear(v, network.lift.weight, network.lift.bias).movedim(-1, 1)
        last = len(network.operators) - 1
        for layer, (operator, local) in enumerate(
            zip(network.operators, network.locals, strict=True)
        ):
            values = operator.symbol.evaluate(grid, operator.modes)  # type: ignore[operator, union-attr]
            kernel = local.weight[(..., *[None] * grid.dim)]  # type: ignore[index]
            mixed = _CONVOLUTIONS[grid.dim](v, kernel, local.bias)
            v = apply_straight(values, v, grid, operator.modes) + mixed  # type: ignore[arg-type]
            v = functional.gelu(v) if layer < last else v
        hidden, project = network.project_hidden, network.project
        v = functional.gelu(functional.linear(v.movedim(1, -1), hidden.weight, hidden.bias))
        return functional.linear(v, project.weight, project.bias).movedim(-1, 1)


_CONVOLUTIONS: dict[int, Callable[..., Tensor]] = {
    1: functional.conv1d,
    2: functional.conv2d,
    3: functional.conv3d,
}


def _pdno(setting: Setting, **options: object) -> PDNO:
    return PDNO(
        len(setting.shape),
        setting.in_channels,
        1,
        width=setting.width,
        symbol_layers=setting.symbol_layers,
        symbol_hidden=setting.symbol_hidden,
        modes=setting.modes,
        **options,
    )


def _rough(setting: Setting) -> PDNO:
    """A network whose a1 is less smooth than a new one's."""
    network = _pdno(setting)
    with torch.no_grad():
        for operator in network.operators:
            operator.symbol.space.linear_in.weight.mul_(ROUGHNESS)  # type: ignore[operator, union-attr]
    return network


def _fno(setting: Setting) -> FNO:
    kept = tuple(setting.modes or points // 2 for points in setting.shape)
    return FNO(len(setting.shape), setting.in_channels, 1, setting.width, modes=kept)


def _neuraloperator(setting: Setting) -> nn.Module:
    from neuralop.models import FNO as NeuralOperatorFNO

    network: nn.Module = NeuralOperatorFNO(
        n_modes=tuple(2 * setting.modes if setting.modes else points for points in setting.shape),
        hidden_channels=setting.width,
        in_channels=setting.in_channels,
        out_channels=1,
        n_layers=4,
    )
    return network


_BUILDERS: dict[str, Callable[[Setting], nn.Module]] = {
    NEURALOPERATOR: _neuraloperator,
    "PDNO a(x,xi)": _pdno,
    "PDNO a(xi)": lambda setting: _pdno(setting, depends_on_x=False),
    "PDNO classical a(x,xi)": lambda setting: _pdno(setting, symbol="classical"),
    "PDNO low rank 2": lambda setting: _pdno(setting, symbol="low-rank", rank=2),
    "PDNO low rank 2 shared": lambda setting: _pdno(
        setting, symbol="low-rank", rank=2, shared=True
    ),
    ROUGH: _rough,
    "FNO": _fno,
    "MWT": lambda setting: MWT(
        len(setting.shape), setting.in_channels, 1, append_coordinates=True
    ),
    STRAIGHT: lambda setting: StraightPDNO(_pdno(setting)),
}
