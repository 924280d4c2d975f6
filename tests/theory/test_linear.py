"""What is not linear has no norm and no symbol: said before anything is computed."""

import pytest
import torch

from pdno import Grid
from pdno.theory.extraction import extract_symbol
from pdno.theory.norms import operator_norm

MAPS = {
    "relu": torch.relu,
    "abs": torch.abs,
    "square": torch.square,
    "tanh": torch.tanh,
    "constant": lambda f: f + 1,
    "leaky": torch.nn.functional.leaky_relu,
    "largest": lambda f: torch.maximum(f, f.roll(1, -1)),
    "normalised": lambda f: f / f.abs().amax(dim=-1, keepdim=True).clamp_min(1e-30),
    "median": lambda f: f - f.median(dim=-1, keepdim=True).values,
    "product of channels": lambda f: f[:, :1].abs() * f[:, 1:].sign(),
    "half linear": lambda f: torch.where(f.mean(dim=-1, keepdim=True) > 0, f, 2 * f),
}


@pytest.mark.parametrize("name", MAPS)
def test_nonlinear_maps_are_refused(name):
    grid = Grid((16,))
    with pytest.raises(ValueError, match="not linear"):
        operator_norm(MAPS[name], grid, channels=2)
    with pytest.raises(ValueError, match="not linear: give a state"):
        extract_symbol(MAPS[name], grid, channels=2)


@pytest.mark.parametrize("name", ["0", "3f", "shift", "difference"])
def test_linear_maps_are_not(name):
    apply = {
        "0": lambda f: 0 * f,
        "3f": lambda f: 3 * f,
        "shift": lambda f: f.roll(1, -1),
        "difference": lambda f: f[:, :1] - f[:, 1:],
    }[name]
    norm = operator_norm(apply, Grid((16,)), channels=2).value
    expected = {"0": 0.0, "3f": 3.0, "shift": 1.0, "difference": 2**0.5}[name]
    assert norm == pytest.approx(expected, abs=1e-9)


def test_modules_of_others_get_their_own_precision():
    """A convolution in float32, as other packages have them; its symbol is known."""
    module = torch.nn.Conv1d(1, 1, 3, padding=1, padding_mode="circular", bias=False)
    values = extract_symbol(module, Grid((8,)), channels=1).values[0, 0]
    weights = module.weight.detach().double().flatten()
    xi = torch.arange(5, dtype=torch.float64)
    waves = torch.exp(2j * torch.pi * torch.outer(torch.tensor([-1.0, 0.0, 1.0]).double(), xi) / 8)
    assert (values - weights.to(waves) @ waves).abs().max() < 1e-6
    assert operator_norm(module, Grid((8,)), channels=1).value > 0
