"""HDF5 files of others that would keep the HDF5 library busy for ever are refused in time."""

import time

import h5py
import numpy as np
import pytest

from pdno.data import foreign_hdf5
from pdno.data.array_files import read_arrays
from pdno.data.foreign_hdf5 import look_through, open_hdf5
from pdno.data.read import read_own
from pdno.data.well import open_well
from pdno.files.limits import TIME_LIMIT


def write(path, *, endless=False):
    """A file with a heap of strings, whose free space has no size if it is to be endless."""
    with h5py.File(path, "w") as file:
        file["a"] = np.arange(6.0)
        file.attrs["names"] = ["pressure", "velocity"]
        file.attrs["n_spatial_dims"] = 1
        file.create_group("t0_fields"), file.create_group("dimensions")
    content = bytearray(path.read_bytes())
    place = content.index(b"GCOL") + 16
    while number := int.from_bytes(content[place : place + 2], "little"):
        assert number < 10
        size = int.from_bytes(content[place + 8 : place + 16], "little")
        place += 16 + -(-size // 8) * 8
    if endless:
        content[place + 8 : place + 16] = bytes(8)
        path.write_bytes(content)
    return path


@pytest.fixture
def processes(monkeypatch):
    """How many files each process was given."""
    found, run = [], foreign_hdf5.subprocess.run

    def counted(*words, **options):
        found.append(1 + options["input"].count(b"\0"))
        return run(*words, **options)

    monkeypatch.setattr(foreign_hdf5.subprocess, "run", counted)
    monkeypatch.setenv(TIME_LIMIT, "1s")
    return found


@pytest.mark.parametrize("read", [read_arrays, read_own, open_well, open_hdf5])
def test_a_heap_without_end_is_refused_in_time(tmp_path, processes, read):
    path = write(tmp_path / "endless.h5", endless=True)
    before = time.process_time()
    with pytest.raises(ValueError, match=rf"in 1 s of computing.*{TIME_LIMIT}=60s"):
        read(path)
    assert time.process_time() - before < 1 and processes == [1]


def test_a_chunk_without_its_checksum_is_refused(tmp_path, processes):
    """The HDF5 library would crash at it."""
    path = tmp_path / "short.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("u", data=np.ones((3, 8)), chunks=(1, 8), fletcher32=True)
    content = path.read_bytes()
    assert content.count((8 * 8 + 4).to_bytes(8, "little")) == 3  # the sizes of chunks, and masks
    path.write_bytes(content.replace((8 * 8 + 4).to_bytes(8, "little"), bytes(8), 1))
    with pytest.raises(ValueError, match=r"short\.h5: the chunk at \(0, 0\) has 0 bytes"):
        read_arrays(path)
    assert processes == [1]


def test_a_file_is_looked_through_once_unless_it_changes(tmp_path, processes):
    path = write(tmp_path / "whole.h5")
    for _ in range(3):
        assert read_arrays(path)["a"].tolist() == [0, 1, 2, 3, 4, 5]
    assert processes == [1]
    write(path, endless=True)
    with pytest.raises(ValueError, match=r"whole\.h5: .* damaged or incomplete"):
        read_arrays(path)
    assert processes == [1, 1]


def test_one_process_looks_through_many_files_and_the_bad_one_hinders_no_other(
    tmp_path, processes
):
    files = [write(tmp_path / f"{n}.h5", endless=n == 1) for n in range(4)]
    look_through(files)
    assert processes == [4, 2]  # the second one goes on after the file that ended the first
    for number, path in enumerate(files):
        if number == 1:
            with pytest.raises(ValueError, match="ended with -"):
                open_hdf5(path)
        else:
            open_hdf5(path).close()
    assert len(processes) == 2


def test_what_lies_beside_the_data_is_not_imported(tmp_path, monkeypatch):
    write(tmp_path / "whole.h5")
    for name in ("numpy", "h5py", "pdno", "sys", "math"):
        (tmp_path / f"{name}.py").write_text("open('was-run', 'w').close()")
    monkeypatch.chdir(tmp_path)
    open_hdf5("whole.h5").close()
    assert not (tmp_path / "was-run").exists()


def test_a_limit_of_time_that_is_none_is_named(tmp_path, monkeypatch):
    path = write(tmp_path / "whole.h5")
    monkeypatch.setenv(TIME_LIMIT, "soon")
    with pytest.raises(ValueError, match="PDNO_TIME_LIMIT is 'soon'; expected seconds such as"):
        open_hdf5(path)
