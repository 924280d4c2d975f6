"""Write tables, figures and numbers of README and docs from the runs in results/, or check them.

    python tools/results.py             write
    python tools/results.py --check     exit with 1 where a file would change

A table stands between the lines `<!-- results: FOLDER -->` and `<!-- end of results -->`; what is
between them is replaced. It has all that was measured in a folder of results/; one more word, for
example `FOLDER short`, takes the columns of `KINDS`. Two are no folders: `claims` assesses the
claims of the paper, each by the runs of one folder, so that like is compared with like, and
`headline` compares one operator for each problem with its baseline.

A number in a sentence stands between `<!-- = FOLDER | NETWORK | SPLIT -->` and `<!-- . -->` and
keeps its decimals. The split may be followed by `| METRIC`, by default relative_l2, or `per pair`
for the mean over all samples and times, and that by `| POINTS`. With `±` before the folder it is
the deviation over the seeds, and two of them with `/` between are a ratio.

Numbers are means over seeds, with their deviation where there are some. Each figure keeps the
digest of the runs that it was drawn from, by which a check knows it.
"""

import argparse
import hashlib
import io
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from itertools import accumulate
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from pdno.figures.style import figure_style, spread
from pdno.files import run_folder
from pdno.files.metric_table import ERROR, NetworkMetrics, Summary, by_network
from pdno.paper import claims, figures_errors
from pdno.paper.published import Budget
from pdno.paper.reproduce import study_of
from pdno.paper.results import Results, grouped
from pdno.paper.tables import SYMBOL_COMMAND, resource_table
from pdno.report.tables import MISSING, Table
from pdno.runs.run import find_runs

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
FILES = (
    "README.md",
    "results/README.md",
    "docs/results.md",
    "docs/results_tables.md",
    "docs/choose.md",
    "docs/training.md",
    "docs/discovery.md",
    "docs/families.md",
    "docs/scattered_points.md",
    "docs/theory_operators.md",
    "paper/paper.md",
)
FIGURES = {
    "cost": (
        figures_errors.plot_cost,
        ("heat-small", "darcy-small", "burgers-1024", "navier-stokes-small", "navier-stokes-best"),
    ),
    "samples": (figures_errors.plot_samples, ("darcy-samples",)),
    "darcy_training": (figures_errors.plot_training, ("darcy-paper",)),
    "heat_training": (figures_errors.plot_training, ("heat-paper",)),
}
"""Figures in docs/images, and the folders that they are drawn from, as far as they are there."""
HEADLINE = (
    ("Darcy, 32 × 32", "darcy-small", "PDNO classical", "FNO"),
    ("Darcy, 64 × 64", "darcy-64", "PDNO classical", "FNO"),
    (
        "Navier-Stokes, ν = 1e-5, 64 × 64",
        "navier-stokes-best",
        "PDNO fine state",
        "FNO fine state",
    ),
    ("Burgers, 1024 points", "burgers-1024", "PDNO a(x,ξ)", "FNO"),
    ("Heat, 1024 points", "heat-small", "PDIO e^{tA(ξ)}", "PDIO a(x,ξ,t)"),
    (
        "Darcy, neuraloperator's tutorial data, 16 × 16",
        "public-data",
        "PDNO classical",
        "FNO as published",
    ),
)
"""Problem, folder, network and its baseline; without the folder there is no line."""
MARKED = re.compile(
    r"(<!-- results: (\S+)(?: (\w+))? -->\n).*?(<!-- end of results -->)", re.DOTALL
)
NUMBER = re.compile(r"(<!-- = (.*?) -->)(.*?)(<!-- \. -->)", re.DOTALL)
MOST_TIMES = 4
DIGEST = "Source"
Cell = Callable[[NetworkMetrics], str]
Cells = dict[str, Cell]


def measured(split: str, metric: str = ERROR, *, points: int | None = None) -> Cell:
    """A number of the metrics."""
    return lambda network: _text(network.summary(split, metric, resolution=points))


def _text(summary: Summary | None) -> str:
    """Three digits, and the deviation of several seeds."""
    if summary is None:
        return MISSING
    mean = f"{summary.mean:#.3g}".replace("e-0", "e-")
    return mean if summary.count == 1 else f"{mean} ± {summary.deviation:.1g}"


def _gap(network: NetworkMetrics) -> str:
    train, test = network.summary("train"), network.summary("test")
    return f"{test.mean / train.mean:.1f}" if train and test else MISSING


def _effort(name: str, network: NetworkMetrics) -> str:
    effort = network.summary("training", name)
    return MISSING if effort is None else f"{effort.mean:,.0f}"


def _commits(network: NetworkMetrics) -> str:
    commits = dict.fromkeys(m.metadata.commit for m in sorted(network.metrics, key=_seed))
    return ", ".join(commit for commit in commits if commit) or MISSING


def _seed(metric: object) -> int:
    return getattr(metric, "seed", 0) or 0


PARAMETERS: Cells = {"parameters": lambda network: f"{network.parameters or 0:,}"}
ERRORS: Cells = {"train": measured("train"), "test": measured("test")}
SEEDS: Cells = {"seeds": lambda network: str(len(network.seeds))}
EFFORT: Cells = {"CPU seconds": partial(_effort, "cpu seconds"), "commit": _commits}
BUDGET: Cells = {
    "samples": lambda network: str(network.metadata.samples),
    "epochs": lambda network: str(Budget.of(network).epochs),
    **SEEDS,
    **EFFORT,
}
SYMBOL: Cells = {
    "symbol, where excited": measured("symbol", "symbol difference excited"),
    "diffusivity": measured("symbol", "diffusivity"),
    "its error bar": measured("symbol", "diffusivity standard error"),
}
DIFFERS: Cells = {
    "data": lambda network: network.metadata.dataset,
    "points": lambda network: str(network.resolution),
}
"""What a table says only where its lines differ in it."""


def _all(networks: Sequence[NetworkMetrics]) -> Cells:
    """All that was measured: errors by time, on finer grids, by PDE parameter, out of range."""
    times = _named(networks, "test", f"{ERROR} t=")
    times = [times[k] for k in spread(len(times), MOST_TIMES)] if times else []
    cells = {**PARAMETERS, **ERRORS, "test / train": _gap}
    if networks[0].metadata.study == "heat":
        cells["test, per pair"] = lambda network: _text(network.per_pair())
    cells |= {f"t = {t}": measured("test", f"{ERROR} t={t}") for t in times}
    for points in _finer(networks):
        for split in ("zero-shot", "interpolated"):
            cells[f"{points}, {split}"] = measured(split, points=points)
    cells |= SYMBOL
    for split, words in (("by scalar", ""), ("outside", "outside, ")):
        for part in _named(networks, split, f"{ERROR} "):
            cells[words + part] = measured(split, f"{ERROR} {part}")
    return {**cells, **BUDGET}


def _named(networks: Sequence[NetworkMetrics], split: str, prefix: str) -> list[str]:
    """The metrics of a split that begin so, without that."""
    return list(dict.fromkeys(name for n in networks for name in n.names(split, prefix)))


def _finer(networks: Sequence[NetworkMetrics]) -> list[int]:
    """Points per axis of grids that were not trained on."""
    return sorted({points for n in networks for points in n.resolutions("zero-shot")})


def _short(networks: Sequence[NetworkMetrics]) -> Cells:
    first = {f"{n}, zero-shot": measured("zero-shot", points=n) for n in _finer(networks)[:1]}
    return {**PARAMETERS, **ERRORS, **first, **BUDGET}


def _parts(networks: Sequence[NetworkMetrics]) -> Cells:
    steps: Cells = {"steps": partial(_effort, "steps")}
    errors: Cells = {"validation": measured("validation"), "test": measured("test")}
    return {**errors, **steps, **SEEDS, **EFFORT}


def _operators(networks: Sequence[NetworkMetrics]) -> Cells:
    results = results_of("operators")

    def folder(network: NetworkMetrics) -> Path:
        run = results.run(network)
        assert run is not None
        return run.folder

    def size(network: NetworkMetrics) -> str:
        return f"{sum(path.stat().st_size for path in folder(network).iterdir()) / 1e6:.1f}"

    where: Cells = {"folder": lambda network: f"`{folder(network).relative_to(ROOT)}`"}
    points: Cells = {"points": lambda network: str(network.resolution)}
    return {**where, "MB": size, **points, **PARAMETERS, **ERRORS, **BUDGET}


KINDS = {"": _all, "short": _short, "pays": _parts, "operators": _operators}
"""Columns of a table by the word after its folder; the least number of the first of validation and
test stands out."""


@cache
def results_of(*folders: str) -> Results:
    """The finished runs of some folders, of those that are there."""
    existing = [RESULTS / name for name in folders if (RESULTS / name).is_dir()]
    runs = [folder for folder in existing if any(folder.rglob(run_folder.CHECKSUMS))]
    return Results.of(find_runs(runs) if runs else (), existing)


def folders() -> list[str]:
    """Those of results/ that have finished runs."""
    return [path.name for path in sorted(RESULTS.iterdir()) if any(path.rglob(run_folder.METRICS))]


def table_of(folder: str, kind: str = "") -> Table:
    """The runs of a folder by data, points and samples, best first."""
    networks = results_of(folder).every_network
    resources = None if networks else resource_table(results_of(folder))
    if resources is not None:
        return resources
    if not networks:
        raise SystemExit(f"no finished run in results/{folder}: expected {', '.join(folders())}")
    if kind == "samples":
        return _learning_curves(networks)
    if kind == "discovery":
        return _discoveries(networks)
    if kind not in KINDS:
        raise SystemExit(
            f"no table {kind!r}: expected one of {', '.join(KINDS)} samples discovery"
        )
    cells = KINDS[kind](networks)
    best = "validation" if "validation" in cells else "test"
    blocks = grouped(
        networks, lambda n: (n.metadata.dataset, n.resolution, n.metadata.samples or 0)
    )
    ordered = [sorted(block, key=partial(_mean, best)) for block in blocks.values()]
    lines = [network for block in ordered for network in block]
    head = {"network": [network.model for network in lines]}
    if kind != "operators":
        different = {name: [cell(network) for network in lines] for name, cell in DIFFERS.items()}
        head |= {name: column for name, column in different.items() if len(set(column)) > 1}
    columns = {name: [cell(network) for network in lines] for name, cell in cells.items()}
    head |= {name: column for name, column in columns.items() if set(column) != {MISSING}}
    first = accumulate((len(block) for block in ordered[:-1]), initial=0)
    at = list(head).index(best)
    strong = frozenset((k, at) for k, block in zip(first, ordered, strict=True) if len(block) > 1)
    return Table(tuple(head), tuple(zip(*head.values(), strict=True)), strong=strong)


def _mean(split: str, network: NetworkMetrics) -> float:
    error = network.summary(split)
    return float("inf") if error is None else error.mean


def _learning_curves(networks: Sequence[NetworkMetrics]) -> Table:
    """A line for each network, a column for each number of training samples: test errors."""
    ordered = sorted(networks, key=lambda network: (network.model, network.metadata.samples))
    by_model = grouped(ordered, lambda network: network.model)
    counts = sorted({network.metadata.samples for network in networks})
    budget: Cells = {"steps": partial(_effort, "steps"), **SEEDS, **EFFORT}
    lines, errors = [], []
    for model, ours in by_model.items():
        by_count = {network.metadata.samples: network for network in ours}
        cells = [_text(by_count[n].summary()) if n in by_count else MISSING for n in counts]
        effort = [", ".join(dict.fromkeys(map(cell, ours))) for cell in budget.values()]
        lines.append((model, *cells, *effort))
        errors.append([_mean("test", by_count[n]) if n in by_count else np.inf for n in counts])
    best = np.array(errors).argmin(axis=0).tolist()
    strong = frozenset((line, k + 1) for k, line in enumerate(best))
    head = ("network", *(f"{n} samples" for n in counts), *budget)
    return Table(head, tuple(lines), strong=strong)


def _discoveries(networks: Sequence[NetworkMetrics]) -> Table:
    """A line for each equation, noise and number of trajectories: generator, PDNO and FNO."""
    errors = {"T": measured("test"), "4T": measured("test", f"{ERROR} at 4T")}
    cells: dict[str, tuple[str, Cell]] = {
        "coefficients": ("generator", _coefficients),
        "bars": ("generator", _bars),
        "generator, T": ("generator", errors["T"]),
        "4T": ("generator", errors["4T"]),
        "4N points": ("generator", lambda n: measured("zero-shot", points=4 * n.resolution)(n)),
        "other states": ("generator", measured("outside")),
        "CPU seconds": ("generator", measured("training", "cpu seconds")),
    }
    for model in ("PDNO", "FNO"):
        cells |= {f"{model}, {when}": (model, cell) for when, cell in errors.items()}
    blocks = grouped(
        networks,
        lambda n: (n.metadata.dataset, n.metadata.sweep["noise"], n.metadata.samples or 0),
    )
    lines = []
    for (name, noise, count), block in blocks.items():
        by_model = {network.model: network for network in block}
        values = [cell(by_model[m]) if m in by_model else MISSING for m, cell in cells.values()]
        lines.append((name, f"{100 * noise:g} %", str(count), *values))
    return Table(("equation", "noise", "trajectories", *cells), tuple(lines))


def _coefficients(network: NetworkMetrics) -> str:
    """The largest relative error of the coefficients, and how many terms are wrong."""
    numbers = {
        name: summary.mean
        for name in network.names("symbol", "")
        if (summary := network.summary("symbol", name)) is not None
    }
    missing, many = numbers["terms missing"], numbers["terms too many"]
    words = [f"{100 * numbers['largest coefficient error']:.2g} %"] if not missing else []
    words += [f"{missing:.0f} missing"] * bool(missing) + [f"{many:.0f} too many"] * bool(many)
    return ", ".join(words if numbers["accepted"] else [*words, "refused"])


def _bars(network: NetworkMetrics) -> str:
    """How many of the bars of true terms hold the truth."""
    held = network.summary("symbol", "bars that hold the truth")
    terms = len(network.names("symbol", "bar "))
    many = network.summary("symbol", "terms too many")
    return f"{held.mean if held else 0:.0f} of {terms - (many.mean if many else 0):.0f}"


def headline() -> Table:
    """One line for each problem: a network and its baseline with their errors and costs."""
    seconds = partial(_effort, "cpu seconds")
    head = ("problem", "samples", "seeds", "PDNO", "baseline", "parameters", "CPU seconds")
    lines = []
    for problem, folder, *names in HEADLINE:
        networks = {network.model: network for network in results_of(folder).every_network}
        if not networks:  # a benchmark that has not been run
            continue
        pair = [networks[name] for name in names]
        errors = [f"{measured('test')(network)} ({network.model})" for network in pair]
        costs = [" / ".join(map(cost, pair)) for cost in (PARAMETERS["parameters"], seconds)]
        samples, seeds = str(pair[0].metadata.samples), str(len(pair[0].seeds))
        lines.append((problem, samples, seeds, *errors, *costs))
    return Table(head, tuple(lines))


def assessments() -> Table:
    """Each claim by the runs of each folder that tests it; others with what they would cost."""
    lines: list[tuple[str, ...]] = []
    studies = [name for name in folders() if name != "operators"]
    for claim in claims.CLAIMS:
        tested = [
            (name, assessment)
            for name in studies
            if any(results_of(name).study(study) for study in claim.studies)
            and (assessment := claims.assess(claim, results_of(name))).answer != "not tested here"
        ]
        if not tested:  # or it takes two studies
            assessment = claims.assess(claim, results_of(*_alike(claim.studies, studies)))
            tested = [("several", assessment)] if assessment.answer != "not tested here" else []
        for folder, assessment in tested:
            runs = f"`results/{folder}`" if folder != "several" else "all"
            numbers = f"{assessment.numbers} ({assessment.budget})"
            part = ", as far as run" if "(not run: " in assessment.numbers else ""
            lines.append((claim.text, claim.reference, assessment.answer + part, numbers, runs))
        if not tested:
            missing = f"{assessment.numbers}: {_cost(claim)}"
            lines.append((claim.text, claim.reference, assessment.answer, missing, MISSING))
    strong = frozenset((k, 2) for k, line in enumerate(lines) if line[2] == "holds")
    head = ("claim", "in the paper", "assessment here", "numbers, or what is missing", "runs")
    return Table(head, tuple(lines), strong=strong)


def _alike(studies: Sequence[str], names: Sequence[str]) -> list[str]:
    """Folders for a claim on several studies: only those trained as long as the first of them."""
    epochs = {
        name: {Budget.of(n).epochs for study in studies for n in results_of(name).study(study)}
        for name in names
    }
    first = [epochs[name] for name in names if results_of(name).study(studies[0])]
    if len(studies) == 1 or not first:
        return list(names)
    return [name for name in names if epochs[name] & set.union(*first)]


def _cost(claim: claims.Claim) -> str:
    """CPU hours of the trainings that would test a claim, by the seconds of our own runs."""
    if SYMBOL_COMMAND in claim.studies or "resources" in claim.studies:
        return "minutes"
    seconds, runs = 0.0, 0
    for study in claim.studies:
        for experiment in study_of(study, **claim.options).experiments:
            assert experiment.problem is not None
            dim = 2 if experiment.problem.name in ("darcy", "navier-stokes") else 1
            work = experiment.training.epochs * experiment.train * experiment.resolution**dim
            family = experiment.metadata.family
            seconds += work * _seconds_per_point(experiment.problem.name, family, dim)
            runs += 1
    hours = seconds / 3600
    return (
        f"{runs} runs, about {hours:,.0f} CPU hours"
        if hours > 10
        else (f"{runs} runs, about {hours:.1f} CPU hours")
    )


@cache
def _seconds_per_point(problem: str, family: str, dim: int) -> float:
    """Seconds of one point of a sample in an epoch, the median of our runs."""
    rates: dict[str, list[float]] = {}
    for network in results_of(*folders()).every_network:
        spent, budget = network.summary("training", "cpu seconds"), Budget.of(network)
        if spent is not None and network.metadata.study.startswith(problem):
            points = budget.epochs * budget.samples * network.resolution**dim
            rates.setdefault(network.metadata.family, []).append(spent.mean / points)
    every = [rate for of_family in rates.values() for rate in of_family]
    return float(np.median(rates.get(family, every)))


def written(text: str) -> str:
    """A page with tables and numbers as the metrics have them."""

    def replace_table(match: re.Match[str]) -> str:
        make = {"claims": assessments, "headline": headline}.get(match[2])
        table = make() if make else table_of(match[2], match[3] or "")
        return f"{match[1]}{table.markdown()}{match[4]}"

    def replace_number(match: re.Match[str]) -> str:
        return f"{match[1]}{_with_digits_of(match[3], value_of(match[2]))}{match[4]}"

    return NUMBER.sub(replace_number, MARKED.sub(replace_table, text))


def value_of(words: str) -> float:
    """The number of FOLDER | NETWORK | SPLIT | METRIC | POINTS, or a ratio of two."""
    parts = [_selected(part) for part in re.split(r"\s+/\s+", words)]
    return parts[0] / parts[1] if len(parts) == 2 else parts[0]


def _selected(words: str) -> float:
    folder, model, split, *rest = (word.strip() for word in words.split("|"))
    metric = rest[0] if rest else ERROR
    points = int(rest[1]) if len(rest) > 1 else None
    results, pairs = results_of(folder.removeprefix("±").strip()), metric == "per pair"
    networks = results.every_network or by_network(results.resources)
    summaries = [
        s
        for n in networks
        if n.model == model
        and (s := n.per_pair(split) if pairs else n.summary(split, metric, resolution=points))
    ]
    if len(summaries) != 1:
        models = ", ".join(sorted({network.model for network in networks}))
        raise SystemExit(f"{len(summaries)} numbers for {words!r}; expected one of {models}")
    return summaries[0].deviation if folder.startswith("±") else summaries[0].mean


def _with_digits_of(text: str, value: float) -> str:
    """The value with as many decimals as the text, and its notation."""
    plain = text.strip().replace(",", "")
    try:
        Decimal(plain)
    except ArithmeticError:
        raise SystemExit(f"{text!r} is no number: write one between the marks") from None
    decimals = len(plain.partition("e")[0].partition(".")[2])
    if "e" in plain:
        return f"{value:.{decimals}e}".replace("e-0", "e-")
    return f"{value:,.{decimals}f}" if "," in text else f"{value:.{decimals}f}"


def digest_of(folders: Sequence[str]) -> str:
    """The SHA-256 of metrics and histories of all runs of some folders."""
    digest = hashlib.sha256()
    names = (run_folder.METRICS, run_folder.HISTORY)
    for path in sorted(
        p for folder in folders for n in names for p in (RESULTS / folder).rglob(n)
    ):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def stale_figures() -> Mapping[str, Path]:
    """Figures that were drawn from other runs, or are not there, of those that have runs."""
    existing = folders()
    paths = {name: ROOT / "docs" / "images" / f"{name}.png" for name in FIGURES}
    return {
        name: path
        for name, path in paths.items()
        if any(folder in existing for folder in FIGURES[name][1])
        and not (path.is_file() and _drawn_from(path) == digest_of(FIGURES[name][1]))
    }


def _drawn_from(path: Path) -> str | None:
    with Image.open(path) as image:
        return getattr(image, "text", {}).get(DIGEST)


def draw(name: str, path: Path) -> None:
    """Draw one figure with the digest of its runs."""
    exhibit, sources = FIGURES[name]
    figure = exhibit(results_of(*sources))
    if figure is None:
        raise SystemExit(f"the runs of {', '.join(sources)} do not suffice for figure {name}")
    png, information = io.BytesIO(), PngInfo()
    with figure_style():
        figure.savefig(png, format="png")
    information.add_text(DIGEST, digest_of(sources))
    # 256 colours are enough for curves, in half of the bytes
    Image.open(png).convert("RGB").quantize(256).save(path, pnginfo=information, optimize=True)


def main() -> None:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 instead")
    check = parser.parse_args().check
    changed = []
    for name in FILES:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = written(before)
        if after != before:
            changed.append(name)
            if not check:
                path.write_text(after, encoding="utf-8")
    for name, path in stale_figures().items():
        changed.append(str(path.relative_to(ROOT)))
        if not check:
            draw(name, path)
    state = "not in step with results/: run `make results`" if check else "written from results/"
    fine = "all tables, figures and numbers are in step with results/"
    print(f"{', '.join(changed)} {state}" if changed else fine)
    sys.exit(bool(check and changed))


if __name__ == "__main__":
    main()
