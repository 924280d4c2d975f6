"""Rows: nothing is lost on the way to a file and back, and nothing foreign is read."""

import math

import pytest
import torch

from pdno.files.metric_table import (
    COLUMNS,
    Metadata,
    Metric,
    Summary,
    make_metrics,
    read_metrics,
    table,
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
        (lambda text: text.replace(",yes,", ",perhaps,"), "line 2: metadata .* are not readable"),
        (lambda text: text.replace("modes=4.0", "modes"), "line 2: metadata .* are not readable"),
        (lambda text: text.replace(",sweep", ""), "has 21 cells"),
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
        ({"resolution": 64.5}, "resolution is 64.5; expected a whole number"),
        ({"value": None}, "value is None; expected a number"),
        ({"value": "0.5"}, "value is '0.5'; expected a number"),
        ({"model": "two\nlines"}, "expected one line"),
    ],
)
def test_a_row_refuses_what_it_cannot_hold(changes, message):
    with pytest.raises(ValueError, match=message):
        row(**changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("seconds,", "minutes,", 1), "unknown columns minutes; missing"),
        (lambda text: text.replace(",parameters", "", 1), "missing columns parameters"),
        (lambda text: text.replace("parameters", "value", 1), "double columns value"),
        (lambda text: "", "missing columns experiment, model"),
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


def test_a_table_has_means_and_deviations_over_seeds():
    rows = [row(seed=seed, value=value) for seed, value in enumerate((1.0, 2.0, 6.0))]
    rows += [row(model="FNO", resolution=128, value=4.0), row(split="train", value=99.0)]
    found = table(rows, metric="relative_l2", split="test")
    assert found["PDNO a(x,ξ)"] == {64: Summary(3.0, pytest.approx(math.sqrt(7)), 3)}
    alone = found["FNO"][128]
    assert (alone.mean, alone.count) == (4.0, 1) and math.isnan(alone.deviation)
    assert str(found["PDNO a(x,ξ)"][64]) == "3 ± 3" and str(alone) == "4"


def test_the_columns_of_a_table_are_sorted():
    rows = [row(resolution=r) for r in (128, 32, 64)]
    assert list(table(rows)["PDNO a(x,ξ)"]) == [32, 64, 128]
    rows = [row(metric=name) for name in ("relative_l2", "relative_h1")]
    assert list(table(rows, columns="metric")["PDNO a(x,ξ)"]) == ["relative_h1", "relative_l2"]


def test_a_table_does_not_mix_what_differs_in_more_than_the_seed():
    with pytest.raises(ValueError, match="two values for resolution 64 and seed 0"):
        table([row(), row(split="train")])
    with pytest.raises(ValueError, match="no column speed"):
        table([row()], speed=1)
    with pytest.raises(ValueError, match="no column value"):
        table([row()], columns="value")


def test_metrics_become_rows():
    common = {"experiment": "heat", "model": "PDNO", "resolution": 64, "seed": 1, "split": "test"}
    assert make_metrics({"relative_l2": 0.5, "relative_h1": 0.7}, **common) == [
        Metric(metric="relative_l2", value=0.5, **common),
        Metric(metric="relative_h1", value=0.7, **common),
    ]
