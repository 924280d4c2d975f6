"""Data are learned alike in any unit, and constant channels disturb nothing."""

import pytest
import torch

import pdno
from pdno.training.statistics import fit_normalizer

GRID = pdno.Grid((16,))
UNITS = [1e-30, 1e-12, 1e-8, 1e30]
WAY = {"epochs": 6, "batch_size": 5, "learning_rate": 5e-3}


def smooth(*shape):
    fields = torch.randn(*shape, 7, generator=torch.Generator().manual_seed(0)).double()
    return pdno.spectral.calculus.resample(fields, (16,))


def error(kind, inputs=1.0, targets=1.0):
    f = smooth(20, 1)
    data = pdno.OperatorDataset.from_arrays(inputs * f, targets * (f.roll(1, -1) + 2), GRID)
    torch.manual_seed(0)
    network = pdno.FNO(1, 1, 1, width=6, layers=2, modes=4)
    trained = pdno.fit(network, data, data, normalization=kind, **WAY)
    return pdno.evaluate(trained, data).mean(), trained.history[-1].test


@pytest.mark.parametrize("kind", ["channel", "pointwise"])
def test_the_error_does_not_depend_on_the_units(kind):
    natural = error(kind)
    for unit in UNITS:
        for units in ({"inputs": unit}, {"targets": unit}, {"inputs": unit, "targets": 1 / unit}):
            assert error(kind, **units) == pytest.approx(natural, rel=1e-2), units


@pytest.mark.parametrize("unit", UNITS)
def test_noise_and_increments_are_in_units_of_the_frames(unit):
    """One step of a trajectory, with noise on its input; without it the unit would decide."""

    def final(unit):
        frames = unit * smooth(6, 5, 1)
        data = pdno.OperatorDataset.from_arrays(frames[:, 0], frames, GRID, times=range(5))
        torch.manual_seed(0)
        network = pdno.FNO(1, 1, 1, width=4, layers=2, modes=4)
        task = pdno.Markov(noise=0.5)
        return pdno.fit(network, data.window(1), task=task, normalization="channel", **WAY)

    assert final(unit).history[-1].train == pytest.approx(final(1.0).history[-1].train, rel=1e-2)


@pytest.mark.parametrize("kind", ["channel", "pointwise"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -3e-30, 7e29])
def test_a_constant_channel_is_divided_by_its_size(kind, dtype, value):
    u = smooth(50, 2).to(dtype)
    u[:, 1] = value
    normalizer = fit_normalizer(u, GRID, kind)
    encoded = normalizer.encode(u, GRID)
    assert encoded[:, 1].abs().max() < 1e-6 and encoded[:, 0].std() == pytest.approx(1, rel=0.05)
    # another value of the channel, as it may come later, is no catastrophe
    u[:, 1] = 1.1 * value
    assert normalizer.encode(u, GRID)[:, 1].abs().max() == pytest.approx(
        0.1 * bool(value), abs=1e-5
    )
    back = normalizer.decode(encoded, GRID)[:, 1]
    assert torch.allclose(back, torch.tensor(value, dtype=dtype), rtol=1e-6)
