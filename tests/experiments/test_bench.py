"""What `pdno bench` compares is what it says: the same numbers by the straight formula."""

import json

import pytest
import torch

from pdno.experiments.bench.contenders import Setting, StraightPDNO, build
from pdno.experiments.bench.solvers import bench_darcy, bench_navier_stokes
from pdno.experiments.bench.worker import measure
from pdno.networks.count import count_parameters
from pdno.report.bench import bench_tables, plot_scaling


def test_the_straight_network_is_the_same_network():
    torch.manual_seed(0)
    setting = Setting(32, 5, in_channels=3, width=4, batch=2)
    network = build("PDNO a(x,xi)", setting)
    straight = StraightPDNO(network)
    f = setting.inputs()
    assert torch.allclose(network(f), straight(f), atol=1e-6)
    assert count_parameters(network) == count_parameters(straight)


@pytest.mark.parametrize(
    "name",
    ["PDNO a(x,xi)", "PDNO a(xi)", "PDNO low rank 2", "PDNO low rank 2 shared", "FNO", "MWT"],
)
def test_every_contender_trains(name):
    setting = Setting(32, 4, in_channels=2, width=4, batch=2)
    network = build(name, setting)
    network(setting.inputs()).square().mean().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_solvers_are_faster_and_at_least_as_exact():
    flow = bench_navier_stokes(resolution=32, steps=20)
    assert flow["ratio"] > 1 and flow["error"] < 1e-4
    darcy = bench_darcy(resolution=64)
    assert darcy["residual"] < 1e-8 and darcy["splu_residual"] < 1e-8


def test_a_table_has_the_ratios_of_its_numbers():
    times = {"neuraloperator FNO": 2.0, "PDNO a(xi)": 1.0, "straight a(x,xi)": 8.0}
    results = {
        "machine": {},
        "solvers": {
            "navier-stokes": dict.fromkeys(
                ("seconds", "published_seconds", "ratio", "error", "published_error"), 1.0
            ),
            "darcy": dict.fromkeys(
                ("seconds", "splu_seconds", "ratio", "residual", "splu_residual"), 1.0
            ),
        },
        "setting": {
            "step": times,
            "forward": times,
            "frozen": times,
            "parameters": dict.fromkeys(times, 7),
        },
        "memory | PDNO a(xi)": {"bytes": 3 * 2**20},
    }
    table = bench_tables(results)
    assert "| PDNO a(xi) | 7 | 1.000 s | 0.50 | 8.00 | 1.000 s | 0.50 | 1.000 s | 0.50 |" in table
    assert "| PDNO a(xi) | 3 |" in table


def test_a_measurement_is_json():
    result = measure("rollout-memory", "1", "yes")
    assert json.loads(json.dumps(result))["bytes"] > 0


def test_the_scaling_plot_has_a_curve_per_network():
    curve = {"values": [1, 2], "seconds": {"a": [1.0, 2.0], "b": [2.0, 3.0]}}
    figure = plot_scaling({"base": {"batch": 1}, "curves": {"batch": curve, "width": curve}})
    assert [len(axes.lines) for axes in figure.axes] == [2, 2]
