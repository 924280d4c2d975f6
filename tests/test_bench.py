"""What `pdno speed` compares is what it says: the same numbers by the straight formula."""

import json
import math
import time
from functools import partial
from importlib.util import find_spec

import pytest
import torch

from pdno.benchmark import (
    ALWAYS,
    FLOW,
    MAIN,
    NEURALOPERATOR,
    PARTS,
    ROLLOUT,
    ROUGH,
    SETTINGS,
    STRAIGHT,
    Setting,
    _train_step,
    bench_tables,
    build,
    contenders_of,
    measure_memory,
    plot_scaling,
    run_bench,
    time_darcy,
    time_navier_stokes,
    time_rollout,
    time_scaling,
    time_training,
)
from pdno.evaluation.speed import time_alternately
from pdno.native.build import load_library
from pdno.networks.neural_operator import count_parameters
from pdno.spectral.grid import Grid

SHAPES = [(32,), (32, 32), (16, 16, 16)]
EVERY = {name for setting in SETTINGS for name in contenders_of(setting)}
OURS = sorted(name for name in EVERY if not name.startswith("neuraloperator"))


@pytest.mark.parametrize("shape", SHAPES)
def test_the_straight_network_is_the_same_network(shape):
    torch.manual_seed(0)
    setting = Setting(shape, 5, in_channels=3, width=4, batch=2)
    network = build("PDNO a(x,xi)", setting)
    straight = build(STRAIGHT, setting)
    straight.load_state_dict(network.state_dict())
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


def test_solvers_are_faster_and_at_least_as_exact():
    flow = time_navier_stokes(resolution=32, steps=20)
    assert flow["seconds"]["published"] > flow["seconds"]["ours"] and flow["error"]["ours"] < 1e-4
    assert max(time_darcy(resolution=64)["residual"].values()) < 1e-8


STEP = {
    "neuraloperator FNO": 2.0,
    "PDNO a(x,xi)": 4.0,
    "PDNO a(xi)": 1.0,
    "PDNO a(x,xi), rough a1": 5.0,
    "straight a(x,xi)": 8.0,
}


def fabricated(step):
    times = {"step": step, "prediction": step, "parameters": dict.fromkeys(step, 7)}
    sizes = {"neuraloperator FNO": 6, "PDNO a(x,xi)": 9, "PDNO a(xi)": 3}
    memory = {name: size * 2**20 for name, size in sizes.items() if name in step}
    return {
        SETTINGS[MAIN].title: {**times, "memory": memory},
        "two threads": times,
        f"{ROLLOUT}1": {"seconds": step},
        f"{ROLLOUT}20": {"seconds": step},
        FLOW: {"seconds": {"ours": 1.0, "published": 4.0}, "error": {"ours": 1.0}},
        "scaling": {},
    }


def test_tables_have_the_ratios_of_their_numbers():
    main, two, _, _, flow = bench_tables(fabricated(STEP)).split("## ")[1:]
    row = "| PDNO a(xi) | 1.0000 s | 0.5{} | 1.0000 s | 0.5 | 7 | 1 |"
    assert row.format(" ✗") in main and row.format("") in two
    assert "| 3 MB | 0.5 | 0.4 |" in main and "| 6 MB | 1 | – |" in main
    assert "| ours | 1.0000 s | 0.25 | 1.0e+00 | – | – |" in flow


def test_asked_ratios_that_are_not_reached_are_marked():
    main, two, one, twenty, _ = bench_tables(fabricated(STEP)).split("## ")[1:]
    assert "| PDNO a(x,xi) | 4.0000 s | 2 ✗ | 4.0000 s | 2 |" in main and "| 0.6 |" in main
    assert "| PDNO a(x,xi), rough a1 | 5.0000 s | 2.5 |" in main and "✗" not in two
    assert "| PDNO a(x,xi) | 4.0000 s | 2 ✗ | 1.5 |" in one
    assert "| PDNO a(xi) | 1.0000 s | 0.5 | 1.5 |" in one
    assert "| PDNO a(x,xi) | 4.0000 s | 2 | – |" in twenty


def test_tables_do_without_the_neuraloperator_fno():
    steps = {name: time for name, time in STEP.items() if "FNO" not in name}
    main = bench_tables(fabricated(steps)).split("## ")[1]
    assert "| PDNO a(xi) | 1.0000 s | – | 1.0000 s | – | 7 | – | 3 MB | – | 0.4 |" in main


@pytest.fixture
def measured(monkeypatch):
    """The tasks that a bench would run; each contender takes one second."""
    tasks = []

    def pretend(task):
        tasks.append(task)
        seconds = dict.fromkeys(task.options.get("names", ("ours",)), 1.0)
        if task.measurement is time_scaling:
            curve = {"values": [1, 2], "seconds": {"a": [1.0, 2.0]}}
            return {"base": {"batch": 1}, "curves": {"batch": curve, "width": curve}}
        if task.measurement is measure_memory:
            return {"memory": {task.options["name"]: 2**20}}
        return {"step": seconds}

    monkeypatch.setattr("pdno.benchmark.Task.run", pretend)
    return tasks


def test_a_bench_measures_every_setting_and_memory(measured, tmp_path):
    table = run_bench(tmp_path)
    assert all(f"## {setting.title}\n" in table for setting in SETTINGS.values())
    memory = [task for task in measured if task.measurement is measure_memory]
    pairs = {(task.options["setting"], task.options["name"]) for task in memory}
    installed = ALWAYS if find_spec("neuralop") else ALWAYS[1:]
    assert pairs >= {(setting, name) for setting in SETTINGS for name in installed}
    assert {task.allocator for task in memory} == {"default"}
    results = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["measured"]
    assert {f"{ROLLOUT}1", f"{ROLLOUT}20", FLOW, "scaling"} <= set(results)
    assert (tmp_path / "bench.md").read_text(encoding="utf-8") == table
    assert (tmp_path / "scaling.png").is_file()


def test_a_quick_bench_has_one_setting_its_rollout_and_the_solvers(measured, tmp_path):
    run_bench(tmp_path, quick=True)
    results = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))["measured"]
    titles = list(results)
    assert titles[0] == SETTINGS[MAIN].title and titles[1:4] == [
        f"{ROLLOUT}1",
        f"{ROLLOUT}20",
        FLOW,
    ]
    assert len(titles) == 5
    assert not any({"MWT", STRAIGHT} & set(task.options.get("names", ())) for task in measured)


def test_a_bench_of_some_settings_measures_only_those(measured, tmp_path):
    table = run_bench(tmp_path, settings=["3d-32-k8", "rollout"])
    kinds = {task.measurement for task in measured}
    assert kinds == {time_training, measure_memory, time_rollout}
    rollout = {"setting": MAIN, "name": "PDNO a(x,xi)", "steps": 10, "recompute": True}
    assert rollout in [task.options for task in measured]
    assert table.count("## ") == 4 and "Darcy" not in table
    assert not (tmp_path / "scaling.png").exists()


def test_an_unknown_setting_is_refused_with_the_known_ones(tmp_path):
    with pytest.raises(ValueError, match=f"settings is '4d'; .*expected one of {PARTS[0]}"):
        run_bench(tmp_path / "out", settings=["4d"])
    assert not (tmp_path / "out").exists()


def test_a_measurement_is_json(monkeypatch):
    monkeypatch.setitem(SETTINGS, MAIN, Setting((32, 32), 4, width=4, batch=2, in_channels=10))
    memory = measure_memory(MAIN, "PDNO a(xi)")
    assert json.loads(json.dumps(memory))["memory"]["PDNO a(xi)"] >= 0
    (grown,) = measure_memory(MAIN, "PDNO a(x,xi)", 1, True)["memory"].values()
    assert json.loads(json.dumps(grown)) >= 0
    names = ["PDNO a(x,xi)", "FNO"]
    times = time_training(MAIN, names, repeats=1, seconds=0)
    assert json.loads(json.dumps(times)) == times and set(times["prediction"]) == {*names}
    frames = time_rollout(1, 3, names, repeats=1, seconds=0)
    assert min(json.loads(json.dumps(frames))["seconds"].values()) > 0


def test_the_scaling_plot_has_a_curve_per_network():
    curve = {"values": [1, 2], "seconds": {"a": [1.0, 2.0], "b": [2.0, 3.0]}}
    figure = plot_scaling({"base": {"batch": 1}, "curves": {"batch": curve, "width": curve}})
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["PDNO a(x,xi)", "PDNO a(xi)"])
def test_the_compiled_kernels_take_less_time_than_plain_torch(name):
    if load_library() is None:
        pytest.skip("no compiled kernels here")
    setting = Setting((48, 48), 12, width=16, batch=8)
    f, steps = setting.inputs(), {}
    for method in ("auto", "fft"):
        network = build(name, setting)
        for operator in network.operators:
            operator.method = method
        steps[method] = _train_step(network, partial(network, f))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    best = time_alternately(steps, repeats=3, clock=time.process_time)
    torch.set_num_threads(threads)
    assert best["auto"] < best["fft"]
