"""Plug-ins: a package outside of pdno adds an equation, a symbol, a network and a recipe."""

import json
import sys
from typing import Literal

import numpy as np
import pytest
import torch

import pdno
import pdno.data.generate as generation
from pdno.cli import main
from pdno.data.problems import HeatProblem
from pdno.networks.specification import NETWORKS
from pdno.runs.plugins import RECIPES
from pdno.runs.specification import read_experiment
from pdno.training.task import StaticMap

PACKAGE = '''
"""Kuramoto-Sivashinsky: u_t = -u_xx - u_xxxx - (u²/2)_x on a circle of length `period`."""
import math
from dataclasses import dataclass
from functools import cache
from typing import Literal

import pdno
from pdno.data.problems import Problem


@pdno.register
class KuramotoSivashinskyProblem(Problem):
    """Kuramoto-Sivashinsky: u₀ -> u(t)."""

    name, dim, published_points = "kuramoto-sivashinsky", 1, 64
    equation_text = "u_t = -u_xx - u_xxxx - (u^2/2)_x, periodic"
    fields = ("initial_velocity", "velocity")
    parameter_names = ("period",)

    resolution: int = 64
    period: float = 22.0
    """Length of the circle."""
    final_time: float = 2.0
    """Last time."""
    frames: int = 4
    """Stored times."""

    def physics(self):
        return Waves(), equation(self.period)


@dataclass(frozen=True)
class Waves:
    """A law of another package: one sine of random phase and amplitude."""

    def sample(self, grid, *, seed, indices):
        import torch

        rows = []
        for index in indices:
            draw = torch.Generator().manual_seed(1000 * seed + index)
            size, phase = torch.rand(2, generator=draw, dtype=torch.float64)
            rows.append((0.5 + size) * torch.sin(2 * math.pi * (grid.points()[..., 0] + phase)))
        return torch.stack(rows)[:, None]


@cache  # one class, however often it is asked for
def equation(period):
    import torch
    from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
    from pdno.spectral.fourier import inverse, transform
    from pdno.spectral.calculus import band_limits

    @dataclass(frozen=True)
    class KuramotoSivashinsky(EvolutionEquation):
        period: float
        dim = 1

        def discretise(self, grid, device=None):
            modes = band_limits(grid)
            k = 2 * math.pi * grid.modes(modes)[..., 0] / self.period

            def nonlinear(u_hat):
                u = inverse(u_hat, grid.shape, modes)
                return -0.5j * k * transform(u * u, 1, modes)

            def rates(u_hat):
                u = inverse(u_hat, grid.shape, modes)
                speed = u.abs().flatten(1).amax(dim=1) * grid.shape[0] / self.period
                still = torch.zeros_like(speed)
                return FlowRates(speed, still, still)

            return Semilinear(k**2 - k**4, modes, nonlinear, rates, deformation=0.05)

    return KuramotoSivashinsky(period)


def learning():
    import torch
    from pdno.symbols import Symbol, SymbolValues
    from pdno.training.task import StaticMap

    @pdno.register(name="decay")
    class DecaySymbol(Symbol):
        """w_ji e^{-|ξ|/hidden}."""

        def __init__(self, in_channels, out_channels, *, hidden, order):
            super().__init__(in_channels, out_channels)
            assert order == 0.5  # an option of PDNO that it names
            self.weight = torch.nn.Parameter(torch.randn(out_channels, in_channels) / in_channels)
            self.hidden = hidden

        def evaluate(self, grid, modes=None, t=None):
            xi = grid.modes(modes).double().norm(dim=-1).float()
            values = self.weight[..., None] * torch.exp(-xi / self.hidden)
            return SymbolValues(values.to(torch.complex64)[None])

    @pdno.register(name="mix")
    class Mix(torch.nn.Sequential):
        """A pointwise map."""

        def __init__(self, dim: int, in_channels: int, out_channels: int, *, hidden: int = 4):
            layers = [torch.nn.Conv1d(in_channels, hidden, 1), torch.nn.GELU()]
            super().__init__(*layers, torch.nn.Conv1d(hidden, out_channels, 1))

    @pdno.register
    class Last(StaticMap):
        """A task of another package."""

        kind: Literal["last"] = "last"


learning()


@pdno.register
def ks_networks(preset: str = "small", *, models: tuple[str, ...] | None = None):
    """Kuramoto-Sivashinsky: a symbol of our own against a pointwise map."""
    data = KuramotoSivashinskyProblem(samples=4, resolution=32, frames=1)
    common = dict(name="ks-networks", problem=data, train=3, test=1, resolution=32, task="last",
                  training=dict(epochs=1, batch_size=3))
    networks = {
        "PDNO decay": dict(kind="pdno", symbol="decay", order=0.5, width=3, modes=6),
        "Mix": dict(kind="mix"),
    }
    runs = [pdno.Experiment(model=name, network=networks[name], **common)
            for name in models or networks]
    return pdno.recipes.Study(name="ks-networks", preset=preset, experiments=tuple(runs))
'''

YAML = """
name: ks
model: PDNO decay
problem: {name: kuramoto-sivashinsky, samples: 4, resolution: 32, frames: 1}
train: 3
test: 1
resolution: 32
network: {kind: pdno, symbol: decay, order: 0.5, width: 3, layers: 1, modes: 6}
task: last
training: {epochs: 1, batch_size: 3}
"""


@pytest.fixture
def place(tmp_path, monkeypatch, forget):
    """A folder with the package, which is on no path."""
    (tmp_path / "flames").mkdir()
    (tmp_path / "flames" / "__init__.py").write_text(PACKAGE, encoding="utf-8")
    (tmp_path / "ks.yaml").write_text(YAML, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    yield tmp_path
    sys.modules.pop("flames", None)


def run(capsys, *arguments):
    """Exit code, output and errors of a command."""
    code = main([str(argument) for argument in arguments])
    return code, *capsys.readouterr()


def test_a_problem_of_a_plugin_is_generated_by_worker_processes(capsys, place):
    size = ("--samples", "1", "--resolution", "32", "--workers", "1", "--out", "data")
    problem = "kuramoto-sivashinsky"
    code, output, errors = run(capsys, "generate", problem, "--plugin", "flames", *size)
    assert code == 0, errors
    assert output == "data: 1 samples of kuramoto-sivashinsky, 1 shards, complete\n"
    made = pdno.open_dataset("data")[0]
    flames = sys.modules["flames"]
    start = flames.Waves().sample(pdno.Grid((64,)), seed=0, indices=[0])
    exact = pdno.solve(flames.equation(22.0), start, times=[0.5, 1.0, 1.5, 2.0])
    assert torch.allclose(made[1].double(), exact[0, ..., ::2], rtol=1e-6, atol=1e-7)
    assert run(capsys, "data", "info", "data")[0] == 0
    law = pdno.generate(flames.equation(22.0), pdno.Grid((64,)), samples=1, times=[0.5])
    assert torch.allclose(law[0][0][0].double(), start[0, 0], atol=1e-7)  # its problem has it


def test_a_plugin_trains_by_yaml_predicts_and_reproduces(capsys, place, monkeypatch):
    monkeypatch.setattr(generation, "_make_all", make_here)
    code, _, errors = run(capsys, "--plugin", "flames", "train", "ks.yaml", "--out", "run")
    assert code == 0, errors
    specification = json.loads((place / "run" / "specification.json").read_text())
    assert (
        specification["network"]["symbol"] == "decay" and specification["task"]["kind"] == "last"
    )
    assert read_experiment(place / "run" / "specification.json").network.order == 0.5
    np.save("inputs.npy", np.random.default_rng(0).normal(size=(2, 1, 64)))
    assert run(capsys, "predict", "--plugin=flames", "run", "inputs.npy", "--times", "2")[0] == 0
    assert np.load("prediction.npy").shape == (2, 1, 1, 64)
    listed = run(capsys, "list")[1]
    assert "ks-networks" in listed and "a symbol of our own against a pointwise map" in listed
    study = ("reproduce", "ks-networks", "--preset", "smoke", "--models", "Mix", "--out", "study")
    code, output, errors = run(capsys, *study)
    assert code == 0, errors
    assert "Mix" in output and "PDNO" not in output and "the numbers mean nothing" in output


def make_here(problem, folder, missing, workers):
    for entry in missing:
        yield generation.make_shard(problem, folder, *entry)


def test_installed_plugins_are_found_and_broken_ones_told(capsys, place, monkeypatch):
    for name, module in (("flames", "flames"), ("broken", "no_such_module")):
        folder = place / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (folder / "entry_points.txt").write_text(f"[pdno.plugins]\nany = {module}\n")
    monkeypatch.syspath_prepend(place)
    with pytest.warns(UserWarning, match=r"plug-in 'any' \(no_such_module\) is left out"):
        code, output, _ = run(capsys, "list")
    assert code == 0 and "ks-networks" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plugin", "flaems", "list"], "no module 'flaems' is installed or in"),
        (["list", "--plugin"], "argument --plugin: expected one argument"),
        (["list", "--plugin", "absent.py"], "there is no such file"),
        (["generate", "kuramoto-sivashinky", "--plugin", "flames"], "did you mean 'kuramoto-siva"),
        (["generate", "kuramoto-sivashinsky"], "those of another package need `--plugin MODULE`"),
        (["train", "ks.yaml", "--out", "run"], "problem name 'kuramoto-sivashinsky'; expected"),
    ],
)
def test_what_is_not_there_is_told_in_one_line(capsys, place, arguments, message):
    code, output, errors = run(capsys, *arguments)
    assert code == 2 and output == ""
    assert message in errors and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("plugin", "flames"),
        ("network", {"kind": "flames"}),
        ("network", {"kind": "flames:Mix"}),
        ("task", {"kind": "flames"}),
        ("problem", {"name": "flames"}),
        ("network", {"kind": "pdno", "symbol": "flames"}),
    ],
)
def test_a_specification_never_imports_anything(place, monkeypatch, key, value):
    monkeypatch.syspath_prepend(place)
    values = {"name": "x", "model": "x", "train": 1, "test": 1, "resolution": 32}
    values |= {"problem": {"name": "heat"}, "network": {"kind": "fno"}, key: value}
    (place / "own.json").write_text(json.dumps(values))
    with pytest.raises(ValueError):
        read_experiment(place / "own.json")
    assert "flames" not in sys.modules


def test_a_name_means_one_thing_and_cells_may_run_twice(forget):
    def make():
        class Mine(pdno.FNO):
            pass

        return Mine

    first, second = make(), make()
    assert pdno.register(first, name="mine") is first
    pdno.register(second, name="mine")  # the same cell of a notebook
    assert NETWORKS["mine"] is second

    class Other(pdno.FNO):
        pass

    with pytest.raises(ValueError, match="network kind 'mine' is taken: choose another name"):
        pdno.register(Other, name="mine")
    with pytest.raises(ValueError, match="problem 'heat' is taken"):
        pdno.register(type("Own", (HeatProblem,), {"__module__": "own"}))

    def heat(preset):
        raise AssertionError

    with pytest.raises(ValueError, match="experiment 'heat' is taken"):
        pdno.register(heat)
    assert RECIPES["heat"] is pdno.recipes.heat


def test_what_cannot_be_registered_is_refused(forget):
    class Needy(HeatProblem):
        name = "needy"
        required: float

    with pytest.raises(ValueError, match=r"not made by its defaults alone \(required: "):
        pdno.register(Needy)
    with pytest.raises(ValueError, match="cannot be registered; expected a Problem, Symbol"):
        pdno.register(torch.nn.Linear)
    with pytest.raises(ValueError, match="needs a name"):
        pdno.register(pdno.symbols.NetworkSymbol)


def test_a_registered_task_and_symbol_work_in_python(forget):
    class Twice(StaticMap):
        kind: Literal["twice"] = "twice"

    pdno.register(Twice)
    pdno.register(pdno.symbols.NetworkSymbol, name="again")
    torch.manual_seed(0)
    layer = pdno.PDIO(1, 2, 3, symbol="again", modes=4, depends_on_x=False)
    torch.manual_seed(0)
    same = pdno.PDIO(1, 2, 3, symbol="network", modes=4, depends_on_x=False)
    f = torch.randn(2, 2, 16)
    assert torch.equal(layer(f), same(f))
    data = pdno.OperatorDataset.from_arrays(f, f[:, :1], pdno.Grid((16,)))
    network = pdno.PDNO(1, 2, 1, width=3, layers=1, modes=4, symbol="again")
    trained = pdno.fit(network, data, task="twice", epochs=1)
    assert isinstance(trained.task, Twice)
