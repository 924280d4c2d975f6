import hashlib
import os
import shutil
import stat
import subprocess
import sys

import pytest

from pdno.files.atomic import atomic_path, sha256, sweep, write_text


def test_a_failure_leaves_the_old_file_and_no_other(tmp_path):
    target = tmp_path / "file"
    write_text(target, "old")
    with pytest.raises(RuntimeError), atomic_path(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_sweep_removes_what_dead_runs_left(tmp_path):
    (tmp_path / ".shard.h5.123.tmp").write_text("half")
    (tmp_path / "shard.h5").write_text("whole")
    sweep(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["shard.h5"]


def test_what_a_dead_process_left_of_a_file_goes_when_it_is_written_again(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    (tmp_path / f".file.{dead.pid}.tmp").write_text("half")
    (tmp_path / f".other.{dead.pid}.tmp").write_text("half")
    (tmp_path / f".file.{os.getppid()}.tmp").write_text("half, by one that lives")
    write_text(tmp_path / "file", "whole")
    left = {"file", f".other.{dead.pid}.tmp", f".file.{os.getppid()}.tmp"}
    assert {path.name for path in tmp_path.iterdir()} == left


def test_sha256(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256(tmp_path / "f") == hashlib.sha256(b"abc").hexdigest()


def test_a_folder_that_is_removed_at_the_last_moment_is_told(tmp_path, monkeypatch):
    folder, sync = tmp_path / "removed", os.fsync
    folder.mkdir()

    def remove_first(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            shutil.rmtree(folder)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", remove_first)
    with pytest.raises(FileNotFoundError, match="the folder was removed meanwhile"):
        write_text(folder / "file", "text")
