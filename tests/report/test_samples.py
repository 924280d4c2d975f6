"""Pictures show the numbers they are given, the right way round and in the house style."""

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread

from pdno.report.figures_fields import plot_sample
from pdno.report.style import COLOURS, figure_style, save_figure


def test_curves_are_the_given_numbers():
    rng = np.random.default_rng(0)
    given, frames = rng.standard_normal(16), rng.standard_normal((9, 16))
    times = np.arange(1, 10) / 10
    figure = plot_sample("title", given, frames, names=("before", "after"), times=times)
    first, *rest = figure.axes[0].lines
    assert np.array_equal(first.get_ydata(), given)
    assert np.array_equal(first.get_xdata(), np.arange(16) / 16)
    shown = {line.get_label(): line.get_ydata() for line in rest}
    assert len(shown) == 4 and "after, t = 0.1" in shown
    assert np.array_equal(shown["after, t = 0.9"], frames[-1])
    assert [line.get_color() for line in rest] == list(COLOURS[:4])
    assert figure.get_suptitle() == "title"


@pytest.mark.parametrize("count", [None, 1, 2, 7])
def test_maps_have_the_first_axis_to_the_right_and_the_second_upwards(count):
    rng = np.random.default_rng(0)
    given = rng.standard_normal((4, 6))
    times = None if count is None else range(count)
    solution = rng.standard_normal((4, 6) if count is None else (count, 4, 6))
    figure = plot_sample("title", given, solution, names=("k", "u"), times=times)
    images = [axes.images[0] for axes in figure.axes if axes.images]
    frames = solution[None] if count is None else solution
    assert len(images) == 1 + min(count or 1, 3)
    assert np.array_equal(images[0].get_array(), given.T)
    assert np.array_equal(images[1].get_array(), frames[0].T)
    assert np.array_equal(images[-1].get_array(), frames[-1].T)
    assert all(image.origin == "lower" for image in images)
    assert all(tuple(image.get_extent()) == (0, 1, 0, 1) for image in images)


def test_the_style_ends_with_its_block():
    before = dict(matplotlib.rcParams)
    with figure_style():
        assert matplotlib.rcParams["savefig.dpi"] == 150
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_figure_is_written_in_the_style_and_the_same_each_time(tmp_path, ending):
    given = np.sin(np.arange(16.0))
    contents = []
    for number in range(2):
        figure = plot_sample("title", given, given, names=("a", "b"))
        path = save_figure(figure, tmp_path / f"{number}" / f"picture.{ending}")
        contents.append(path.read_bytes())
        assert [item.name for item in path.parent.iterdir()] == [f"picture.{ending}"]
    assert contents[0] == contents[1]
    if ending == "png":
        assert imread(tmp_path / "0" / "picture.png").shape[:2] == (480, 960)


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path):
    given = np.zeros(4)
    figure = plot_sample("title", given, given, names=("a", "b"))
    with pytest.raises(ValueError, match="not supported"):
        save_figure(figure, tmp_path / "picture.xyz")
    assert list(tmp_path.iterdir()) == []
