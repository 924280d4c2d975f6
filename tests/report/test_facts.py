"""Reports go by facts: a name may be any, and older runs, which have none, say the same."""

import json
import math
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from fabricated_runs import FLOW, errors, finish, write_paper, write_run

from pdno.files.metric_table import read_metrics, write_metrics
from pdno.paper.claims import CLAIMS, judge
from pdno.paper.exhibits import marker_of
from pdno.paper.tables import MISSING
from pdno.report.page import TABLES
from pdno.report.runs import Results, find_runs

OLD = json.loads(Path(__file__).with_name("old_runs.json").read_text(encoding="utf-8"))


def read(place):
    return Results(tuple(find_runs([place])))


def everything(results):
    """Verdicts, table lines and markers."""
    verdicts = [judge(claim, results) for claim in CLAIMS]
    tables = {entry.key: entry(results) for entry in TABLES}
    return (
        [(verdict.answer, verdict.numbers, verdict.budget) for verdict in verdicts],
        {key: (table.lines, table.strong) for key, table in tables.items() if table is not None},
        {group.model: marker_of(group.metadata) for group in results.groups},
    )


def write_runs(out):
    """The paper's own numbers, and what it prints none of."""
    write_paper(out)
    for model, error in (("PDNO Markov", 0.01), ("FNO Markov", 0.02), ("PDNO rollout", 0.3)):
        metrics = errors(error, 2 * error)
        metrics["test"] |= {f"relative_l2 t={t}": error * t for t in (11, 12)}
        options = {"problem": {"name": "navier-stokes", "viscosity": 1e-5}, "train": 200}
        write_run(out, FLOW.format(1e-5, 20, 200), model, metrics=metrics, **options)
    for value, error in ((4, 0.012), (20, 0.011), ("all", 0.01)):
        write_run(out, "darcy-modes", f"PDNO k_max={value}", metrics=errors(0.01, error))
    for width in (5, 10):
        for model in ("PDNO a(ξ)", "FNO"):
            name, options = f"{model} width={width}", {"problem": {"viscosity": 1e-5}}
            write_run(out, "navier-stokes-width", name, metrics=errors(1, 1 / width), **options)
    for model, error in (("PDNO GELU", 0.0105), ("PDNO ReLU", 0.02), ("DeepONet", 0.03)):
        write_run(out, "darcy-activation", model, metrics=errors(0.01, error))


def rename(source, target, names):
    """Copies of all runs with other names of models, in folders that sort the other way."""
    for number, folder in enumerate(sorted(source.iterdir(), reverse=True)):
        place = target / f"run-{number:03d}"
        place.mkdir(parents=True)
        for path in folder.iterdir():
            (place / path.name).write_bytes(path.read_bytes())
        rows = [
            replace(row, model=names[row.model]) for row in read_metrics(folder / "metrics.csv")
        ]
        write_metrics(place / "metrics.csv", rows)
        if (folder / "specification.json").is_file():
            specification = json.loads((folder / "specification.json").read_text())
            specification["model"] = names[specification["model"]]
            (place / "specification.json").write_text(json.dumps(specification))
        finish(place)


def test_renaming_every_model_changes_no_verdict_colour_or_table(tmp_path):
    write_runs(tmp_path / "runs")
    models = sorted({row.model for run in find_runs([tmp_path / "runs"]) for row in run.rows})
    # the last becomes the first, and no name tells anything
    names = {model: f"<{len(models) - k:02d}>" for k, model in enumerate(models)}
    rename(tmp_path / "runs", tmp_path / "renamed", names)
    verdicts, tables, markers = everything(read(tmp_path / "runs"))
    assert Counter(answer for answer, *_ in verdicts)["holds"] > 10
    back = {new: old for old, new in names.items()}

    def old_names(text):
        return re.sub(r"<\d\d>", lambda found: back[found[0]], text)

    again, tables_again, markers_again = everything(read(tmp_path / "renamed"))
    assert [tuple(map(old_names, verdict)) for verdict in again] == verdicts
    assert {old_names(model): marker for model, marker in markers_again.items()} == markers
    assert tables_again.keys() == tables.keys()
    for key, (lines, strong) in tables_again.items():
        named = [tuple(map(old_names, line)) for line in lines]
        assert (named, strong) == (list(tables[key][0]), tables[key][1]), key


# Runs of an older version, and what its report said of them


@pytest.fixture(scope="module")
def old_results(tmp_path_factory):
    out = tmp_path_factory.mktemp("old")
    for name, files in OLD["runs"].items():
        (out / name).mkdir()
        for file, text in files.items():
            (out / name / file).write_text(text, encoding="utf-8")
        finish(out / name)
    return read(out)


def numbers(text):
    """All numbers of a text, whatever stands between them."""
    found = re.findall(r"\d+\.?\d*(?:e-?\d+)?", text)
    return Counter(float(number) for number in found)


def test_old_folders_have_no_facts():
    for files in OLD["runs"].values():
        assert "study" not in files["metrics.csv"].splitlines()[0]
        assert "of_paper" not in files.get("specification.json", "")


def test_the_verdicts_of_old_folders_are_the_same(old_results):
    assert [claim.text for claim in CLAIMS] == [text for text, *_ in OLD["verdicts"]]
    for claim, (_, answer, text) in zip(CLAIMS, OLD["verdicts"], strict=True):
        found = judge(claim, old_results)
        assert found.answer == answer, claim.key
        assert numbers(text) <= numbers(found.numbers), claim.key


def test_the_tables_of_old_folders_are_the_same(old_results):
    made = {entry.key: entry(old_results) for entry in TABLES}
    for key, lines in OLD["tables"].items():
        # datasets stand in the order of the paper now
        if made[key].head[-1] == "seconds":  # of the paper's rows those beside runs of ours
            ran = {line[0] for line in lines if line[-1] != MISSING}
            lines = [line for line in lines if line[0] in ran]
        assert sorted(made[key].lines) == sorted(map(tuple, lines)), key


def test_the_colours_of_old_folders_are_the_same(old_results):
    for group in old_results.groups:
        marker = marker_of(group.metadata)
        found = [marker["color"], marker["marker"], marker["markerfacecolor"]]
        assert found == OLD["markers"][group.model], group.model


def test_seeds_of_an_older_and_of_this_version_are_one_group(tmp_path):
    for seed, test in enumerate((0.1, 0.3)):
        write_run(tmp_path, "darcy", "FNO", metrics=errors(0.1, test), seed=seed)
    path = next(tmp_path.glob("*seed1")) / "specification.json"
    written = {"study": "", "of_paper": True, "sweep": []}
    path.write_text(json.dumps(json.loads(path.read_text()) | written))
    finish(path.parent)
    (group,) = read(tmp_path).groups
    assert group.budget.seeds == 2 and group.summary().mean == pytest.approx(0.2)


def test_settings_that_keep_all_modes_are_infinite(old_results):
    values = [group.metadata.sweep["modes"] for group in old_results.study("darcy-modes")]
    assert values == [4, 20, 32, math.inf]
