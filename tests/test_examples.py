"""Examples are short, their numbers are right, and each is in the gallery with its picture."""

import ast
import importlib.util
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import pdno
from pdno.cli import main as command

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PICTURES = ROOT / "docs" / "images" / "gallery"
LARGEST_PICTURE = 60_000


def load(name):
    spec = importlib.util.spec_from_file_location(Path(name).stem, ROOT / "examples" / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check_picture(path):
    """A picture that shows something."""
    with Image.open(path) as picture:
        assert np.ptp(np.asarray(picture.convert("L"))) > 100


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """The folder of own data, operator and picture, and the prediction at twice the resolution."""
    folder, example = tmp_path_factory.mktemp("own") / "new", load("own_data.py")
    example.write_arrays(folder)
    torch.manual_seed(0)
    return folder, example.main(folder)


def test_own_data_are_learned_at_twice_the_resolution(own):
    folder, prediction = own
    exact = load("own_data.py").smooth(np.load(folder / "finer.npy"))
    assert prediction.shape == (20, 1, 128)
    assert np.linalg.norm(prediction[:, 0] - exact) < 0.1 * np.linalg.norm(exact)
    check_picture(folder / "own_data.png")


@pytest.mark.parametrize("name", ["own_data.py", "scattered_points.py"])
def test_from_a_file_to_a_prediction_in_at_most_twelve_lines(name):
    """The two imports and the lines of `main`; a comment or an empty line is none."""
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    main = next(n for n in ast.parse(text).body if getattr(n, "name", "") == "main")
    lines = text.splitlines()[main.body[1].lineno - 1 : main.end_lineno]
    assert 2 + sum(bool(line.strip()) for line in lines) <= 12


def test_the_same_in_three_commands(own, monkeypatch):
    """Those of docs/own_data.md, with two epochs: the operator, its prediction and a page."""
    page = (ROOT / "docs" / "own_data.md").read_text(encoding="utf-8")
    section = page.partition("## Three commands\n")[2].partition("\n## ")[0]
    (specification,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    (commands,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    assert len(commands.splitlines()) == 3
    monkeypatch.chdir(own[0])
    Path("own.yaml").write_text(specification.replace("epochs: 50", "epochs: 2"))
    for line in commands.splitlines():
        assert command(line.split()[1:]) == 0
    prediction, finer = np.load("finer_u.npy"), np.load("finer.npy")
    assert np.allclose(prediction, pdno.load("run").predict(finer[:, None]), atol=1e-6)
    shown = [path for path in Path("page").rglob("*") if path.suffix in (".png", ".svg")]
    assert prediction.shape == (20, 1, 128) and shown


def test_predictions_where_nothing_was_measured(tmp_path):
    example = load("scattered_points.py")
    exact = example.write_arrays(tmp_path, points=300)
    torch.manual_seed(0)
    measured, prediction = example.main(tmp_path, epochs=6)
    error = np.linalg.norm(prediction[:, 0] - exact) / np.linalg.norm(exact)
    assert error < 1.3 * measured < 0.6
    assert measured == pytest.approx(pdno.load(tmp_path / "operator").metrics[-1].value)
    check_picture(tmp_path / "scattered_points.png")


def test_the_stress_of_unseen_plates(tmp_path):
    assert load("elasticity.py").main(tmp_path, samples=24, epochs=4) < 0.4
    check_picture(tmp_path / "elasticity.png")


def test_a_unet_learns_with_a_layer_of_ours(tmp_path):
    assert load("layer_in_unet.py").main(tmp_path) < 0.1
    check_picture(tmp_path / "layer_in_unet.png")


def test_padding_helps_where_nothing_is_periodic(tmp_path):
    errors = load("non_periodic.py").main(tmp_path)
    assert errors["padding 0.25"] < 0.8 * errors["default"] and errors["padding 0.25"] < 0.1
    check_picture(tmp_path / "non_periodic.png")


def test_a_viscosity_that_was_not_seen(tmp_path):
    errors = load("family_of_equations.py").main(tmp_path)
    assert len(errors) == 3 and max(errors.values()) < 0.25
    check_picture(tmp_path / "family_of_equations.png")


def test_an_operator_is_learned_from_the_residual_alone(tmp_path):
    with warnings.catch_warnings():
        errors = load("physics_without_data.py").main(tmp_path, samples=20, epochs=12)
    assert errors["heat", "residual"] < 0.2
    check_picture(tmp_path / "physics_without_data.png")


def test_certificates_of_trained_layers(tmp_path):
    found = load("certificate.py").main(tmp_path)
    assert found["classical"].accepted and found["classical"].proof
    assert found["network"].assessment == "counterexample" and not found["network"].proof
    check_picture(tmp_path / "certificate.png")


def test_the_symbol_of_a_network_that_is_not_ours(tmp_path):
    example = load("symbol_of_another_package.py")
    torch.manual_seed(0)
    layers = [example.FourierLayer(1, 8), nn.GELU(), example.FourierLayer(8, 1)]
    assert example.main(tmp_path, nn.Sequential(*layers)) < 0.2
    check_picture(tmp_path / "symbol_of_another_package.png")


def test_the_symbol_of_neuraloperator(tmp_path):
    models = pytest.importorskip("neuralop.models")
    torch.manual_seed(0)
    fno = models.FNO((24,), 1, 1, hidden_channels=8, n_layers=2, positional_embedding=None)
    assert load("symbol_of_another_package.py").main(tmp_path, fno) < 0.5


def test_zero_shot_is_better_than_interpolation(tmp_path):
    errors = load("zero_shot.py").main(tmp_path)
    coarse, *_, (shot, interpolated) = errors.values()
    assert coarse[0] == pytest.approx(coarse[1]) and shot < interpolated
    check_picture(tmp_path / "zero_shot.png")


@pytest.mark.filterwarnings("ignore:modes=")  # on the coarsest grid
def test_fine_tuning_is_better_than_training_from_scratch(tmp_path):
    for errors in load("fine_tuning.py").main(tmp_path, train=20, test=5, epochs=5).values():
        assert errors["fine-tuned"] < min(errors["before"], errors["from scratch"])
    check_picture(tmp_path / "fine_tuning.png")


def test_a_rollout_becomes_an_animation(tmp_path):
    assert load("rollout_animation.py").main(tmp_path) < 0.15
    with Image.open(tmp_path / "rollout_animation.gif") as picture:
        assert picture.n_frames == 8


def test_weights_with_the_published_names(tmp_path, capsys):
    """Random ones, of the same names and sizes; tests/paper has the authors'."""
    error = load("published_weights.py").main("", "1", str(tmp_path), points=16)
    assert np.isfinite(error) and f"{error:.4f} (paper: 0.1093)" in capsys.readouterr().out
    check_picture(tmp_path / "published_weights.png")


def test_a_new_equation_obeys_its_laws(tmp_path):
    """The mean stays, a small wave grows by e^{(k² - k⁴) t}."""
    example = load("new_equation.py")
    u = example.main(tmp_path, frames=10)
    assert u.mean(dim=-1).abs().max() < 1e-12
    check_picture(tmp_path / "new_equation.png")
    wave = 1e-6 * torch.sin(2 * torch.pi * pdno.Grid((64,)).points()).T[None]
    k = 2 * np.pi / 22
    grown = pdno.solve(example.KuramotoSivashinsky(), wave, times=[2.0])[:, 0]
    assert torch.allclose(grown, np.exp(2 * (k**2 - k**4)) * wave, rtol=1e-5, atol=1e-12)


def test_the_equation_of_noisy_trajectories(tmp_path, capsys):
    equation = load("discover_equation.py").main(tmp_path, frames=4).equation()
    assert [c.term for c in equation.coefficients] == ["u_xx", "u_xxxx", "u u_x"]
    assert all(abs(c.value + 1) < 0.01 for c in equation.coefficients)
    assert "u_t = " in capsys.readouterr().out
    check_picture(tmp_path / "discover_equation.png")


def test_the_gallery_has_every_example_and_its_picture():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert len(EXAMPLES) == 15
    assert sorted(re.findall(r"literalinclude} \.\./examples/(\w+)\.py", page)) == [
        path.stem for path in EXAMPLES
    ]
    shown = re.findall(r"images/gallery/(\w+)\.(?:png|gif)", page)
    assert sorted(shown) == [path.stem for path in EXAMPLES]
    for path in PICTURES.iterdir():
        assert path.stat().st_size < LARGEST_PICTURE, path.name


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_short(path):
    assert 15 <= len(path.read_text(encoding="utf-8").splitlines()) <= 60
