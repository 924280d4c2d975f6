"""Whatever happens to disk or process, the same work run again ends with the same bytes."""

import builtins
import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def in_child(script, *words):
    """What a script does under a struck disk: the code of its process."""
    start = f"import sys; sys.path.insert(0, {str(HERE)!r}); from struck_disk import *; "
    return subprocess.run([sys.executable, "-c", start + script, *map(str, words)]).returncode


WRITE = """
folder, kind, at, late = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == 'True'
Disk(folder, Strike(kind, at, late)).install()
try:
    with open(folder + '/a', 'w') as file:
        file.write('12345678')
    with open(folder + '/a', 'rb+') as file:
        os.fsync(file.fileno())
    os.replace(folder + '/a', folder + '/b')
except OSError as error:
    sys.exit(error.errno)
"""


@pytest.mark.parametrize(
    ("kind", "at", "late", "left"),
    [
        ("kill", 0, False, {}),
        ("kill", 0, True, {"a": ""}),
        ("kill", 1, False, {"a": "1234"}),
        ("kill", 1, True, {"a": "12345678"}),
        ("power", 1, True, {"a": ""}),
        ("power", 2, False, {"a": ""}),
        ("power", 4, False, {"a": "12345678"}),
        ("kill", 4, False, {"a": "12345678"}),
        ("kill", 4, True, {"b": "12345678"}),
    ],
)
def test_a_kill_meets_the_call_that_it_is_meant_for(tmp_path, kind, at, late, left):
    assert in_child(WRITE, tmp_path, kind, at, late) == -signal.SIGKILL
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == left


@pytest.mark.parametrize(
    ("kind", "at", "code", "left"),
    [
        ("full", 1, 28, {"a": "1234"}),
        ("broken", 3, 5, {"a": "12345678"}),
        ("frozen", 0, 30, {}),
        ("gone", 4, 2, None),
    ],
)
def test_an_error_is_that_of_the_system(tmp_path, kind, at, code, left):
    place = tmp_path / "folder"
    place.mkdir()
    assert in_child(WRITE, place, kind, at, False) == code
    found = {path.name: path.read_text() for path in place.iterdir()} if place.exists() else None
    assert found == left


def test_this_process_was_not_touched():
    assert builtins.open is io.open and os.fsync.__module__ == "posix"


@pytest.mark.slow
def test_thirty_faults_are_held():
    command = [sys.executable, str(HERE / "inject.py"), "--faults", "30", "--seed", "7"]
    found = subprocess.run(command, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
