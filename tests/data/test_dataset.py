"""Datasets as views: which samples, which points, which frames, and what is read for them."""

import itertools

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import pdno.data.generate as generation
from pdno.data import shards
from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.generate import generate_dataset, make_shard
from pdno.data.problems import BurgersProblem, DarcyProblem, HeatProblem
from pdno.data.shards import read_manifest, write_manifest
from pdno.spectral.grid import Grid

HEAT = HeatProblem(samples=40, resolution=16, frames=5, dtype="float64")


def make_here(problem, folder, missing, workers):
    for entry in missing:
        yield make_shard(problem, folder, *entry)


def made(problem, folder):
    """A dataset made in this process, which takes no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "_make_all", make_here)
        generate_dataset(problem, folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return made(HEAT, tmp_path_factory.mktemp("heat"))


@pytest.fixture
def numbered():
    """Frames whose values say where they come from: sample + frame/10 + point/1000."""
    sample = torch.arange(8.0).reshape(8, 1, 1, 1)
    frame = torch.arange(6.0).reshape(1, 6, 1, 1) / 10
    point = torch.arange(12.0).reshape(1, 1, 1, 12) / 1000
    outputs = (sample + frame + point).double()
    data = OperatorDataset.from_arrays(outputs[:, 0] - 100, outputs, Grid((12,)), range(1, 7))
    return data.to(torch.float64), outputs


def test_samples_are_those_of_the_problem(folder):
    data = open_dataset(folder).to(torch.float64)
    assert len(data) == 40 and data.times == HEAT.times and data.grid == HEAT.grid()
    for index in (0, 3, 39, -1):
        given, target = data[index]
        expected = HEAT.sample(index % 40)
        assert torch.equal(given, expected[0]) and torch.equal(target, expected[1])


def test_numbers_are_float32_unless_asked(folder):
    data = open_dataset(str(folder))
    given, target = data[5]
    assert given.dtype == target.dtype == torch.float32
    exact = data.to(torch.float64)[5]
    assert torch.equal(exact[1].float(), target) and not torch.equal(exact[1], target.double())
    for dtype in (torch.int64, torch.complex64):
        with pytest.raises(ValueError, match=f"dtype is {dtype}; expected a real one"):
            data.to(dtype)


def test_a_batch_has_the_order_that_was_asked_for(folder):
    data = open_dataset(folder)
    order = [31, 0, 7, 7, 30, -2, 6]
    inputs, targets = data.batch(order)
    for place, index in enumerate(order):
        assert torch.equal(inputs[place], data[index][0])
        assert torch.equal(targets[place], data[index][1])
    whole = data.batch()
    assert torch.equal(whole[1], torch.stack([data[index][1] for index in range(40)]))
    permuted = torch.randperm(40)
    assert torch.equal(data.batch(permuted)[1], whole[1][permuted])


@pytest.mark.parametrize("source", ["folder", "memory"])
def test_an_empty_batch_is_empty(folder, numbered, source):
    data = open_dataset(folder) if source == "folder" else numbered[0]
    inputs, targets = data.batch([])
    assert inputs.shape == (0, *data[0][0].shape) and targets.shape == (0, *data[0][1].shape)


@pytest.mark.parametrize("index", [40, -41, 10**9])
def test_a_sample_that_is_not_there_is_refused(folder, index):
    data = open_dataset(folder)
    with pytest.raises(IndexError, match=f"sample {index} of a dataset with 40"):
        data[index]
    with pytest.raises(ValueError, match=f"sample {index} of a dataset with 40"):
        data.batch([0, index])
    with pytest.raises(ValueError, match=f"sample {index} of a dataset with 40"):
        data.subset([0, index])


def test_iteration_ends_after_the_last_sample(numbered):
    assert len(list(numbered[0])) == 8


# Splits


def rows(data):
    """Which samples of `numbered` a view has."""
    return data.batch()[1][:, 0, 0, 0].round().long().tolist()


@pytest.mark.parametrize(
    ("train", "test", "expected"),
    [
        (None, 3, ([0, 1, 2, 3, 4], [5, 6, 7])),
        (2, 3, ([0, 1], [5, 6, 7])),
        (5, 3, ([0, 1, 2, 3, 4], [5, 6, 7])),
        (None, [1, 4], ([0, 2, 3, 5, 6, 7], [1, 4])),
        ([7, 0], [1, 4], ([7, 0], [1, 4])),
        (3, [6, 3], ([0, 1, 2], [6, 3])),
        (range(0, 8, 2), range(1, 8, 2), ([0, 2, 4, 6], [1, 3, 5, 7])),
    ],
)
def test_splits_are_disjoint_and_as_asked(numbered, train, test, expected):
    first, second = numbered[0].split(train, test=test)
    assert (rows(first), rows(second)) == expected
    assert not set(rows(first)) & set(rows(second))


@pytest.mark.parametrize(
    ("train", "test"),
    [
        (6, 3),
        (5, [4, 6]),
        ([0, 7], 1),
        ([0, 1, 2], [2]),
        (range(4), range(3, 8)),
    ],
)
def test_overlapping_splits_are_refused(numbered, train, test):
    with pytest.raises(ValueError, match=r"share \d samples: ask for fewer so that .* disjoint"):
        numbered[0].split(train, test=test)


def test_a_sample_that_occurs_twice_is_on_one_side_only(numbered):
    twice = numbered[0].subset([0, 1, 2, 0])
    with pytest.raises(ValueError, match="share 1 samples"):
        twice.split(test=1)
    assert rows(twice.split([1, 2], test=1)[1]) == [0]


def test_splits_of_splits_stay_disjoint(numbered):
    rest, test = numbered[0].subset([7, 5, 3, 1, 0, 2]).split(test=2)
    train, validation = rest.split(test=[0])
    assert (rows(train), rows(validation), rows(test)) == ([5, 3, 1], [7], [0, 2])


@pytest.mark.parametrize(
    ("train", "test", "message"),
    [
        (None, 0, "test=0 of 8 samples: expected 1 to 7"),
        (None, -1, "test=-1 of 8 samples"),
        (None, 8, "test=8 of 8 samples"),
        (None, 9, "test=9 of 8 samples"),
        (0, 2, "train=0 of 8 samples"),
        (-2, 2, "train=-2 of 8 samples"),
        (9, 2, "train=9 of 8 samples"),
        (None, [], "test=0 chosen of 8 samples"),
        ([], 2, "train=0 chosen of 8 samples"),
        (None, range(8), "test=8 chosen of 8 samples"),
        ([-1], [7], "sample -1 of a dataset with 8"),
        ([0], [-8], "sample -8 of a dataset with 8"),
        ([8], 2, "sample 8 of a dataset with 8"),
    ],
)
def test_impossible_splits_are_refused(numbered, train, test, message):
    with pytest.raises(ValueError, match=message):
        numbered[0].split(train, test=test)


# Points and frames


@pytest.mark.parametrize("every", [1, 2, 4])
def test_a_coarser_dataset_has_every_rth_point(numbered, every):
    data, outputs = numbered
    coarse = data.subsample(every)
    assert torch.equal(coarse.batch()[1], outputs[..., ::every])
    assert torch.equal(coarse.batch()[0], outputs[:, 0, :, ::every] - 100)
    assert torch.equal(coarse.grid.points(), data.grid.points()[::every])
    assert torch.equal(coarse.batch()[1], data.subsample(1).subsample(every).batch()[1])
    assert data.grid.shape == (12,)


def test_coarsening_twice_is_coarsening_by_the_product(numbered):
    twice, once = numbered[0].subsample(2).subsample(3), numbered[0].subsample(6)
    assert twice.grid == once.grid and torch.equal(twice.batch()[1], once.batch()[1])


def test_cell_centres_stay_where_they_are(tmp_path):
    problem = DarcyProblem(samples=2, resolution=16, solver_resolution=32)
    coarse = open_dataset(made(problem, tmp_path)).subsample(4)
    points = problem.solver_grid().points()[::8, ::8]
    assert torch.allclose(coarse.grid.points(), points, atol=1e-15, rtol=0)
    fine = problem.model_copy(update={"resolution": 32}).sample(1)
    for given, expected in zip(coarse[1], fine[:2], strict=True):
        assert torch.equal(given, expected[..., ::8, ::8].float())


@pytest.mark.parametrize("every", [0, -1, 5, 12, 24])
def test_points_that_are_not_there_are_refused(numbered, every):
    with pytest.raises(ValueError, match="cannot keep every|fewer than 2 points"):
        numbered[0].subsample(every)


@pytest.mark.parametrize(("inputs", "outputs"), [(1, None), (2, None), (5, None), (2, 3), (1, 1)])
def test_a_window_has_its_frames_as_channels_in_the_order_of_time(numbered, inputs, outputs):
    data, frames = numbered
    view = data.window(inputs=inputs, outputs=outputs)
    end = 6 if outputs is None else inputs + outputs
    given, target = view.batch()
    assert given.shape == (8, inputs, 12) and target.shape == (8, end - inputs, 1, 12)
    for frame in range(inputs):
        assert torch.equal(given[:, frame], frames[:, frame, 0])
    assert torch.equal(target, frames[:, inputs:end])
    assert view.times == tuple(map(float, range(1, end + 1))) and view.input_frames == inputs
    assert data.input_frames is None and data.batch()[1].shape == frames.shape


def test_the_channels_of_a_frame_stay_together_in_a_window():
    frames = torch.arange(2 * 3 * 2 * 4.0).reshape(2, 3, 2, 4)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((4,)), [0, 1, 2])
    given, target = data.window(inputs=2).batch()
    assert torch.equal(given, torch.cat([frames[:, 0], frames[:, 1]], dim=1))
    assert torch.equal(target, frames[:, 2:])


def test_views_may_be_taken_in_any_order(numbered):
    data, _ = numbered
    steps = [
        lambda view: view.window(inputs=2, outputs=2),
        lambda view: view.subsample(3),
        lambda view: view.subset([6, 1, 2]),
        lambda view: view.to(torch.float32),
    ]
    results = []
    for order in itertools.permutations(steps):
        view = data
        for step in order:
            view = step(view)
        results.append((*view.batch(), view.grid, view.times))
    for inputs, targets, grid, times in results:
        assert torch.equal(inputs, results[0][0]) and torch.equal(targets, results[0][1])
        assert grid == Grid((4,)) and times == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize(("inputs", "outputs"), [(0, None), (-1, 2), (6, None), (3, 4), (2, 0)])
def test_windows_that_do_not_fit_are_refused(numbered, inputs, outputs):
    with pytest.raises(ValueError, match=f"{inputs} input frames.* does not fit 6"):
        numbered[0].window(inputs=inputs, outputs=outputs)


def test_a_window_needs_frames_and_is_taken_once(numbered):
    with pytest.raises(ValueError, match="window already"):
        numbered[0].window(inputs=2).window(inputs=1)
    static = OperatorDataset.from_arrays(torch.ones(2, 1, 4), torch.ones(2, 1, 4), Grid((4,)))
    with pytest.raises(ValueError, match="static dataset has no frames"):
        static.window(inputs=1)


# Reading


@pytest.fixture
def opened(monkeypatch):
    """Names of the shards that are opened, in order."""
    names = []
    file = h5py.File

    def count(path, *arguments, **options):
        names.append(path.name)
        return file(path, *arguments, **options)

    monkeypatch.setattr(shards.h5py, "File", count)
    return names


def test_only_the_shards_that_are_asked_for_are_opened(folder, opened):
    data = open_dataset(folder)
    view = data.split(test=10)[1].window(inputs=2).subsample(2).to(torch.float64)
    assert len(view) == 10 and opened == []
    data[7]
    assert set(opened) == {"shard-00003.h5"}
    opened.clear()
    data.batch([39, 0, 38, 1])
    assert sorted(opened) == ["shard-00000.h5", "shard-00019.h5"]
    opened.clear()
    view[0]
    assert set(opened) == {"shard-00015.h5"}


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_a_loader_with_workers_gives_every_sample_once_and_in_order(folder, context):
    data = open_dataset(folder, verify=False).window(inputs=2).subsample(2)
    if context == "spawn":
        data = data.subset(range(4))
    loader = DataLoader(data, batch_size=3, num_workers=2, multiprocessing_context=context)
    batches = list(loader)
    expected = data.batch()
    for place in (0, 1):
        assert torch.equal(torch.cat([batch[place] for batch in batches]), expected[place])


def interrupt(folder, keep):
    manifest = read_manifest(folder)
    kept = tuple(shard for number, shard in enumerate(manifest.shards) if keep(number))
    for shard in set(manifest.shards) - set(kept):
        (folder / shard.file).unlink()
    write_manifest(folder, manifest.model_copy(update={"shards": kept, "complete": False}))


@pytest.fixture
def own_folder(tmp_path):
    return made(BurgersProblem(samples=4, resolution=16, solver_resolution=16), tmp_path)


def test_a_partial_dataset_is_refused_unless_asked_for(own_folder):
    whole = open_dataset(own_folder).batch()
    interrupt(own_folder, lambda number: number < 3)
    with pytest.raises(ValueError, match="is partial: 3 of 4 samples; run its `pdno generate`"):
        open_dataset(own_folder)
    part = open_dataset(own_folder, partial=True)
    assert len(part) == 3 and torch.equal(part.batch()[1], whole[1][:3])


def test_a_partial_dataset_ends_at_its_first_gap(own_folder):
    whole = open_dataset(own_folder).batch()
    interrupt(own_folder, lambda number: number != 2)
    part = open_dataset(own_folder, partial=True)
    assert len(part) == 2 and torch.equal(part.batch()[1], whole[1][:2])
    interrupt(own_folder, lambda number: number > 0)
    assert len(open_dataset(own_folder, partial=True)) == 0


def test_damage_is_named_with_the_cure(own_folder):
    path = own_folder / "shard-00001.h5"
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    message = r"shard-00001.h5 is damaged \(its SHA-256 .*\): run the dataset's `pdno generate`"
    for partial in (False, True):
        with pytest.raises(ValueError, match=message):
            open_dataset(own_folder, partial=partial)
    path.unlink()
    for verify in (False, True):
        with pytest.raises(ValueError, match=r"shard-00001.h5 is missing: run .*`pdno generate`"):
            open_dataset(own_folder, verify=verify)


def test_a_shard_that_vanishes_later_is_named(own_folder):
    data = open_dataset(own_folder)
    (own_folder / "shard-00002.h5").unlink()
    assert data[1][1].isfinite().all()
    with pytest.raises(ValueError, match="shard-00002.h5 is damaged or cannot be read"):
        data[2]


def test_a_folder_that_is_no_dataset_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is not a dataset: it has no manifest.json; see"):
        open_dataset(tmp_path)
    with pytest.raises(ValueError, match="is not a dataset"):
        open_dataset(tmp_path / "absent")


# Arrays


FIELD, FRAMES = torch.zeros(3, 1, 8), torch.zeros(3, 2, 1, 8)
NAN = torch.where(torch.arange(3).reshape(3, 1, 1) == 2, torch.nan, FIELD)


@pytest.mark.parametrize(
    ("inputs", "outputs", "times", "message"),
    [
        (FIELD[0], FIELD, None, r"inputs has shape \(1, 8\); expected \(B, C, 8\)"),
        (FIELD, FIELD[:, 0], None, r"outputs has shape \(3, 8\); expected \(B, C, 8\)"),
        (FIELD, FRAMES, None, r"outputs has shape \(3, 2, 1, 8\); expected \(B, C, 8\)"),
        (FIELD, FIELD, [1.0], r"outputs has shape \(3, 1, 8\); expected \(B, T, C, 8\)"),
        (FIELD[..., :7], FIELD, None, r"inputs has shape \(3, 1, 7\)"),
        (FIELD, FRAMES[..., ::2], [1, 2], r"outputs has shape \(3, 2, 1, 4\)"),
        (FIELD[:2], FIELD, None, "2 inputs but 3 outputs"),
        (FIELD, FRAMES, [1, 2, 3], "3 times but 2 frames of outputs"),
        (FIELD, FRAMES, [], "expected one or more finite, increasing times"),
        (FIELD, FRAMES, [2, 1], "increasing times"),
        (FIELD, FRAMES, [1, 1], "increasing times"),
        (FIELD, FRAMES, [0, torch.inf], "finite"),
        (FIELD, FRAMES, [torch.nan, 1], "finite"),
        (NAN, FIELD, None, "inputs of sample 2 have NaN or infinity: leave it out"),
        (FIELD, NAN / 0, None, "outputs of sample 0 have NaN or infinity"),
        (FIELD.tolist(), FIELD, None, "inputs are a list; expected a tensor or NumPy array"),
        (FIELD[:, 0], FIELD, None, r"inputs\[:, None\] adds the channel axis"),
        (FIELD, FIELD.long(), None, "outputs are of type torch.int64; expected real floats"),
        (FIELD, FIELD.cfloat(), None, "outputs are of type torch.complex64"),
    ],
)
def test_wrong_arrays_are_refused_with_the_reason(inputs, outputs, times, message):
    with pytest.raises(ValueError, match=message):
        OperatorDataset.from_arrays(inputs, outputs, Grid((8,)), times)


def test_arrays_are_not_copied_and_come_back_as_they_are():
    inputs, outputs = torch.randn(3, 2, 8), torch.randn(3, 1, 8)
    data = OperatorDataset.from_arrays(inputs, outputs, Grid((8,)))
    assert all(map(torch.equal, data.batch(), (inputs, outputs)))
    inputs[1, 0, 0] = 7.0
    assert data[1][0][0, 0] == 7.0


def test_a_dataset_on_disk_and_its_arrays_are_the_same_dataset(folder):
    data = open_dataset(folder).to(torch.float64)
    inputs, outputs = data.batch()
    copy = OperatorDataset.from_arrays(inputs, outputs, data.grid, data.times).to(torch.float64)
    views = [(view.window(inputs=3).subsample(4)).batch([5, 2]) for view in (data, copy)]
    assert all(map(np.array_equal, *views))


# How a dataset shows itself


def test_a_dataset_says_what_it_is_in_a_line():
    f = torch.randn(6, 3, 8, 4)
    data = OperatorDataset.from_arrays(f, f[:, :2], Grid((8, 4), periodic=False))
    assert repr(data) == "<OperatorDataset samples 6, channels 3 -> 2, grid 8 x 4 box>"
    frames = torch.randn(6, 5, 1, 8)
    data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((8,)), times=range(5))
    shown = repr(data.subset([0, 1]).window(2))
    assert shown.endswith(
        "samples 2, channels 2 frames of 1 -> 1, grid 8 periodic, times 3 from 2 to 4>"
    )
    assert "<td>5 from 0 to 4</td>" in data._repr_html_()


def test_a_sample_is_drawn_as_it_is_and_a_window_by_its_last_frame():
    frames = torch.randn(3, 5, 1, 8, generator=torch.Generator().manual_seed(0))
    data = OperatorDataset.from_arrays(frames[:, 0], frames, Grid((8,)), times=range(5))
    figure = data.window(2).plot(1, title="mine")
    curves = [axes.lines[0].get_ydata() for axes in figure.axes]
    expected = [frames[1, k, 0].numpy() for k in range(1, 5)]
    assert all((a == b).all() for a, b in zip(curves, expected, strict=True))
    titles = [axes.get_title() for axes in figure.axes]
    assert titles == ["input, t = 1", *(f"target, t = {t}" for t in (2, 3, 4))]
    assert figure.get_suptitle() == "mine" and data.animate(0).frames == 5
    with pytest.raises(ValueError, match=r"the prediction has shape \(5, 8\); expected"):
        data.plot(0, frames[0, :, 0])
    with pytest.raises(IndexError, match="sample 3 of a dataset with 3"):
        data.plot(3)


def test_panels_are_called_after_their_channels(tmp_path):
    f = torch.randn(2, 1, 8)
    u = torch.randn(2, 3, 2, 8)
    names = (["k"], ["speed_x", "heat"])
    data = OperatorDataset.from_arrays(f, u, Grid((8,)), times=[1, 2, 3], channels=names)
    data.save(tmp_path / "saved")
    for known in (data, open_dataset(tmp_path / "saved")):
        titles = [axes.get_title() for axes in known.plot(0).axes if axes.get_visible()]
        frames = [[f"{name}, t = {t}" for t in (1, 2, 3)] for name in ("speed x", "heat")]
        assert titles == ["k", *frames[0], *frames[1]]
        moving = [axes.get_title() for axes in known.animate(0, u[0]).figure.axes]
        assert moving == ["speed x", "error", "heat", "error"]
        assert known.window(2).plot(0).axes[0].get_title() == "speed x, t = 2"
