"""The networks that `pdno bench` compares, at the paper's settings.

`StraightPDNO` is the published network written straight down, the reference that everything is
measured against: linear layers on the last axis, 1x1 convolutions, and the formula of the operator
with its (B, O, I, *N) tensors. It has the parameters of `pdno.PDNO` and gives the same numbers.
"""

__all__ = ["SETTINGS", "Setting", "StraightPDNO", "build"]

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from pdno.grid import Grid
from pdno.networks.fno import FNO
from pdno.networks.mwt import MWT
from pdno.networks.pdno import PDNO
from pdno.operators.straight import apply_straight


@dataclass(frozen=True)
class Setting:
    """A problem size.

    Arguments:
        resolution: Grid points per axis.
        modes: k_max, or None for all modes.
        in_channels: Channels of the input.
        symbol_layers: Of the symbol networks.
        width: Channels inside.
        batch: Samples.
    """

    resolution: int
    modes: int | None
    in_channels: int = 10
    symbol_layers: int = 2
    width: int = 20
    batch: int = 20

    def inputs(self, batch: int | None = None) -> Tensor:
        """Random input fields."""
        return torch.randn(batch or self.batch, self.in_channels, self.resolution, self.resolution)


SETTINGS = {
    "navier-stokes 64, k_max 12": Setting(64, 12),
    "navier-stokes 64, all modes": Setting(64, None),
    "darcy 32, all modes": Setting(32, None, in_channels=1, symbol_layers=3),
    "darcy 64, all modes": Setting(64, None, in_channels=1, symbol_layers=3),
    "darcy 128, all modes": Setting(128, None, in_channels=1, symbol_layers=3),
}


def build(name: str, setting: Setting) -> nn.Module:
    """A contender by name."""
    return _BUILDERS[name](setting)


class StraightPDNO(nn.Module):
    """The published network, straight from the formula.

    Arguments:
        network: Whose weights to use.
    """

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
            kernel = local.weight[:, :, None, None]  # type: ignore[index]
            v = apply_straight(values, v, grid, operator.modes) + functional.conv2d(  # type: ignore[arg-type]
                v,
                kernel,
                local.bias,  # type: ignore[arg-type]
            )
            v = functional.gelu(v) if layer < last else v
        hidden, project = network.project_hidden, network.project
        v = functional.gelu(functional.linear(v.movedim(1, -1), hidden.weight, hidden.bias))
        return functional.linear(v, project.weight, project.bias).movedim(-1, 1)


def _pdno(setting: Setting, **options: object) -> PDNO:
    return PDNO(
        2,
        setting.in_channels,
        1,
        setting.width,
        symbol_layers=setting.symbol_layers,
        modes=setting.modes,
        **options,  # type: ignore[arg-type]
    )


def _kept(setting: Setting) -> int:
    return setting.modes or setting.resolution // 2


def _neuraloperator(setting: Setting) -> nn.Module:
    from neuralop.models import FNO as NeuralOperatorFNO

    modes = 2 * _kept(setting)
    network: nn.Module = NeuralOperatorFNO(
        n_modes=(modes, modes),
        hidden_channels=setting.width,
        in_channels=setting.in_channels,
        out_channels=1,
        n_layers=4,
    )
    return network


_BUILDERS: dict[str, Callable[[Setting], nn.Module]] = {
    "neuraloperator FNO": _neuraloperator,
    "PDNO a(x,xi)": _pdno,
    "PDNO a(xi)": lambda setting: _pdno(setting, depends_on_x=False),
    "PDNO low rank 2": lambda setting: _pdno(setting, symbol="low-rank", rank=2),
    "PDNO low rank 2 shared": lambda setting: _pdno(
        setting, symbol="low-rank", rank=2, shared=True
    ),
    "FNO": lambda setting: FNO(2, setting.in_channels, 1, setting.width, modes=_kept(setting)),
    "MWT": lambda setting: MWT(2, setting.in_channels, 1, append_coordinates=True),
    "straight a(x,xi)": lambda setting: StraightPDNO(_pdno(setting)),
}
