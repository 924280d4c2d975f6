"""The published weights on our trajectories: our solver makes the data they were trained on."""

import importlib.util
from pathlib import Path

import pytest

import pdno

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).parents[2] / "examples" / "published_weights.py"


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("published_weights_example", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def trajectories(example, tmp_path_factory, published_weights):
    return example.make_trajectories(64, tmp_path_factory.mktemp("data") / "flow", workers=2)


def test_error_is_that_of_the_paper(example, trajectories, published_weights):
    """The paper has 0.1093 on its own 200 trajectories; 64 of ours scatter around it."""
    network = pdno.load_published(published_weights, resolution=64)
    error, steps = example.measure(network, trajectories)
    assert 0.09 < error < 0.13
    # errors grow as the predictions are fed back, about exponentially
    assert len(steps) == 10 and steps == sorted(steps)
    assert 0.02 < steps[0] < 0.05 and 0.14 < steps[-1] < 0.25


def test_swapping_the_axes_of_space_is_no_symmetry(example, trajectories, published_weights):
    network = pdno.load_published(published_weights, resolution=64)
    error, _ = example.measure(network, trajectories.subset(range(16)), transposed=True)
    assert error > 0.5


def test_script_prints_what_it_measures(example, published_weights, capsys):
    error = example.main(str(published_weights), "2")
    printed = capsys.readouterr().out
    assert f"{error:.4f} (paper: 0.1093)" in printed
    assert printed.count("t = ") == 10 and 0.02 < error < 0.3
