"""What is no field of numbers on a grid is refused with its cure, and not taken for one."""

import hashlib
import os

import numpy as np
import pytest
import torch

import pdno
from pdno.data.dataset import OperatorDataset, open_dataset
from pdno.data.problems import HeatProblem
from pdno.data.shards import MANIFEST, Manifest, write_manifest, write_shard
from pdno.spectral.calculus import interpolate
from pdno.spectral.grid import Grid

POINTS = 12
FIELD = np.random.default_rng(0).standard_normal((5, 1, POINTS)).astype("float32")


def trained(grid=None):
    data = OperatorDataset.from_arrays(FIELD, FIELD, grid or Grid((POINTS,)))
    network = torch.nn.Conv1d(1, 1, 1)
    return pdno.fit(network, data, epochs=1, device="cpu")


@pytest.mark.parametrize(
    ("name", "coordinates"),
    [
        ("where", np.random.default_rng(1).random((POINTS, 2))),
        ("where", np.random.default_rng(1).random((3, POINTS))),
        ("x", np.sort(np.random.default_rng(1).random(POINTS))),
        ("Points", np.random.default_rng(1).random((1, POINTS))),
    ],
)
def test_scattered_points_are_no_grid(tmp_path, name, coordinates):
    np.savez(tmp_path / "own.npz", f=FIELD[:, 0], u=FIELD[:, 0], **{name: coordinates})
    with pytest.raises(ValueError, match=rf"array {name} .* not evenly spaced.*coordinates="):
        pdno.read_own(tmp_path / "own.npz", inputs="f", outputs="u")


EVEN = np.linspace(0, 7, POINTS)


@pytest.mark.parametrize("x", [EVEN, EVEN[::-1], np.arange(5.0) ** 2, np.zeros((5, POINTS))])
def test_other_arrays_and_even_coordinates_hinder_nothing(tmp_path, x):
    np.savez(tmp_path / "own.npz", f=FIELD[:, 0], u=FIELD[:, 0], x=x)
    assert len(pdno.read_own(tmp_path / "own.npz", inputs="f", outputs="u")) == 5


@pytest.mark.parametrize("kind", [np.asarray, torch.as_tensor])
def test_a_grid_takes_no_coordinates(kind):
    for points in (kind(np.linspace(0, 1, 1000).reshape(500, 2)), kind(np.linspace(0, 1, 500))):
        with pytest.raises(ValueError, match="expected (points per axis|1, 2 or 3)") as refused:
            Grid(points)
        assert len(str(refused.value)) < 150


def test_a_masked_array_is_refused_and_not_read_behind_its_mask():
    masked = np.ma.masked_less(FIELD, 0)
    cure = r"masked array, and fields have no masks: fill the gaps, for example with \.filled"
    with pytest.raises(ValueError, match=f"inputs are a {cure}"):
        OperatorDataset.from_arrays(masked, FIELD, Grid((POINTS,)))
    with pytest.raises(ValueError, match=cure):
        OperatorDataset.from_pairs(list(zip(masked, FIELD, strict=True)))
    with pytest.raises(ValueError, match=f"PDE parameter nu are a {cure}"):
        numbers = {"nu": np.ma.masked_less(np.arange(5.0), 1)}
        OperatorDataset.from_arrays(FIELD, FIELD, Grid((POINTS,)), pde_parameters=numbers)
    with pytest.raises(ValueError, match=f"inputs are a {cure}"):
        trained().predict(masked)


@pytest.mark.parametrize("dtype", [np.longdouble, object])
def test_numbers_that_torch_does_not_have_are_named(dtype):
    message = rf"of type {np.dtype(dtype)}; expected real floats: convert them with .*float32"
    with pytest.raises(ValueError, match=f"inputs are {message}"):
        OperatorDataset.from_arrays(FIELD.astype(dtype), FIELD, Grid((POINTS,)))
    with pytest.raises(ValueError, match=f"inputs are {message}"):
        trained().predict(FIELD.astype(dtype))


def test_channels_last_are_named_with_moveaxis():
    last = np.zeros((5, POINTS, 3), "float32")
    with pytest.raises(ValueError, match=r"B, C, 12\): channels .* numpy.moveaxis\(inputs, -1, 1"):
        OperatorDataset.from_arrays(last, FIELD, Grid((POINTS,)))
    with pytest.raises(ValueError, match=r"numpy.moveaxis\(outputs, -1, 2"):
        frames = np.zeros((5, 2, POINTS, 3), "float32")
        OperatorDataset.from_arrays(FIELD, frames, Grid((POINTS,)), times=(1, 2))
    with pytest.raises(ValueError, match=r"\(B, 1, \*N\): channels .* numpy.moveaxis\(inputs"):
        trained().predict(FIELD.transpose(0, 2, 1))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_predict_refuses_what_is_not_finite(bad):
    f = FIELD.copy()
    f[3, 0, 4] = bad
    with pytest.raises(ValueError, match="inputs of sample 3 have NaN or infinity: leave it out"):
        trained().predict(f)


def test_samples_of_a_box_do_not_test_an_operator_of_the_torus():
    torus, box = Grid((POINTS,)), Grid((POINTS,), periodic=False)
    train, test = (OperatorDataset.from_arrays(FIELD, FIELD, grid) for grid in (torus, box))
    message = r"periodic=False.*periodic=True.*: expected the same kind of box, all periodic or"
    with pytest.raises(ValueError, match=message):
        pdno.fit(torch.nn.Conv1d(1, 1, 1), train, test, epochs=1, device="cpu")
    with pytest.raises(ValueError, match=message):
        pdno.evaluate(trained(), test)
    cells = OperatorDataset.from_arrays(FIELD, FIELD, Grid.cells((POINTS,)))
    assert pdno.evaluate(trained(box), cells).mean() >= 0


def test_interpolation_between_kinds_of_boxes_says_what_to_do():
    with pytest.raises(ValueError, match=r"same kind of box; make both periodic, or both a box"):
        interpolate(torch.zeros(8), Grid((8,)), Grid((8,), periodic=False))


def shard_in(folder):
    manifest = Manifest.of(HeatProblem(samples=2, resolution=16, frames=2))
    fields = torch.zeros(2, 1, 16), torch.zeros(2, 2, 1, 16)
    record = write_shard(folder, manifest, ("shard-00000.h5", 0, 2), fields, {"diffusivity": 0.05})
    write_manifest(folder, manifest.listing([record]))
    return folder / record.file


def test_a_link_in_place_of_a_temporary_file_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("precious")
    for name in (MANIFEST, "shard-00000.h5"):
        (tmp_path / f".{name}.{os.getpid()}.tmp").symlink_to(tmp_path / "victim")
    path = shard_in(tmp_path)
    assert not path.is_symlink() and len(open_dataset(tmp_path)) == 2
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_file_that_is_too_large_is_not_hashed(tmp_path, monkeypatch):
    """A sparse file takes no space and hours to read."""
    hashed = []
    digest = hashlib.file_digest

    def counted(file, name):
        hashed.append(os.fstat(file.fileno()).st_size)
        return digest(file, name)

    path = shard_in(tmp_path)
    trained().save(tmp_path / "operator")
    monkeypatch.setattr(hashlib, "file_digest", counted)
    open_dataset(tmp_path)
    pdno.load(tmp_path / "operator", network=torch.nn.Conv1d(1, 1, 1))
    assert 0 < max(hashed) < 2**20
    os.truncate(path, 2**40)
    with pytest.raises(ValueError, match="shard-00000.h5 is damaged .*`pdno generate`"):
        open_dataset(tmp_path)
    os.truncate(tmp_path / "operator" / "weights.safetensors", 2**40)
    with pytest.raises(ValueError, match=r"weights.safetensors needs 1,099,511,627,776 bytes"):
        pdno.load(tmp_path / "operator", network=torch.nn.Conv1d(1, 1, 1))
    assert max(hashed) < 2**20
