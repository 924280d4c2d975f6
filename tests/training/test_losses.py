"""Losses are what they say: residuals of solutions vanish, sums add up, resumes keep the loss."""

import math

import pytest
import torch

import pdno
from pdno.symbols import HeatSymbol
from pdno.training.losses import RelativeError, Residual
from pdno.training.samples import Batch
from pdno.training.trained_operator import TrainedOperator

GRID = pdno.Grid((32,))
X = GRID.points().T[None]
WAVE = torch.sin(2 * torch.pi * X) + 0.3 * torch.cos(6 * torch.pi * X)
TIMES = [0.1, 0.2, 0.3]


def test_the_rate_of_burgers_is_its_formula():
    k, nu = 2 * math.pi, 0.07
    u = torch.sin(k * X)
    exact = -k * torch.sin(k * X) * torch.cos(k * X) - nu * k * k * u
    assert torch.allclose(pdno.Burgers(viscosity=nu).rate(u), exact, atol=1e-10)


@pytest.mark.parametrize("equation", [pdno.Heat(0.03), pdno.Burgers(0.05)])
def test_rates_are_derivatives_of_solutions(equation):
    step = 1e-3
    before, after = pdno.solve(equation, WAVE, times=[0.1 - step, 0.1 + step])[0]
    middle = pdno.solve(equation, WAVE, times=[0.1])[:, 0]
    found = (after - before) / (2 * step)
    assert torch.allclose(equation.rate(middle)[0], found, atol=2e-4 * float(found.abs().max()))


def exact_heat(diffusivity):
    """e^{-4π²|ξ|²ct} as an operator that is trained no more."""
    operator = pdno.PseudoDifferentialOperator(HeatSymbol(diffusivity=diffusivity))
    return TrainedOperator(operator, pdno.OneShot())


def residual(operator, equation):
    inputs = WAVE.repeat(3, 1, 1)
    batch = Batch(inputs, inputs, torch.tensor(TIMES, dtype=torch.float64))
    return Residual(equation).terms(operator.on(GRID), batch, inputs)


def test_the_residual_of_the_solution_operator_vanishes():
    zero = residual(exact_heat(0.05), pdno.Heat(0.05))
    assert zero.shape == (3, 2) and zero.abs().max() < 1e-10
    other = residual(exact_heat(0.06), pdno.Heat(0.05))
    # (c' - c) 4π²|ξ|² û e^{-4π²c't} of the first mode, over ⟨ξ⟩² and the size of u₀
    slope = 0.01 * 4 * math.pi**2 / 2 * math.exp(-4 * math.pi**2 * 0.06 * 0.3)
    assert other[2, 0] == pytest.approx(slope / math.sqrt(1.09), rel=0.01)
    assert other[:, 1].abs().max() < 1e-10  # it starts at u₀ all the same


def data(samples=6):
    distribution = pdno.GaussianField(variance=25.0, tau=3.0, alpha=2.0)
    return pdno.generate(
        pdno.Heat(0.05), GRID, samples=samples, times=TIMES, distribution=distribution
    )


def network():
    torch.manual_seed(0)
    sizes = {"modes": 8, "symbol_hidden": 8, "frequency_scale": 4.0, "depends_on_x": False}
    return pdno.PDIO(1, 1, 1, symbol="classical", order=2.0, takes_time=True, **sizes)


TRAINING = {"task": "one-shot", "epochs": 3, "batch_size": 4, "learning_rate": 1e-2}


def test_sums_of_losses_add_up():
    operator, batch = exact_heat(0.06), Batch(WAVE, 2 * WAVE, torch.tensor([0.1]).double())
    output = operator.predict(WAVE, grid=GRID, times=[0.1])[:, 0]
    one, two = RelativeError(), Residual(pdno.Heat(0.05))
    parts = [loss.terms(operator.on(GRID), batch, output) for loss in (one, two)]
    total = (0.5 * (one + 2 * two)).terms(operator.on(GRID), batch, output)
    assert torch.allclose(total, torch.cat([0.5 * parts[0], parts[1]], dim=1))


def test_h1_as_an_object_is_the_setting_loss_order():
    runs = [
        pdno.fit(network(), data(), **TRAINING, **way)
        for way in ({"loss": RelativeError(order=1.0)}, {"loss_order": 1.0})
    ]
    assert runs[0].history[-1].loss == runs[1].history[-1].loss
    with pytest.raises(ValueError, match="loss_order=1 and a loss"):
        pdno.fit(network(), data(), **TRAINING, loss=RelativeError(), loss_order=1.0)


def test_physics_alone_teaches_the_operator():
    """The targets are not used: they may be wrong."""
    true = data(8)
    inputs, targets = true.to(torch.float64).batch()
    wrong = pdno.OperatorDataset.from_arrays(inputs, targets.flip(0), GRID, TIMES)
    before = pdno.fit(network(), wrong, true, **TRAINING, loss=Residual(pdno.Heat(0.05)))
    settings = {**TRAINING, "epochs": 60}
    trained = pdno.fit(network(), wrong, true, **settings, loss=Residual(pdno.Heat(0.05)))
    assert trained.history[-1].test < 0.03 < before.history[-1].test


def test_a_run_goes_on_to_the_bit_and_only_with_its_loss(tmp_path):
    loss = RelativeError() + 0.5 * Residual(pdno.Heat(0.05))
    whole = pdno.fit(network(), data(), **TRAINING, loss=loss)
    seen = []

    def stop(row, model):
        seen.append(row.epoch)
        if row.epoch == 2:
            raise KeyboardInterrupt

    way = {**TRAINING, "folder": tmp_path, "loss": loss, "checkpoint_seconds": 0}
    with pytest.raises(KeyboardInterrupt):
        pdno.fit(network(), data(), **way, callbacks=[stop])
    with pytest.raises(ValueError, match="holds another run .*loss was"):
        pdno.fit(network(), data(), **{**way, "loss": None})
    with pytest.raises(ValueError, match="holds another run .*loss was .*0.05.*, is .*0.06"):
        other = RelativeError() + 0.5 * Residual(pdno.Heat(0.06))
        pdno.fit(network(), data(), **{**way, "loss": other})
    resumed = pdno.fit(network(), data(), **way)
    assert seen == [1, 2]
    for one, two in zip(whole.network.parameters(), resumed.network.parameters(), strict=True):
        assert torch.equal(one, two)


def test_the_best_epoch_is_kept(tmp_path):
    """Also where what comes after it is far worse."""
    train, test = data(10).split(test=4)
    settings = {**TRAINING, "keep": "best"}

    def spoil(row, model):
        if row.epoch == 2:
            for weight in model.parameters():
                weight.data.mul_(3.0)

    trained = pdno.fit(network(), train, test, **settings, folder=tmp_path, callbacks=[spoil])
    errors = [row.test for row in trained.history]
    assert min(errors) < errors[-1]
    at = pdno.evaluate(trained, test).mean()
    assert at == pytest.approx(min(errors), rel=1e-6)
    assert [metric.value for metric in pdno.load(tmp_path).metrics][-1] == min(errors)
    again = pdno.fit(network(), train, test, **settings, folder=tmp_path)
    assert pdno.evaluate(again, test).mean() == at
    with pytest.raises(ValueError, match="keep=best needs test samples"):
        pdno.fit(network(), train, **settings)


def test_a_residual_without_time_is_refused():
    f = torch.randn(4, 1, 32)
    static = pdno.OperatorDataset.from_arrays(f, f, GRID)
    with pytest.raises(ValueError, match="this task gives the network no time"):
        pdno.fit(pdno.FNO(1, 1, 1, width=2, modes=3), static, loss=Residual(pdno.Heat()), epochs=1)
