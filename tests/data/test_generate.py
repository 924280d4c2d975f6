"""Generation gives the same bytes whatever happens on the way, or stops with the reason."""

import contextlib
import fcntl
import hashlib
import itertools
import json
import os
import random
import resource
import shutil
import subprocess
import sys
from collections import namedtuple

import pytest
import torch

import pdno.data.generate as generation
from pdno.data.dataset import open_dataset
from pdno.data.generate import generate_dataset, make_shard
from pdno.data.problems import DarcyProblem, HeatProblem, NavierStokesProblem, Sample
from pdno.data.shards import Manifest, read_manifest, write_manifest
from pdno.files.run_folder import with_digest
from pdno.interface.errors import SolverError

HEAT = HeatProblem(samples=40, resolution=16, frames=2)


def contents(folder):
    """SHA-256 of every file but the lock."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
        if path.name != ".lock"
    }


@pytest.fixture
def in_process(monkeypatch):
    """Make shards in this process, which takes no time, and count them."""
    made = []

    def make_all(problem, folder, missing, workers):
        for entry in missing:
            made.append(entry[0])
            yield make_shard(problem, folder, *entry)

    monkeypatch.setattr(generation, "_make_all", make_all)
    return made


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An uninterrupted dataset made by two worker processes."""
    folder = tmp_path_factory.mktemp("whole") / "data"
    generate_dataset(HEAT, folder, workers=2)
    return folder


@pytest.fixture
def copied(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "data")


def test_the_bytes_do_not_depend_on_the_number_of_workers(whole, tmp_path):
    manifest = generate_dataset(HEAT, str(tmp_path / "one"), workers=1)
    assert manifest == read_manifest(whole)
    assert contents(tmp_path / "one") == contents(whole)


def test_the_bytes_do_not_depend_on_who_makes_them(whole, tmp_path, in_process):
    generate_dataset(HEAT, tmp_path / "serial")
    assert contents(tmp_path / "serial") == contents(whole)
    assert len(in_process) == 20


def test_residuals_are_listed_for_darcy_flow(tmp_path, in_process):
    problem = DarcyProblem(samples=2, resolution=8, solver_resolution=16)
    manifest = generate_dataset(problem, tmp_path / "data")
    expected = [problem.sample(index)[2] for index in range(2)]
    assert [shard.residual for shard in manifest.shards] == expected
    assert 0 < max(expected) < 1e-10


def test_a_complete_dataset_has_every_sample_once(whole):
    manifest = read_manifest(whole)
    assert manifest.complete and manifest.made == 40 == len(open_dataset(whole))
    places = [
        sample
        for shard in manifest.shards
        for sample in range(shard.first, shard.first + shard.count)
    ]
    assert places == list(range(40))
    for shard in manifest.shards:
        content = (whole / shard.file).read_bytes()
        assert hashlib.sha256(content).hexdigest() == shard.sha256
    inputs, outputs = open_dataset(whole).batch([17])
    expected_input, expected_output, *_ = HEAT.sample(17)
    assert torch.equal(inputs[0], expected_input.float())
    assert torch.equal(outputs[0], expected_output.float())


def test_the_manifest_names_neither_clock_nor_machine(whole):
    text = (whole / "manifest.json").read_text()
    assert os.uname().nodename not in text and str(whole) not in text
    without_points = {*Manifest.model_fields} - {"geometry"}  # that of scattered points alone
    assert {*json.loads(text)} == without_points | {"sha256"}


def test_a_finished_dataset_is_left_alone(copied, in_process):
    before = {path: path.stat().st_mtime_ns for path in copied.iterdir() if path.suffix}
    manifest = generate_dataset(HEAT, copied)
    assert manifest == read_manifest(copied) and in_process == []
    assert before == {path: path.stat().st_mtime_ns for path in before}


def edit_manifest(folder, **changes):
    manifest = read_manifest(folder)
    write_manifest(folder, manifest.model_copy(update=changes))


def forget(folder, keep):
    shards = tuple(shard for k, shard in enumerate(read_manifest(folder).shards) if keep(k))
    edit_manifest(folder, shards=shards, complete=False)


def lose_some(folder):
    forget(folder, lambda k: k < 7)
    for path in sorted(folder.glob("shard-*.h5"))[7:]:
        path.unlink()


def lose_files_only(folder):
    (folder / "shard-00003.h5").unlink()
    (folder / "shard-00019.h5").unlink()


def damage_one(folder):
    path = folder / "shard-00005.h5"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


def cut_one(folder):
    path = folder / "shard-00005.h5"
    path.write_bytes(path.read_bytes()[:1000])


def leave_temporary_files(folder):
    lose_some(folder)
    (folder / ".shard-00007.h5.999.tmp").write_bytes(b"half")
    (folder / ".manifest.json.999.tmp").write_bytes(b"{")


def claim_partial(folder):
    edit_manifest(folder, complete=False)


def start_over(folder):
    edit_manifest(folder, shards=(), complete=False)


@pytest.mark.parametrize(
    ("interrupt", "again"),
    [
        (lose_some, 13),
        (lose_files_only, 2),
        (lambda folder: forget(folder, lambda k: k not in (2, 8)), 2),
        (damage_one, 1),
        (cut_one, 1),
        (leave_temporary_files, 13),
        (claim_partial, 0),
        (start_over, 20),
    ],
)
def test_an_interrupted_run_ends_with_the_bytes_of_an_uninterrupted_one(
    whole, copied, in_process, interrupt, again
):
    interrupt(copied)
    manifest = generate_dataset(HEAT, copied)
    assert manifest.complete and contents(copied) == contents(whole)
    assert len(in_process) == again


def test_random_damage_is_repaired(whole, copied, in_process):
    rng = random.Random(0)
    for _ in range(5):
        for path in rng.sample(sorted(copied.glob("shard-*.h5")), 4):
            action = rng.choice(["delete", "cut", "flip"])
            content = bytearray(path.read_bytes())
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            if action == "delete":
                path.unlink()
            else:
                path.write_bytes(content[: 700 if action == "cut" else None])
        with pytest.raises(ValueError, match="pdno generate"):
            open_dataset(copied)
        generate_dataset(HEAT, copied)
        assert contents(copied) == contents(whole)


def test_a_partial_dataset_says_so_at_every_moment(tmp_path, in_process):
    folder = tmp_path / "data"
    seen = []

    def look(problem, place, missing, workers):
        for entry in missing:
            yield make_shard(problem, place, *entry)
            seen.append(read_manifest(place))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "_make_all", look)
        generate_dataset(HEAT, folder)
    assert [manifest.made for manifest in seen] == list(range(2, 41, 2))
    assert [manifest.complete for manifest in seen] == [False] * 19 + [True]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"diffusivity": 0.1}, r"\(diffusivity: 0.05 there, 0.1 asked for\)"),
        ({"samples": 41}, r"\(samples: 40 there, 41 asked for\)"),
        ({"seed": 1, "dtype": "float64"}, r"\(seed: 0 .* asked for; dtype: float32 .*float64"),
    ],
)
def test_other_data_in_the_same_folder_are_refused(copied, whole, in_process, changes, message):
    with pytest.raises(ValueError, match=f"holds another dataset {message}.*another folder"):
        generate_dataset(HEAT.model_copy(update=changes), copied)
    assert contents(copied) == contents(whole)


def test_another_problem_or_version_in_the_same_folder_is_refused(copied, in_process):
    with pytest.raises(ValueError, match=r"\(problem: heat there, darcy asked for\)"):
        generate_dataset(DarcyProblem(samples=40), copied)
    versions = {**read_manifest(copied).versions, "torch": "0.1"}
    edit_manifest(copied, versions=versions)
    with pytest.raises(ValueError, match=r"\(torch: 0.1 there, .* asked for\)"):
        generate_dataset(HEAT, copied)


def test_a_damaged_manifest_is_refused_with_the_cure(copied, in_process):
    (copied / "manifest.json").write_text('{"format": "pdno-dataset"')
    with pytest.raises(ValueError, match="damaged or not a manifest .*delete the folder"):
        generate_dataset(HEAT, copied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"samples": 39}, "sample 39 of 39"),
        ({"samples": 41}, "do not add up"),
        ({"fields": {"input": "a"}}, "expected an input and an output"),
        ({"format": "other"}, "format"),
        ({"version": 2}, "version"),
        ({"shards": "swap"}, "overlaps"),
        ({"shards": "path"}, "shards.0.file"),
        ({"clock": "now"}, "clock"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(copied, changes, message):
    path = copied / "manifest.json"
    manifest = json.loads(path.read_text())
    if changes.get("shards") == "swap":
        manifest["shards"][0]["first"], manifest["shards"][1]["first"] = 2, 0
    elif changes.get("shards") == "path":
        manifest["shards"][0]["file"] = "../shard-00000.h5"
    else:
        manifest |= changes
    path.write_text(json.dumps(manifest))
    with pytest.raises(ValueError, match="it was changed"):
        open_dataset(copied)
    del manifest["sha256"]
    path.write_text(with_digest(json.dumps(manifest, indent=1)))
    with pytest.raises(ValueError, match=message):
        open_dataset(copied)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"times": [0.2, 0.1]}, "increasing times"),
        ({"times": [float("nan")]}, "increasing times"),
        ({"equation": "\x1b[2J"}, "could drive a terminal"),
        ({"grid": {"shape": [2**30, 2**30], "periodic": True, "offset": 0.0}}, "needs .* bytes"),
    ],
)
def test_a_hostile_manifest_is_refused_before_anything_is_read(copied, changes, message):
    path = copied / "manifest.json"
    manifest = json.loads(path.read_text()) | changes
    del manifest["sha256"]
    path.write_text(with_digest(json.dumps(manifest, indent=1)))
    with pytest.raises(ValueError, match=message) as refused:
        open_dataset(copied)
    assert str(refused.value).isprintable()


def test_a_changed_byte_of_a_manifest_is_told_wherever_it_is(copied):
    path = copied / "manifest.json"
    content = path.read_bytes()
    for place in range(0, len(content), 97):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(ValueError, match="manifest.json is "):
            read_manifest(copied)
    path.write_bytes(content)
    read_manifest(copied)


def test_a_lock_is_no_link(copied, in_process, tmp_path):
    (tmp_path / "victim").write_text("precious")
    for make in (os.symlink, os.link):
        (copied / ".lock").unlink()
        make(tmp_path / "victim", copied / ".lock")
        with pytest.raises(ValueError, match=".lock is a link.*: remove it"):
            generate_dataset(HEAT, copied)
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_foreign_folder_is_refused_and_not_touched(tmp_path, in_process):
    (tmp_path / "thesis.tex").write_text("mine")
    (tmp_path / ".thesis.1234.tmp").write_text("mine, too")
    with pytest.raises(ValueError, match=r"holds other files \(thesis.tex\): choose an empty"):
        generate_dataset(HEAT, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".thesis.1234.tmp", "thesis.tex"]
    with pytest.raises(ValueError, match="thesis.tex is a file; expected a folder"):
        generate_dataset(HEAT, tmp_path / "thesis.tex")


def test_hidden_files_of_others_are_kept(tmp_path, in_process):
    (tmp_path / ".notes.tmp").write_text("mine")
    generate_dataset(HEAT, tmp_path)
    assert (tmp_path / ".notes.tmp").read_text() == "mine"


def test_a_second_writer_is_refused(copied, in_process):
    with open(copied / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(ValueError, match="another process is writing to"):
            generate_dataset(HEAT, copied)
    assert generate_dataset(HEAT, copied).complete


def test_too_little_space_is_refused_before_anything_is_made(tmp_path, in_process, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**6, 10**6, 1000))
    with pytest.raises(ValueError, match="needs 1 MiB more but .* has 0 MiB free: free some"):
        generate_dataset(HEAT, tmp_path / "data")
    small = HeatProblem(samples=1, resolution=16, frames=1)  # less than half of a MiB
    with pytest.raises(ValueError, match="needs 1 MiB more but .* has 0 MiB free: free some"):
        generate_dataset(small, tmp_path / "small")
    assert in_process == []


@pytest.mark.parametrize(
    "problem", [HEAT, DarcyProblem(samples=2, resolution=8, solver_resolution=8)]
)
def test_the_space_asked_for_is_enough(tmp_path, in_process, monkeypatch, problem):
    usage = namedtuple("usage", "total used free")
    for free in itertools.count(2**14, 2**14):
        monkeypatch.setattr(shutil, "disk_usage", lambda path, free=free: usage(0, 0, free))
        with contextlib.suppress(ValueError):
            generate_dataset(problem, tmp_path / "data")
            break
    taken = sum(path.stat().st_size for path in (tmp_path / "data").iterdir())
    assert taken <= free


@pytest.mark.parametrize("workers", [0, -1])
def test_workers_must_be_positive(tmp_path, workers):
    with pytest.raises(ValueError, match="expected at least 1"):
        generate_dataset(HEAT, tmp_path / "data", workers=workers)
    assert not (tmp_path / "data").exists()


def test_a_failed_solution_names_its_sample(tmp_path):
    problem = NavierStokesProblem(
        samples=9, resolution=16, solver_resolution=16, forcing=1e12, final_time=1
    )
    with pytest.raises(SolverError, match="sample 5 is too fast"):
        make_shard(problem, tmp_path, "shard-00000.h5", 5, 2)
    assert list(tmp_path.iterdir()) == []


def test_a_solution_that_overflows_on_disk_is_refused(monkeypatch, tmp_path):
    def sample(self, index):
        huge = torch.full((2, 1, 16), 1e300, dtype=torch.float64)
        return Sample(torch.zeros(1, 16), huge, 0.0, {})

    monkeypatch.setattr(HeatProblem, "sample", sample)
    with pytest.raises(SolverError, match="sample 3 of heat is not finite in float32"):
        make_shard(HEAT, tmp_path, "shard-00000.h5", 3, 1)
    assert list(tmp_path.iterdir()) == []


COMMAND = (
    *(sys.executable, "-m", "pdno", "generate", "navier-stokes", "--samples", "4"),
    *("--viscosity", "1e-3", "--resolution", "32", "--solver-resolution", "32"),
    *("--final-time", "2", "--workers", "2"),
)


def test_a_write_error_in_a_worker_is_one_message_and_leaves_nothing_half(tmp_path):
    """The system refuses files of more than 20 kB, as a full disk would refuse a shard."""
    folder = tmp_path / "data"
    ended = subprocess.run(
        [*COMMAND, "--out", str(folder)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 2 and ended.stdout == ""
    assert ended.stderr.count("\n") == 1
    assert f"pdno: cannot write to {folder} (File too large): free some space" in ended.stderr
    assert sorted(path.name for path in folder.iterdir()) == [".lock", "manifest.json"]
    assert read_manifest(folder).made == 0
