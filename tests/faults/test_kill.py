"""A killed generation leaves no process behind and ends with the bytes of one left in peace."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pdno.data.generate import generate_dataset
from pdno.data.problems import NavierStokesProblem
from pdno.data.shards import read_manifest
from pdno.files.atomic import sha256

SMALL = NavierStokesProblem(
    viscosity=1e-3, samples=8, resolution=32, solver_resolution=32, final_time=2
)
FULL = SMALL.model_copy(
    update={"samples": 64, "resolution": 64, "solver_resolution": 64, "final_time": 20}
)
GRACE = 10.0  # seconds; a worker that is still importing notices late on a busy machine


def start(problem, folder, *, workers=2, samples=None):
    """The command in a session of its own, so that all its processes can be found."""
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "pdno", "generate", "navier-stokes", "--out", str(folder)),
            *("--viscosity", str(problem.viscosity), "--final-time", str(problem.final_time)),
            *(
                "--resolution",
                str(problem.resolution),
                "--samples",
                str(samples or problem.samples),
            ),
            *("--solver-resolution", str(problem.solver_points), "--workers", str(workers)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finish(process):
    _, messages = process.communicate(timeout=600)
    assert process.returncode == 0, messages


def living(session):
    """Processes of a session that have not ended; those waiting to be reaped have."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, member = stat.read_text().rpartition(")")[2].split()[:4]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(member) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def assert_all_end(session):
    deadline = time.monotonic() + GRACE
    while living(session) and time.monotonic() < deadline:
        time.sleep(0.05)
    left = living(session)
    for process in left:
        os.kill(process, signal.SIGKILL)
    assert left == []


def shards(folder):
    return sorted(folder.glob("shard-*.h5"))


def wait_for_a_shard(process, folder):
    before = len(shards(folder))
    while len(shards(folder)) == before and process.poll() is None:
        time.sleep(0.01)


def digests(folder):
    assert [path.name for path in folder.glob(".*")] == [".lock"]
    return {path.name: sha256(path) for path in folder.iterdir() if path.suffix}


def wait_for_workers(process):
    # the command, the tracker of its resources, and a worker that still has to import torch
    while len(living(process.pid)) < 3 and process.poll() is None:
        time.sleep(0.01)


def kill_and_finish(problem, folder, *, kills):
    """Kill at random moments, then let it end; returns in how many kills it was unfinished."""
    rng = random.Random(2)
    unfinished = 0
    for number in range(kills):
        process = start(problem, folder)
        if number % 3 == 0:
            time.sleep(rng.uniform(0.2, 2.5))
        elif number % 3 == 1:
            wait_for_workers(process)
            time.sleep(rng.uniform(0.0, 0.5))
        else:
            wait_for_a_shard(process, folder)
            time.sleep(rng.uniform(0.0, 0.2))
        process.kill()
        process.wait()
        assert_all_end(process.pid)
        process.stderr.close()
        if (folder / "manifest.json").exists():
            unfinished += not read_manifest(folder).complete
    finish(start(problem, folder))
    return unfinished


def test_a_run_that_was_killed_again_and_again_ends_with_the_same_bytes(tmp_path):
    generate_dataset(SMALL, tmp_path / "peace", workers=1)
    unfinished = kill_and_finish(SMALL, tmp_path / "killed", kills=3)
    assert unfinished > 0
    assert digests(tmp_path / "killed") == digests(tmp_path / "peace")


@pytest.mark.slow
def test_ten_kills_of_the_full_size_and_any_number_of_workers_give_the_same_bytes(tmp_path):
    for workers in (1, 2):
        finish(start(FULL, tmp_path / f"workers-{workers}", workers=workers))
    unfinished = kill_and_finish(FULL, tmp_path / "killed", kills=10)
    assert unfinished >= 8
    expected = digests(tmp_path / "workers-1")
    assert len(expected) == 33
    assert digests(tmp_path / "workers-2") == expected
    assert digests(tmp_path / "killed") == expected


def test_control_c_is_one_message_and_the_workers_end_with_it(tmp_path):
    process = start(SMALL, tmp_path, samples=32)
    wait_for_a_shard(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, messages = process.communicate(timeout=20)
    lines = [line for line in messages.splitlines() if not line.startswith("generate ")]
    assert lines == ["pdno: interrupted; the same command continues where it stopped"]
    assert process.returncode == 130
    assert_all_end(process.pid)
    assert list(tmp_path.glob(".*.tmp")) == []
    assert not read_manifest(tmp_path).complete
