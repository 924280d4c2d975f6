"""Published files: every published layout, number by number."""

import random
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import torch

from pdno.data.foreign_hdf5 import look_through
from pdno.data.problems import DataFile
from pdno.data.read import (
    PublishedData,
    PublishedFileError,
    describe_data,
    read_published,
)
from pdno.files.tensor_file import TensorFileError

PUBLISHED = Path(__file__).parents[3] / "shared/reference/pdno_ns_v1e-5_published.bin"
HEADER = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"


def describe(path):
    return describe_data(DataFile(path=path))


def numbers(*shape, dtype=np.float32):
    """Different everywhere, so that no two axes can be swapped unnoticed."""
    return (np.arange(np.prod(shape), dtype=dtype) / 8 - 3).reshape(shape)


def save_mat5(path, arrays, **options):
    scipy.io.savemat(path, arrays, **options)


def save_mat73(path, arrays, **options):
    """As MATLAB does: a header of 512 bytes, all axes reversed, cells as references."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, value in arrays.items():
            if isinstance(value, list):
                save_cells(file, name, value)
            else:
                value = np.atleast_2d(value).T
                file.create_dataset(name, data=value, **options).attrs["MATLAB_class"] = "single"
    with open(path, "r+b") as file:
        file.write(HEADER)


def save_cells(file, name, matrices):
    group = file.require_group("#refs#")
    references = []
    for k, matrix in enumerate(matrices):
        group[f"{name}{k}"] = matrix.T
        references.append(group[f"{name}{k}"].ref)
    cells = np.array(references, dtype=h5py.ref_dtype).reshape(1, -1)
    file.create_dataset(name, data=cells, dtype=h5py.ref_dtype)


def save_torch(path, arrays):
    torch.save({name: torch.from_numpy(value) for name, value in arrays.items()}, path)


WRITERS = {
    "MAT v5": save_mat5,
    "MAT v5 packed": lambda path, arrays: save_mat5(path, arrays, do_compression=True),
    "MAT v7.3": save_mat73,
    "MAT v7.3 packed": lambda path, arrays: save_mat73(path, arrays, compression="gzip"),
    "torch archive": save_torch,
}


@pytest.fixture(params=WRITERS)
def save(request):
    return WRITERS[request.param]


def check(data, kind, inputs, outputs):
    assert isinstance(data, PublishedData) and data.kind == kind
    for given, expected in ((data.inputs, inputs), (data.outputs, outputs)):
        if expected is None:
            assert given is None
        else:
            assert given.dtype == torch.float32 and given.is_contiguous()
            assert given.shape == expected.shape
            np.testing.assert_array_equal(given.numpy(), expected.astype(np.float32))


def test_heat(tmp_path, save):
    arrays = {"input": numbers(4, 8), "output": numbers(4, 21, 8, dtype=np.float64)}
    save(tmp_path / "heat_data_1024.mat", arrays)
    data = read_published(tmp_path / "heat_data_1024.mat")
    check(data, "heat", arrays["input"][:, None], arrays["output"][:, :, None])
    assert data.times == pytest.approx(np.linspace(0, 1, 21))
    assert "0, 0.05, ..., 1" in data.notes[0]


def test_heat_with_other_frames_has_no_times(tmp_path):
    save_mat5(tmp_path / "h.mat", {"input": numbers(4, 8), "output": numbers(4, 5, 8)})
    data = read_published(tmp_path / "h.mat")
    assert data.times is None and data.notes == ("the file stores no times",)


def test_burgers(tmp_path, save):
    arrays = {name: numbers(6, 16) * k for k, name in enumerate(("a", "u", "a_smooth", "a_x"), 1)}
    save(tmp_path / "burgers_data_R10.mat", arrays)
    data = read_published(tmp_path / "burgers_data_R10.mat")
    check(data, "burgers", arrays["a"][:, None], arrays["u"][:, None])
    assert data.times == (1.0,)
    assert data.notes == ("arrays that are not read: a_smooth, a_x",)


def test_darcy(tmp_path, save):
    coefficient = np.where(numbers(5, 6, 6) % 1 > 0.4, 12.0, 3.0)
    arrays = {"coeff": coefficient, "sol": numbers(5, 6, 6), "Kcoeff": numbers(5, 6, 6)}
    save(tmp_path / "piececonst_r421_N1024_smooth1.mat", arrays)
    data = read_published(tmp_path / "piececonst_r421_N1024_smooth1.mat")
    check(data, "darcy", arrays["coeff"][:, None], arrays["sol"][:, None])
    assert data.times is None and data.notes == ("arrays that are not read: Kcoeff",)


def test_darcy_in_cells(tmp_path):
    arrays = {"a_train": numbers(5, 4, 4), "p_train": numbers(5, 4, 4) ** 2}
    path = tmp_path / "all_train_test_Darcy.mat"
    save_mat73(path, {name: list(value) for name, value in arrays.items()})
    check(read_published(path), "darcy", arrays["a_train"][:, None], arrays["p_train"][:, None])
    part = slice(1, 5, 2)
    check(
        read_published(path, samples=part),
        "darcy",
        arrays["a_train"][part, None],
        arrays["p_train"][part, None],
    )


def vorticity(samples=3, points=4, frames=6):
    return {
        "a": numbers(samples, points, points),
        "u": numbers(samples, points, points, frames),
        "t": np.arange(1.0, frames + 1),
    }


def test_navier_stokes(tmp_path, save):
    arrays = vorticity()
    save(tmp_path / "NavierStokes_V1e-5_N1200_T20.mat", arrays)
    data = read_published(tmp_path / "NavierStokes_V1e-5_N1200_T20.mat")
    frames_first = arrays["u"].transpose(0, 3, 1, 2)[:, :, None]
    check(data, "navier-stokes", arrays["a"][:, None], frames_first)
    assert data.times == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0) and data.notes == ()
    # x1 stays before x2: sample 2, frame 5, point (1, 3).
    assert data.outputs[2, 5, 0, 1, 3] == arrays["u"][2, 1, 3, 5] != arrays["u"][2, 3, 1, 5]


def test_samples_and_frames_select(tmp_path, save):
    arrays = vorticity(samples=7)
    save(tmp_path / "x.mat", arrays)
    for part in (slice(2, 5), slice(-2, None), slice(0, 7, 3), slice(None, 100)):
        data = read_published(tmp_path / "x.mat", samples=part, frames=4)
        expected = arrays["u"][part, :, :, :4].transpose(0, 3, 1, 2)[:, :, None]
        check(data, "navier-stokes", arrays["a"][part, None], expected)
        assert data.times == (1.0, 2.0, 3.0, 4.0)


@pytest.mark.parametrize("part", [slice(9, 12), slice(2, 2), slice(None, None, -1), 3])
def test_samples_that_are_not_there_are_refused(tmp_path, part):
    save_mat5(tmp_path / "x.mat", vorticity())
    with pytest.raises(ValueError, match=r"x\.mat: samples="):
        read_published(tmp_path / "x.mat", samples=part)


@pytest.mark.parametrize("frames", [0, -1, 7])
def test_frames_that_are_not_there_are_refused(tmp_path, frames):
    save_mat5(tmp_path / "x.mat", vorticity())
    with pytest.raises(ValueError, match=rf"frames={frames}; its outputs have 6 frames"):
        read_published(tmp_path / "x.mat", frames=frames)
    save_mat5(tmp_path / "b.mat", {"a": numbers(2, 4), "u": numbers(2, 4)})
    with pytest.raises(ValueError, match="its outputs have 0 frames"):
        read_published(tmp_path / "b.mat", frames=1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_one_bare_tensor(tmp_path, dtype):
    tensor = torch.from_numpy(vorticity()["u"]).to(dtype)
    torch.save(tensor, tmp_path / "ns_V1e-5_N1200_T20.bin")
    data = read_published(tmp_path / "ns_V1e-5_N1200_T20.bin")
    check(data, "navier-stokes", None, tensor.float().permute(0, 3, 1, 2)[:, :, None].numpy())
    assert data.times == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert data.notes == ("the file stores no times: the time of a frame is its index + 1",)


def test_more_frames_than_the_name_says(tmp_path, save):
    save(tmp_path / "ns_V1e-4_N10000_T4.mat", vorticity(frames=6))
    data = read_published(tmp_path / "ns_V1e-4_N10000_T4.mat")
    assert data.outputs.shape == (3, 6, 1, 4, 4)
    assert "frames go on to t = 6, but the name says T4: frames=4 reads" in data.notes[0]


def test_fewer_times_than_frames(tmp_path):
    arrays = vorticity()
    save_mat73(tmp_path / "x.mat", {**arrays, "t": arrays["t"][:4]})
    data = read_published(tmp_path / "x.mat")
    assert data.times == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)
    assert data.notes == ("t lists 4 times for 6 frames: index + 1 is used",)
    save_mat73(tmp_path / "x.mat", {**arrays, "t": np.zeros((400, 400))})
    with pytest.raises(ValueError, match="no list of times"):
        read_published(tmp_path / "x.mat")
    for times in (arrays["t"][:4] / 2, arrays["t"][::-1], arrays["t"] * np.nan):
        save_mat73(tmp_path / "x.mat", {**arrays, "t": times})
        with pytest.raises(ValueError, match="t has . times that fit no 6 frames"):
            read_published(tmp_path / "x.mat")


def test_four_frames_per_unit_of_time(tmp_path):
    # Without t only the shape tells; zeros keep the file small.
    path = tmp_path / "ns_data_V1e-4_N20_T50_R256test.mat"
    states = np.zeros((1, 256, 256, 200), dtype=np.int8)
    states[0, 5, 7] = np.arange(200) - 100
    scipy.io.savemat(path, {"u": states}, do_compression=True)
    data = read_published(path)
    assert data.outputs.shape == (1, 200, 1, 256, 256) and data.inputs is None
    assert data.outputs[0, :, 0, 5, 7].tolist() == list(range(-100, 100))
    assert data.times == tuple((k + 1) / 4 for k in range(200))
    assert data.notes == (
        "4 frames per unit of time: whole times are at the indices 3, 7, 11, ...",
    )
    arrays = vorticity(frames=8)
    summed = np.cumsum(np.full(8, 0.25, dtype=np.float32)) + np.float32(3e-8)
    save_mat5(tmp_path / "x_T2.mat", {**arrays, "t": summed})
    data = read_published(tmp_path / "x_T2.mat")
    assert data.times == (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)
    assert data.notes == (
        "4 frames per unit of time: whole times are at the indices 3, 7, 11, ...",
    )


@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_numbers_stored_in_a_smaller_type_and_either_byte_order(tmp_path, byte_order):
    """MATLAB stores the doubles 3 and 12 as bytes; the element may even fit into its tag."""
    path = tmp_path / "small.mat"
    path.write_bytes(mat5_by_hand(byte_order, {"coeff": b"\x0c\x03\x03\x0c", "sol": b"\1\2\3\4"}))
    data = read_published(path)
    assert data.inputs.tolist() == [[[[12.0, 3.0], [3.0, 12.0]]]]
    assert data.outputs.tolist() == [[[[1.0, 3.0], [2.0, 4.0]]]]


def mat5_by_hand(order, variables):
    """A MAT v5 file of double arrays (1, 2, 2), four bytes of numbers each."""
    name = {"<": "little", ">": "big"}[order]

    def words(*values):
        return b"".join(value.to_bytes(4, name) for value in values)

    magic = {"<": b"\x00\x01IM", ">": b"\x01\x00MI"}[order]
    content = b"MATLAB 5.0 MAT-file".ljust(124) + magic
    for key, data in variables.items():
        text = key.encode()
        label = words(1, len(text)) + text.ljust(8, b"\0")
        if len(text) <= 4:
            label = words(len(text) << 16 | 1) + text.ljust(4, b"\0")
        body = words(6, 8, 6, 0) + words(5, 12, 1, 2, 2, 0) + label + words(4 << 16 | 2) + data
        content += words(14, len(body)) + body
    return content


def test_a_value_that_is_not_finite_is_named(tmp_path, save):
    for bad in (np.nan, np.inf, 1e300):
        arrays = vorticity()
        arrays["u"] = arrays["u"].astype(np.float64)
        arrays["u"][1, 2, 3, 4] = bad
        save(tmp_path / "bad.mat", arrays)
        with pytest.raises(ValueError, match=r"bad\.mat: array u .* not finite .* sample 1;"):
            read_published(tmp_path / "bad.mat", samples=slice(1, 3))
        assert read_published(tmp_path / "bad.mat", samples=slice(2, 3)).outputs.isfinite().all()


@pytest.mark.parametrize(
    "arrays",
    [
        {"x": numbers(3, 4)},
        {"a": numbers(3, 4)},
        {"a": numbers(3, 4), "u": numbers(4, 4)},
        {"a": numbers(3, 4, 4), "u": numbers(3, 4, 4)},
        {"a": numbers(3, 5, 5), "u": numbers(3, 4, 4, 2)},
        {"u": numbers(3, 4, 5, 2)},
        {"input": numbers(3, 4), "output": numbers(3, 4)},
        {"coeff": numbers(3, 4, 4)},
        {"coeff": numbers(3, 4, 4), "sol": numbers(3, 4, 4) * 1j},
        {
            "a": numbers(3, 4),
            "u": numbers(3, 4),
            "coeff": numbers(3, 4, 4),
            "sol": numbers(3, 4, 4),
        },
    ],
)
def test_other_arrays_are_refused_with_what_was_expected(tmp_path, save, arrays):
    save(tmp_path / "x.mat", arrays)
    with pytest.raises(PublishedFileError, match=r"x\.mat: it holds .*\(.*fits .*heat: input"):
        read_published(tmp_path / "x.mat")
    assert "not published data: it holds" in describe(tmp_path / "x.mat")


def test_plain_hdf5_is_listed_but_not_read(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["inner/u"] = numbers(3, 4, 4, 6)
        file["label"] = "text"
        file["nothing"] = h5py.Empty("f4")
    with pytest.raises(ValueError, match="order of its axes is not known"):
        read_published(tmp_path / "x.h5")
    text = describe(tmp_path / "x.h5")
    assert "x.h5: HDF5" in text and "inner/u (3, 4, 4, 6) float32" in text


def test_arrays_in_other_files_are_not_followed(tmp_path):
    (tmp_path / "raw").write_bytes(bytes(4 * 24))
    save_mat73(tmp_path / "x.mat", {"sol": numbers(1, 2, 2)})
    save_mat73(tmp_path / "other.mat", {"u": numbers(3, 4, 4, 2)})
    with h5py.File(tmp_path / "x.mat", "r+") as file:
        file["u"] = h5py.ExternalLink(str(tmp_path / "other.mat"), "u")
    assert "  u (" not in describe(tmp_path / "x.mat")
    with h5py.File(tmp_path / "x.mat", "r+") as file:
        file.create_dataset("coeff", (1, 2, 2), "f4", external=[(str(tmp_path / "raw"), 0, 16)])
    with pytest.raises(ValueError, match="coeff is stored in another file"):
        read_published(tmp_path / "x.mat")


def test_absurd_sizes_are_refused_before_allocation(tmp_path):
    save_mat73(tmp_path / "x.mat", {"coeff": numbers(1, 2, 2)})
    with h5py.File(tmp_path / "x.mat", "r+") as file:
        file.create_dataset("sol", (10**5, 10**5, 10**5), "f4", chunks=(10, 10, 10))
    with pytest.raises(
        ValueError, match=r"x\.mat: array sol declares 4,000,000,000,000,000 bytes"
    ):
        read_published(tmp_path / "x.mat")
    save_mat5(tmp_path / "y.mat", {"coeff": numbers(1, 2, 2), "sol": numbers(1, 2, 2)})
    content = (tmp_path / "y.mat").read_bytes()
    shape = np.array([1, 2, 2], dtype="<i4").tobytes()
    huge = np.array([2**31 - 1, 2**31 - 1, 2], dtype="<i4").tobytes()
    (tmp_path / "y.mat").write_bytes(content.replace(shape, huge))
    with pytest.raises(ValueError, match="does not fit 16 bytes"):
        read_published(tmp_path / "y.mat")


def test_a_machine_too_small_is_told_in_advance(tmp_path, monkeypatch):
    save_mat5(tmp_path / "x.mat", vorticity())
    monkeypatch.setattr("os.sysconf", lambda name: 1 if name == "SC_PAGE_SIZE" else 800)
    with pytest.raises(ValueError, match="array u needs 1,152 bytes, more than the 400 that"):
        read_published(tmp_path / "x.mat")
    assert read_published(tmp_path / "x.mat", samples=slice(0, 1)).outputs.shape[0] == 1


def test_describe_says_what_a_file_is_read_as(tmp_path, save):
    save(tmp_path / "ns_T4.mat", vorticity())
    text = describe(tmp_path / "ns_T4.mat")
    form = next(name for name, writer in WRITERS.items() if writer is save).removesuffix(" packed")
    assert text.startswith(f"ns_T4.mat: {form}, ")
    assert "  u (3, 4, 4, 6) " in text
    assert "navier-stokes: 3 samples on 4 x 4 points" in text
    assert "  inputs a, outputs u" in text and "  6 frames, t = 1 to 6" in text
    assert "  note: frames go on to t = 6" in text


def test_describe_lists_unknown_files(tmp_path):
    scipy.io.savemat(
        tmp_path / "x.mat",
        {
            "text": "abc",
            "cells": np.array([1, "b"], dtype=object),
            "record": {"y": 1},
            "byte": np.zeros((2, 3), dtype=np.uint8),
            "long": np.zeros((2, 3), dtype=np.int64),
            "wave": np.ones((2, 2)) * 1j,
            "nothing": np.zeros((0, 0)),
        },
    )
    text = describe(tmp_path / "x.mat")
    lines = ("text (1, 3) char", "cells (1, 2) cell", "record (1, 1) struct", "byte (2, 3) uint8")
    for line in (
        *lines,
        "long (2, 3) int64",
        "wave (2, 2) complex double",
        "nothing (0, 0) double",
    ):
        assert f"  {line}\n" in text
    losses = {"train_rel": [0.5, 0.4], "epoch": 3, "state": {"best": torch.ones(2)}}
    torch.save(losses, tmp_path / "loss.bin")
    text = describe(tmp_path / "loss.bin")
    for line in ("train_rel (2,) list", "epoch () int", "state.best (2,) float32"):
        assert f"  {line}\n" in text


def test_names_cannot_drive_a_terminal(tmp_path):
    torch.save({"\x1b[2J\n": torch.ones(2)}, tmp_path / "x.bin")
    assert "  ?[2J? (2,) float32\n" in describe(tmp_path / "x.bin")


def test_describe_says_that_a_file_holds_weights(tmp_path):
    torch.save(torch.nn.Sequential(torch.nn.Linear(3, 4)).state_dict(), tmp_path / "w.bin")
    text = describe(tmp_path / "w.bin")
    assert "it holds network weights, 2 tensors with 16 numbers" in text
    with pytest.raises(ValueError, match="holds network weights"):
        read_published(tmp_path / "w.bin")


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published weights are not on this machine")
def test_describe_says_that_the_published_checkpoint_holds_weights():
    text = describe(PUBLISHED)
    assert "torch archive, 795,877 bytes" in text and "... and 98 more" in text
    assert "it holds network weights, 110 tensors with 189,653 numbers" in text


def test_foreign_files_are_refused_with_the_cure(tmp_path):
    path = tmp_path / "x.mat"
    for content, message in (
        (b"<!DOCTYPE html><html>", r"starts with .*web page"),
        (b"# vtk DataFile Version 5.1", "pdno.read_meshes reads meshes"),
        (b"", "starts with b''"),
        (bytes(600), "MAT v4"),
        (b"\x80\x02}.", r"before torch 1\.6"),
        (b"PK\x03\x04 no archive", "damaged or incomplete"),
    ):
        path.write_bytes(content)
        for use in (read_published, describe):
            with pytest.raises(ValueError, match=message):
                use(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("ns_V1e-3_N5000_T50.mat", HEADER)
    with pytest.raises(ValueError, match="unpack it first"):
        describe(path)
    scipy.io.savemat(path, {"a": numbers(2, 4)}, format="4")
    with pytest.raises(ValueError, match="MAT v4"):
        describe(path)
    with pytest.raises(FileNotFoundError):
        describe(tmp_path / "absent.mat")
    with pytest.raises(FileNotFoundError):
        read_published(tmp_path / "absent.mat")


def damaged_files(tmp_path, save):
    """The same small file with bytes missing, flipped or zeroed, at many places."""
    save(tmp_path / "whole.mat", vorticity(samples=2))
    whole = (tmp_path / "whole.mat").read_bytes()
    rng = random.Random(0)
    for _ in range(400):
        damaged = bytearray(whole)
        position = rng.randrange(len(whole))
        match rng.randrange(4):
            case 0:
                del damaged[position:]
            case 1:
                damaged[position : position + 64] = bytes(len(damaged[position : position + 64]))
            case 2:
                damaged[position] ^= 1 << rng.randrange(8)
            case 3:
                # Headers are where damage does most.
                position = rng.randrange(min(len(whole), 1200))
                damaged[position] = rng.randrange(256)
        yield bytes(damaged)


def written(tmp_path, contents):
    """The contents as files, walked through by one process in place of one for each."""
    paths = []
    for number, content in enumerate(contents):
        paths.append(tmp_path / f"damaged-{number}.mat")
        paths[-1].write_bytes(content)
    look_through(paths)
    return paths


def test_damage_is_found_or_the_data_are_well_formed(tmp_path, save):
    refused = 0
    for path in written(tmp_path, damaged_files(tmp_path, save)):
        try:
            data = read_published(path)
        except (PublishedFileError, TensorFileError) as problem:
            assert str(path) in str(problem)
            refused += 1
        else:
            assert data.kind == "navier-stokes" and data.outputs.isfinite().all()
            assert data.outputs.shape[0] == 2 and len(data.times) == data.outputs.shape[1]
        try:
            assert describe(path).startswith(path.name)
        except (PublishedFileError, TensorFileError) as problem:
            assert str(path) in str(problem)
    assert refused > 100


@pytest.mark.parametrize("writer", ["MAT v5", "MAT v5 packed", "MAT v7.3", "torch archive"])
def test_truncation_is_always_found(tmp_path, writer):
    WRITERS[writer](tmp_path / "whole.mat", vorticity())
    whole = (tmp_path / "whole.mat").read_bytes()
    for path in written(tmp_path, (whole[:length] for length in range(0, len(whole), 37))):
        with pytest.raises(ValueError, match=path.name):
            read_published(path)


def test_a_flipped_bit_in_compressed_numbers_is_found(tmp_path):
    save_mat5(
        tmp_path / "whole.mat", {"a": numbers(2, 64), "u": numbers(2, 64)}, do_compression=True
    )
    whole = (tmp_path / "whole.mat").read_bytes()
    for position in range(136, len(whole), 3):
        damaged = bytearray(whole)
        damaged[position] ^= 4
        (tmp_path / "x.mat").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"x\.mat"):
            read_published(tmp_path / "x.mat")
