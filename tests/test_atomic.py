import hashlib

import pytest

from pdno.atomic import atomic_path, sha256, sweep, write_text


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
    assert sweep(tmp_path) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["shard.h5"]


def test_sha256(tmp_path):
    (tmp_path / "f").write_bytes(b"abc")
    assert sha256(tmp_path / "f") == hashlib.sha256(b"abc").hexdigest()
