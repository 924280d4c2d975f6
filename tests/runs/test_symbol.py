"""`pdno symbol` says what is inside of a run, and reads the diffusivity off a heat symbol."""

import json
import math

import matplotlib.image
import pytest
import torch

from pdno.figures.fields import plot_symbol_layer
from pdno.networks.pdno import FNO
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.paper.recipes import burgers_rollout, darcy, heat
from pdno.runs.execute import run_experiment
from pdno.runs.measure import learned_diffusivity
from pdno.runs.run import load
from pdno.runs.symbol import inspect_symbols
from pdno.spectral.grid import Grid
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
    experiment = darcy("smoke", models=["PDNO classical"]).experiments[0]
    run_experiment(experiment, tmp_path / "run")
    text, place = inspect_symbols(tmp_path / "run", tmp_path / "out", order=0.0)
    assert place == tmp_path / "out"
    found = json.loads((tmp_path / "out" / "symbol.json").read_text())
    assert len(found["layers"]) == 4 and text.count(": proved; order") == 4
    for layer in found["layers"]:
        assert layer["accepted"] and layer["fitted_order"] == pytest.approx(0.0, abs=0.1)
        for norm in layer["norms"].values():
            assert 0 < norm["estimate"] <= norm["bound"] * (1 + 1e-6)
    assert found["lipschitz_bound"] > 0 and "Lip(u) <=" in text
    assert [layer["layer"] for layer in found["layers"]] == [1, 2, 3, 4]
    assert "layer 1\n" in text and "layer 4\n" in text and "classical" not in text
    for number in range(1, 5):
        for kind in ("symbol", "certificate"):
            pixels = matplotlib.image.imread(tmp_path / "out" / f"layer-{number}-{kind}.png")
            assert pixels.std() > 0.01


def test_phase_space_has_the_learned_and_the_exact_symbol(tmp_path, in_process):
    experiment = heat("smoke").experiments[0]
    run_experiment(experiment, tmp_path / "run")
    text, place = inspect_symbols(tmp_path / "run")
    found = json.loads((place / "symbol.json").read_text())["phase_space"]
    xi, t = torch.tensor(found["xi"]).double(), experiment.problem.times[0]
    exact = torch.exp(-4 * math.pi**2 * experiment.problem.diffusivity * xi**2 * t)
    assert (torch.tensor(found["true"]).double() - exact).abs().max() < 1e-6
    model = load(tmp_path / "run")
    values = model.network.values(model.sampling.grid, experiment.task.scaled_time(t))
    learned = (values.space.mean() * values.frequency[0, 0, 0, : len(xi)]).abs()
    shown = torch.tensor(found["learned"])
    assert (shown.mean(dim=0) - learned.detach()).abs()[1:].max() < 0.05 * shown.max()
    assert "phase space: " in text and matplotlib.image.imread(place / "phase-space.png").std() > 0


def test_a_semigroup_step_says_how_long_its_rollouts_are_guaranteed(tmp_path, in_process):
    (experiment,) = burgers_rollout("smoke").experiments
    run_experiment(experiment, tmp_path / "run")
    text, place = inspect_symbols(tmp_path / "run")
    assert "by proof" in text and matplotlib.image.imread(place / "guarantee.png").std() > 0
    found = json.loads((place / "symbol.json").read_text())["guarantee"]
    assert len(found["factors"]) == 3
    assert all(p <= m for p, m in zip(found["steps"], found["made"], strict=True))


def test_a_refusal_names_the_symbols_that_are_in_the_class(tmp_path, in_process):
    experiment = darcy("smoke", models=["PDNO a(x,ξ)"]).experiments[0]
    run_experiment(experiment, tmp_path / "run")
    text, place = inspect_symbols(tmp_path / "run", order=0.0)
    assert (
        "counterexample; order" in text and 'PDNO(symbol="classical", order=0) has symbols' in text
    )
    # the advice to look at what acts is that of Python, which has it
    assert "acting" not in text or "pdno.certify(symbol, acting=True)" in text
    assert (place / "symbol.txt").read_text(encoding="utf-8") == text + "\n"


def test_pictures_of_a_layer_have_axes_and_colour_bars():
    values = torch.arange(2 * 1 * 6 * 4.0).reshape(2, 1, 6, 4).numpy()
    figure = plot_symbol_layer(values, values)
    maps = [axes for axes in figure.axes if axes.images]
    assert [axes.get_title() for axes in maps] == ["Re a2_11", "a1_11", "Re a2_12", "a1_12"]
    assert maps[0].images[0].get_extent() == [-3.5, 2.5, -0.5, 3.5]
    assert (maps[0].get_xlabel(), maps[1].get_xlabel()) == ("ξ₁", "x₁")
    assert all(axes.images[0].colorbar is not None for axes in maps)
    # ξ₁ = 0 stands in the middle
    assert maps[0].images[0].get_array()[0, 3] == values[0, 0, 0, 0]
    curves = plot_symbol_layer(values[:, :, 0], None)
    assert [axes.get_xlabel() for axes in curves.axes] == ["ξ", "ξ"]


def test_what_cannot_be_looked_into_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no finished run"):
        inspect_symbols(tmp_path, tmp_path / "out")
    weights = tmp_path / "weights.bin"
    with pytest.raises(ValueError, match="weights.bin is no finished run and no file"):
        inspect_symbols(weights, tmp_path / "out")
    weights.write_bytes(b"PK")
    with pytest.raises(ValueError, match="--resolution"):
        inspect_symbols(weights, tmp_path / "out")
