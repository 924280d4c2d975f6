"""The resource table: one row per number of each network, measured once."""

import pytest

import pdno.paper.reproduce as measuring
from pdno.files.metric_table import read_metrics
from pdno.paper.reproduce import reproduce
from pdno.report.tables import summarise

MODELS = ["PDNO k_max=4 width=4", "FNO k_max=4 width=4"]


@pytest.fixture
def here(monkeypatch):
    """Measure in this process, which saves the time of starting others."""
    monkeypatch.setattr(measuring, "in_own_process", lambda measure, run: measure(run))


def check(rows):
    assert list(dict.fromkeys(row.model for row in rows)) == MODELS
    for model in MODELS:
        mine = [row for row in rows if row.model == model]
        value = {row.metric: row.value for row in mine}
        assert set(value) == {
            "peak memory MB",
            "seconds per step",
            "seconds per epoch",
            "parameters, complex once",
        }
        assert 0 <= value["peak memory MB"] < 1000 and 0 < value["seconds per step"] < 60
        assert value["seconds per epoch"] == 50 * value["seconds per step"]
        assert {row.experiment for row in mine} == {"resources"}
    once = {row.model: row.value for row in rows if row.metric == "parameters, complex once"}
    real = {row.model: row.parameters for row in rows}
    assert once[MODELS[0]] == real[MODELS[0]]  # the parameters of PDNO are real
    tables = 4 * 2 * 4 * 4 * 4 * 4  # blocks, corners, channels in and out, modes
    assert real[MODELS[1]] - once[MODELS[1]] == tables


def test_the_table_is_measured_once(tmp_path, here, monkeypatch):
    rows = reproduce("resources", tmp_path, preset="smoke")
    check(rows)
    assert read_metrics(tmp_path / "metrics.csv") == rows
    text = summarise(rows)
    assert all(model in text for model in MODELS) and "peak memory MB" in text

    def fail(*given):
        raise AssertionError("measured again")

    monkeypatch.setattr(measuring, "in_own_process", fail)
    assert reproduce("resources", tmp_path, preset="smoke") == rows


@pytest.mark.slow
def test_each_network_is_measured_in_a_process_of_its_own(tmp_path):
    rows = reproduce("resources", tmp_path, preset="smoke")
    check(rows)
    # in a process that used more memory before, nothing would grow
    assert all(row.value > 0 for row in rows if row.metric == "peak memory MB")
