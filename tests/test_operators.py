"""The operators in results/operators are what their records say, on samples that none has seen."""

import json
import sys
from pathlib import Path

import pytest

import pdno
from pdno.data.generate import collect
from pdno.files.metric_table import by_network
from pdno.runs.run import load_run
from pdno.spectral.metrics import relative_l2
from pdno.training.checkpoint import read_tensors

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import keep  # noqa: E402  (a tool of the repository, not of the package)

OPERATORS = sorted(path.parent for path in (ROOT / "results/operators").glob("*/checksums.json"))
SOLVER = {"navier-stokes": 0.1}
"""How far an error may be from its record where solutions are chaotic; elsewhere one per cent."""


def problem_of(folder):
    return json.loads((folder / "specification.json").read_text())["problem"]["name"]


def samples_of_test(experiment, count):
    """The first samples of its test set, made again: its last ones."""
    problem = experiment.problem
    first = problem.samples - experiment.test
    samples = [problem.sample(first + index) for index in range(count)]
    data = collect(samples, problem.grid(), problem.times, problem.fields)
    return experiment.frames_of(data).subsample(problem.resolution // experiment.resolution)


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
def test_its_error_on_a_test_sample_is_the_recorded_one(folder):
    run = load_run(folder)
    tensors, _ = read_tensors(folder / "samples.safetensors")
    error = pdno.evaluate(run.operator, samples_of_test(run.experiment, 1)).mean()
    tolerance = SOLVER.get(problem_of(folder), 0.01)
    assert error == pytest.approx(float(tensors["error"][0]), rel=tolerance)


@pytest.mark.slow
@every
def test_its_error_on_the_test_set_is_that_of_its_record(folder):
    run = load_run(folder)
    if problem_of(folder) == "navier-stokes":
        pytest.skip("a hundred flows take their solver an hour; one of them is tested above")
    error = pdno.evaluate(
        run.operator, samples_of_test(run.experiment, run.experiment.test)
    ).mean()
    (network,) = by_network(run.metrics)
    assert error == pytest.approx(network.summary("test").mean, rel=0.01)


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
