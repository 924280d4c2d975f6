"""The report is complete: runs first, every figure and table made or listed with its command."""

import base64
import html
import io
import json
import re
import shutil
from functools import partial
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest
from fabricated_runs import read, write_resources, write_run
from matplotlib.image import imread

from pdno.files.metric_table import Metadata
from pdno.paper.chapters import FIGURES, TABLES, add_paper_chapters
from pdno.paper.claims import CLAIMS, assess
from pdno.paper.figures_errors import plot_error_by_time, plot_resolutions, plot_samples
from pdno.paper.figures_fields import (
    choose_sample,
    plot_certificates,
    plot_frames,
    plot_heat_solution,
    plot_heat_symbol,
    plot_phase_spaces,
)
from pdno.paper.published import TABLE_6
from pdno.paper.tables import TRAINING, command_of
from pdno.report import page as report_page
from pdno.report.page import plot_runs, runs_by_data
from pdno.runs.run import find_runs

FLOW = "navier-stokes nu=1e-05 T=20 N=200"
BANDS = ("0-1", "1-2", "2+")
TIMES = [11.0, 12.0, 13.0]


write_report = partial(report_page.write_report, add_chapters=add_paper_chapters)


def metrics(train, test, times=()):
    """Errors of both splits, with bands, times and speed."""
    found = {}
    for split, error in (("train", train), ("test", test)):
        found[split] = {"relative_l2": error}
        found[split] |= {f"relative_l2 t={t:g}": error * t for t in times}
        found[split] |= {f"relative_l2 band {b}": error / (k + 2) for k, b in enumerate(BANDS)}
    return found | {"speed": {"seconds per prediction": test}}


def fields(shape, frames=None, miss=0.1, samples=3, **more):
    """Samples whose predictions miss by 1, 3 and 2 times a share of the truth."""
    rng = np.random.default_rng(0)
    size = (samples, 1, *shape) if frames is None else (samples, frames, 1, *shape)
    target = rng.standard_normal(size)
    shares = miss * np.array([1.0, 3.0, 2.0])[:samples]
    prediction = target * (1 + shares.reshape(-1, *[1] * (target.ndim - 1)))
    given = rng.standard_normal((samples, 1, *shape))
    return {"input": given, "target": target, "prediction": prediction, "error": shares, **more}


def heat_arrays():
    times, xi = np.arange(1, 5) / 4, np.arange(-12, 13.0)
    exact = np.exp(-4 * np.pi**2 * 0.05 * xi**2 * times[:, None])
    return {
        **fields((16,), frames=4),
        "heat.learned": exact + 0.01,
        "heat.exact": exact,
        "heat.weight": np.broadcast_to(1 / (1 + np.abs(xi)), exact.shape),
        "heat.space": 1 + 0.1 * np.sin(np.arange(16.0)) * times[:, None],
        "heat.xi": xi,
        "heat.times": times,
    }


def velocity_arrays():
    """A learned law that is a tenth above Biot-Savart's."""
    first, second = np.meshgrid(np.arange(-8.0, 8.0), np.arange(9.0), indexing="ij")
    xi = np.stack([first.ravel(), second.ravel()], axis=-1)
    squared = np.maximum((xi**2).sum(axis=-1), 1.0)
    exact = np.stack([xi[:, 1], -xi[:, 0]]) / (2 * np.pi * squared)
    law = {"learned": 1.1 * exact, "exact": exact, "weight": 1 / (1 + squared), "xi": xi}
    return {f"velocity.{name}": array for name, array in law.items()}


OWN = [f"runs-{k}" for k in range(1, 14)]
"""The figures of the gallery's own runs: one for each data and grid."""


def write_gallery(out):
    """Small runs of every experiment."""
    write_run(
        out,
        "heat",
        "PDIO a(x,ξ,t)",
        metrics=metrics(0.001, 0.002, [0.25, 0.5]),
        train=100,
        epochs=60,
        network={"kind": "pdio"},
        arrays=heat_arrays(),
        times=[0.25, 0.5, 0.75, 1.0],
    )
    rng = np.random.default_rng(0)
    for k, model in enumerate(("PDNO rollout", "FNO rollout", "PDNO Markov")):
        kind = {"kind": "fno"} if "FNO" in model else {}
        symbol = {f"symbol.{b}.real": rng.standard_normal((3, 3, 6, 3)) for b in range(2)}
        write_run(
            out,
            FLOW,
            model,
            metrics=metrics(0.1 + k, 0.2 + k, TIMES),
            resolution=8,
            train=200,
            epochs=20,
            network=kind,
            arrays=fields((8, 8), frames=3, miss=0.1 * (k + 1), **symbol),
            times=TIMES,
            more_metrics=[(16, "zero-shot", 0.3 + k), (16, "interpolated", 0.4 + k)],
        )
    for study, shape, models in (
        ("darcy", (8, 8), ("PDNO a(x,ξ)", "PDNO a(ξ)", "MWT Leg", "FNO")),
        ("burgers", (8,), ("PDNO a(x,ξ)", "MWT Chb", "FNO")),
    ):
        for k, model in enumerate(models):
            for seed in range(2):
                kind = {"kind": model[:3].lower()} if "PDNO" not in model else {}
                write_run(
                    out,
                    study,
                    model,
                    metrics=metrics(0.1 + k, 0.2 + k + 0.1 * seed),
                    resolution=8,
                    seed=seed,
                    epochs=60,
                    network=kind,
                    arrays=fields(shape),
                )
    less = {"epochs": 60, "resolution": 8}
    for value in (4, 8, "all"):
        write_run(out, "darcy-modes", f"PDNO k_max={value}", metrics=metrics(0.1, 0.2), **less)
    for samples, (model, kind) in product((50, 200), (("PDNO", "pdno"), ("FNO", "fno"))):
        told = metrics(1 / samples, 2 / samples)
        options = {"train": samples, "network": {"kind": kind}, **less}
        write_run(out, f"darcy-samples N={samples}", model, metrics=told, **options)
    for study, model in product(TRAINING, ("PDNO", "PDNO, Muon")):
        effort = {
            "validation": metrics(1, 2)["test"],
            "training": {"cpu seconds": 9.0, "steps": 3},
        }
        told = metrics(0.1, 0.2) | effort
        name = f"{study} nu=1e-05" if study.startswith("navier") else study
        write_run(out, name, model, metrics=told, **less)
    options = {"arrays": velocity_arrays(), **less}
    model, error = "PDNO, learned velocity", metrics(0.1, 0.2)
    write_run(out, "navier-stokes-substeps nu=1e-05", model, metrics=error, **options)
    for width in (5, 10):
        for model in ("PDNO a(ξ)", "FNO"):
            name, error = f"{model} width={width}", metrics(1, 1 / width)
            write_run(out, "navier-stokes-width nu=1e-05", name, metrics=error, **less)
    for activation, model in (("gelu", "PDNO GELU"), ("relu", "PDNO ReLU")):
        options = {"network": {"activation": activation}, **less}
        write_run(out, "darcy-activation", model, metrics=metrics(0.1, 0.2), **options)
    write_resources(out, {f"{k[0]} k_max={k[1]} width={k[2]}": v for k, v in TABLE_6.items()})


@pytest.fixture(scope="module")
def gallery(tmp_path_factory):
    out = tmp_path_factory.mktemp("gallery")
    write_gallery(out)
    return out


@pytest.fixture(scope="module")
def report(gallery, tmp_path_factory):
    return write_report([gallery], tmp_path_factory.mktemp("report")).parent


@pytest.fixture(scope="module")
def lone(tmp_path_factory):
    """The report of one run without pictures."""
    out = tmp_path_factory.mktemp("lone")
    options = {"train": 100, "epochs": 60, "network": {"kind": "pdio"}}
    write_run(out, "heat", "PDIO a(x,ξ,t)", metrics=metrics(0.1, 0.2), **options)
    return write_report([out], out / "report").parent


class Page(HTMLParser):
    """What a page names: anchors, links, pictures and open tags."""

    def __init__(self, text):
        super().__init__()
        self.identifiers, self.links, self.sources, self.open = [], [], [], []
        self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.identifiers += [named["id"]] if "id" in named else []
        self.links += [named["href"]] if "href" in named else []
        self.sources += [named["src"]] if "src" in named else []
        self.scripts += tag == "script"
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def section_of(text, key):
    start = text.index(f'<section id="{key}">')
    return text[start : text.index("</section>", start)]


INSIDE = {"certificates", "phase-space"}  # of runs that `pdno symbol` has looked into


# Files


def test_every_table_and_figure_is_made(report):
    made = [entry for entry in FIGURES if entry.key not in INSIDE]
    keys = [*(entry.key for entry in made), *OWN]
    figures = {f"{key}.{ending}" for key in keys for ending in ("png", "pdf")}
    assert {path.name for path in (report / "figures").iterdir()} == figures
    keys = [*(entry.key for entry in TABLES), "claims", "runs"]
    tables = {f"{key}.{e}" for key in keys for e in ("md", "tex")}
    assert {path.name for path in (report / "tables").iterdir()} == tables
    numbers = [entry.number for entry in FIGURES if entry.number]
    assert numbers == [f"Figure {k}" for k in range(1, 14)]
    assert (report / "metrics.csv").read_text().count("\n") > 100


def test_no_figure_is_blank(report):
    for path in (report / "figures").glob("*.png"):
        picture = imread(path)[..., :3]
        tones = np.unique((255 * picture).astype(int) @ [1, 256, 65536])
        assert picture.std() > 0.02 and len(tones) > 20, path
        assert picture.shape[1] >= 600, path
    for path in (report / "figures").glob("*.pdf"):
        assert path.read_bytes().startswith(b"%PDF")


def test_the_page_needs_nothing_else(report):
    text = (report / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == [] and page.scripts == 0
    assert len(page.sources) == len(FIGURES) - len(INSIDE) + len(OWN)
    for source in page.sources:
        start = "data:image/png;base64,"
        assert source.startswith(start)
        assert imread(io.BytesIO(base64.b64decode(source[len(start) :])), "png").std() > 0.02
    outside = [link for link in page.links if not link.startswith(("#", "data:"))]
    assert outside == ["https://arxiv.org/abs/2201.11967"]
    assert re.findall(r"https?://[^\"<]+", text) == outside
    assert "@import" not in text and "url(" not in text


def test_every_anchor_resolves_and_every_entry_is_in_the_contents(report):
    page = Page((report / "report.html").read_text(encoding="utf-8"))
    anchors = [link[1:] for link in page.links if link.startswith("#")]
    assert len(set(page.identifiers)) == len(page.identifiers)
    assert anchors == page.identifiers
    made = {entry.key for entry in (*FIGURES, *TABLES)} - INSIDE
    assert made | {"runs", *OWN, "claims", "not-run"} == set(anchors)
    assert anchors[: 1 + len(OWN)] == ["runs", *OWN] and anchors[-1] == "not-run"


def test_the_page_says_number_command_and_budget(report):
    text = (report / "report.html").read_text(encoding="utf-8")
    for entry in (*FIGURES, *TABLES):
        if entry.key in INSIDE:
            continue
        section = section_of(text, entry.key)
        assert entry.number in section
        for study in entry.studies:
            assert f"<code>{command_of(study)}</code>" in section
        if entry.key != "table-6-resources":
            assert "small budget: " in section
    assert "gap" not in re.findall(r'class="(\w+)"', text)


def test_the_page_begins_with_the_runs(report, gallery):
    text = (report / "report.html").read_text(encoding="utf-8")
    assert text.index("<h2>Your runs</h2>") < text.index("<h2>Claims of the paper</h2>")
    section = section_of(text, "runs")
    for run in find_runs([gallery]):
        assert f">{run.folder.name}</td>" in section
    lines = (report / "tables" / "runs.md").read_text(encoding="utf-8").splitlines()
    (line,) = [line for line in lines if "burgers-mwt-chb-8-1000-60-seed1" in line]
    assert line.startswith("| burgers | 8 | MWT Chb | static | 1 | 1.1 | 1.3 | – | 60 | 1000 |")


def test_a_run_of_any_recipe_shows_training_prediction_error_and_symbol(tmp_path):
    pictures = fields((8, 8), **{"symbol.0.real": np.arange(2 * 2 * 6 * 3.0).reshape(2, 2, 6, 3)})
    options = {"metrics": metrics(0.1, 0.2), "resolution": 8, "epochs": 60}
    for name, kept in (("first", pictures), ("second", None)):
        write_run(tmp_path / name, "my flow", name, arrays=kept, **options)
    ((title, runs),) = runs_by_data(find_runs([tmp_path]))
    assert title == "my flow, s = 8"
    axes = [one for one in plot_runs(runs).axes if one.get_visible() and one.get_title()]
    titles = ["input", "target", "prediction", "error, 0.1", "Re a2_11"]
    errors = [f"{name}\ntest error 0.2" for name in ("first", "second")]
    assert [one.get_title() for one in axes] == [errors[0], *titles, errors[1]]
    assert axes[0].get_ylabel() == "relative L2 error"
    train, test = axes[0].lines
    assert list(test.get_xdata()) == [1, 30, 60] and np.allclose(test.get_ydata(), [3, 0.1, 0.05])
    assert train.get_linestyle() == "--" and np.allclose(train.get_ydata(), [2, 1 / 15, 1 / 30])
    expected = (pictures["prediction"] - pictures["target"])[0, 0]
    assert np.allclose(axes[4].images[0].get_array().T, expected, atol=1e-6)
    # from the order of the FFT to -3, ..., 2
    symbol = axes[5].images[0].get_array().T
    assert np.array_equal(symbol, np.roll(pictures["symbol.0.real"][0, 0], 3, axis=0))
    page = write_report([tmp_path], tmp_path / "report").read_text(encoding="utf-8")
    chapters = re.findall("<h2>(.*)</h2>", page)
    assert chapters == ["Contents", "Your runs"]  # nothing of the paper
    assert "<details>" not in page and "arxiv" not in page


def test_the_report_of_own_data_is_about_them_even_where_they_are_called_heat(tmp_path):
    """Named as a study of the paper, by the problem or the file, and yet no run of a recipe."""
    samples = fields((8, 8))
    for name, miss in (("first", 1), ("second", 2)):
        samples["prediction"] = samples["target"] * (1 + 0.1 * miss)
        options = {"metrics": metrics(0.1, 0.2), "resolution": 8}
        options["metadata"] = Metadata(study="heat", mode="static")
        write_run(tmp_path / name, "heat", name, arrays=samples, **options)
    page = write_report([tmp_path], tmp_path / "report")
    text = page.read_text(encoding="utf-8")
    assert re.findall("<h[12]>(.*)</h", text) == ["Report: heat", "Contents", "Your runs"]
    assert "Claim" not in text and "arxiv" not in text
    assert "2 finished runs. Smallest test error: 0.2, first" in text
    ((_, runs),) = runs_by_data(find_runs([tmp_path]))
    errors = [axes for axes in plot_runs(runs).axes if axes.get_title().startswith("error")]
    assert len({axes.images[0].get_clim() for axes in errors}) == 1  # of the second
    assert [axes.get_title() for axes in errors] == ["error, 0.1", "error, 0.2"]


def test_a_page_is_dark_where_the_reader_wants_it_and_fits_a_phone(report):
    text = (report / "report.html").read_text(encoding="utf-8")
    assert "prefers-color-scheme: dark" in text and "color-scheme: light dark" in text
    assert '<meta name="viewport" content="width=device-width, initial-scale=1">' in text
    assert "max-width: 42rem" in text and '<td data-head="test">' in text


def test_captions_name_the_preset_of_the_runs(tmp_path):
    less = {"train": 4, "epochs": 2, "network": {"kind": "pdio"}, "arrays": heat_arrays()}
    write_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics(1, 2), times=[1.0] * 4, **less)
    page = write_report([tmp_path], tmp_path / "report").read_text(encoding="utf-8")
    section = section_of(page, "figure-03-heat-symbol")
    assert "<code>pdno reproduce heat --preset smoke</code>" in section
    assert "--preset small" not in page[: page.index('<section id="not-run">')]


@pytest.mark.parametrize("frames", [1, 3])
def test_one_frame_is_no_map(tmp_path, frames):
    wave = np.sin(2 * np.pi * np.arange(16) / 16) * np.ones((1, frames, 1, 16))
    kept = {"input": wave[:, 0], "target": wave, "prediction": 1.1 * wave}
    options = {"times": [0.1 * (k + 1) for k in range(frames)], "arrays": kept}
    write_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics(0.1, 0.1), **options)
    assert (plot_heat_solution(read(tmp_path)) is None) == (frames == 1)


def test_certificates_are_those_of_pdno_symbol(tmp_path, lone):
    run = next(path.parent for path in lone.parent.rglob("specification.json"))
    layer = {
        "accepted": False,
        "radii": [4.0, 16.0, 64.0],
        "curves": {"0": [1.0, 1.0, 1.0], "2": [2.0, 8.0, "nan"]},
    }
    copy = shutil.copytree(run, tmp_path / "run")
    assert plot_certificates(read(copy)) is None
    (copy / "symbol").mkdir()
    phases = {
        "learned": [[1.0, 0.5]] * 3,
        "true": [[1.0, 0.25]] * 3,
        "difference": [[0.0, 0.25]] * 3,
    }
    inside = {"order": 1.0, "layers": [layer], "phase_space": {"xi": [0, 1], **phases}}
    (copy / "symbol" / "symbol.json").write_text(json.dumps(inside))
    maps = [axes.images[0] for axes in plot_phase_spaces(read(copy)).axes if axes.images]
    assert [float(image.get_array().max()) for image in maps[:3]] == [1.0, 1.0, 0.25]
    assert maps[0].get_extent() == [0, 1, -0.5, 1.5] and maps[0].get_array().shape == (2, 3)
    (axes,) = plot_certificates(read(copy)).axes
    assert "S^1: not proved" in axes.get_title()
    claim = next(claim for claim in CLAIMS if claim.key == "symbol-class")
    assert assess(claim, read(copy))[1:3] == (
        "does not hold",
        "heat, PDIO a(x,ξ,t): 0 of 1 layers in S^1",
    )
    assert assess(claim, read(run)).numbers == "needs pdno symbol RUN"
    curves = {line.get_label(): line.get_ydata() for line in axes.lines}
    assert list(curves["|α| = 2"][:2]) == [2.0, 8.0] and np.isnan(curves["|α| = 2"][2])


def test_what_was_not_run_is_one_folded_list_with_its_commands(lone):
    text = (lone / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    made = ("figure-02-operator", "bands", "training")
    assert page.open == [] and len(page.sources) == len(made) + 1
    assert text.count("<details>") == 1
    folded = section_of(text, "not-run")
    for entry in (*FIGURES, *TABLES):
        is_made = entry.key in (*made, "table-5-settings")
        assert (f'<section id="{entry.key}">' in text) == is_made, entry.key
        line = f"<li>{html.escape(entry.heading)}: <code>{command_of(entry.studies[0])}</code>"
        assert (line in folded) != is_made, entry.key
    assert "needs pdno reproduce darcy --preset small" in folded
    assert "needs pdno symbol RUN" in folded
    before = text[: text.index('<section id="not-run">')]
    assert "needs pdno" not in before and "not tested here" not in before
    assert {path.name for path in (lone / "tables").iterdir()} == {
        f"{key}.{ending}"
        for key in ("runs", "claims", "table-5-settings")
        for ending in ("md", "tex")
    }


def test_a_report_is_the_same_each_time_and_replaces_an_older_one(lone, tmp_path):
    (tmp_path / "figures").mkdir()
    (tmp_path / "tables").mkdir()
    stale = [tmp_path / "figures" / "cost.png", tmp_path / "tables" / "table-1-darcy.md"]
    for path in stale:
        path.write_text("old")
    write_report([lone.parent], tmp_path)
    assert not any(path.exists() for path in stale)
    files = sorted(path.relative_to(lone) for path in lone.rglob("*") if path.is_file())
    assert files == sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file())
    for path in files:
        assert (lone / path).read_bytes() == (tmp_path / path).read_bytes(), path


def test_unfinished_and_smaller_runs_are_named(tmp_path):
    write_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics(0.1, 0.2), train=100)
    begun = write_run(tmp_path, "darcy", "FNO", metrics=metrics(0.1, 0.2))
    (begun / "checksums.json").unlink()
    less = write_run(tmp_path, "heat", "PDIO a(x,ξ,t)", metrics=metrics(1, 2), train=100, epochs=3)
    text = write_report([tmp_path], tmp_path / "report").read_text(encoding="utf-8")
    assert f"Not finished yet, and left out: {begun.name}." in text
    assert f"there are larger trainings of the same: {less.name}." in text


def test_errors_that_are_not_finite_do_not_stop_a_report(tmp_path):
    for model, error in (("PDNO rollout", np.inf), ("FNO rollout", 0.5)):
        pictures = fields((8, 8), frames=3)
        if error == np.inf:
            pictures["prediction"][:] = np.nan
            pictures["error"][:] = np.inf
        options = {"resolution": 8, "train": 200, "arrays": pictures, "times": TIMES}
        write_run(tmp_path, FLOW, model, metrics=metrics(error, error, TIMES), **options)
    text = write_report([tmp_path], tmp_path / "report").read_text(encoding="utf-8")
    assert ">∞</td>" in text


# Figures


def test_error_by_time_is_drawn_as_it_is(gallery):
    (axes,) = plot_error_by_time(read(gallery)).axes
    lines = {line.get_label(): line for line in axes.lines}
    test = lines["PDNO rollout, test"]
    assert list(test.get_xdata()) == TIMES
    assert np.allclose(test.get_ydata(), [0.2 * t for t in TIMES])
    assert test.get_linestyle() == "-" and lines["PDNO rollout, train"].get_linestyle() == "--"
    assert len(lines) == 6 and "small budget" in axes.get_title()


def test_learning_curves_are_told_apart_by_their_samples(gallery):
    (axes,) = plot_samples(read(gallery)).axes
    lines = {line.get_label(): line for line in axes.lines}
    assert sorted(lines) == ["FNO, test", "FNO, train", "PDNO, test", "PDNO, train"]
    for name, twice in (("PDNO, test", 2), ("FNO, train", 1)):
        assert list(lines[name].get_xdata()) == [50, 200]
        assert np.allclose(lines[name].get_ydata(), [twice / 50, twice / 200])


def test_resolutions_start_at_that_of_the_training(gallery):
    (axes,) = [a for a in plot_resolutions(read(gallery)).axes if a.lines]
    zero_shot = next(line for line in axes.lines if line.get_label() == "PDNO rollout")
    assert list(zero_shot.get_xdata()) == [8, 16]
    assert np.allclose(zero_shot.get_ydata(), [0.2, 0.3])
    dotted = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert [line.get_ydata()[-1] for line in dotted] == [1.4, 2.4, 0.4]


def test_samples_are_chosen_by_their_mean_error(gallery):
    choices = ("lowest", "median", "highest")
    found = {c: choose_sample(read(gallery), "navier-stokes", c) for c in choices}
    assert {choice: sample.index for choice, sample in found.items()} == {
        "lowest": 0,
        "median": 2,
        "highest": 1,
    }
    # the mean of 0.1, 0.2 and 0.3 times 1, 2 and 3
    errors = [found[choice].error for choice in ("lowest", "median", "highest")]
    assert errors == pytest.approx([0.2, 0.4, 0.6])
    by_name = {run.model: run for run in found["highest"].predictions}
    assert found["highest"].frame_error(by_name["FNO rollout"], 1) == pytest.approx(0.6)
    figure = plot_frames(read(gallery), "highest")
    titles = [axes.get_title() for axes in figure.axes if axes.get_title()]
    assert titles == ["t = 11", "t = 12", "t = 13", *["0.6"] * 3, *["0.9"] * 3, *["0.3"] * 3]


def test_the_symbols_of_heat_are_drawn_as_they_are(gallery):
    figure = plot_heat_symbol(read(gallery))
    learned, exact, difference = [axes.collections[0] for axes in figure.axes[:3]]
    arrays = heat_arrays()
    assert np.allclose(learned.get_array(), arrays["heat.learned"])
    assert np.allclose(exact.get_array(), arrays["heat.exact"])
    assert learned.get_clim() == exact.get_clim()
    assert np.allclose(difference.get_array(), 0.01, atol=1e-6)
    assert difference.get_clim()[0] == -difference.get_clim()[1]


def test_diagrams_have_the_sizes_of_the_specification(gallery):
    by_key = {entry.key: entry for entry in FIGURES}
    (axes,) = by_key["figure-02-operator"].make(read(gallery)).axes
    texts = " ".join(text.get_text() for text in axes.texts)
    # two frequencies, three hidden layers of 8, 4 x 4 channel pairs
    assert "2 → 8 → 8 → 8 → 16" in texts and "k_max = 3" in texts
    (axes,) = by_key["figure-06-block"].make(read(gallery)).axes
    assert "2 blocks of 4 channels" in axes.get_title()
    assert any("3 of 4 inputs and 2 of 4 outputs" in text.get_text() for text in axes.texts)


# Real runs and a real browser


def test_a_smoke_run_makes_its_figures(tmp_path):
    from pdno.paper.reproduce import reproduce

    reproduce("heat", tmp_path / "heat", preset="smoke")
    out = write_report([tmp_path], tmp_path / "report").parent
    made = {path.stem for path in (out / "figures").glob("*.png")}
    heat = {entry.key for entry in FIGURES if list(entry.studies) == ["heat"]}
    assert made == heat | {"figure-02-operator", "bands", "cost", "training", "runs-1"}
    assert "smoke budget: 2 of 10000 epochs" in (out / "tables" / "claims.md").read_text()


@pytest.mark.slow
def test_a_browser_shows_every_picture(report):
    playwright = pytest.importorskip("playwright.sync_api")
    browser_path = shutil.which("chromium") or shutil.which("google-chrome")
    if browser_path is None:
        pytest.skip("no Chromium on this machine")
    problems, asked = [], []
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.on("console", lambda message: problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((report / "report.html").as_uri())
        widths = page.eval_on_selector_all("img", "all => all.map(one => one.naturalWidth)")
        wide = page.evaluate("document.documentElement.scrollWidth")
        browser.close()
    assert len(widths) == len(FIGURES) - len(INSIDE) + len(OWN) and min(widths) > 0
    assert problems == [] and wide <= 390
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
