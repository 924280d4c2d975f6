"""The summary of a study names every model with its numbers, whatever was run together."""

from pdno.files.metric_table import Metric
from pdno.report.summary import summarise


def row(split="test", value=0.5, **changes):
    common = {
        "experiment": "darcy",
        "model": "PDNO a(x,ξ)",
        "resolution": 32,
        "seed": 0,
        "metric": "relative_l2",
        "seconds": 90.0,
        "parameters": 202145,
    }
    return Metric(split=split, value=value, **(common | changes))


def lines(text):
    return [line.split() for line in text.splitlines()]


def test_errors_are_means_and_deviations_over_the_seeds():
    rows = [
        row(split, value, seed=seed, seconds=seconds)
        for split, values in (("train", (0.1, 0.2, 0.3)), ("test", (0.4, 0.6, 0.8)))
        for seed, (value, seconds) in enumerate(zip(values, (50, 60, 70), strict=True))
    ]
    rows += [row("train", 0.75, model="FNO"), row("test", 0.25, model="FNO")]
    assert lines(summarise(rows)) == [
        ["darcy"],
        ["model", "resolution", "parameters", "train", "test", "seconds", "seeds"],
        ["PDNO", "a(x,ξ)", "32", "202,145", "0.2", "±", "0.1", "0.6", "±", "0.2", "60", "3"],
        ["FNO", "32", "202,145", "0.75", "0.25", "90", "1"],
    ]


def test_columns_stand_below_each_other():
    rows = [row("train"), row("test"), row("train", model="FNO"), row("test", model="FNO")]
    _, head, *table = summarise(rows).splitlines()
    end = head.index("parameters") + len("parameters")
    assert all(line[:end].endswith("202,145") for line in table)


def test_experiments_have_tables_of_their_own():
    rows = [row(experiment=name, model=f"model of {name}") for name in ("darcy", "burgers")]
    first, second = summarise(rows).split("\n\n")
    assert first.startswith("darcy\n") and "model of darcy" in first
    assert second.startswith("burgers\n") and "model of burgers" in second
    assert "burgers" not in first


def test_a_missing_split_is_an_empty_cell():
    (_, _, line) = lines(summarise([row("test", 0.125)]))
    assert line == ["PDNO", "a(x,ξ)", "32", "202,145", "0.125", "90", "1"]


def test_errors_by_time():
    """At most ten of the times, the last one among them."""
    rows = [row(metric=f"relative_l2 t={t}", value=t / 100) for t in range(1, 21)]
    rows += [row("train", 9, metric="relative_l2 t=1")]  # only those of the test are shown
    head, line = lines(summarise(rows))[1:]
    assert head == ["test", "error", "at", "t", *(str(t) for t in range(2, 21, 2))]
    assert line == ["PDNO", "a(x,ξ)", *(f"{t / 100:.3g}" for t in range(2, 21, 2))]


def test_errors_by_time_at_several_resolutions_are_lines_of_their_own():
    """As Burgers has them at five resolutions."""
    rows = [
        row(metric="relative_l2 t=1", value=value, resolution=points, experiment="burgers")
        for points, value in ((256, 0.25), (512, 0.75))
    ]
    assert lines(summarise(rows))[2:] == [
        ["PDNO", "a(x,ξ),", "256", "points", "0.25"],
        ["PDNO", "a(x,ξ),", "512", "points", "0.75"],
    ]


def test_other_resolutions_stand_beside_the_interpolation():
    rows = [
        row(split, value, resolution=points)
        for split, points, value in (
            ("zero-shot", 64, 0.1),
            ("interpolated", 64, 0.2),
            ("zero-shot", 128, 0.3),
            ("interpolated", 128, 0.4),
        )
    ]
    assert [" ".join(line) for line in lines(summarise(rows))[1:]] == [
        "other resolutions 64 zero-shot 64 interpolated 128 zero-shot 128 interpolated",
        "PDNO a(x,ξ) 0.1 0.2 0.3 0.4",
    ]


def test_what_two_trainings_claim_is_left_out():
    """Trained at 32 and at 64, both asked at 128: a row does not say which is which."""
    rows = [
        row(split, value, resolution=points)
        for split in ("zero-shot", "interpolated")
        for points, value in ((64, 0.125), (128, 0.375), (128, 0.625))
    ]
    text = summarise(rows)
    assert "0.125" in text and "0.375" not in text and "0.625" not in text


def test_the_symbol_and_the_resources():
    metrics = {"symbol difference": 0.5, "symbol variation over x": 0.25}
    rows = [row("symbol", value, metric=name) for name, value in metrics.items()]
    assert lines(summarise(rows))[-1] == ["PDNO", "a(x,ξ)", "0.5", "0.25"]
    rows = [row("train", 9.5, metric="peak memory MB", experiment="resources", model="FNO w=20")]
    assert [" ".join(line) for line in lines(summarise(rows))] == [
        "resources",
        "model peak memory MB",
        "FNO w=20 9.5",
    ]


def test_nothing_to_tell():
    assert summarise([]) == "no finished run"
    assert summarise([row("speed", 3.0, metric="solve / prediction")]) == "darcy\n"
