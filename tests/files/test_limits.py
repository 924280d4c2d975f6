"""Readers refuse what is no file, too large, too deep or no text, and name the file."""

import io
import os
import struct
import zipfile
from dataclasses import fields
from itertools import pairwise

import h5py
import numpy as np
import pytest
import torch

from pdno.data.array_files import open_arrays, read_arrays
from pdno.data.shards import read_manifest
from pdno.files.limits import LIMIT, memory_limit, read_json, read_text
from pdno.files.metric_table import read_metrics
from pdno.files.tensor_file import read_tensor_file
from pdno.runs.specification import Experiment, read_experiment
from pdno.training.checkpoint import EpochRow, read_history, read_tensors
from pdno.training.distributed import check_device

READERS = [read_arrays, read_tensor_file, read_experiment, read_metrics, read_json, read_tensors]
READERS += [lambda path: read_manifest(path.parent)]
SPECIFICATION = """
name: {name}
model: FNO
problem: {{name: darcy, samples: 6, resolution: 16, solver_resolution: 16}}
train: 4
test: 2
network: {{kind: fno, width: 4, modes: 3}}
"""


@pytest.mark.parametrize("read", READERS[:-1])
def test_pipes_and_devices_are_refused(tmp_path, read):
    os.mkfifo(tmp_path / "manifest.json")
    for path in (tmp_path / "manifest.json", "/dev/zero"):
        with pytest.raises(ValueError, match=f"{path} is a pipe or a device; expected a file"):
            read(type(tmp_path)(path))


def save_all(folder):
    numbers = np.arange(2000.0)
    np.save(folder / "a.npy", numbers)
    np.savez(folder / "a.npz", a=numbers)
    np.savez_compressed(folder / "b.npz", a=numbers)
    with h5py.File(folder / "a.h5", "w") as file:
        file["a"] = numbers
    torch.save({"a": torch.from_numpy(numbers)}, folder / "a.pt")
    return sorted(folder.iterdir())


def test_one_limit_holds_for_all_readers_and_may_be_raised(tmp_path, monkeypatch):
    files = save_all(tmp_path)
    monkeypatch.setenv(LIMIT, "10KB")
    for path in files:
        with pytest.raises(ValueError, match=f"cannot read .*{path.name}.* needs .*{LIMIT}=1GiB"):
            read_arrays(path)
    with open_arrays(tmp_path / "b.npz") as (_, arrays):  # less is read of it
        assert arrays["a"].read((slice(10),)).tolist() == list(range(10))
        assert arrays["a"].read((slice(9, None, -3),)).tolist() == [9, 6, 3, 0]
    (tmp_path / "long.yaml").write_text("a" * 1000)
    with pytest.raises(ValueError, match="long.yaml as parsed text needs 64,000 bytes"):
        read_experiment(tmp_path / "long.yaml")
    monkeypatch.setenv(LIMIT, "0.5 MiB")
    assert memory_limit() == 2**19
    for path in files:
        assert read_arrays(path)["a"].sum() == 1999000
    monkeypatch.setenv(LIMIT, "much")
    with pytest.raises(ValueError, match="PDNO_MEMORY_LIMIT is 'much'; expected a size such as"):
        memory_limit()


def test_arrays_are_bounded_together(tmp_path, monkeypatch):
    np.savez(tmp_path / "many.npz", a=np.zeros(1000), b=np.zeros(1000))
    monkeypatch.setenv(LIMIT, "12KB")
    assert len(read_arrays(tmp_path / "many.npz", ["b"])) == 1
    with pytest.raises(ValueError, match="b, with those before it, needs 16,000 bytes"):
        read_arrays(tmp_path / "many.npz")


def test_a_large_member_of_an_archive_does_not_hinder_another(tmp_path, monkeypatch):
    monkeypatch.setenv(LIMIT, "1MB")
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, count in (("big", 2**22), ("small", 3)):
            content = io.BytesIO()
            np.save(content, np.zeros(count, np.int8))
            archive.writestr(f"{name}.npy", content.getvalue())
    assert read_arrays(tmp_path / "bomb.npz", ["small"])["small"].shape == (3,)
    with pytest.raises(ValueError, match="array big needs 4,194,304 bytes, more than"):
        read_arrays(tmp_path / "bomb.npz")


def test_headers_of_numpy_files_are_not_believed(tmp_path):
    path, head = tmp_path / "x.npy", io.BytesIO()
    np.lib.format.write_array_header_1_0(
        head, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)}
    )
    contents = {
        "declares 8,796,093,022,208 bytes": head.getvalue(),
        "EOF: reading array header": b"\x93NUMPY\x02\x00"
        + struct.pack("<I", 2**20)
        + b" " * 2**20,
    }
    for told, content in contents.items():
        path.write_bytes(content)
        with pytest.raises(ValueError, match=told):
            read_arrays(path)
    np.savez(tmp_path / "x.npz", a=np.ones(3))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    content[6] |= 1  # the mark of encryption, in both headers
    content[content.rfind(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match="array a is encrypted; save it without a password"):
        read_arrays(tmp_path / "x.npz")


def test_numpy_files_of_every_kind_come_back(tmp_path):
    given = {
        "c": np.arange(24, dtype=">f4").reshape(2, 3, 4),
        "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        "scalar": np.array(5, np.int16),
        "empty": np.zeros((0, 3)),
    }
    np.savez_compressed(tmp_path / "all.npz", **given)
    found = read_arrays(tmp_path / "all.npz")
    assert all(np.array_equal(found[name], array) for name, array in given.items())
    for name, array in given.items():
        np.save(tmp_path / f"{name}.npy", array)
        with open_arrays(tmp_path / f"{name}.npy") as (_, arrays):
            cut = (slice(None, None, 2),) * array.ndim
            assert np.array_equal(arrays[name].read(cut), array[cut])
            assert np.array_equal(arrays[name].read(cut), array[cut])  # as often as wanted


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("deep.json", b"[" * 100_000, "not readable as json"),
        ("deep.yaml", b"[" * 500, "nested deeper than 64 levels"),
        ("latin.yaml", b"name: \xff", "not readable as text in UTF-8"),
        ("date.yaml", b"name: 2020-99-99", "not readable as yaml"),
        ("long.json", b"1" * 5000, "not readable as json"),
        ("tag.yaml", b"!!bool x", "not readable as yaml"),
        ("key.yaml", b"problem: {true: 1}", "the key True; expected a printable word"),
        ("key.json", b'{"mo\x7fel": 1}', r"the key 'mo\\x7fel'; expected a printable word"),
    ],
)
def test_text_that_is_no_specification_is_named(tmp_path, name, content, told):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=told) as refused:
        read_experiment(tmp_path / name)
    assert name in str(refused.value)


def test_few_lines_of_yaml_do_not_become_many_values(tmp_path):
    lines = ["a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in pairwise("abcdefghi")]
    (tmp_path / "laughs.yaml").write_text("\n".join(lines))
    with pytest.raises(ValueError, match="laughs.yaml is nested too deep, or too large"):
        read_experiment(tmp_path / "laughs.yaml")


@pytest.mark.parametrize(
    ("name", "told"),
    [('"a\\nb"', "expected one line of text"), ("'=1+1'", "take for a formula"), ("'@x'", "form")],
)
def test_names_that_no_table_can_hold_are_refused_before_training(tmp_path, name, told):
    path = tmp_path / "x.yaml"
    path.write_text(SPECIFICATION.format(name="plain"))
    assert isinstance(read_experiment(path), Experiment)
    path.write_text(SPECIFICATION.format(name=name))
    with pytest.raises(ValueError, match=told):
        read_experiment(path)


def test_a_history_with_a_surplus_cell_is_refused(tmp_path):
    columns = [item.name for item in fields(EpochRow)]
    path, header, line = (
        tmp_path / "history.csv",
        ",".join(columns),
        ",".join("1" for _ in columns),
    )
    path.write_text(f"{header}\n{line}\n")
    assert read_history(tmp_path)[0].epoch == 1
    path.write_text(f"{header}\n{line}\n{line},7\n")
    with pytest.raises(ValueError, match="history.csv is not readable as a history"):
        read_history(tmp_path)


@pytest.mark.parametrize("device", ["meta", "mps", "bogus", "xla"])
def test_devices_that_cannot_compute_are_refused(device):
    with pytest.raises(ValueError, match=f"device '{device}'"):
        check_device(device)


def test_text_is_read_to_the_byte(tmp_path):
    (tmp_path / "x").write_bytes(b"a\r\nb\n")
    assert read_text(tmp_path / "x") == "a\r\nb\n"
