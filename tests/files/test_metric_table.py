"""Rows: nothing is lost on the way to a file and back, and nothing foreign is read."""

import math

import pytest
import torch

from pdno.files.metric_table import (
    COLUMNS,
    Metadata,
    Metric,
    Summary,
    by_network,
    make_metrics,
    read_metrics,
    write_metrics,
)


def row(**changes):
    common = {
        "experiment": "darcy",
        "model": "PDNO a(x,ξ)",
        "resolution": 64,
        "seed": 0,
        "split": "test",
        "metric": "relative_l2",
        "value": 0.1 + 0.2,
        "seconds": 12.5,
        "parameters": 189653,
    }
    return Metric(**(common | changes))


def test_the_columns_are_these():
    numbers = "experiment,model,resolution,seed,split,metric,value,seconds,parameters"
    metadata = "study,dataset,viscosity,family,variant,mode,of_paper,sweep,samples,epochs"
    metadata += ",training_resolution,commit"
    assert ",".join(COLUMNS) == f"{numbers},{metadata}"


def test_rows_come_back_as_they_were(tmp_path):
    rows = [
        row(),
        row(value=math.inf, seconds=None, parameters=None, seed=None),
        row(value=5e-324, model='a "quoted", name', metric="relative_l2 band 4-8"),
        row(value=-0.1, seconds=1e300, parameters=10**20),
    ]
    path = tmp_path / "metrics.csv"
    write_metrics(path, rows)
    assert read_metrics(path) == rows
    before = path.read_bytes()
    write_metrics(path, read_metrics(path))
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.csv"]


def test_metadata_come_back_as_they_were(tmp_path):
    kinds = [
        Metadata(
            "darcy-modes", "darcy", None, "PDNO", "a(x,ξ)", "static", True, {"modes": math.inf}
        ),
        Metadata("flow, mine", 'a "quoted" file', 1e-5, "FNO", "", "rollout"),
        Metadata(
            "resources", sweep={"modes": 12.0, "width": 20.5}, samples=3, epochs=2, commit="a1"
        ),
    ]
    path = tmp_path / "metrics.csv"
    write_metrics(path, [row(metadata=one) for one in kinds])
    assert [found.metadata for found in read_metrics(path)] == kinds
    assert kinds[0].network == "PDNO a(x,ξ)" and kinds[1].network == "FNO"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(",yes,", ",perhaps,"), "line 2: of_paper is 'perhaps'"),
        (lambda text: text.replace("modes=4.0", "modes"), "line 2: sweep is 'modes'"),
        (lambda text: text.replace(",sweep", ""), "missing: sweep"),
    ],
)
def test_metadata_that_cannot_be_read_are_refused(tmp_path, change, message):
    path = tmp_path / "metrics.csv"
    metadata = Metadata("darcy-modes", family="PDNO", of_paper=True, sweep={"modes": 4.0})
    write_metrics(path, [row(metadata=metadata)])
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_metrics(path)


def test_nan_comes_back_as_nan(tmp_path):
    write_metrics(tmp_path / "metrics.csv", [row(value=math.nan, seconds=math.nan)])
    (found,) = read_metrics(tmp_path / "metrics.csv")
    assert math.isnan(found.value) and math.isnan(found.seconds)


def test_no_rows_are_a_file_with_a_header(tmp_path):
    write_metrics(tmp_path / "metrics.csv", [])
    assert read_metrics(tmp_path / "metrics.csv") == []


def test_numbers_of_torch_become_plain_ones():
    found = row(value=torch.tensor(0.25), resolution=torch.tensor(32))
    assert (type(found.value), found.value) == (float, 0.25)
    assert (type(found.resolution), found.resolution) == (int, 32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"resolution": 64.5}, "resolution\n  Input should be a valid integer"),
        ({"value": None}, "value\n  Input should be a valid number"),
        ({"value": "half"}, "value\n  Input should be a valid number"),
        ({"model": "two\nlines"}, "expected one line"),
    ],
)
def test_a_row_refuses_what_it_cannot_hold(changes, message):
    with pytest.raises(ValueError, match=message):
        row(**changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda text: text.replace("seconds,", "minutes,", 1),
            "columns: minutes; missing: seconds",
        ),
        (lambda text: text.replace(",parameters", "", 1), "missing: parameters"),
        (lambda text: text.replace("parameters", "value", 1), "double columns: value"),
        (lambda text: "", "missing: experiment, model"),
        (lambda text: text + "a,b\n", "line 3 has 2 cells; expected 21"),
        (lambda text: text.replace(",64,", ",sixty,"), "line 2: resolution is 'sixty'"),
        (lambda text: text.replace("0.30000000000000004", ""), "line 2: value is ''"),
        (lambda text: text.replace("darcy", '"darcy'), "line 2: ',' expected after"),
    ],
)
def test_other_files_are_refused_by_name(tmp_path, change, message):
    path = tmp_path / "metrics.csv"
    write_metrics(path, [row()])
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(ValueError, match=message) as failure:
        read_metrics(path)
    assert "metrics.csv" in str(failure.value)


def test_the_order_of_columns_is_free(tmp_path):
    path = tmp_path / "metrics.csv"
    write_metrics(path, [row(model="PDNO")])
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    path.write_text("\n".join(",".join(reversed(line)) for line in lines), encoding="utf-8")
    assert read_metrics(path) == [row(model="PDNO")]


def test_a_network_has_means_and_deviations_over_its_seeds():
    rows = [row(seed=seed, value=value) for seed, value in enumerate((1.0, 2.0, 6.0))]
    rows += [row(model="FNO", resolution=128, value=4.0), row(split="train", value=99.0)]
    pdno, fno = by_network(rows)
    assert pdno.summary("test") == Summary(3.0, pytest.approx(math.sqrt(7)), 3)
    assert pdno.seeds == [0, 1, 2] and pdno.seconds == 12.5
    alone = fno.summary()
    assert (alone.mean, alone.count) == (4.0, 1) and math.isnan(alone.deviation)
    assert (pdno.summary().count, alone.count) == (3, 1)


def test_networks_differ_in_their_metadata_but_for_the_commit():
    training = {"epochs": 60, "training_resolution": 32, "commit": "a1"}
    rows = [row(metadata=Metadata("darcy", **training), seed=0)]
    rows += [row(metadata=Metadata("darcy", **training | {"commit": "b2"}), seed=1)]
    rows += [row(metadata=Metadata("darcy", **training | {"epochs": 9}), seed=0)]
    assert [network.seeds for network in by_network(rows)] == [[0, 1], [0]]
    assert by_network(rows)[0].resolution == 32 and by_network(rows)[0].summary() is None
    assert by_network(rows)[0].resolutions("test") == [64]


def test_a_network_does_not_mix_what_differs_in_more_than_the_seed():
    (network,) = by_network([row(), row(split="train")])
    assert network.summary("train").count == 1
    (network,) = by_network([row(), row(value=0.5)])
    with pytest.raises(ValueError, match="two values of test relative_l2 for seed 0"):
        network.summary()


def test_metrics_become_rows():
    common = {"experiment": "heat", "model": "PDNO", "resolution": 64, "seed": 1, "split": "test"}
    assert make_metrics({"relative_l2": 0.5, "relative_h1": 0.7}, **common) == [
        Metric(metric="relative_l2", value=0.5, **common),
        Metric(metric="relative_h1", value=0.7, **common),
    ]
