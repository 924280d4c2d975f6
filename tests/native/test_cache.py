"""The cache folder: files appear whole, and only those of this user are read."""

import os

import pytest

from pdno.native.build import CacheFolder, cache_path


@pytest.fixture
def folder(tmp_path):
    with CacheFolder(tmp_path / "deep" / "cache") as folder:
        yield folder


def test_a_new_folder_is_for_its_owner_alone(folder):
    assert folder.path.stat().st_mode & 0o777 == 0o700


def test_a_file_is_what_was_written_last(folder):
    for content in (b"one", b"two"):
        folder.write("name", content)
        assert folder.read("name") == content.decode()
    assert (folder.path / "name").stat().st_mode & 0o777 == 0o600
    assert os.listdir(folder.path) == ["name"]


def test_a_write_that_fails_changes_nothing(folder, monkeypatch):
    folder.write("name", b"old")

    def fail(*arguments, **options):
        raise OSError("the cable was pulled")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="cable"):
        folder.write("name", b"new")
    assert folder.read("name") == "old" and os.listdir(folder.path) == ["name"]


def test_names_of_unfinished_files_are_used_by_no_other_process_or_machine(folder, monkeypatch):
    names = []
    opened = os.open

    def note(path, *arguments, **options):
        names.append(path)
        return opened(path, *arguments, **options)

    monkeypatch.setattr(os, "open", note)
    monkeypatch.setattr("platform.node", lambda: "a/b")
    for _ in range(2):
        folder.write("name", b"")
    assert len(set(names)) == 2
    assert all(name.startswith(f".name.a-b.{os.getpid()}.") for name in names)


def test_what_is_not_a_file_of_this_user_is_not_there(folder, tmp_path, monkeypatch):
    folder.write("ours", b"")
    (tmp_path / "elsewhere").write_bytes(b"")
    (folder.path / "link").symlink_to(tmp_path / "elsewhere")
    (folder.path / "folder").mkdir()
    os.mkfifo(folder.path / "pipe")
    folder.write("open", b"")
    (folder.path / "open").chmod(0o620)
    found = [
        name
        for name in ("ours", "link", "folder", "pipe", "open", "absent")
        if folder.open(name) is not None
    ]
    assert found == ["ours"]
    user = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    assert folder.read("ours") is None


def test_the_folder_is_the_same_though_its_name_is_given_to_another(folder, tmp_path):
    folder.write("name", b"ours")
    folder.path.rename(tmp_path / "moved")
    folder.path.mkdir()
    (folder.path / "name").write_bytes(b"theirs")
    assert folder.read("name") == "ours"


def test_a_relative_cache_folder_is_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_path() == tmp_path / ".cache" / "pdno"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_path() == tmp_path / "pdno"
