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
    return example.make_trajectories(64, tmp_path_factory.mktemp("data") / "flow")


def test_error_is_that_of_the_paper(example, trajectories, published_weights, tmp_path):
    """The paper has 0.1093 on its own 200 trajectories; 64 of ours scatter around it."""
    network = pdno.load_published(published_weights, resolution=64)
    found = example.measure(network, trajectories, tmp_path / "first.png")
    steps = [found.mean(f"relative_l2 t={t}") for t in range(11, 21)]
    assert 0.09 < found.mean() < 0.13
    # errors grow as the predictions are fed back, about exponentially
    assert steps == sorted(steps)
    assert 0.02 < steps[0] < 0.05 and 0.14 < steps[-1] < 0.25


def test_swapping_the_axes_of_space_is_no_symmetry(
    example, trajectories, published_weights, tmp_path
):
    network = pdno.load_published(published_weights, resolution=64)
    window, target = trajectories.subset(range(16)).batch()
    where = (trajectories.grid, trajectories.target_times)
    swapped = pdno.OperatorDataset.from_arrays(window.mT, target.mT, *where)
    assert example.measure(network, swapped, tmp_path / "first.png").mean() > 0.5


def test_script_prints_what_it_measures(example, published_weights, capsys, tmp_path):
    error = example.main(str(published_weights), "2", str(tmp_path))
    assert f"{error:.4f} (paper: 0.1093)" in capsys.readouterr().out
    assert 0.02 < error < 0.3
