"""The command line: quick help, one message and exit code 2 for wrong input."""

import os
import re
import shutil
import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest
from PIL import Image

import pdno.data.generate as generation
from pdno.cli import main
from pdno.data.dataset import open_dataset
from pdno.data.generate import make_shard
from pdno.data.problems import (
    PROBLEMS,
    BurgersProblem,
    DarcyProblem,
    HeatProblem,
    NavierStokesProblem,
)
from pdno.data.shards import read_manifest, write_manifest
from pdno.files.atomic import sha256
from pdno.paper.demo import DEMO, OPERATORS, draw_problems, runs_for_pages, show_operator

HEAT = ("generate", "heat", "--samples", "3", "--resolution", "16", "--frames", "2")


@pytest.fixture(autouse=True)
def in_process(monkeypatch):
    """Make shards in this process, which takes no time."""

    def make_all(problem, folder, missing, workers):
        for entry in missing:
            yield make_shard(problem, folder, *entry)

    monkeypatch.setattr(generation, "_make_all", make_all)


def run(capsys, *arguments):
    """Exit code, output and errors of a command."""
    try:
        code = main([str(argument) for argument in arguments])
    except SystemExit as ended:
        code = ended.code
    return code, *capsys.readouterr()


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "pdno", *arguments], capture_output=True, text=True, **options
    )


def test_help_names_the_commands():
    ended = command("--help")
    assert ended.returncode == 0 and ended.stderr == ""
    assert all(name in ended.stdout for name in ("generate", "data", "demo"))


@pytest.mark.parametrize("arguments", [["--help"], ["generate", "heat", "--help"]])
def test_help_imports_nothing_slow(arguments):
    program = (
        "import sys\nfrom pdno.cli import main\n"
        f"try:\n    main({arguments})\nexcept SystemExit as ended:\n    assert not ended.code\n"
        "slow = {'torch', 'numpy', 'scipy', 'h5py', 'matplotlib'} & set(sys.modules)\n"
        "sys.exit(f'imported {slow}' if slow else 0)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_help_of_a_problem_names_every_parameter(capsys, name):
    code, output, _ = run(capsys, "generate", name, "--help")
    assert code == 0
    for parameter in PROBLEMS[name].model_fields:
        assert f"--{parameter.replace('_', '-')}" in output


def test_the_console_script_and_the_module_are_one_command():
    script = shutil.which("pdno", path=os.path.dirname(sys.executable))
    assert script is not None
    wrong = ["generate", "heat", "--samples", "-3", "--out", "absent"]
    ended = subprocess.run([script, *wrong], capture_output=True, text=True)
    again = command(*wrong)
    assert ended.returncode == again.returncode == 2
    assert ended.stderr == again.stderr and "-3" in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["generat"], "no command 'generat'; did you mean 'generate'? known: list"),
        (["generate", "heat", "--colour", "3"], "--colour"),
        (["generate", "wave"], "wave"),
        (["generate", "heat", "--samples", "many"], "--samples"),
        (["generate", "heat", "--samples", "-3"], "greater than or equal to 1"),
        (["generate", "heat", "--diffusivity", "nan"], "diffusivity"),
        (["generate", "heat", "--diffusivity", "1e300"], "diffusivity"),
        (["generate", "heat", "--dtype", "float16"], "float16"),
        (["generate", "burgers", "--viscosity", "-1"], "viscosity"),
        (["generate", "darcy", "--resolution", "100", "--solver-resolution", "512"], "multiple"),
        (["generate", "navier-stokes", "--resolution", "32768"], "lower the resolution"),
        (["generate", "heat", "--workers", "0"], "workers is 0; expected at least 1"),
        (["data", "show", "x"], "show"),
        (["demo", "--size", "3"], "--size"),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(capsys, tmp_path, arguments, message):
    out = tmp_path / "data"
    given = [*arguments, "--out", out] if arguments[:1] == ["generate"] else arguments
    code, output, errors = run(capsys, *given)
    assert code == 2 and output == ""
    assert message in " ".join(errors.split())
    assert errors.count("For full helptext") == 1 or errors.count("\n") == 1
    assert "Traceback" not in errors and not out.exists()


def test_a_missing_folder_option_is_named(capsys):
    code, output, errors = run(capsys, *HEAT)
    assert code == 2 and output == "" and "--out" in errors


def test_generate_says_what_it_made_and_again_when_it_is_there(capsys, tmp_path):
    out = tmp_path / "data"
    for _ in range(2):
        code, output, _ = run(capsys, *HEAT, "--out", out)
        assert code == 0
        assert output == (f"{out}: 3 samples of heat, 3 shards, complete\n")
    assert read_manifest(out).complete


def test_existing_folders_with_other_contents_are_refused(capsys, tmp_path):
    out = tmp_path / "data"
    run(capsys, *HEAT, "--out", out)
    before = {path.name: sha256(path) for path in out.iterdir()}
    code, output, errors = run(capsys, *HEAT, "--seed", "1", "--out", out)
    assert (code, output) == (2, "") and errors.count("\n") == 1
    assert "seed: 0 there, 1 asked for" in errors
    assert before == {path.name: sha256(path) for path in out.iterdir()}
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.tex").write_text("mine")
    for place in (mine, mine / "thesis.tex"):
        code, output, errors = run(capsys, *HEAT, "--out", place)
        assert (code, output) == (2, "") and errors.count("\n") == 1 and "thesis.tex" in errors


@pytest.mark.parametrize("error", [OSError("no space"), ValueError("wrong")])
def test_an_error_on_the_way_is_one_message(capsys, tmp_path, monkeypatch, error):
    def fail(*given):
        raise error

    monkeypatch.setattr(generation, "make_shard", fail)
    monkeypatch.setattr(generation, "_make_all", fail)
    code, output, errors = run(capsys, *HEAT, "--out", tmp_path / "data")
    assert (code, output, errors) == (2, "", f"pdno: {error}\n")


def test_a_solver_that_fails_is_one_message(capsys, tmp_path):
    given = ("--resolution", 16, "--solver-resolution", 16, "--forcing", 1e12, "--samples", 1)
    code, output, errors = run(capsys, "generate", "navier-stokes", *given, "--out", tmp_path)
    assert (code, output) == (2, "") and errors.count("\n") == 1
    assert errors.startswith("pdno: sample 0 is too fast")


def test_a_mistake_of_ours_is_not_hidden(capsys, tmp_path, monkeypatch):
    def fail(*given):
        raise RuntimeError("a mistake")

    monkeypatch.setattr(generation, "_make_all", fail)
    with pytest.raises(RuntimeError, match="a mistake"):
        run(capsys, *HEAT, "--out", tmp_path / "data")


# pdno data info


def test_info_of_a_dataset(capsys, tmp_path):
    run(capsys, *HEAT, "--out", tmp_path)
    code, output, errors = run(capsys, "data", "info", tmp_path)
    assert (code, errors) == (0, "")
    lines, channels = output.splitlines()[:-2], output.splitlines()[-2:]
    inputs, targets = open_dataset(tmp_path).batch()
    for line, start, values in zip(
        channels,
        ("  input      initial_temperature (16,)", "  output     temperature (2, 16)"),
        (inputs, targets),
        strict=True,
    ):
        assert line == f"{start}: {values.min():.4g} .. {values.max():.4g}"
    assert lines == [
        f"{tmp_path}: pdno dataset, heat, complete",
        "  equation   u_t = c u_xx, periodic on (0, 1)",
        "  scheme     exact propagator exp(-4 pi^2 xi^2 c t) of each Fourier mode",
        "  samples    3 (seed 0), 3 shards",
        "  grid       (16,), solved on (1024,)",
        "  fields     initial_temperature -> temperature, 2 frames, t = 0.5 .. 1, float32",
        "  parameters samples=3, seed=0, resolution=16, solver_resolution=None, dtype=float32, "
        "diffusivity=0.05, final_time=1.0, frames=2",
        "  residual   0.0e+00 at most",
    ]


def test_info_of_a_static_dataset(capsys, tmp_path):
    given = ("--samples", 1, "--resolution", 8, "--solver-resolution", 8)
    run(capsys, "generate", "darcy", *given, "--out", tmp_path)
    code, output, _ = run(capsys, "data", "info", tmp_path)
    assert code == 0 and "permeability -> pressure, static, float32" in output


def test_info_of_partial_and_damaged_datasets(capsys, tmp_path):
    run(capsys, *HEAT, "--out", tmp_path)
    manifest = read_manifest(tmp_path)
    (tmp_path / "shard-00001.h5").unlink()
    assert "DAMAGED, 1 of 3 shards are missing" in run(capsys, "data", "info", tmp_path)[1]
    changes = {"shards": manifest.shards[:1], "complete": False}
    write_manifest(tmp_path, manifest.model_copy(update=changes))
    code, output, _ = run(capsys, "data", "info", tmp_path)
    assert code == 0 and "heat, PARTIAL, 1 samples so far" in output
    (tmp_path / "manifest.json").write_text("{}")
    code, output, errors = run(capsys, "data", "info", tmp_path)
    assert (code, output) == (2, "") and "damaged or not a manifest" in errors


@pytest.mark.parametrize("name", ["absent", "empty", "note.txt"])
def test_info_of_what_is_not_there_or_no_data(capsys, tmp_path, name):
    (tmp_path / "empty").mkdir()
    (tmp_path / "note.txt").write_text("hello, this is no data")
    code, output, errors = run(capsys, "data", "info", tmp_path / name)
    assert (code, output) == (2, "") and name in errors and errors.count("\n") == 1


# pdno demo


SMALL = (
    HeatProblem(samples=1, resolution=64, frames=3),
    BurgersProblem(samples=1, resolution=64, solver_resolution=64, frames=2),
    DarcyProblem(samples=1, resolution=16, solver_resolution=16),
    NavierStokesProblem(
        samples=1, resolution=16, solver_resolution=16, viscosity=1e-2, final_time=2
    ),
)


def test_the_demo_draws_every_problem_the_same_each_time(tmp_path):
    pictures = draw_problems(tmp_path, SMALL)
    assert [path.name for path in pictures] == [f"{problem.name}.png" for problem in DEMO]
    first = [sha256(path) for path in pictures]
    for path in pictures:
        pixels = matplotlib.image.imread(path)
        assert pixels.shape[0] > 300 and pixels.std() > 0.05
    assert [sha256(path) for path in draw_problems(tmp_path, SMALL)] == first
    assert len(set(first)) == 4 and not list(tmp_path.glob(".*"))


def test_the_demo_shows_an_operator_on_a_new_sample(tmp_path):
    """A trained one that comes with a clone; an installed package has none, and says so."""
    told = show_operator(tmp_path, only(tmp_path, "heat"))
    found = re.search(r"t = 0.05 to 1 in \S+ s with a relative L2 error of (\S+);", told)
    assert found is not None and float(found[1]) < 1e-3
    for ending in (".png", ".gif"):
        with Image.open(tmp_path / f"heat-prediction{ending}") as picture:
            assert np.ptp(np.asarray(picture.convert("L"))) > 100
            assert getattr(picture, "n_frames", 1) == (20 if ending == ".gif" else 1)
    assert "only a clone of the repository has" in show_operator(tmp_path, tmp_path / "no")


def test_the_pages_of_the_demo_have_the_operator_of_flows(tmp_path):
    operators = only(tmp_path, "heat")
    assert list(runs_for_pages(tmp_path, operators=operators)) == ["darcy"]
    (operators / "heat").rename(operators / "navier-stokes")
    pages = runs_for_pages(tmp_path, operators=operators)
    assert pages["navier-stokes"] == [operators / "navier-stokes"]


def only(folder, name):
    """A folder of operators with one of them."""
    place = folder / "operators"
    shutil.copytree(OPERATORS / name, place / name)
    return place


@pytest.mark.slow
def test_the_demo_command(tmp_path):
    ended = command("demo", "--preset", "smoke", "--out", str(tmp_path))
    assert ended.returncode == 0, ended.stderr
    first, *pictures, last = ended.stdout.splitlines()
    assert "an input that no training has seen" in first
    assert last == f"report: {tmp_path / 'report' / 'report.html'}"
    assert pictures == [str(tmp_path / f"{problem.name}.png") for problem in DEMO]
    assert all(np.ptp(matplotlib.image.imread(path)) > 0.5 for path in pictures)
