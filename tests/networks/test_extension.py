"""Reflections around a box are the even and odd functions of the torus that they stand for."""

import math

import pytest
import torch

import pdno
from pdno.networks.neural_operator import extend

BOXES = {"cells": pdno.Grid.cells((12,)), "ends": pdno.Grid((13,), periodic=False)}


@pytest.mark.parametrize("box", BOXES)
def test_cosines_and_sines_of_a_box_become_those_of_the_torus(box):
    grid = BOXES[box]
    x = grid.points()[:, 0]
    ends = box == "ends"
    network = pdno.PDNO(1, 1, 1, width=2, modes=3, padding="even")
    inner = network.inner_grid(grid)
    y = (torch.arange(inner.size) + (0.0 if ends else 0.5)) / inner.size
    for k in range(1, 5):
        even = extend(torch.cos(math.pi * k * x)[None, None], 1, 1.0, ends=ends)
        odd = extend(torch.sin(math.pi * k * x)[None, None], 1, -1.0, ends=ends)
        assert torch.allclose(even[0, 0], torch.cos(2 * math.pi * k * y).double(), atol=1e-5)
        assert torch.allclose(odd[0, 0], torch.sin(2 * math.pi * k * y).double(), atol=1e-5)


@pytest.mark.parametrize("padding", ["even", "odd"])
@pytest.mark.parametrize("family", ["pdno", "fno"])
def test_every_axis_is_reflected_and_the_box_comes_back(padding, family):
    torch.manual_seed(0)
    sizes = {"width": 3, "layers": 2, "modes": 3, "padding": padding, "coordinates": "none"}
    if family == "pdno":
        sizes |= {"depends_on_x": False, "symbol_hidden": 4}
    network = (pdno.PDNO if family == "pdno" else pdno.FNO)(2, 1, 1, **sizes)
    grid, f = pdno.Grid.cells((8, 10)), torch.randn(2, 1, 8, 10)
    assert network.inner_grid(grid).shape == (16, 20)
    assert network(f, grid=grid).shape == f.shape
    # what the operators see is the whole of the torus: shifting that by its half swaps the copies
    v = network.enter(f, grid)
    sign = 1.0 if padding == "even" else -1.0
    assert torch.equal(v.flip(2), sign * v) and torch.equal(v.flip(3), sign * v)
    v = network.surround(torch.ones(1, 1, 8, 10), grid)
    assert float(v.sum()) == (320.0 if padding == "even" else 0.0)


def test_an_unknown_padding_is_refused():
    with pytest.raises(ValueError, match="padding is 'zero'; expected 'even', 'odd', a fraction"):
        pdno.FNO(1, 1, 1, width=2, modes=2, padding="zero")
    network = pdno.FNO(1, 1, 1, width=2, modes=2, padding="odd")
    with pytest.raises(ValueError, match="reflects its input"):
        pdno.lipschitz_report(network, pdno.Grid((8,)))
