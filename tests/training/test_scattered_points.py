"""Trainings on scattered points and masked grids: errors, queries, records."""

import numpy as np
import pytest
import torch

import pdno
from pdno.data.dataset import OperatorDataset
from pdno.spectral.nonuniform import inverse_points

HEAT = {"width": 4, "layers": 1, "modes": 3, "symbol": "low-rank", "rank": 1, "symbol_hidden": 8}


def coefficients(count):
    """Random inputs of the modes |ξ_j| < 3, and what a smoothing operator makes of them."""
    generator = torch.Generator().manual_seed(0)
    xi = pdno.Grid((12, 12)).modes(3).double()
    squares = xi.square().sum(-1)
    parts = torch.randn(2, count, 1, 6, 3, generator=generator, dtype=torch.float64)
    f_hat = torch.complex(*parts) / (1 + squares)
    return f_hat, f_hat * torch.exp(-0.3 * squares)


def heat_data(count=12, sizes=(60, 80), **options):
    """Samples on sets of points of their own, and their coefficients."""
    generator = torch.Generator().manual_seed(1)
    numbers = np.linspace(*sizes, count).astype(int)
    sets = [torch.rand(int(n), 2, generator=generator) for n in numbers]
    points = pdno.Points(sets, periodic=True, **options)
    f_hat, u_hat = coefficients(count)
    f, u = (inverse_points(c, points, 3) for c in (f_hat, u_hat))
    return OperatorDataset.from_arrays(f, u, points), u_hat


def fit(data, **options):
    torch.manual_seed(0)
    chosen = {"epochs": 2, "batch_size": 4, "normalization": "channel", **options}
    train, test = data.split(test=4)
    return pdno.fit(pdno.PDNO(2, 1, 1, **HEAT), train, test, **chosen), test


def test_a_trained_operator_answers_where_nothing_was_measured(tmp_path):
    data, u_hat = heat_data()
    operator, test = fit(data, epochs=8, learning_rate=0.01, folder=tmp_path / "run")
    error = pdno.evaluate(operator, test).mean()
    assert error == pytest.approx(operator.history[-1].test, rel=1e-4)
    others = pdno.Points(torch.rand(4, 300, 2), periodic=True)
    inputs = test.batch()[0]
    asked = operator.predict(inputs, grid=test.grid, output_grid=others)
    truth = OperatorDataset.from_arrays(
        asked, inverse_points(u_hat[8:], others, 3).float(), others
    )
    queried = pdno.evaluate(torch.nn.Identity(), truth).mean()
    assert queried < 1.3 * error
    again = pdno.load(tmp_path / "run")
    prediction = again.predict(inputs, grid=test.grid)
    torch.testing.assert_close(prediction, operator.predict(inputs, grid=test.grid))
    with pytest.raises(ValueError, match=r"points of each sample: give grid=pdno.Points"):
        again.predict(inputs[:1])


def test_padding_changes_neither_errors_nor_statistics():
    data, _ = heat_data(6)
    wide = pdno.Points(
        torch.nn.functional.pad(data.grid.coordinates, (0, 0, 0, 9)),
        torch.nn.functional.pad(data.grid.weights, (0, 9)),
        mask=torch.nn.functional.pad(data.grid.mask, (0, 9)),
        periodic=True,
    )
    inputs, targets = (torch.nn.functional.pad(part, (0, 9)) for part in data.batch())
    padded = OperatorDataset.from_arrays(
        inputs.where(wide.mask[:, None], torch.nan), targets, wide
    )
    operators = [fit(part)[0] for part in (data, padded)]
    for name in ("mean", "std"):
        first, second = (getattr(operator.inputs, name) for operator in operators)
        torch.testing.assert_close(first, second)
    first, second = (operator.history[-1] for operator in operators)
    assert first.train == pytest.approx(second.train, rel=1e-3)
    assert first.test == pytest.approx(second.test, rel=1e-3)


def test_inputs_and_outputs_on_points_of_their_own():
    sensors, wanted = pdno.Points(torch.rand(80, 2)), pdno.Points(torch.rand(30, 2))
    f_hat, u_hat = coefficients(12)
    f, u = inverse_points(f_hat, sensors, 3), inverse_points(u_hat, wanted, 3)
    data = OperatorDataset.from_arrays(f, u, sensors, output_grid=wanted)
    operator, test = fit(data)
    prediction = operator.predict(test.batch()[0], output_grid=wanted)  # sensors are remembered
    assert prediction.shape == (4, 1, 30)
    assert "output grid" in repr(data)
    with pytest.raises(ValueError, match="at the points of its inputs: take a PDNO"):
        pdno.evaluate(pdno.PDNO(2, 1, 1, **HEAT).lift, data)


def test_what_is_outside_of_a_mask_does_not_count():
    generator = torch.Generator().manual_seed(0)
    f, u = torch.randn(2, 12, 1, 12, 12, generator=generator)
    grid, mask = pdno.Grid((12, 12)), pdno.Grid((12, 12)).points()[..., 0] < 0.5
    for outside in (torch.nan, 1e6):
        inputs, targets = (torch.where(mask, part, outside) for part in (f, u))
        data = OperatorDataset.from_arrays(inputs, targets, grid, mask=mask)
        operator, test = fit(data, normalization="pointwise" if outside == 1e6 else "channel")
        assert operator.history[-1].test == pytest.approx(pdno.evaluate(operator, test).mean())
        prediction = operator.predict(test.batch()[0], grid=test.grid)
        assert bool((prediction[..., ~mask] == 0).all())
        if outside != 1e6:
            inside = f[:8, :, mask].double()
            assert float(operator.inputs.mean) == pytest.approx(float(inside.mean()), rel=1e-5)
            assert float(operator.inputs.std) == pytest.approx(float(inside.std()), rel=1e-3)
    with pytest.raises(ValueError, match="outside of the domain, give mask="):
        OperatorDataset.from_arrays(torch.where(mask, f, torch.nan), u, grid)
    own = OperatorDataset.from_arrays(f, u, grid, mask=mask.expand(12, -1, -1))
    assert own.subset([3, 4]).grid.sets == 2


def test_wrong_data_are_refused():
    points, f = pdno.Points(torch.rand(2, 20, 2)), torch.randn(3, 1, 20)
    with pytest.raises(ValueError, match="3 samples on 2 sets of points"):
        OperatorDataset.from_arrays(f, f, points)
    with pytest.raises(ValueError, match=r"inputs has shape \(3, 1, 19\)|inputs .*20"):
        OperatorDataset.from_arrays(f[..., 1:], f, pdno.Points(torch.rand(20, 2)))
    with pytest.raises(ValueError, match="take order 0 on scattered points"):
        fit(heat_data()[0], loss_order=1.0)
    with pytest.raises(ValueError, match="pointwise statistics need a grid"):
        fit(heat_data()[0], normalization="pointwise")


def test_folders_keep_points_and_masks(tmp_path):
    data, _ = heat_data(6)
    shared = OperatorDataset.from_arrays(*torch.randn(2, 6, 1, 30), pdno.Points(torch.rand(30, 3)))
    mask = pdno.Grid((8, 8)).points()[..., 0] < 0.5
    masked = OperatorDataset.from_arrays(*torch.randn(2, 6, 1, 8, 8), pdno.Grid((8, 8)), mask=mask)
    for name, each in (("own", data), ("shared", shared), ("masked", masked)):
        again = pdno.open_dataset(each.save(tmp_path / name))
        for first, second in zip(each.batch(), again.batch(), strict=True):
            assert torch.equal(first, second)
        assert again.grid.sets == each.grid.sets and again.channels == each.channels
        ones = torch.ones_like(each.batch()[1])
        torch.testing.assert_close(again.grid.weigh(ones), each.grid.weigh(ones))


def test_figures_leave_out_what_is_outside():
    data, _ = heat_data(6)
    figure = data.plot(0, data[0][1] + 0.1)
    maps = [axes.collections[0] for axes in figure.axes if axes.get_title()]
    assert len(maps) == 4  # input, target, prediction and error, on the points without padding
    assert all(len(drawn.get_array()) == 60 for drawn in maps)
    grid, mask = pdno.Grid((8, 8)), torch.zeros(8, 8, dtype=torch.bool)
    mask[:4] = True
    masked = OperatorDataset.from_arrays(*torch.randn(2, 6, 1, 8, 8), grid, mask=mask)
    image = masked.plot().axes[0].images[0].get_array()
    assert int(np.isfinite(image.filled(np.nan)).sum()) == 32
