"""The layout of docs/data_format.md, and what happens to damaged bytes."""

import hashlib
import io
import random

import h5py
import numpy as np
import pytest
import torch

from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.problems import (
    BurgersProblem,
    DarcyProblem,
    HeatProblem,
    NavierStokesProblem,
)
from pdno.data.shards import Manifest, ShardRecord, build_shard, write_manifest
from pdno.spectral.grid import Grid

PROBLEMS = [
    HeatProblem(samples=6, resolution=16, frames=3),
    BurgersProblem(samples=6, resolution=16, dtype="float64"),
    DarcyProblem(samples=6, resolution=8, seed=11),
    NavierStokesProblem(viscosity=1e-3, samples=6, resolution=8, final_time=2, dtype="float64"),
]
every_problem = pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)


def random_fields(problem, count):
    rng = np.random.default_rng(5)
    frames = () if problem.times is None else (len(problem.times),)
    shape = problem.grid().shape
    inputs = rng.standard_normal((count, *shape)).astype(problem.dtype)
    return inputs, rng.standard_normal((count, *frames, *shape)).astype(problem.dtype)


def built(problem, first=2, count=3):
    inputs, outputs = random_fields(problem, count)
    return build_shard(Manifest.of(problem), first, inputs, outputs, problem.parameters)


@pytest.fixture(params=PROBLEMS, ids=lambda problem: problem.name)
def shard(request):
    with h5py.File(io.BytesIO(built(request.param)), "r") as file:
        yield request.param, file


def test_the_groups_and_attributes_are_those_of_the_specification(shard):
    problem, file = shard
    axes = ["x", "y"][: problem.dim]
    kind = "wall" if problem.name == "darcy" else "periodic"
    given, solution = problem.fields
    varying = {"sample_varying", "time_varying"}
    expected = {
        "": {
            *("dataset_name", "grid_type", "n_spatial_dims", "n_trajectories"),
            *("simulation_parameters", "pdno_first_sample", "pdno_seed", *problem.parameters),
        },
        "dimensions": {"spatial_dims"},
        "dimensions/time": varying,
        "boundary_conditions": set(),
        "scalars": {"field_names"},
        "t0_fields": {"field_names"},
        "t1_fields": {"field_names"},
        "t2_fields": {"field_names"},
        f"t0_fields/{given}": {"dim_varying", *varying},
        f"t0_fields/{solution}": {"dim_varying", *varying},
    }
    for axis in axes:
        expected[f"dimensions/{axis}"] = varying
        place = f"boundary_conditions/{axis}_{kind}"
        expected[place] = {"associated_dims", "associated_fields", "bc_type", *varying}
        expected[f"{place}/mask"] = set()
    expected |= {f"scalars/{name}": varying for name in problem.parameters}
    found = {"": set(file.attrs)}
    file.visititems(lambda name, item: found.update({name: set(item.attrs)}))
    assert found == expected


def test_the_values_are_those_of_the_problem(shard):
    problem, file = shard
    assert file.attrs["dataset_name"] == f"pdno {problem.name}"
    assert file.attrs["grid_type"] == "cartesian"
    assert file.attrs["n_spatial_dims"] == problem.dim
    assert file.attrs["n_trajectories"] == 3
    assert file.attrs["pdno_first_sample"] == 2
    assert file.attrs["pdno_seed"] == problem.seed
    assert list(file.attrs["simulation_parameters"]) == list(problem.parameters)
    assert list(file["scalars"].attrs["field_names"]) == list(problem.parameters)
    for name, value in problem.parameters.items():
        assert file.attrs[name] == file["scalars"][name][()] == value
        assert not file["scalars"][name].attrs["sample_varying"]
    dimensions = file["dimensions"]
    assert dimensions["time"][:].tolist() == list(problem.times or (0.0,))
    assert list(dimensions.attrs["spatial_dims"]) == ["x", "y"][: problem.dim]
    for name, values in zip("xy", problem.grid().axes(), strict=False):
        assert np.array_equal(dimensions[name][:], values.numpy())


def test_the_boundaries_are_the_ends_of_each_axis(shard):
    problem, file = shard
    kind = "wall" if problem.name == "darcy" else "periodic"
    for axis in "xy"[: problem.dim]:
        boundary = file["boundary_conditions"][f"{axis}_{kind}"]
        assert boundary.attrs["bc_type"] == kind
        assert list(boundary.attrs["associated_dims"]) == [axis]
        mask = boundary["mask"][:]
        assert mask.dtype == bool and mask.shape == (problem.resolution,)
        assert np.flatnonzero(mask).tolist() == [0, problem.resolution - 1]


def test_fields_have_checksums_and_one_sample_per_chunk(shard):
    problem, file = shard
    fields = file["t0_fields"]
    assert list(fields.attrs["field_names"]) == list(problem.fields)
    assert len(file["t1_fields"].attrs["field_names"]) == 0
    assert len(file["t2_fields"].attrs["field_names"]) == 0
    static = problem.times is None
    for name, values, in_time in zip(
        problem.fields, random_fields(problem, 3), (False, not static), strict=True
    ):
        field = fields[name]
        assert np.array_equal(field[:], values) and field.dtype == problem.dtype
        assert field.fletcher32 and field.compression is None
        assert field.chunks == (1, *values.shape[1:])
        assert field.attrs["dim_varying"].tolist() == [True] * problem.dim
        assert field.attrs["sample_varying"] and field.attrs["time_varying"] == in_time


@every_problem
def test_equal_data_give_equal_bytes(problem):
    assert built(problem) == built(problem)
    assert built(problem) != built(problem, first=3)


def test_other_memory_order_and_wider_numbers_give_the_same_bytes():
    problem = PROBLEMS[0]
    inputs, outputs = random_fields(problem, 3)
    manifest = Manifest.of(problem)
    wide, turned = inputs.astype("f8"), np.asfortranarray(outputs)
    assert build_shard(manifest, 2, wide, turned, problem.parameters) == built(problem)


@pytest.fixture
def dataset(tmp_path):
    """A dataset of one shard with two samples of random numbers, and the bytes of the shard."""
    problem = NavierStokesProblem(viscosity=1e-3, samples=2, resolution=8, final_time=2)
    content = built(problem, first=0, count=2)
    (tmp_path / "shard-00000.h5").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest()
    record = ShardRecord(file="shard-00000.h5", first=0, count=2, sha256=digest, residual=0.0)
    manifest = Manifest.of(problem).model_copy(update={"shards": (record,), "complete": True})
    write_manifest(tmp_path, manifest)
    return tmp_path, content


def damage(dataset, content):
    (dataset[0] / "shard-00000.h5").write_bytes(content)


def field_bytes(content):
    """Where the numbers of the two fields lie."""
    problem = NavierStokesProblem(viscosity=1e-3, samples=2, resolution=8, final_time=2)
    for values in random_fields(problem, 2):
        for sample in values:
            start = content.index(sample.tobytes())
            yield from range(start, start + sample.nbytes)


def flipped(content, position, bit):
    damaged = bytearray(content)
    damaged[position] ^= 1 << bit
    return bytes(damaged)


def test_a_dataset_returns_what_was_written(dataset):
    inputs, outputs = open_dataset(dataset[0]).batch()
    problem = NavierStokesProblem(viscosity=1e-3, samples=2, resolution=8, final_time=2)
    expected = random_fields(problem, 2)
    assert np.array_equal(inputs[:, 0].numpy(), expected[0])
    assert np.array_equal(outputs[:, :, 0].numpy(), expected[1])


def test_a_flipped_bit_of_the_numbers_is_found_at_opening_or_at_reading(dataset):
    rng = random.Random(0)
    positions = list(field_bytes(dataset[1]))
    assert len(positions) == 2 * 3 * 8 * 8 * 4
    for position in positions[::2]:
        damage(dataset, flipped(dataset[1], position, rng.randrange(8)))
        with pytest.raises(ValueError, match="shard-00000.h5 is damaged .*SHA-256"):
            open_dataset(dataset[0])
        unchecked = open_dataset(dataset[0], verify=False)
        with pytest.raises(ValueError, match=r"shard-00000.h5 is damaged .*`pdno generate`"):
            unchecked.batch()


def test_a_flipped_bit_anywhere_is_found_or_harmless(dataset):
    expected = open_dataset(dataset[0]).batch()
    rng = random.Random(1)
    refused = 0
    for position in range(0, len(dataset[1]), 17):
        damage(dataset, flipped(dataset[1], position, rng.randrange(8)))
        with pytest.raises(ValueError, match="SHA-256"):
            open_dataset(dataset[0])
        try:
            given = open_dataset(dataset[0], verify=False).batch()
        except ValueError as error:
            assert "is damaged" in str(error)
            refused += 1
        else:
            # axes, masks and names of attributes carry no samples
            assert all(map(np.array_equal, given, expected))
    assert refused > 150


def test_every_truncation_is_found(dataset):
    content = dataset[1]
    for length in [*range(0, len(content), 97), len(content) - 1]:
        damage(dataset, content[:length])
        with pytest.raises(ValueError, match="SHA-256"):
            open_dataset(dataset[0])
        with pytest.raises(ValueError, match="is damaged"):
            open_dataset(dataset[0], verify=False).batch()


def test_another_shard_in_its_place_is_found(dataset):
    for problem in (
        NavierStokesProblem(viscosity=1e-3, samples=2, resolution=16, final_time=2),
        NavierStokesProblem(viscosity=1e-3, samples=2, resolution=8, final_time=3),
        NavierStokesProblem(
            viscosity=1e-3, samples=2, resolution=8, final_time=2, dtype="float64"
        ),
        DarcyProblem(samples=2, resolution=8),
    ):
        damage(dataset, built(problem, first=0, count=2))
        with pytest.raises(ValueError, match="SHA-256"):
            open_dataset(dataset[0])
        with pytest.raises(ValueError, match="the manifest says|is damaged"):
            open_dataset(dataset[0], verify=False).batch()


@pytest.mark.parametrize("content", [b"", b"not HDF5 at all", bytes(5000)])
def test_a_file_that_is_no_shard_is_refused(dataset, content):
    damage(dataset, content)
    with pytest.raises(ValueError, match="is damaged or cannot be read"):
        open_dataset(dataset[0], verify=False).batch()


def test_a_shape_too_large_for_memory_is_refused_before_it_is_allocated(dataset):
    with h5py.File(dataset[0] / "shard-00000.h5", "w") as file:
        for name in ("initial_vorticity", "vorticity"):
            huge = (2**40, 8, 8)
            file.require_group("t0_fields").create_dataset(name, huge, "f4", chunks=(1, 8, 8))
    with pytest.raises(ValueError, match="the manifest says"):
        open_dataset(dataset[0], verify=False).batch()


def test_many_small_samples_are_read_back(tmp_path):
    f = torch.arange(1500.0).reshape(1500, 1, 1).expand(-1, -1, 8)
    OperatorDataset.from_arrays(f, -f, Grid((8,))).save(tmp_path / "data")
    assert torch.equal(open_dataset(tmp_path / "data").batch([1499])[1], -f[1499:])
