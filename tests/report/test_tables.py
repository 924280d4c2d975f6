"""Tables have the same cells in all notations; the summary of a study names every model."""

import math

import pytest

from pdno.files.metric_table import Metadata, Metric, Summary
from pdno.report.tables import MISSING, Table, number, summarise, summary_text


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


def trained_at(points):
    return {"resolution": points, "metadata": Metadata(training_resolution=points)}


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


def test_a_missing_split_is_a_dash():
    (_, _, line) = lines(summarise([row("test", 0.125)]))
    assert line == ["PDNO", "a(x,ξ)", "32", "202,145", MISSING, "0.125", "90", "1"]


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
        row(metric="relative_l2 t=1", value=value, **trained_at(points), experiment="burgers")
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


def test_two_trainings_have_lines_of_their_own():
    """Trained at 32 and at 64, both evaluated at 128."""
    rows = [
        row(split, value, resolution=128, metadata=trained_at(points)["metadata"])
        for split, value in (("zero-shot", 0.125), ("interpolated", 0.375))
        for points, value in ((32, value), (64, value / 2))
    ]
    assert [" ".join(line) for line in lines(summarise(rows))[1:]] == [
        "other resolutions 128 zero-shot 128 interpolated",
        "PDNO a(x,ξ), 32 points 0.125 0.375",
        "PDNO a(x,ξ), 64 points 0.0625 0.188",
    ]


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


# Cells


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.00352, "3.52e-3"),
        (6.85e-4, "6.85e-4"),
        (0.1093, "0.109"),
        (20.77, "20.8"),
        (189653.0, "189653"),
        (3.28e8, "3.28e8"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (math.nan, MISSING),
        (math.inf, "∞"),
        (None, MISSING),
    ],
)
def test_numbers(value, text):
    assert number(value) == text
    if value and math.isfinite(value):
        assert float(text) == pytest.approx(value, rel=5e-3)


def test_deviations_stand_beside_means_of_several_seeds_only():
    assert summary_text(Summary(0.00252, math.nan, 1)) == "2.52e-3"
    assert summary_text(Summary(0.00252, 3.14e-5, 3)) == "2.52e-3 ± 3.1e-5"
    assert summary_text(None) == MISSING


def test_all_notations_have_the_same_cells():
    table = Table(
        ("a|b", "ξ & ν"),
        (("1", "x_1 ± 2 < 3"), ("2", "50 %")),
        ("Run `pdno reproduce darcy`.",),
        frozenset({(0, 1)}),
    )
    assert table.markdown().splitlines()[0] == "| a\\|b | ξ & ν |"
    assert "| 1 | **x_1 ± 2 < 3** |" in table.markdown()
    assert r"1 & \textbf{x\_1 $\pm$ 2 $<$ 3} \\" in table.latex()
    assert r"a$|$b & $\xi$ \& $\nu$ \\" in table.latex()
    assert r"50 \%" in table.latex() and r"\texttt{pdno reproduce darcy}" in table.latex()
    assert table.latex().isascii()
    assert '<td data-head="ξ &amp; ν"><strong>x_1 ± 2 &lt; 3</strong></td>' in table.html()
    assert "<code>pdno reproduce darcy</code>" in table.html()
    with pytest.raises(ValueError, match="1 cells under a head of 2"):
        Table(("a", "b"), (("1",),))
