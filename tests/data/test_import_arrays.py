"""Users' own arrays: the letters of the axes say where every number goes, in every format."""

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from pdno.data.array_files import read_arrays
from pdno.data.problems import DataFile
from pdno.data.read import describe_data, read_own
from pdno.spectral.grid import Grid

N, T, C, X, Y, Z = 5, 3, 2, 4, 6, 8


def numbers(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def write_npz(path, **arrays):
    np.savez(path, **arrays)


def write_mat5(path, **arrays):
    scipy.io.savemat(path, arrays)


def write_mat73(path, **arrays):
    """As MATLAB does: HDF5 behind its own header, with all axes reversed."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            file[name] = array.T
    with open(path, "r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM")


def write_hdf5(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name] = array


def write_torch(path, **arrays):
    torch.save({name: torch.from_numpy(array.copy()) for name, array in arrays.items()}, path)


FORMATS = {
    "npz": write_npz,
    "mat": write_mat5,
    "v73.mat": write_mat73,
    "h5": write_hdf5,
    "pt": write_torch,
}
every_format = pytest.mark.parametrize("ending", FORMATS)


@every_format
def test_every_order_of_axes_is_put_in_order(tmp_path, ending):
    """f[n, c, x, y] and u[n, t, c, x, y] as they are, from any order on disk."""
    f, u = numbers(N, C, X, Y), numbers(N, T, C, X, Y)
    for letters_f, letters_u in (("ncxy", "ntcxy"), ("xycn", "cyxtn"), ("nyxc", "xyntc")):
        stored_f = np.transpose(f, ["ncxy".index(letter) for letter in letters_f])
        stored_u = np.transpose(u, ["ntcxy".index(letter) for letter in letters_u])
        path = tmp_path / f"{letters_f}.{ending}"
        FORMATS[ending](path, f=stored_f, u=stored_u, other=numbers(7))
        data = read_own(
            path,
            inputs="f",
            outputs="u",
            input_axes=letters_f,
            output_axes=letters_u,
            times=[0.5, 1.0, 2.5],
        )
        inputs, targets = data.batch()
        assert torch.equal(inputs, torch.from_numpy(f))
        assert torch.equal(targets, torch.from_numpy(u))
        assert data.grid == Grid((X, Y)) and data.times == (0.5, 1.0, 2.5)


@every_format
def test_one_channel_may_be_left_out(tmp_path, ending):
    """The layout of the published Navier-Stokes files; frames are counted from 1."""
    f, u = numbers(N, X, Y), numbers(N, X, Y, T)
    FORMATS[ending](tmp_path / f"flow.{ending}", a=f, u=u)
    data = read_own(
        tmp_path / f"flow.{ending}", inputs="a", outputs="u", input_axes="nxy", output_axes="nxyt"
    )
    inputs, targets = data.batch()
    assert torch.equal(inputs[:, 0], torch.from_numpy(f))
    assert torch.equal(targets[:, :, 0], torch.from_numpy(u).movedim(-1, 1))
    assert data.times == (1.0, 2.0, 3.0)


@pytest.mark.parametrize(("axes", "shape"), [("nx", (X,)), ("nxy", (X, Y)), ("nxyz", (X, Y, Z))])
def test_one_to_three_axes_of_space(tmp_path, axes, shape):
    f, u = numbers(N, *shape), 2 * numbers(N, *shape)
    np.savez(tmp_path / "static.npz", f=f, u=u)
    data = read_own(
        tmp_path / "static.npz", inputs="f", outputs="u", input_axes=axes, periodic=False
    )
    inputs, targets = data.batch()
    assert torch.equal(targets, 2 * inputs) and torch.equal(inputs[:, 0], torch.from_numpy(f))
    assert data.grid == Grid(shape, periodic=False) and data.times is None


def test_cell_centres_and_other_kinds_of_numbers(tmp_path):
    f = np.arange(N * X, dtype=np.int16).reshape(N, X)
    np.savez(tmp_path / "cells.npz", f=f, u=f.astype(np.float64) / 3)
    options = {"inputs": "f", "outputs": "u", "input_axes": "nx", "periodic": False, "offset": 0.5}
    data = read_own(tmp_path / "cells.npz", **options)
    assert data.grid == Grid.cells((X,))
    inputs, targets = data.batch()
    assert inputs.dtype == targets.dtype == torch.float32
    assert torch.equal(inputs[:, 0], torch.from_numpy(f).float())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"inputs": "g"}, "has no array 'g': it has f, u"),
        ({"outputs": "v"}, "has no array 'v'"),
        ({"input_axes": "nxx"}, "axes 'nxx' of 'f'; expected letters once each"),
        ({"input_axes": "nxw"}, "axes 'nxw' of 'f'"),
        ({"input_axes": "xyc"}, "axes 'xyc' of 'f'"),
        ({"input_axes": "ntc"}, "axes 'ntc' of 'f'"),
        ({"input_axes": "nx"}, r"array 'f' has shape \(5, 4, 6\), but 'nx' names 2 axes"),
        ({"input_axes": "ntx"}, "have a time: use `outputs` for frames"),
        ({"output_axes": "nxt"}, r"outputs has shape \(5, 6, 1, 4\); expected \(B, T, C, 4, 6\)"),
        ({"output_axes": "ncx"}, r"outputs has shape \(5, 4, 6\); expected \(B, C, 4, 6\)"),
        # x and y of the two arrays are not the same axes
        ({"input_axes": "nyx"}, r"outputs has shape .*; expected \(B, C, 6, 4\)"),
    ],
)
def test_wrong_names_and_axes_are_refused(tmp_path, changes, message):
    np.savez(tmp_path / "own.npz", f=numbers(N, X, Y), u=numbers(N, X, Y))
    options = {"inputs": "f", "outputs": "u", "input_axes": "nxy", "output_axes": "nxy", **changes}
    with pytest.raises(ValueError, match=message):
        read_own(tmp_path / "own.npz", **options)


def test_files_that_cannot_be_read_are_refused(tmp_path):
    options = {"inputs": "f", "outputs": "u", "input_axes": "nx"}
    for name, content in (("a.npz", b"PK\x03\x04junk"), ("b.npz", b""), ("c.npy", b"junk")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=f"cannot read .*{name}"):
            read_own(tmp_path / name, **options)
    with pytest.raises(OSError, match="absent"):
        read_own(tmp_path / "absent.npz", **options)


def test_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    np.savez(tmp_path / "trap.npz", f=np.array([Trap()], dtype=object), u=np.ones(3))
    np.save(tmp_path / "f.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.save(tmp_path / "u.npy", np.ones(3))
    for path in (tmp_path / "trap.npz", tmp_path):
        assert list(read_arrays(path)) == ["u"]
        assert "  f (1,) object" in describe_data(DataFile(path=path))
        with pytest.raises(ValueError, match=f"array 'f' of {path} holds no real numbers"):
            read_arrays(path, ["f"])
    assert not (tmp_path / "sprung").exists()


def test_numbers_that_are_not_real_are_refused_by_name(tmp_path):
    real, waves = numbers(N, X), numbers(N, X) + 1j
    words = np.array(["some", "words"])
    np.savez(tmp_path / "own.npz", f=real, u=waves, w=words)
    scipy.io.savemat(tmp_path / "own.mat", {"f": real, "u": waves, "w": "words"})
    write_hdf5(tmp_path / "own.h5", f=real, u=waves)
    for name in ("own.npz", "own.mat", "own.h5"):
        with pytest.raises(ValueError, match=f"array 'u' of .*{name} holds no real numbers"):
            read_arrays(tmp_path / name, ["u"])
        found = read_arrays(tmp_path / name)
        assert list(found) == ["f"] and np.array_equal(found["f"], real)


def test_an_array_file_is_called_after_itself(tmp_path):
    np.save(tmp_path / "fields.npy", numbers(N, X))
    (name,) = read_arrays(tmp_path / "fields.npy")
    assert name == "fields"
