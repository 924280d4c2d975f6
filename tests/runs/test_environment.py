"""`pdno info` says what there is, and why something is not."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml

import pdno.runs.execute as execute
from pdno.cli import main
from pdno.native import allocator_state, tune_allocator
from pdno.native.build import NativeStatus, status
from pdno.runs.execute import run_experiment


def test_it_is_json_for_programs(capsys):
    assert main(["info", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["torch"] == torch.__version__ and found["numpy"] == np.__version__
    assert found["threads"] == torch.get_num_threads() and found["allocator"] == allocator_state()
    backends = found["backends"]
    assert set(backends) == {"reference", "native", "triton", "cuda"}
    assert backends["reference"]["available"] is True
    assert backends["native"]["available"] == status().available
    assert backends["cuda"]["available"] == torch.cuda.is_available()
    assert all(backend["reason"] for backend in backends.values())


@pytest.mark.parametrize(
    "native",
    [
        NativeStatus(False, "there is no C compiler"),
        NativeStatus(True, "kept", os.devnull, "cc: gcc 12", "native"),
    ],
)
def test_it_is_lines_for_readers(monkeypatch, capsys, native):
    monkeypatch.setattr(execute, "status", lambda: native)
    assert main(["info"]) == 0
    found = yaml.safe_load(capsys.readouterr().out)
    assert found["torch"] == torch.__version__
    shown = found["backends"]["native"]
    assert shown["available"] == native.available and shown["reason"] == native.reason
    assert shown["compiler"] == native.compiler


def test_a_package_that_is_missing_is_said_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)
    found = execute.describe_backends()["triton"]
    assert not found["available"] and "triton" in found["reason"]


@pytest.mark.parametrize(("wish", "expected"), [("0", "PDNO_NATIVE=0"), ("2", "expected 0")])
def test_wishes_are_heard(wish, expected):
    command = [sys.executable, "-m", "pdno", "info"]
    variables = {**os.environ, "PDNO_NATIVE": wish}
    ended = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert expected in ended.stdout + ended.stderr
    assert ended.returncode == (0 if wish == "0" else 2)


def test_the_allocator_is_what_it_was_made():
    program = (
        "from pdno.native import allocator_state, tune_allocator\n"
        "print(allocator_state(), tune_allocator(), allocator_state())"
    )
    for wish in ("tuned", "default"):
        ended = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PDNO_ALLOCATOR": wish},
            capture_output=True,
            text=True,
        )
        before, taken, after = ended.stdout.split()
        assert before == "default" and (after == "tuned") == (taken == "True")
        assert wish == "tuned" or after == "default"
    assert not tune_allocator() or allocator_state() == "tuned"


def test_a_run_records_its_compiled_kernels(tmp_path, datasets, darcy):
    run_experiment(darcy, tmp_path / "run", data=datasets)
    path = tmp_path / "run" / "environment.json"
    assert json.loads(path.read_text())["native"] == str(status())
