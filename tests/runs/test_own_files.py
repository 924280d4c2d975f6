"""Runs on files of one's own: parts in files of their own, and data that change meanwhile."""

import numpy as np
import pytest
import torch

import pdno
from pdno.cli import main
from pdno.runs.execute import run_experiment
from pdno.runs.run import load_run
from pdno.runs.specification import Experiment, open_experiment_data, read_experiment

SPECIFICATION = """
file: {path: %s/train.npz, inputs: f, outputs: u}
train: 6
resolution: 16
network: {kind: fno, width: 2, modes: 3, layers: 1}
training: {epochs: 1, batch_size: 3}
"""


def write(path, samples, *, points=16, seed=0, **changes):
    f = np.random.default_rng(seed).standard_normal((samples, points))
    np.savez(path, **{"f": f, "u": 2 * f, **changes})


@pytest.fixture
def specification(tmp_path):
    write(tmp_path / "train.npz", 8)
    write(tmp_path / "test.npz", 4, seed=1, points=32)
    write(tmp_path / "watch.npz", 3, seed=2)
    path = tmp_path / "own.yaml"
    path.write_text(SPECIFICATION % tmp_path)
    return path


def test_training_validation_and_test_samples_are_in_files_of_their_own(specification, tmp_path):
    lines = f"test_file: {tmp_path}/test.npz\nvalidation_file: {tmp_path}/watch.npz\ntest: 0\n"
    specification.write_text(specification.read_text() + lines)
    experiment = read_experiment(specification)
    assert Experiment.model_validate_json(experiment.model_dump_json()) == experiment
    data = open_experiment_data(experiment, tmp_path)
    assert list(map(len, (data.train, data.test, data.validation))) == [6, 4, 3]
    assert data.finest_test.grid.shape == (32,) and data.test.grid == data.train.grid
    with np.load(tmp_path / "test.npz") as arrays:
        assert np.allclose(data.finest_test.batch()[0][:, 0], arrays["f"], atol=1e-6)
    fewer = open_experiment_data(experiment.with_changes(test=2, validation=1), tmp_path)
    assert (len(fewer.test), len(fewer.validation)) == (2, 1)


def test_the_command_line_names_a_test_file(specification, tmp_path, capsys):
    run = tmp_path / "run"
    command = ["train", str(specification), "--out", str(run)]
    assert main(command) == 2
    assert "test=0: give the number of test samples, or a test_file" in capsys.readouterr().err
    assert main([*command, "--test-file", str(tmp_path / "test.npz")]) == 0
    assert load_run(run).experiment.test_file.path == tmp_path / "test.npz"
    capsys.readouterr()
    assert main(["evaluate", str(run)]) == 0
    assert "relative_l2" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"points": 24}, "resolution 16 is not among the points of data stored at 24"),
        ({"u": np.ones((4, 2, 16))}, r"expected \(B, C, 16\)"),
        ({"samples": 2}, "has 2 samples; 3 are asked for"),
    ],
)
def test_a_test_file_that_does_not_fit_is_refused(specification, tmp_path, arrays, message):
    write(tmp_path / "other.npz", **{"samples": 4, **arrays})
    experiment = read_experiment(specification, test_file=tmp_path / "other.npz", test=3)
    with pytest.raises(ValueError, match=message):
        open_experiment_data(experiment, tmp_path)


def test_a_test_file_of_a_box_is_refused(specification, tmp_path):
    box = {"path": tmp_path / "watch.npz", "inputs": "f", "outputs": "u", "periodic": False}
    experiment = read_experiment(specification, test_file=box)
    with pytest.raises(
        ValueError, match=r"watch.npz has the grid, times and .*; those of the training"
    ):
        open_experiment_data(experiment, tmp_path)


def test_files_of_their_own_belong_to_a_file(heat):
    with pytest.raises(ValueError, match="test_file and validation_file go with a file"):
        heat.with_changes(test_file="other.npz")


def test_data_that_were_exchanged_are_refused_whether_a_run_has_ended_or_not(
    specification, tmp_path, monkeypatch
):
    experiment = read_experiment(specification, test=2)
    run_experiment(experiment, tmp_path / "run")
    content = (tmp_path / "train.npz").read_bytes()
    write(tmp_path / "train.npz", 8, seed=5)
    with pytest.raises(ValueError, match=r"holds a run on other data: .*train.npz changed since"):
        run_experiment(experiment, tmp_path / "run")

    def fail(*_):
        raise RuntimeError("power cut")

    with monkeypatch.context() as patch:
        patch.setattr("pdno.runs.execute.measure", fail)
        with pytest.raises(RuntimeError, match="power cut"):
            run_experiment(experiment, tmp_path / "cut")
    write(tmp_path / "train.npz", 8, seed=6)
    with pytest.raises(ValueError, match="holds a run on other data"):
        run_experiment(experiment, tmp_path / "cut")
    (tmp_path / "train.npz").write_bytes(content)
    assert run_experiment(experiment, tmp_path / "run") == list(load_run(tmp_path / "run").metrics)


def test_a_run_that_failed_before_its_training_does_not_block_its_folder(specification, tmp_path):
    wrong = read_experiment(specification, test=2).with_changes(resolution=5)
    with pytest.raises(ValueError, match="resolution 5 is not among the points"):
        run_experiment(wrong, tmp_path / "run")
    right = read_experiment(specification, test=2)
    run_experiment(right, tmp_path / "run")
    assert load_run(tmp_path / "run").experiment == right


@pytest.mark.parametrize("network", ["{width: 2}", "3", "{kind: unet}"])
def test_a_wrong_network_is_not_called_a_missing_model(specification, network):
    text = specification.read_text().replace(
        "network: {kind: fno, width: 2, modes: 3, layers: 1}", f"network: {network}\ntest: 2"
    )
    specification.write_text(text)
    with pytest.raises(ValueError, match=r"own.yaml: network") as failure:
        read_experiment(specification)
    message = str(failure.value)
    assert "model" not in message.replace("model_type", "") and "[type=" not in message


def test_a_path_that_does_not_exist_is_named_with_a_cure(tmp_path, capsys):
    assert main(["train", str(tmp_path / "none.yaml"), "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert f"there is no {tmp_path / 'none.yaml'}: check the path" in error
    assert "Errno" not in error


def test_an_output_folder_in_a_loop_of_links_is_a_message(specification, tmp_path, capsys):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    command = ["train", str(specification), "--test-file", str(tmp_path / "test.npz")]
    assert main([*command, "--out", str(tmp_path / "loop" / "run")]) == 2
    assert "symbolic links" in capsys.readouterr().err


def test_a_training_in_python_refuses_other_data_in_its_folder(tmp_path):
    generator = torch.Generator().manual_seed(0)
    first, second = (torch.randn(6, 1, 8, generator=generator) for _ in range(2))

    def train(field, epochs):
        data = pdno.OperatorDataset.from_arrays(field, field, pdno.Grid((8,)))
        torch.manual_seed(0)
        network = pdno.FNO(1, 1, 1, width=2, layers=1, modes=2)
        return pdno.fit(network, data, epochs=epochs, folder=tmp_path / "run")

    train(first, 2)
    with pytest.raises(ValueError, match=r"holds another run \(data was [0-9a-f]{64}, is"):
        train(second, 2)
    assert len(train(first, 2).history) == 2
