import pytest
import torch

from pdno.spectral.grid import Grid


@pytest.mark.parametrize("shape", [(8,), (7,), (6, 9), (4, 5, 6)])
def test_modes_are_those_of_the_fft(shape):
    xi = Grid(shape).modes()
    for axis, n in enumerate(shape):
        frequencies = torch.fft.rfftfreq if axis == len(shape) - 1 else torch.fft.fftfreq
        expected = (frequencies(n) * n).round().long().abs()
        line = xi.movedim(axis, 0).reshape(xi.shape[axis], -1, len(shape))[:, 0, axis]
        assert torch.equal(line.abs(), expected)
    assert xi.dtype == torch.int64


def test_kept_modes_are_the_published_corners():
    xi = Grid((16, 16)).modes(3)
    assert xi[:, 0, 0].tolist() == [0, 1, 2, -3, -2, -1]
    assert xi[0, :, 1].tolist() == [0, 1, 2]


def test_box_grids_include_both_ends_or_sit_in_cells():
    ends = Grid((5,), periodic=False).points().squeeze(-1)
    cells = Grid.cells((4,)).points().squeeze(-1)
    assert ends[0] == 0 and ends[-1] == 1
    assert cells.tolist() == [0.125, 0.375, 0.625, 0.875]


@pytest.mark.parametrize("grid", [Grid((12, 8)), Grid.cells((12, 8))])
def test_coarse_points_are_every_nth_fine_point(grid):
    assert torch.allclose(grid.coarsen(4).points(), grid.points()[::4, ::4])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda: Grid((4, 4, 4, 4)), "4 axes"),
        (lambda: Grid((1,)), "fewer than 2"),
        (lambda: Grid((4,), offset=1.5), "offset"),
        (lambda: Grid((10,)).coarsen(3), "divide"),
        (lambda: Grid((9,), periodic=False).coarsen(3), "both ends"),
        (lambda: Grid((8, 8)).modes(5), "expected 1 to 4"),
        (lambda: Grid((8, 8)).modes((2, 2, 2)), "3 axes"),
        (lambda: Grid((8,)).check(torch.zeros(2, 1, 7)), "last 1 axes"),
    ],
)
def test_wrong_grids_are_refused_with_the_reason(action, message):
    with pytest.raises(ValueError, match=message):
        action()
