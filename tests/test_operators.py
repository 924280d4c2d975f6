"""The operators in results/operators are what their records say, on samples that none has seen."""

import json
import sys
from pathlib import Path

import pytest

import pdno
from pdno.files.metric_table import by_network
from pdno.runs.run import load_run
from pdno.runs.specification import unseen_samples
from pdno.spectral.metrics import relative_l2
from pdno.training.checkpoint import read_tensors

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import keep  # noqa: E402  (a tool of the repository, not of the package)

OPERATORS = sorted(path.parent for path in (ROOT / "results/operators").glob("*/checksums.json"))
SAMPLES = {"navier-stokes": 2, "darcy": 4}
"""New ones; eight of the others."""
TOLERANCE = 0.5
"""Of the mean error of so few samples against that of all test samples."""


def problem_of(folder):
    return json.loads((folder / "specification.json").read_text())["problem"]["name"]


every = pytest.mark.parametrize("folder", OPERATORS, ids=[path.name for path in OPERATORS])
by_cost = pytest.mark.parametrize(
    "folder",
    [
        # a new flow takes its solver many seconds
        pytest.param(path, id=path.name, marks=[pytest.mark.slow] * (name == "navier-stokes"))
        for path in OPERATORS
        for name in [problem_of(path)]
    ],
)


def test_there_is_an_operator():
    assert OPERATORS


@every
def test_it_is_small_and_predicts_what_it_predicted(folder):
    assert sum(path.stat().st_size for path in folder.iterdir()) <= keep.MOST_BYTES
    tensors, _ = read_tensors(folder / "samples.safetensors")
    kept = tensors["prediction"]
    predicted = pdno.load(folder).predict(tensors["input"]).reshape(kept.shape)
    assert float(relative_l2(predicted, kept)) < 1e-3  # other machines round


@pytest.mark.slow
@every
def test_it_runs_in_a_browser(folder, tmp_path):
    """The file of a page is kept only where it agrees with torch on the kept sample."""
    pytest.importorskip("onnxruntime", reason="pip install 'pdno[export]'")
    assert load_run(folder).export(tmp_path / "operator.onnx", format="onnx").path.is_file()


@by_cost
def test_its_error_on_new_samples_is_that_of_its_record(folder):
    run = load_run(folder)
    data = unseen_samples(run.experiment, SAMPLES.get(run.experiment.problem.name, 8))
    error = pdno.evaluate(run.operator, data).mean()
    (network,) = by_network(run.metrics)
    recorded = network.summary("test").mean
    assert error == pytest.approx(recorded, rel=TOLERANCE)


def test_an_operator_is_kept_whole(tmp_path):
    source, kept = OPERATORS[0], tmp_path / "kept"
    keep.keep_operator(source, kept)
    for path in source.iterdir():
        assert (kept / path.name).read_bytes() == path.read_bytes(), path.name
    keep.keep_operator(source, kept)  # once more changes nothing
    (kept / "metrics.csv").write_text("")
    with pytest.raises(ValueError, match="kept is another run: remove it first"):
        keep.keep_operator(source, kept)


def test_what_is_too_large_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(keep, "MOST_BYTES", 1000)
    with pytest.raises(ValueError, match=r"bytes, more than 1,000: take a smaller one"):
        keep.keep_operator(OPERATORS[0], tmp_path / "large")
    assert not (tmp_path / "large").exists()
