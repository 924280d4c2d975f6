"""`pdno symbol` says what is inside of a run, and reads the diffusivity off a heat symbol."""

import json
import math

import matplotlib.image
import pytest
import torch

from pdno.experiments.measure import learned_diffusivity
from pdno.experiments.recipes import darcy, heat
from pdno.experiments.run import run_experiment
from pdno.experiments.symbol import inspect_symbols
from pdno.grid import Grid
from pdno.networks.fno import FNO
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols.base import Symbol, SymbolValues


class ScaledTimeHeat(Symbol):
    """e^{-4π²cξ²t} as a network that sees t/span would give it, split into a1 and a2."""

    def __init__(self, diffusivity, span):
        super().__init__(1, 1)
        self.diffusivity, self.span = diffusivity, span

    def evaluate(self, grid, modes=None, t=None):
        xi = grid.modes(modes).double().squeeze(-1)
        times = torch.as_tensor(t).double().reshape(-1, 1) * self.span
        values = torch.exp(-4 * math.pi**2 * self.diffusivity * xi**2 * times)
        shape = (len(times), 1, 1, 1)
        a1 = torch.full((*shape, *grid.shape), 2.0, dtype=torch.float64)
        return SymbolValues((values / 2).reshape(*shape, -1).to(torch.complex128), a1)


@pytest.mark.parametrize("diffusivity", [0.05, 0.02])
def test_the_diffusivity_of_an_exact_symbol_is_exact(diffusivity):
    experiment = heat("small").experiments[0]
    operator = PseudoDifferentialOperator(ScaledTimeHeat(diffusivity, experiment.task.span), 12)
    estimate = learned_diffusivity(experiment, operator, Grid((64,)))
    assert estimate.value == pytest.approx(diffusivity, rel=1e-9)


def test_other_networks_and_problems_have_no_diffusivity():
    grid = Grid((64,))
    assert learned_diffusivity(heat("small").experiments[0], FNO(1, 1, 1, modes=4), grid) is None
    operator = PseudoDifferentialOperator(ScaledTimeHeat(0.05, 1.0))
    assert learned_diffusivity(darcy("small").experiments[0], operator, grid) is None


def test_a_run_is_looked_into_layer_by_layer(tmp_path, in_process):
    experiment = darcy("smoke", models=["PDNO provable"]).experiments[0]
    run_experiment(experiment, tmp_path / "run")
    text, place = inspect_symbols(tmp_path / "run", tmp_path / "out", order=0.0)
    assert place == tmp_path / "out"
    found = json.loads((tmp_path / "out" / "symbol.json").read_text())
    assert len(found["layers"]) == 4 and text.count("accepted") == 4
    for layer in found["layers"]:
        assert layer["accepted"] and layer["fitted_order"] == pytest.approx(0.0, abs=0.1)
        for norm in layer["norms"].values():
            assert 0 < norm["estimate"] <= norm["bound"] * (1 + 1e-6)
    assert found["lipschitz_bound"] > 0 and "Lip(u) <=" in text
    for number in range(4):
        for kind in ("symbol", "certificate"):
            pixels = matplotlib.image.imread(tmp_path / "out" / f"layer-{number}-{kind}.png")
            assert pixels.std() > 0.01


def test_what_cannot_be_looked_into_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no finished run"):
        inspect_symbols(tmp_path, tmp_path / "out")
    weights = tmp_path / "weights.bin"
    weights.write_bytes(b"PK")
    with pytest.raises(ValueError, match="--resolution"):
        inspect_symbols(weights, tmp_path / "out")
