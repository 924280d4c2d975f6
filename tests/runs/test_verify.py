"""Sealed runs: a changed byte is told by whatever reads it, and `pdno verify` says which."""

import json
import os
import shutil
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import pdno
import pdno.runs.execute as execute
from pdno.cli import main
from pdno.data.dataset import OperatorDataset
from pdno.files import run_folder
from pdno.files.atomic import LOCK, only_writer
from pdno.files.run_folder import with_digest, without_digest
from pdno.native.build import status
from pdno.networks.pdno import FNO
from pdno.runs.execute import run_experiment
from pdno.runs.run import Run, find_runs, load, load_run, verify
from pdno.spectral.grid import Grid

READERS = {
    "weights.safetensors": lambda run: run.operator,
    "operator.json": lambda run: run.operator,
    "specification.json": lambda run: run.experiment,
    "metrics.csv": lambda run: run.metrics,
    "checksums.json": lambda run: run.metrics,
    "history.csv": lambda run: run.history,
    "environment.json": lambda run: run.environment,
    "samples.safetensors": lambda run: run.array("input"),
    "model_card.md": lambda run: run.export(format="safetensors"),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder with a run, and with its dataset."""
    return tmp_path_factory.mktemp("sealed")


@pytest.fixture
def run(finished, darcy, tmp_path):
    if not (finished / "run").exists():
        run_experiment(darcy, finished / "run")
    shutil.copytree(finished, tmp_path / "all")
    return tmp_path / "all" / "run"


def change(path, place):
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", READERS)
def test_a_changed_byte_is_one_message_with_the_cure(run, name):
    READERS[name](Run.open(run))
    size = (run / name).stat().st_size
    for place in (0, size // 2, size - 1):
        change(run / name, place)
        with pytest.raises(ValueError, match=f"{name} .*: restore it from a copy"):
            READERS[name](Run.open(run))
        text, right = verify([run])
        assert not right and f"changed  {run / name}: bring it back" in text
        change(run / name, place)
    assert verify([run])[1]


def test_a_file_that_is_missing_or_too_many_is_told(run):
    (run / "history.csv").unlink()
    with pytest.raises(ValueError, match="history.csv is missing"):
        _ = find_runs([run])[0].history
    assert f"missing  {run / 'history.csv'}" in verify([run])[0]
    operator = run.parent / "operator"
    field = torch.randn(4, 1, 8, generator=torch.Generator().manual_seed(0))
    data = OperatorDataset.from_arrays(field, field, Grid((8,)))
    pdno.fit(FNO(1, 1, 1, 2, 1, 2), data, epochs=1, folder=operator)
    assert verify([operator])[1]
    shutil.copy(run / "specification.json", operator)
    with pytest.raises(ValueError, match="specification.json is not listed in .*: remove it"):
        _ = load_run(operator).experiment
    assert not verify([operator])[1]


def test_verify_looks_at_datasets_runs_and_exports(run, capsys):
    made = Run.open(run).export(format="safetensors").path
    (run / "notes.txt").write_text("mine")
    assert main(["verify", str(run.parent)]) == 0
    told = capsys.readouterr().out
    assert f"unknown  {run / 'notes.txt'}\n" in told and f"right    {made}\n" in told
    shard = next(run.parent.rglob("shard-00000.h5"))
    change(shard, -1)
    change(made, -1)
    assert main(["verify", str(run.parent)]) == 1
    told = capsys.readouterr().out
    assert f"changed  {shard}: run the dataset's `pdno generate` command again" in told
    assert f"changed  {made}: bring it back from a copy, or export it again" in told
    assert main(["verify", str(made)]) == 1 and main(["verify", str(made) + ".md"]) == 0
    assert main(["verify", str(run / "notes.txt")]) == main(["verify", str(run / "none")]) == 2


def test_a_folder_without_checksums_is_not_finished(run):
    (run / "checksums.json").unlink()
    for read in (load_run, load):
        with pytest.raises(ValueError, match=r"no finished run \(checksums.json is missing\)"):
            read(run)


def test_a_new_training_in_a_folder_removes_the_old_checksums(tmp_path):
    field = torch.randn(4, 1, 8, generator=torch.Generator().manual_seed(0))
    data = OperatorDataset.from_arrays(field, field, Grid((8,)))
    pdno.fit(FNO(1, 1, 1, 2, 1, 2), data, epochs=1, folder=tmp_path)
    shutil.rmtree(tmp_path / run_folder.CHECKPOINTS)
    seen = []
    look = [lambda row, model: seen.append(run_folder.is_finished(tmp_path))]
    pdno.fit(FNO(1, 1, 1, 2, 1, 2), data, epochs=2, folder=tmp_path, callbacks=look)
    assert seen == [False, False] and verify([tmp_path])[1]


def test_the_signature_covers_every_byte():
    text = with_digest(json.dumps({"a": 1, "b": [2]}, indent=1))
    assert json.loads(text)["b"] == [2] and without_digest(text) == (
        json.dumps({"a": 1, "b": [2]}, indent=1),
        True,
    )
    for place in range(len(text)):
        other = text[:place] + chr(ord(text[place]) ^ 1) + text[place + 1 :]
        assert not without_digest(other)[1]


HOLD = """
import sys, time
from pathlib import Path
from pdno.files.atomic import only_writer
with only_writer(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_trainer_is_told_who_writes_and_a_killed_one_lets_go(darcy, datasets, tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout.readline() == "held\n"
        told = f"process {holder.pid} on {os.uname().nodename} is writing to .*: let it end"
        with pytest.raises(ValueError, match=told):
            run_experiment(darcy, tmp_path / "run", data=datasets)
        with pytest.raises(ValueError, match=told):
            pdno.fit(FNO(1, 1, 1, 2, 1, 2), [], folder=tmp_path / "run")
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with only_writer(tmp_path / "run"), only_writer(tmp_path / "run"):  # one may ask twice
        pass
    assert (tmp_path / "run" / LOCK).read_text() == ""


def test_the_name_of_a_writer_that_was_killed_hinders_nobody(run, darcy):
    (run / LOCK).write_text("process 1 on another machine\n")
    assert run_experiment(darcy, run)  # which only reads what is complete
    with only_writer(run):
        assert (run / LOCK).read_text().startswith(f"process {os.getpid()} on ")
    assert (run / LOCK).read_text() == ""


def test_who_waits_goes_on_when_the_other_has_ended(tmp_path, capsys):
    held, done, waited = threading.Event(), threading.Event(), []

    def hold():
        with only_writer(tmp_path):
            held.set()
            done.wait(30)

    def wait():
        with only_writer(tmp_path, wait=True):
            waited.append(True)

    first, second = threading.Thread(target=hold), threading.Thread(target=wait)
    first.start()
    held.wait(30)
    second.start()
    told = ""  # in parts: a message may be read while it is written
    while f"waiting for process {os.getpid()}" not in told:
        assert second.is_alive()
        told += capsys.readouterr().err
    assert not waited
    done.set()
    first.join()
    second.join()
    assert waited


def test_a_folder_that_is_removed_while_training_is_told(tmp_path):
    field = torch.randn(4, 1, 8, generator=torch.Generator().manual_seed(0))
    data = OperatorDataset.from_arrays(field, field, Grid((8,)))
    remove = [lambda row, model: shutil.rmtree(tmp_path / "run")]
    with pytest.raises(OSError, match="cannot write to .*removed meanwhile.*last checkpoint"):
        pdno.fit(FNO(1, 1, 1, 2, 1, 2), data, epochs=3, folder=tmp_path / "run", callbacks=remove)
    assert not (tmp_path / "run").exists()


def test_a_prediction_of_what_is_no_number_is_refused(run, tmp_path):
    inputs = np.ones((3, 1, 8, 8), np.float32)
    inputs[1, 0, 2, 2] = np.nan
    np.save(tmp_path / "inputs.npy", inputs)
    out = tmp_path / "prediction.npy"
    assert main(["predict", str(run), str(tmp_path / "inputs.npy"), "--out", str(out)]) == 2
    assert not out.exists()
    assert len(Run.open(run).evaluate()) > 0


@pytest.fixture
def cut(darcy, datasets, tmp_path, monkeypatch):
    """A run that was trained to its end and not measured."""

    def fail(*_):
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr(execute, "measure", fail)
        with pytest.raises(RuntimeError, match="power cut"):
            run_experiment(darcy, tmp_path / "run", data=datasets)
    return tmp_path / "run"


def test_a_run_that_changes_its_environment_says_so_and_keeps_both(cut, darcy, datasets, capsys):
    path = cut / run_folder.ENVIRONMENT
    began = json.loads(path.read_text()) | {"native": "available: other", "processes": 2}
    path.write_text(json.dumps(began))
    run_experiment(darcy, cut, data=datasets)
    message = capsys.readouterr().err
    assert "began with processes 2, native available: other and continues with" in message
    kept = Run.open(cut).environment
    assert {name: kept[name] for name in began} == began
    (continued,) = kept["continued"]
    assert continued == {"processes": 1, "native": str(status())}


def test_a_run_that_goes_on_as_it_began_says_nothing(cut, darcy, datasets, capsys):
    before = (cut / run_folder.ENVIRONMENT).read_bytes()
    run_experiment(darcy, cut, data=datasets)
    assert "began with" not in capsys.readouterr().err
    assert (cut / run_folder.ENVIRONMENT).read_bytes() == before


def test_a_folder_that_is_removed_before_the_end_is_told(darcy, datasets, tmp_path, monkeypatch):
    def measure(*arguments):
        shutil.rmtree(tmp_path / "run")
        return [], {}

    monkeypatch.setattr(execute, "measure", measure)
    with pytest.raises(OSError, match=r"cannot write to .*run \(it was removed meanwhile\)"):
        run_experiment(darcy, tmp_path / "run", data=datasets)
    assert not (tmp_path / "run").exists()


def test_a_run_without_checksums_among_others_is_not_right(run, capsys):
    (run / "checksums.json").unlink()
    assert main(["verify", str(run.parent)]) == 1
    text = capsys.readouterr().out
    assert f"unknown  {run / 'metrics.csv'}: its run has no checksums.json: finish it" in text


def test_a_folder_that_is_no_run_is_not_called_unfinished(tmp_path):
    for read in (load_run, load):
        with pytest.raises(ValueError, match=r"holds no run: give a folder of `pdno.fit`"):
            read(tmp_path)
