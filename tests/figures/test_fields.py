"""Pictures show the numbers they are given, the right way round and in the house style."""

import io
import sys

import matplotlib
import numpy as np
import pytest
from matplotlib.image import imread
from PIL import Image

from pdno.figures.fields import (
    animate_sample,
    centred,
    field_style,
    on_white,
    plot_sample,
    signed,
)
from pdno.figures.style import figure_style, save_figure


def shown(figure):
    """The values of all visible panels by their titles, the right way round."""
    found = {}
    for axes in figure.axes:
        if axes.get_visible() and axes.get_title():
            values = axes.lines[0].get_ydata() if axes.lines else axes.images[0].get_array().T
            found.setdefault(axes.get_title(), []).append(np.asarray(values))
    return found


def test_a_static_sample_is_input_target_prediction_and_error():
    given, target, prediction = np.random.default_rng(0).standard_normal((3, 1, 4, 6))
    figure = plot_sample(given, target, prediction, title="title")
    panels = {name: values for name, (values,) in shown(figure).items()}
    assert list(panels) == ["input", "target", "prediction", "error"]
    for name, values in zip(panels, (given, target, prediction), strict=False):
        assert np.array_equal(panels[name], values[0])
    assert np.array_equal(panels["error"], (prediction - target)[0])
    assert figure.get_suptitle() == "title"
    assert list(shown(plot_sample(given, target))) == ["input", "target"]


def test_target_and_prediction_of_one_axis_are_curves_in_one_panel():
    given, target, prediction = np.random.default_rng(0).standard_normal((3, 1, 16))
    figure = plot_sample(given, target, prediction, names=(["u0"], ["u"]))
    before, both, error = figure.axes
    assert [axes.get_title() for axes in figure.axes] == ["u0", "u", "error"]
    assert [line.get_label() for line in both.lines] == ["target", "prediction"]
    for line, values in zip(both.lines, (target, prediction), strict=True):
        assert np.array_equal(line.get_ydata(), values[0])
    assert [text.get_text() for text in both.get_legend().texts] == ["target", "prediction"]
    assert before.get_legend() is None and len(error.lines) == 1


@pytest.mark.parametrize("shape", [(16,), (4, 6)])
def test_all_times_of_a_decay_share_their_scale(shape):
    start = np.random.default_rng(0).standard_normal((1, *shape))
    target = np.stack([start / 2**k for k in range(4)])
    figure = plot_sample(start, target, 1.1 * target, times=(1, 2, 3, 4))
    limits = {}
    for axes in figure.axes:
        if axes.get_visible() and axes.get_title():
            scale = axes.get_ylim() if len(shape) == 1 else axes.images[0].get_clim()
            limits.setdefault(axes.get_title().split(",")[0], set()).add(scale)
    assert {"target", "error"} < set(limits) and all(len(same) == 1 for same in limits.values())


@pytest.mark.parametrize(("least", "name"), [(0, "viridis"), (-0.05, "viridis"), (-0.5, "RdBu_r")])
def test_a_field_that_is_nearly_positive_has_a_sequential_map(least, name):
    assert field_style(np.array([least, 0.2, 1.0]))["cmap"] == name
    assert field_style(-np.array([least, 0.2, 1.0]))["cmap"] == name


@pytest.mark.parametrize("count", [1, 2, 9])
def test_a_trajectory_has_a_column_for_each_of_a_few_times(count):
    rng = np.random.default_rng(0)
    given, (target, prediction) = (
        rng.standard_normal((1, 4, 6)),
        rng.standard_normal((2, count, 1, 4, 6)),
    )
    times = np.arange(1, count + 1) / 10
    figure = plot_sample(given, target, prediction, names=(["k"], ["u"]), times=tuple(times))
    panels = shown(figure)
    columns = min(count, 4)
    assert len(panels) == 1 + columns + 2 and np.array_equal(panels["k"][0], given[0])
    assert np.array_equal(panels["u, t = 0.1"][0], target[0, 0])
    assert np.array_equal(panels[f"u, t = {times[-1]:g}"][0], target[-1, 0])
    assert np.array_equal(panels["prediction"][-1], prediction[-1, 0])
    assert len(panels["error"]) == columns
    assert np.array_equal(panels["error"][0], prediction[0, 0] - target[0, 0])


def test_every_channel_has_its_row_and_a_map_its_axes_and_colour_bar():
    given, target = np.random.default_rng(0).standard_normal((2, 3, 4, 6))
    figure = plot_sample(given, target[:2])
    assert list(shown(figure)) == ["input 1", "target 1", "input 2", "target 2", "input 3"]
    maps = [axes for axes in figure.axes if axes.images and axes.get_visible()]
    for axes in maps:
        (image,) = axes.images
        assert image.origin == "lower" and tuple(image.get_extent()) == (0, 1, 0, 1)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("x₁", "x₂")
        assert image.colorbar is not None
    assert len(maps) == 5


def test_a_volume_is_shown_by_its_three_slices_through_the_middle():
    volume = np.random.default_rng(0).standard_normal((1, 4, 6, 2))
    (first, *_) = plot_sample(volume, volume).axes
    picture = first.images[0].get_array().filled(np.nan).T
    assert picture.shape == (4 + 1 + 4 + 1 + 6, 6)
    assert np.array_equal(picture[:4], volume[0, :, :, 1])
    assert np.array_equal(picture[5:9, :2], volume[0, :, 3])
    assert np.array_equal(picture[10:, :2], volume[0, 2])
    assert np.isnan(picture[5:, 2:]).all() and np.isnan(picture[[4, 9]]).all()
    labels = [label.get_text() for label in first.get_xticklabels()]
    assert labels == ["x₁, x₂", "x₁, x₃", "x₂, x₃"]
    assert first.get_xlabel() == "slices through the middle"


def test_target_and_prediction_share_their_colours():
    target, error = np.random.default_rng(0).standard_normal((2, 1, 4, 6))
    figure = plot_sample(target, target, target + 0.1 * error)
    limits = {axes.get_title(): axes.images[0].get_clim() for axes in figure.axes if axes.images}
    assert limits["target"] == limits["prediction"] != limits["error"]
    assert limits["error"][0] == -limits["error"][1]


def test_a_pale_background_of_a_frame_becomes_white():
    pale = Image.new("RGB", (40, 20), (252, 251, 251))
    pale.paste((247, 247, 247), (0, 0, 10, 20))
    pixels = np.asarray(on_white(pale).convert("RGB"))
    assert (pixels[:, 10:] == 255).all() and (pixels[:, :10] == 247).all()


def test_the_middle_of_an_animation_is_its_frame_and_files_need_nothing_else(tmp_path):
    rng = np.random.default_rng(0)
    for shape in ((8,), (4, 6)):
        given, (target, found) = (
            rng.standard_normal((1, *shape)),
            rng.standard_normal((2, 5, 1, *shape)),
        )
        animation = animate_sample(given, target, found, times=(1, 2, 3, 4, 5), title="one")
        animation.update(2)
        panels = {name: values for name, (values,) in shown(animation.figure).items()}
        if shape == (8,):
            assert list(panels) == ["target", "error"]
            assert np.array_equal(animation.figure.axes[0].lines[1].get_ydata(), found[2, 0])
        else:
            assert list(panels) == ["target", "prediction", "error"]
            assert np.array_equal(panels["prediction"], found[2, 0])
        assert np.array_equal(panels["target"], target[2, 0])
        assert np.array_equal(panels["error"], (found - target)[2, 0])
        assert animation.figure.get_suptitle() == "one, t = 3"
    with Image.open(animation.save(tmp_path / "way.gif")) as picture:
        assert picture.n_frames == 5
        for frame in range(5):
            picture.seek(frame)
            assert picture.convert("RGB").getpixel((1, 1)) == (255, 255, 255)
    text = animation.save(tmp_path / "way.html").read_text(encoding="utf-8")
    assert text.count("data:image/png;base64") == 5
    assert "http" not in text and "fa-" not in text and "▶" in text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["way.gif", "way.html"]
    with pytest.raises(ValueError, match=r"ends with '.mp4'; expected .gif or .html"):
        animation.save(tmp_path / "way.mp4")
    with pytest.raises(ValueError, match="use plot instead of animate"):
        animate_sample(given, target[0])


def test_a_notebook_shows_a_figure_and_pyplot_knows_nothing_of_it():
    given = np.zeros((1, 4, 4))
    picture = plot_sample(given, given)._repr_png_()
    assert imread(io.BytesIO(picture), "png").std() > 0.02
    assert (
        "matplotlib.pyplot" not in sys.modules
        or not sys.modules["matplotlib.pyplot"].get_fignums()
    )


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
        figure = plot_sample(given[None], given[None], names=(["a"], ["b"]), title="title")
        path = save_figure(figure, tmp_path / f"{number}" / f"picture.{ending}")
        contents.append(path.read_bytes())
        assert [item.name for item in path.parent.iterdir()] == [f"picture.{ending}"]
    assert contents[0] == contents[1]
    if ending == "png":
        assert imread(tmp_path / "0" / "picture.png").shape[:2] == (345, 690)


def test_a_figure_that_cannot_be_written_leaves_nothing(tmp_path):
    given = np.zeros(4)
    figure = plot_sample(given[None], given[None], names=(["a"], ["b"]), title="title")
    with pytest.raises(ValueError, match="not supported"):
        save_figure(figure, tmp_path / "picture.xyz")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("count", [6, 7])
def test_symbols_are_centred(count):
    xi = np.array([k if 2 * k < count else k - count for k in range(count)], dtype=float)
    values = np.broadcast_to(xi[:, None], (1, 1, count, 3))
    assert centred(values)[0, 0, :, 0].tolist() == sorted(xi)
    assert np.array_equal(centred(values)[..., 0], centred(values)[..., 2])
    line = np.arange(5.0).reshape(1, 1, 5)
    assert np.array_equal(centred(line), line)


def test_signed_maps_are_symmetric():
    style = signed(np.array([1.0, -3.0]), np.array([2.0]))
    assert (style["vmin"], style["vmax"]) == (-3.0, 3.0)
    for value in (0.0, np.nan, np.inf):
        assert signed(np.array([value]))["vmax"] == 1.0
