"""The commands on experiments: list, reproduce, train, evaluate, predict."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import scipy.io
import torch
import yaml

import pdno
import pdno.data.generate as generation
from pdno.cli import main
from pdno.data.generate import generate_dataset, make_shard
from pdno.data.problems import DarcyProblem
from pdno.files.metric_table import read_metrics
from pdno.report.page import plot_runs, runs_by_data
from pdno.report.tables import number
from pdno.runs.plugins import RECIPES
from pdno.runs.run import find_runs, load_run
from pdno.runs.specification import Experiment, ensure_dataset
from pdno.spectral.grid import Grid
from pdno.training.checkpoint import load_checkpoint

COMMANDS = ("list", "reproduce", "train", "evaluate", "predict")
DARCY = {
    "name": "darcy",
    "model": "FNO",
    "problem": {"name": "darcy", "samples": 6, "resolution": 16, "solver_resolution": 16},
    "train": 4,
    "test": 2,
    "resolution": 8,
    "network": {"kind": "fno", "width": 4, "modes": 3},
    "normalization": "pointwise",
    "training": {"epochs": 2, "batch_size": 2, "learning_rate": 1e-2},
    "zero_shot": [16],
}


def make_all(problem, folder, missing, workers):
    for entry in missing:
        yield make_shard(problem, folder, *entry)


@pytest.fixture(autouse=True)
def in_process(monkeypatch):
    """Make shards in this process, which takes no time."""
    monkeypatch.setattr(generation, "_make_all", make_all)


def run(capsys, *arguments):
    """Exit code, output and errors of a command; errors without the lines of progress."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as ended:
        code = ended.code
    output, errors = capsys.readouterr()
    kept = [line for line in errors.splitlines() if " s left" not in line]
    return code, output, kept


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that `pdno train` made of a YAML file."""
    place = tmp_path_factory.mktemp("cli")
    (place / "darcy.yaml").write_text(yaml.safe_dump(DARCY, sort_keys=False), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(generation, "_make_all", make_all)
        assert main(["train", str(place / "darcy.yaml"), "--out", str(place / "run")]) == 0
    return place / "run"


# Help


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_quick_and_imports_nothing_slow(command):
    program = (
        "import sys\nfrom pdno.cli import main\n"
        f"try:\n    main(['{command}', '--help'])\n"
        "except SystemExit as ended:\n    assert not ended.code\n"
        "slow = {'torch', 'numpy', 'scipy', 'h5py', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    times = []
    while not times or (min(times) >= 0.6 and len(times) < 4):
        before = os.times().children_user
        ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        times.append(os.times().children_user - before)
        assert ended.returncode == 0, ended.stderr
        assert f"pdno {command}" in ended.stdout
    assert min(times) < 0.6


def test_list_names_every_experiment(capsys):
    code, output, errors = run(capsys, "list")
    assert (code, errors) == (0, [])
    assert [line.split()[0] for line in output.splitlines()] == list(RECIPES)
    assert all(recipe.__doc__.split("\n")[0] in output for recipe in RECIPES.values())


# reproduce


def test_reproduce_prints_its_numbers_and_where_they_are(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, output, errors = run(capsys, "reproduce", "heat", "--preset", "smoke", "--seeds", 2)
    assert (code, errors) == (0, [])
    rows = read_metrics(tmp_path / "runs" / "heat" / "metrics.csv")
    assert {row.seed for row in rows} == {0, 1}
    assert "PDIO a(x,ξ,t)" in output and output.endswith("metrics: runs/heat/metrics.csv\n")
    assert run(capsys, "reproduce", "heat", "--preset", "smoke", "--seeds", 2)[1] == output


def test_reproduce_takes_networks_by_the_names_of_the_table(capsys, tmp_path):
    given = ("reproduce", "darcy", "--preset", "smoke", "--out", tmp_path, "--models")
    code, output, _ = run(capsys, *given, "PDNO a(ξ)", "FNO")
    assert code == 0
    assert {row.model for row in read_metrics(tmp_path / "metrics.csv")} == {"PDNO a(ξ)", "FNO"}
    assert "PDNO a(ξ)" in output and "FNO" in output


# train


def test_yaml_and_json_are_trained_alike(capsys, tmp_path, finished):
    experiment = load_run(finished).experiment
    assert experiment == Experiment(**DARCY)
    (tmp_path / "darcy.json").write_text(json.dumps(DARCY), encoding="utf-8")
    code, output, errors = run(capsys, "train", tmp_path / "darcy.json", "--out", tmp_path / "run")
    assert (code, errors) == (0, [])
    assert output.startswith("darcy\n")
    assert output.endswith(f"metrics: {tmp_path}/run/metrics.csv\n")
    first, second = (
        load_run(folder).operator.state_dict() for folder in (finished, tmp_path / "run")
    )
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_specification_of_a_run_is_a_file_to_train_from(capsys, tmp_path, finished):
    given = ("train", finished / "specification.json", "--out", tmp_path / "run")
    assert run(capsys, *given, "--epochs", 1, "--seed", 3)[0] == 0
    experiment = load_run(tmp_path / "run").experiment
    assert (experiment.training.epochs, experiment.seed) == (1, 3)
    code, _, errors = run(capsys, *given)
    assert code == 2 and len(errors) == 1
    assert "training.epochs was 1, is 2, training.seed was 3, is 0" in errors[0]


# evaluate


def test_evaluate_prints_and_writes_its_rows(capsys, tmp_path, finished):
    code, output, errors = run(
        capsys, "evaluate", finished, "--resolution", 16, "--out", tmp_path / "metrics.csv"
    )
    assert (code, errors) == (0, [])
    rows = read_metrics(tmp_path / "metrics.csv")
    told = {
        r.metric: r.value for r in read_metrics(finished / "metrics.csv") if r.split == "zero-shot"
    }
    assert {row.metric: row.value for row in rows} == told
    assert [line.rsplit(None, 1) for line in output.splitlines()] == [
        [row.metric, f"{row.value:.6g}"] for row in rows
    ]


# predict


@pytest.mark.parametrize("ending", ["npy", "npz", "mat"])
def test_predict_writes_what_the_model_says(capsys, tmp_path, finished, ending):
    f = np.random.default_rng(0).standard_normal((3, 16, 16)).astype(np.float32)
    path = tmp_path / f"f.{ending}"
    if ending == "mat":
        scipy.io.savemat(path, {"f": f, "note": "real numbers alone count"})
    elif ending == "npz":
        np.savez(path, f=f, g=-f)
    else:
        np.save(path, f)
    more = ("--array", "f") if ending == "npz" else ()
    code, output, errors = run(
        capsys, "predict", finished, path, "--out", tmp_path / "u.npy", *more
    )
    assert (code, errors) == (0, []) and output == f"{tmp_path}/u.npy: (3, 1, 16, 16)\n"
    found = load_run(finished)
    said = found.operator.predict(torch.from_numpy(f)[:, None], grid=Grid.cells((16, 16)))
    assert np.array_equal(np.load(tmp_path / "u.npy"), said.numpy())


@pytest.fixture
def own(tmp_path):
    """An operator that `pdno.fit` wrote, in normalisers, and the data that it was trained on."""
    problem = DarcyProblem(samples=4, resolution=8, solver_resolution=16)
    generate_dataset(problem, tmp_path / "darcy")
    data = pdno.open_dataset(tmp_path / "darcy")
    network = pdno.PDNO(2, 1, 1, width=3, modes=3, layers=2, symbol_hidden=4)
    options = {"epochs": 2, "batch_size": 2, "normalization": "channel"}
    return pdno.fit(network, *data.split(test=2), folder=tmp_path / "own", **options)


def test_every_command_takes_what_fit_wrote(capsys, tmp_path, own):
    folder = tmp_path / "own"
    f = np.random.default_rng(0).standard_normal((2, 1, 128, 128)).astype(np.float32)
    np.save(tmp_path / "f.npy", f)
    out = ("--out", tmp_path / "u.npy")
    code, output, _ = run(capsys, "predict", folder, tmp_path / "f.npy", *out, "--device", "cpu")
    assert code == 0 and output == f"{tmp_path}/u.npy: (2, 1, 128, 128)\n"
    said = own.predict(torch.from_numpy(f), grid=Grid.cells((128, 128)))
    assert np.array_equal(np.load(tmp_path / "u.npy"), said.numpy())

    code, output, errors = run(capsys, "evaluate", folder, "--file", tmp_path / "darcy")
    error = pdno.evaluate(own, pdno.open_dataset(tmp_path / "darcy")).mean()
    assert code == 0 and f"{'relative_l2':28} {error:.6g}" in output.splitlines()
    code, output, errors = run(capsys, "evaluate", folder)
    assert code == 2 and "test samples, which were in memory: give a dataset" in errors[0]

    code, output, _ = run(capsys, "symbol", folder, "--order", "0")
    assert code == 0 and output.startswith("layer 1")
    code, output, _ = run(capsys, "report", folder, "--out", tmp_path / "report")
    assert code == 0 and "own" in (tmp_path / "report" / "report.html").read_text()
    rows = {
        (row.split, row.metric): row for row in read_metrics(tmp_path / "report" / "metrics.csv")
    }
    row = rows["test", "relative_l2"]
    assert (row.experiment, row.model, row.resolution) == ("own", "PDNO", 8)
    assert row.value == own.history[-1].test and row.parameters > 0
    page = (tmp_path / "report" / "report.html").read_text()
    assert f">{number(own.history[-1].train)}*</td>" in page and "A budget" not in page


def test_the_report_shows_a_prediction_and_the_symbol_of_what_fit_wrote(tmp_path, own):
    (run,) = find_runs([tmp_path / "own"])
    ((_, runs),) = runs_by_data([run])
    titles = [axes.get_title() for axes in plot_runs(runs).axes if axes.get_title()]
    assert titles[1:4] == ["permeability", "pressure", "prediction"] and titles[5:] == ["Re a2_11"]
    _, test = pdno.open_dataset(tmp_path / "darcy").split(test=2)
    inputs, target = test.batch([0])
    expected = {"input": inputs, "target": target, "prediction": own.predict(inputs)}
    assert all(np.array_equal(run.array(name), f) for name, f in expected.items())
    a2 = own.network.operators[1].values(test.grid).frequency[0]
    assert np.allclose(run.array("symbol.1.real"), a2.real.detach(), atol=1e-6)


# Wrong input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "wave"], "wave"),
        (["reproduce", "heat", "--preset", "huge"], "huge"),
        (
            ["reproduce", "heat", "--seeds", "0", "--out", "OUT"],
            "seeds: Input should be greater than or equal to 1",
        ),
        (["reproduce", "heat", "--resolution", "64", "--out", "OUT"], "--resolution"),
        (["reproduce", "darcy", "--viscosity", "1e-3", "--out", "OUT"], "--viscosity"),
        (["reproduce", "navier-stokes", "--viscosity", "0.1", "--out", "OUT"], "no viscosity 0.1"),
        (["reproduce", "darcy", "--models", "UNet", "--out", "OUT"], "no model 'UNet'"),
        (["reproduce", "resources", "--seeds", "2", "--out", "OUT"], "--seeds"),
        (["train", "absent.yaml", "--out", "OUT"], "absent.yaml"),
        (["train", "tag.yaml", "--out", "OUT"], "could not determine a constructor for the tag"),
        (["train", "wave.yaml", "--out", "OUT"], "problem name 'wave'; expected one of heat"),
        (
            ["train", "colour.yaml", "--out", "OUT"],
            "network: colour: unknown key; known: kind, width",
        ),
        (["train", "both.yaml", "--out", "OUT"], "give either a problem or a file, and not both"),
        (["train", "many.yaml", "--out", "OUT"], "train=5 and test=2 overlap in 6 samples"),
        (["train", "keys.yaml", "--out", "OUT"], "expected a printable word"),
        (["train", "good.yaml"], "--out"),
        (["train", "good.yaml", "--out", "OUT", "--epochs", "0"], "epochs: Input should be"),
        (["report"], "no folder is named: give folders of finished runs"),
        (["evaluate", "absent"], "there is no folder absent"),
        (["evaluate", "RUN", "--resolution", "12"], "resolution 12 is not among the points"),
        (["evaluate", "RUN", "--resolution", "0"], "resolution is 0"),
        (["evaluate", "RUN", "--file", "absent"], "absent"),
        (["predict", "RUN", "absent.npy", "--out", "OUT"], "absent.npy"),
        (["predict", "RUN", "good.yaml", "--out", "OUT"], "good.yaml"),
        (["predict", "absent", "absent.npy"], "there is no folder absent"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(
    capsys, tmp_path, monkeypatch, finished, arguments, message
):
    monkeypatch.chdir(tmp_path)
    files = {
        "good": DARCY,
        "wave": {**DARCY, "problem": {"name": "wave"}},
        "colour": {**DARCY, "network": {"kind": "fno", "colour": 3}},
        "both": {**DARCY, "file": "data.mat"},
        "many": {**DARCY, "train": 5},
        "keys": {1: 2},
    }
    for name, values in files.items():
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")
    (tmp_path / "tag.yaml").write_text("name: !!python/object/apply:os.getcwd []")
    known = {"RUN": finished, "OUT": tmp_path / "out"}
    code, output, errors = run(capsys, *(known.get(word, word) for word in arguments))
    told = " ".join(" ".join(errors).split())
    assert code == 2 and output == "" and message in told
    assert len(errors) == 1 or told.count("For full helptext") == 1
    assert "Traceback" not in told and not (tmp_path / "out").exists()


# Signals and several processes


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


def epochs_of(folder):
    path = folder / "history.csv"
    return len(path.read_text(encoding="utf-8").splitlines()) - 1 if path.exists() else 0


def stop_after_an_epoch(place):
    """Start an endless training, end it with SIGTERM, and return the step it says it is at."""
    process = start("-m", "pdno", "train", place / "darcy.json", "--out", place / "run")
    before, deadline = epochs_of(place / "run"), time.monotonic() + 120
    while epochs_of(place / "run") == before and process.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 75, errors
    pattern = r"pdno: stopped after step (\d+); the same command goes on from there"
    return int(re.fullmatch(pattern, errors.splitlines()[-1])[1])


@pytest.fixture
def endless(tmp_path):
    """The folder of a training that does not end by itself, with its data."""
    values = {**DARCY, "training": {"epochs": 1_000_000}, "zero_shot": []}
    (tmp_path / "darcy.json").write_text(json.dumps(values), encoding="utf-8")
    ensure_dataset(Experiment(**values).problem, tmp_path / "data")
    return tmp_path


def test_sigterm_is_exit_code_75_with_a_checkpoint(endless):
    step = stop_after_an_epoch(endless)
    assert load_checkpoint(endless / "run" / "checkpoints").state["step"] == step >= 1
    assert not (endless / "run" / "checksums.json").exists()


@pytest.mark.slow
def test_after_sigterm_the_same_command_goes_on(endless):
    first, second = stop_after_an_epoch(endless), stop_after_an_epoch(endless)
    assert first < second
    # an epoch of four samples is one step; the last one may end before it is measured
    assert epochs_of(endless / "run") in (second - 1, second)


@pytest.mark.slow
def test_two_processes_make_one_run(tmp_path, finished):
    """To rounding that of one process; files are written once."""
    (tmp_path / "darcy.json").write_text(json.dumps(DARCY), encoding="utf-8")
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    process = start(
        *torchrun, "-m", "pdno", "train", tmp_path / "darcy.json", "--out", tmp_path / "run"
    )
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert output.count("metrics: ") == 1
    environment = json.loads((tmp_path / "run" / "environment.json").read_text())
    assert environment["processes"] == 2
    one, two = (
        {
            (r.split, r.metric): r.value
            for r in load_run(folder).metrics
            if r.split in ("train", "test")
        }
        for folder in (finished, tmp_path / "run")
    )
    assert one == pytest.approx(two, rel=1e-3)


@pytest.mark.slow
def test_two_processes_make_all_runs_of_a_study(tmp_path):
    """One group of processes after another; the summary is printed once."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", 2)
    study = ("-m", "pdno", "reproduce", "heat", "--preset", "smoke", "--seeds", 2)
    process = start(*torchrun, *study, "--out", tmp_path)
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    assert output.count("metrics: ") == 1
    assert {row.seed for row in read_metrics(tmp_path / "metrics.csv")} == {0, 1}


def test_only_the_first_of_several_processes_speaks(capsys, finished, monkeypatch):
    again = ("train", finished / "specification.json", "--out", finished)
    assert "metrics: " in run(capsys, *again)[1]
    monkeypatch.setenv("RANK", "1")
    assert run(capsys, *again) == (0, "", [])
