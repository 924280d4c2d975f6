"""What `pdno bench` compares is what it says: the same numbers by the straight formula."""

import json
import math
from importlib.util import find_spec

import pytest
import torch

from pdno.benchmark import run as bench_run
from pdno.benchmark.contenders import (
    ALWAYS,
    MAIN,
    NEURALOPERATOR,
    ROUGH,
    SETTINGS,
    STRAIGHT,
    Setting,
    StraightPDNO,
    build,
    contenders_of,
)
from pdno.benchmark.run import (
    PARTS,
    bench_darcy,
    bench_navier_stokes,
    bench_tables,
    plot_scaling,
    run_bench,
)
from pdno.benchmark.worker import measure, time_long_enough
from pdno.networks.neural_operator import count_parameters
from pdno.spectral.grid import Grid

SHAPES = [(32,), (32, 32), (16, 16, 16)]
OURS = sorted({name for setting in SETTINGS for name in contenders_of(setting)} - {NEURALOPERATOR})


@pytest.mark.parametrize("shape", SHAPES)
def test_the_straight_network_is_the_same_network(shape):
    torch.manual_seed(0)
    setting = Setting(shape, 5, in_channels=3, width=4, batch=2)
    network = build("PDNO a(x,xi)", setting)
    straight = StraightPDNO(network)
    f = setting.inputs()
    assert torch.allclose(network(f), straight(f), atol=1e-6)
    assert count_parameters(network) == count_parameters(straight)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", OURS)
def test_every_contender_trains(name, shape):
    if name == "MWT" and len(shape) == 3:
        pytest.skip("multiwavelets are of one and two dimensions")
    setting = Setting(shape, 4, in_channels=2, width=4, batch=2)
    network = build(name, setting)
    network(setting.inputs()).square().mean().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


@pytest.mark.skipif(not find_spec("neuralop"), reason="needs neuraloperator")
@pytest.mark.filterwarnings("ignore")  # of its imports
@pytest.mark.parametrize(("modes", "kept"), [(4, (8, 5)), (None, (16, 9))])
def test_the_neuraloperator_fno_has_the_same_modes(modes, kept):
    network = build(NEURALOPERATOR, Setting((16, 16), modes, width=4))
    weights = network.fno_blocks.convs[0].weight
    assert tuple(weights.shape) == (4, 4, *kept)


def test_a_rough_a1_varies_more():
    setting = Setting((64,), 4, width=4)

    def variation(name):
        torch.manual_seed(0)
        space = build(name, setting).operators[0].symbol.evaluate(Grid(setting.shape), 4).space
        return float(space.detach().diff(dim=-1).abs().mean())

    assert variation(ROUGH) > 3 * variation("PDNO a(x,xi)")


def test_every_setting_has_asked_ratios_and_a_title_of_its_own():
    assert len({setting.title for setting in SETTINGS.values()}) == len(SETTINGS)
    assert SETTINGS[MAIN].title == "2D 64x64, k 12, width 20, batch 20"
    limits = [setting.limits for setting in SETTINGS.values()]
    assert all(frequency < both for both, frequency in limits)


def test_contenders_belong_to_their_settings():
    installed = ALWAYS if find_spec("neuralop") else ALWAYS[1:]
    for name, setting in SETTINGS.items():
        names = contenders_of(name)
        assert set(installed) <= set(names)
        assert (ROUGH in names) == (len(setting.shape) == 1)
        assert ("MWT" in names) == (name == MAIN)
        assert len(set(names)) == len(names)
        pairs = setting.batch * setting.width**2 * math.prod(setting.shape) * 4
        assert STRAIGHT not in names or 12 * pairs < 8e9


def test_quick_contenders_have_more_turns(monkeypatch):
    now, turns = [0.0], {"quick": 0, "slow": 0}
    monkeypatch.setattr("pdno.evaluation.speed.time.perf_counter", lambda: now[0])

    def turn(name, seconds):
        def run():
            turns[name] += 1
            now[0] += seconds + 1.0 / turns[name]  # the first turns are the slowest

        return run

    contenders = {"quick": turn("quick", 0.25), "slow": turn("slow", 8.0)}
    best = time_long_enough(contenders, repeats=3, seconds=6.0)
    assert turns == {"quick": 16, "slow": 4}  # the first call of each is not timed
    assert best == pytest.approx({"quick": 0.25 + 1 / 16, "slow": 8.25})


def test_solvers_are_faster_and_at_least_as_exact():
    flow = bench_navier_stokes(resolution=32, steps=20)
    assert flow["ratio"] > 1 and flow["error"] < 1e-4
    darcy = bench_darcy(resolution=64)
    assert darcy["residual"] < 1e-8 and darcy["splu_residual"] < 1e-8


def fabricated(step):
    times = {"step": step, "forward": step, "frozen": step, "parameters": dict.fromkeys(step, 7)}
    solver = ("seconds", "ratio", "error", "residual")
    flow = dict.fromkeys((*solver, "published_seconds", "published_error"), 1.0)
    darcy = dict.fromkeys((*solver, "splu_seconds", "splu_residual"), 1.0)
    sizes = {"neuraloperator FNO": 6, "PDNO a(x,xi)": 9, "PDNO a(xi)": 3}
    return {
        "machine": {},
        "solvers": {"navier-stokes": flow, "darcy": darcy},
        "settings": {
            "name": {
                "title": "a setting",
                "asked": {"PDNO a(x,xi)": 1.0, "PDNO a(xi)": 0.5},
                "times": times,
                "memory": {name: {"bytes": size * 2**20} for name, size in sizes.items()},
            }
        },
        "rollout": {"1": {"asked": 1.5, "times": step}, "20": {"asked": None, "times": step}},
        "variants": {"two threads": times},
        "rollout memory": {"recompute": {"bytes": 5 * 2**20}},
    }


STEP = {
    "neuraloperator FNO": 2.0,
    "PDNO a(x,xi)": 4.0,
    "PDNO a(xi)": 1.0,
    "PDNO a(x,xi), rough a1": 5.0,
    "straight a(x,xi)": 8.0,
}


def test_a_table_has_the_ratios_of_its_numbers():
    table = bench_tables(fabricated(STEP))
    row = "| PDNO a(xi) | 7 | 1.0000 s | 0.50 | 8.00 | 1.0000 s | 0.50 | 1.0000 s | 0.50 |"
    assert table.count(row) == 2  # of the setting and of its variant
    assert "| a setting | PDNO a(xi) | 3 | 0.50 |" in table
    assert "| rollout | recompute | 5 | - |" in table


def test_asked_ratios_that_are_not_reached_are_marked():
    table = bench_tables(fabricated(STEP))
    assert "| a setting | 2.000 ✗ | 1.00 | 0.500 | 0.50 | 1.50 | 0.50 |" in table
    assert "| a setting, rough a1 | 2.500 | - | - | - | - | - |" in table
    assert "| 1 | PDNO a(x,xi) | 4.0000 s | 2.000 ✗ | 1.50 |" in table
    assert "| 1 | PDNO a(xi) | 1.0000 s | 0.500 | 1.50 |" in table
    assert "| 20 | PDNO a(x,xi) | 4.0000 s | 2.000 | - |" in table
    first = table.index("## ")
    assert table[first:].startswith("## A training step over that of the neuraloperator FNO")


def test_tables_do_without_the_neuraloperator_fno():
    results = fabricated({name: time for name, time in STEP.items() if "FNO" not in name})
    del results["settings"]["name"]["memory"]["neuraloperator FNO"]
    assert "| a setting | - | 1.00 | - | 0.50 | - | - |" in bench_tables(results)


@pytest.fixture
def measured(monkeypatch):
    """The tasks that a bench would run; each contender takes one second."""
    tasks = []

    def pretend(task):
        tasks.append(task)
        kind, *arguments = task.arguments
        if kind == "time":
            seconds = dict.fromkeys(arguments[3:], 1.0)
            return dict.fromkeys(("step", "forward", "frozen", "parameters"), seconds)
        if kind == "rollout":
            return dict.fromkeys(arguments[4:], 1.0)
        if kind == "scaling":
            curve = {"values": [1, 2], "seconds": {"a": [1.0, 2.0]}}
            return {"base": {"batch": 1}, "curves": {"batch": curve, "width": curve}}
        return {"bytes": 2**20}

    monkeypatch.setattr(bench_run, "_in_process", pretend)
    ones = dict.fromkeys(("seconds", "ratio", "error", "residual"), 1.0)
    flow = {**ones, "published_seconds": 1.0, "published_error": 1.0}
    monkeypatch.setattr(bench_run, "bench_navier_stokes", lambda: flow)
    darcy = {**ones, "splu_seconds": 1.0, "splu_residual": 1.0}
    monkeypatch.setattr(bench_run, "bench_darcy", lambda: darcy)
    return tasks


def test_a_bench_measures_every_setting_and_memory(measured, tmp_path):
    table = run_bench(tmp_path)
    titles = [setting.title for setting in SETTINGS.values()]
    assert all(f"## {title}, tuned allocator, 1 thread" in table for title in titles)
    measured_memory = {task.arguments[1:] for task in measured if task.arguments[0] == "memory"}
    installed = ALWAYS if find_spec("neuralop") else ALWAYS[1:]
    assert measured_memory >= {(setting, name) for setting in SETTINGS for name in installed}
    assert {task.allocator for task in measured if task.arguments[0] == "memory"} == {"default"}
    results = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert set(results["rollout"]) == {"1", "20"} and "scaling" in results
    assert (tmp_path / "bench.md").read_text(encoding="utf-8") == table
    assert (tmp_path / "scaling.png").is_file()


def test_a_quick_bench_has_one_setting_its_rollout_and_the_solvers(measured, tmp_path):
    run_bench(tmp_path, quick=True)
    results = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert list(results["settings"]) == [MAIN]
    assert set(results) == {"machine", "settings", "rollout", "solvers"}
    assert not any({"MWT", STRAIGHT} & set(task.arguments) for task in measured)


def test_a_bench_of_some_settings_measures_only_those(measured, tmp_path):
    table = run_bench(tmp_path, settings=["3d-32-k8", "rollout"])
    kinds = {task.arguments[0] for task in measured}
    assert kinds == {"time", "memory", "rollout"}
    rollout_memory = ("memory", MAIN, "PDNO a(x,xi)", "10", "yes")
    assert rollout_memory in {task.arguments for task in measured}
    assert table.count("## ") == 4 and "Solvers" not in table
    assert not (tmp_path / "scaling.png").exists()


def test_an_unknown_setting_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=f"cannot measure 4d; expected some of {PARTS[0]}"):
        run_bench(tmp_path / "out", settings=["4d"])
    assert not (tmp_path / "out").exists()


def test_a_measurement_is_json(monkeypatch):
    monkeypatch.setitem(SETTINGS, MAIN, Setting((32, 32), 4, width=4, batch=2, in_channels=10))
    memory = measure("memory", MAIN, "PDNO a(xi)")
    assert json.loads(json.dumps(memory))["bytes"] >= 0
    grown = measure("memory", MAIN, "PDNO a(x,xi)", "1", "yes")
    assert json.loads(json.dumps(grown))["bytes"] >= 0
    times = measure("time", MAIN, "1", "0", "PDNO a(x,xi)", "FNO")
    assert json.loads(json.dumps(times)) == times
    assert set(times["frozen"]) == {"PDNO a(x,xi)", "FNO"}
    frames = measure("rollout", "1", "3", "1", "0", "PDNO a(x,xi)", "FNO")
    assert min(json.loads(json.dumps(frames)).values()) > 0


def test_the_scaling_plot_has_a_curve_per_network():
    curve = {"values": [1, 2], "seconds": {"a": [1.0, 2.0], "b": [2.0, 3.0]}}
    figure = plot_scaling({"base": {"batch": 1}, "curves": {"batch": curve, "width": curve}})
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]
