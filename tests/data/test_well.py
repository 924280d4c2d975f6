"""The Well: its own checker and loader take our folders, and its files are read as datasets."""

import h5py
import numpy as np
import pytest
import torch
import yaml

import pdno
from pdno.data.dataset import OperatorDataset
from pdno.data.generate import make_shard
from pdno.data.problems import (
    BurgersProblem,
    DarcyProblem,
    DataFile,
    HeatProblem,
    NavierStokesProblem,
)
from pdno.data.read import describe_data
from pdno.data.shards import MANIFEST, Manifest, write_manifest
from pdno.data.well import is_well
from pdno.spectral.grid import Grid

PROBLEMS = [
    HeatProblem(samples=3, resolution=16, frames=3),
    BurgersProblem(samples=3, resolution=16, solver_resolution=64),
    DarcyProblem(samples=3, resolution=8, solver_resolution=8),
    NavierStokesProblem(
        viscosity=1e-3, samples=3, resolution=8, solver_resolution=16, final_time=2
    ),
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
B, T, X, Y = 4, 3, 6, 8


def make(problem, folder):
    """As `pdno generate`, in this process."""
    folder.mkdir(exist_ok=True)
    manifest = Manifest.of(problem)
    write_manifest(
        folder, manifest.listing([make_shard(problem, folder, *e) for e in manifest.plan()])
    )


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def mark(item, *, sample, time, dims=None):
    item.attrs["sample_varying"], item.attrs["time_varying"] = sample, time
    if dims is not None:
        item.attrs["dim_varying"] = dims


def write_well(path, *, kinds=("periodic", "periodic"), seed=0, x=None, times=(0.0, 0.5, 1.0)):
    """A file as others write them: a scalar, a vector, a matrix, a constant field, parameters."""
    fields = {
        "pressure": numbers(B, T, X, Y, seed=seed),
        "density": numbers(B, X, seed=seed + 1),
        "velocity": numbers(B, T, X, Y, 2, seed=seed + 2),
        "stress": numbers(B, T, X, Y, 2, 2, seed=seed + 3),
        "gamma": numbers(B, seed=seed + 4),
    }
    with h5py.File(path, "w") as file:
        file.attrs.update({"dataset_name": "flow", "grid_type": "cartesian", "n_spatial_dims": 2})
        file.attrs["n_trajectories"], file.attrs["simulation_parameters"] = B, ["gamma"]
        dimensions = file.create_group("dimensions")
        dimensions.attrs["spatial_dims"] = ["x", "y"]
        dimensions["time"] = np.array(times, dtype="f4")
        dimensions["x"] = np.arange(X, dtype="f4") * 0.25 if x is None else x
        dimensions["y"] = np.arange(Y, dtype="f4") * 0.25
        boundaries = file.create_group("boundary_conditions")
        for axis, kind in zip("xy", kinds, strict=True):
            boundaries.create_group(f"{axis}_{kind}").attrs["bc_type"] = kind
        groups = {"t0_fields": ["pressure", "density"], "t1_fields": ["velocity"]}
        groups |= {"t2_fields": ["stress"], "scalars": ["gamma"]}
        for group, names in groups.items():
            file.create_group(group).attrs["field_names"] = names
            for name in names:
                file[group][name] = fields[name]
                in_time, dims = fields[name].ndim > 2, [True, name != "density"]
                mark(file[group][name], sample=True, time=in_time, dims=dims)
    return fields


@pytest.mark.slow
@every_problem
def test_the_checker_of_the_well_passes_our_folders(tmp_path, problem, capsys):
    checker = pytest.importorskip(
        "check_thewell_formatting",
        reason="scripts/check_thewell_formatting.py of The Well's repository is not on the path; "
        "`make test-all` fetches it where there is a network",
    )
    make(problem, tmp_path / "made")
    pdno.open_dataset(tmp_path / "made").save(tmp_path / "saved")
    files = [*(tmp_path / "made").glob("*.h5"), *(tmp_path / "saved").glob("*.h5")]
    assert len(files) >= 2
    for file in files:
        checker.check_hdf5_format(str(file))
    told = capsys.readouterr().out
    groups = [
        "dimensions",
        "t0_fields",
        "t1_fields",
        "t2_fields",
        "scalars",
        "boundary_conditions",
    ]
    assert all(told.count(f"/{group} passed!") == len(files) for group in groups)


@pytest.mark.slow
@every_problem
def test_the_loader_of_the_well_gives_our_samples(tmp_path, problem):
    well = pytest.importorskip("the_well.data", reason="pip install pdno[well]")
    from the_well.data.normalization import ZScoreNormalization

    make(problem, tmp_path / "made")
    data = pdno.open_dataset(tmp_path / "made")
    pdno.save_well(tmp_path / "split", train=data.subset([0, 1]), test=data.subset([2]))
    inputs, targets = data.batch()
    frames = len(problem.times or (0,))
    whole = {"n_steps_input": frames, "n_steps_output": 0, "use_normalization": False}
    loaded = well.WellDataset(path=str(tmp_path / "made"), **whole)
    train = well.WellDataset(path=str(tmp_path / "split"), well_split_name="train", **whole)
    assert len(loaded) == 3 and len(train) == 2
    for index in range(3):
        for source in (loaded, train)[: 1 + (index < 2)]:
            sample = source[index]
            constant = sample["constant_fields"].movedim(-1, 0)
            assert torch.equal(constant[:1], inputs[index])
            if problem.times is None:
                assert torch.equal(constant[1:], targets[index])
            else:
                assert torch.equal(sample["input_fields"].movedim(-1, 1), targets[index])
    normalised = {**whole, "use_normalization": True, "normalization_type": ZScoreNormalization}
    if frames > 1:  # without steps in time there are no statistics of them
        scaled = well.WellDataset(
            path=str(tmp_path / "split"), well_split_name="train", **normalised
        )
        mean = torch.stack([scaled[k]["input_fields"] for k in range(2)]).mean()
        assert abs(float(mean)) < 1e-5


@every_problem
def test_the_statistics_are_those_of_the_training_samples(tmp_path, problem):
    make(problem, tmp_path / "made")
    data = pdno.open_dataset(tmp_path / "made")
    pdno.save_well(tmp_path / "split", train=data.subset([0, 1]), valid=data.subset([2]))
    found = yaml.safe_load((tmp_path / "split" / "stats.yaml").read_text())
    for name, field in zip(problem.fields, data.subset([0, 1]).batch(), strict=True):
        values = field.double().numpy()
        assert np.isclose(found["mean"][name], values.mean())
        assert np.isclose(found["std"][name], values.std())
        assert np.isclose(found["rms"][name], np.sqrt((values**2).mean()))
    if problem.times is not None and len(problem.times) > 1:
        steps = np.diff(data.subset([0, 1]).batch()[1].double().numpy(), axis=1)
        assert np.isclose(found["mean_delta"][problem.fields[1]], steps.mean())
    for split, rows in (("train", [0, 1]), ("valid", [2])):
        again = pdno.open_well(tmp_path / "split", split)
        assert all(map(torch.equal, again.batch(), data.subset(rows).batch()))
        assert again.grid == data.grid and again.times == data.times
    with pytest.raises(ValueError, match="expected train and any of"):
        pdno.save_well(tmp_path / "other", tests=data)


@every_problem
def test_our_shards_are_read_as_files_of_the_well(tmp_path, problem):
    """Without the manifest the headers alone say grid, times and fields."""
    make(problem, tmp_path)
    data = pdno.open_dataset(tmp_path)
    (tmp_path / MANIFEST).unlink()
    first, second = problem.fields
    other = pdno.read_own(tmp_path, inputs=first, outputs=second)
    assert all(map(torch.equal, other.batch(), data.batch()))
    assert other.grid == data.grid and other.times == data.times
    assert other.channels == data.channels == ((first,), (second,))


def test_fields_become_channels(tmp_path):
    """Components of vectors and matrices, first frames as inputs, constants repeated in y."""
    fields = [write_well(tmp_path / f"{k}.hdf5", seed=10 * k) for k in range(2)]
    data = pdno.open_well(tmp_path)
    assert len(data) == 2 * B and data.grid == Grid((X, Y)) and data.times == (0.0, 0.5, 1.0)
    stress = [f"stress_{a}{b}" for a in "xy" for b in "xy"]
    moving = ("pressure", "velocity_x", "velocity_y", *stress)
    assert data.channels == (("density", *moving), moving)
    for row, (file, inside) in ((1, (0, 1)), (6, (1, 2))):
        inputs, targets = data[row]
        stored = {name: torch.as_tensor(field[inside]) for name, field in fields[file].items()}
        assert torch.equal(inputs[0], stored["density"][:, None].expand(X, Y))
        assert torch.equal(targets[:, 0], stored["pressure"])
        assert torch.equal(targets[:, 1:3], stored["velocity"].movedim(-1, 1))
        assert torch.equal(targets[:, 3:], stored["stress"].flatten(-2).movedim(-1, 1))
        assert torch.equal(inputs[1:], targets[0])
    rows = [7, 0, 3, 3]
    picked = torch.stack([data[row][0] for row in rows])
    assert torch.equal(data.batch(rows)[0], picked)


def test_names_choose_fields_and_scalars(tmp_path):
    fields = write_well(tmp_path / "flow.h5")
    data = pdno.open_well(
        tmp_path / "flow.h5", inputs=["density", "gamma"], outputs="velocity", times=[1, 2, 3]
    )
    inputs, targets = data.batch()
    assert data.channels.inputs == ("density", "gamma") and data.times == (1.0, 2.0, 3.0)
    gamma = torch.from_numpy(fields["gamma"])
    assert torch.equal(inputs[:, 1], gamma[:, None, None].expand(B, X, Y))
    assert torch.equal(targets, torch.from_numpy(fields["velocity"]).movedim(-1, 2))
    data.save(tmp_path / "ours")
    again = pdno.open_dataset(tmp_path / "ours")
    assert all(map(torch.equal, again.batch(), data.batch())) and again.channels == data.channels


@pytest.mark.parametrize(
    ("kinds", "first", "grid"),
    [
        (("periodic", "periodic"), 0.0, Grid((X, Y))),
        (("periodic", "wall"), 0.0, Grid((X, Y), periodic=False)),
        (("wall", "open"), -3.0, Grid((X, Y), periodic=False)),
    ],
)
def test_boundaries_and_coordinates_say_the_grid(tmp_path, kinds, first, grid):
    write_well(tmp_path / "flow.h5", kinds=kinds, x=first + np.arange(X) * 0.5)
    assert pdno.open_well(tmp_path / "flow.h5").grid == grid
    assert pdno.open_well(tmp_path / "flow.h5", periodic=False, offset=0.5).grid == Grid.cells(
        (X, Y)
    )


def test_what_is_not_alike_or_not_there_is_refused(tmp_path):
    write_well(tmp_path / "flow.h5")
    for options, message in (
        ({"inputs": "speed"}, "is 'speed'; expected one of pressure, density, velocity"),
        ({"outputs": ["density", "pressure"]}, "are not alike: name fields that all vary in time"),
        ({"outputs": "gamma"}, "are not alike"),
        ({"times": [1.0]}, "1 times for 3 frames"),
        ({"times": "t"}, "has times of its own, not 't': leave out times, or list them"),
        ({"split": "test"}, "has no folder data with splits: leave out split='test'"),
        ({"input": "density"}, r"input: unknown key; did you mean 'inputs'\?"),
    ):
        with pytest.raises(ValueError, match=message):
            pdno.open_well(tmp_path / "flow.h5", **options)
    write_well(tmp_path / "later.h5", times=(0.0, 1.0, 2.0))
    with pytest.raises(ValueError, match=r"later.h5 and .*flow.h5 have different times"):
        pdno.open_well(tmp_path)
    write_well(tmp_path / "bent.h5", x=np.arange(X) ** 2.0)
    with pytest.raises(ValueError, match="the coordinates x of .* are not evenly spaced"):
        pdno.open_well(tmp_path / "bent.h5")
    with pytest.raises(ValueError, match="has no HDF5 files"):
        pdno.open_well(tmp_path / "absent")


def test_wrong_shapes_numbers_and_bytes_are_refused(tmp_path):
    path = tmp_path / "flow.h5"
    write_well(path)
    with h5py.File(path, "r+") as file:
        file["t0_fields/pressure"][2, 1, 0, 0] = np.nan
    with pytest.raises(ValueError, match="sample 2 of .* has NaN or infinity: leave it out"):
        pdno.open_well(path).batch()
    assert pdno.open_well(path).subset([0, 1, 3]).batch()[0].isfinite().all()
    with h5py.File(path, "r+") as file:
        file.attrs["n_trajectories"] = B + 1
    with pytest.raises(ValueError, match=r"pressure has shape \(4, 3, 6, 8\), its attributes say"):
        pdno.open_well(path)
    with h5py.File(path, "r+") as file:
        del file["dimensions/time"]
    with pytest.raises(ValueError, match="cannot read .*flow.h5.*time"):
        pdno.open_well(path)
    path.write_bytes(path.read_bytes()[:1000])
    assert not is_well(path)
    with pytest.raises(ValueError, match="cannot read .*flow.h5"):
        pdno.open_well(path)


def test_described_with_names_and_ranges(tmp_path):
    fields = write_well(tmp_path / "flow.h5")
    text = describe_data(DataFile(path=tmp_path / "flow.h5"))
    assert f"samples {B}, channels 8 -> 7, grid {X} x {Y} periodic, times {T} from 0 to 1" in text
    low, high = fields["density"].min(), fields["density"].max()
    assert f"  input      density ({X}, {Y}): {low:.4g} .. {high:.4g}" in text
    assert f"  output     velocity_y ({T}, {X}, {Y})" in text


def test_a_network_trains_on_it(tmp_path):
    write_well(tmp_path / "flow.h5")
    data = pdno.open_well(tmp_path / "flow.h5").window(inputs=1)
    assert isinstance(data, OperatorDataset) and data.channels.inputs[1] == "velocity_x t=0"
    network = pdno.FNO(2, 7, 7, width=4, modes=2)
    trained = pdno.fit(network, data, task=pdno.Rollout(), epochs=1, device="cpu")
    assert trained.history[-1].train > 0
