"""Write tables and figures of README and docs from the runs in results/, or check them.

    python tools/results.py             write
    python tools/results.py --check     exit with 1 where a file would change

A table stands between the lines `<!-- results: FOLDER -->` and `<!-- end of results -->`; what is
between them is replaced. It has all that was measured in a folder of results/; one more word, for
example `FOLDER short`, takes the columns of `KINDS`. `claims` is no folder: it has the verdicts on
the claims of the paper, each by the runs of one folder, so that like is compared with like.

Numbers are means over seeds, with their deviation where there are some. Each figure keeps the
digest of the runs that it was drawn from, by which a check knows it.
"""

import argparse
import hashlib
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from pdno.figures.style import figure_style, spread
from pdno.files import run_folder
from pdno.files.metric_table import Summary
from pdno.paper import claims, figures_errors
from pdno.paper.reproduce import study_of
from pdno.paper.tables import MISSING, SYMBOL_COMMAND, Table, resource_table
from pdno.report.runs import ERROR, Group, Results, find_runs, grouped

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"
FILES = (
    "README.md",
    "results/README.md",
    "docs/results.md",
    "docs/choose.md",
    "docs/training.md",
    "docs/families.md",
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
"""Pictures in docs/images, and the folders that they are drawn from, as far as they are there."""
MARKED = re.compile(
    r"(<!-- results: (\S+)(?: (\w+))? -->\n).*?(<!-- end of results -->)", re.DOTALL
)
MOST_TIMES = 4
DIGEST = "Source"
Cell = Callable[[Group], str]
Cells = dict[str, Cell]


def measured(split: str, metric: str = ERROR, *, points: int | None = None) -> Cell:
    """A number of the rows."""
    return lambda group: _text(group.summary(split, metric, resolution=points))


def _text(summary: Summary | None) -> str:
    """Three digits, and the deviation of several seeds."""
    if summary is None:
        return MISSING
    mean = f"{summary.mean:#.3g}".replace("e-0", "e-")
    return mean if summary.count == 1 else f"{mean} ± {summary.deviation:.1g}"


def _gap(group: Group) -> str:
    train, test = group.summary("train"), group.summary("test")
    return f"{test.mean / train.mean:.1f}" if train and test else MISSING


def _effort(name: str, group: Group) -> str:
    found = group.summary("training", name)
    return MISSING if found is None else f"{found.mean:,.0f}"


def _commits(group: Group) -> str:
    found = dict.fromkeys(run.environment.get("commit") for run in group.seeds)
    return ", ".join(str(commit) for commit in found if commit) or MISSING


PARAMETERS: Cells = {"parameters": lambda group: f"{group.rows[0].parameters or 0:,}"}
ERRORS: Cells = {"train": measured("train"), "test": measured("test")}
SEEDS: Cells = {"seeds": lambda group: str(group.budget.seeds)}
EFFORT: Cells = {"CPU seconds": partial(_effort, "cpu seconds"), "commit": _commits}
BUDGET: Cells = {
    "samples": lambda group: str(group.budget.samples),
    "epochs": lambda group: str(group.budget.epochs),
    **SEEDS,
    **EFFORT,
}
SYMBOL: Cells = {
    "symbol, where excited": measured("symbol", "symbol difference excited"),
    "diffusivity": measured("symbol", "diffusivity"),
    "its error bar": measured("symbol", "diffusivity standard error"),
}
DIFFERS: Cells = {
    "data": lambda group: group.metadata.dataset,
    "points": lambda group: str(group.resolution),
}
"""What a table says only where its lines differ in it."""


def _all(groups: Sequence[Group]) -> Cells:
    """All that was measured: errors by time, on finer grids, by scalar and outside of a range."""
    times = _named(groups, "test", f"{ERROR} t=")
    times = [times[k] for k in spread(len(times), MOST_TIMES)] if times else []
    cells = {**PARAMETERS, **ERRORS, "test / train": _gap}
    cells |= {f"t = {t}": measured("test", f"{ERROR} t={t}") for t in times}
    for points in _finer(groups):
        for split in ("zero-shot", "interpolated"):
            cells[f"{points}, {split}"] = measured(split, points=points)
    cells |= SYMBOL
    for split, words in (("by scalar", ""), ("outside", "outside, ")):
        for part in _named(groups, split, f"{ERROR} "):
            cells[words + part] = measured(split, f"{ERROR} {part}")
    return {**cells, **BUDGET}


def _named(groups: Sequence[Group], split: str, prefix: str) -> list[str]:
    """The metrics of a split that begin so, without that."""
    rows = [row for group in groups for row in group.rows if row.split == split]
    found = dict.fromkeys(row.metric for row in rows if row.metric.startswith(prefix))
    return [metric.removeprefix(prefix) for metric in found]


def _finer(groups: Sequence[Group]) -> list[int]:
    """Points per axis of grids that were not trained on."""
    rows = [row for group in groups for row in group.rows]
    return sorted({row.resolution for row in rows if row.split == "zero-shot"})


def _short(groups: Sequence[Group]) -> Cells:
    first = {f"{n}, zero-shot": measured("zero-shot", points=n) for n in _finer(groups)[:1]}
    return {**PARAMETERS, **ERRORS, **first, **BUDGET}


def _pays(groups: Sequence[Group]) -> Cells:
    steps: Cells = {"steps": partial(_effort, "steps")}
    return {"validation": measured("validation"), "test": measured("test"), **steps, **SEEDS} | (
        EFFORT
    )


def _operators(groups: Sequence[Group]) -> Cells:
    def place(group: Group) -> str:
        return f"`{group.folder.relative_to(ROOT)}`"

    def size(group: Group) -> str:
        return f"{sum(path.stat().st_size for path in group.folder.iterdir()) / 1e6:.1f}"

    points: Cells = {"points": lambda group: str(group.resolution)}
    return {"folder": place, "MB": size, **points, **PARAMETERS, **ERRORS, **BUDGET}


KINDS = {"": _all, "short": _short, "pays": _pays, "operators": _operators}
"""Columns of a table by the word after its folder; the least number of the first of validation and
test stands out."""


@cache
def results_of(*folders: str) -> Results:
    """The finished runs of some folders, of those that are there."""
    there = [RESULTS / name for name in folders if any(_runs(name))]
    return Results(tuple(find_runs(there)) if there else ())


def _runs(folder: str) -> Iterator[Path]:
    return (path.parent for path in (RESULTS / folder).rglob(run_folder.METRICS))


def folders() -> list[str]:
    """Those of results/ that have finished runs."""
    return [path.name for path in sorted(RESULTS.iterdir()) if any(_runs(path.name))]


def table_of(folder: str, kind: str = "") -> Table:
    """The runs of a folder by data, points and samples, best first."""
    groups = results_of(folder).every_group
    resources: Table | None = None if groups else resource_table(results_of(folder))
    if resources is not None:  # which has many networks in one run
        return resources
    if not groups:
        raise SystemExit(f"no finished run in results/{folder}: expected {', '.join(folders())}")
    if kind == "samples":
        return _learning_curves(groups)
    if kind not in KINDS:
        raise SystemExit(f"no table {kind!r}: expected one of {', '.join(KINDS)} samples")
    cells = KINDS[kind](groups)
    best = "validation" if "validation" in cells else "test"

    def error(group: Group) -> float:
        found = group.summary(best)
        return float("inf") if found is None else found.mean

    blocks = grouped(groups, lambda g: (g.metadata.dataset, g.resolution, g.budget.samples))
    ordered = [sorted(block, key=error) for block in blocks.values()]
    lines = [group for block in ordered for group in block]
    found = {
        name: [cell(group) for group in lines]
        for name, cell in ({} if kind == "operators" else DIFFERS).items()
        if len({cell(group) for group in lines}) > 1
    }
    found |= {name: [cell(group) for group in lines] for name, cell in cells.items()}
    found = {name: column for name, column in found.items() if set(column) != {MISSING}}
    head = {"network": [group.model for group in lines], **found}
    first = np.cumsum([0, *(len(block) for block in ordered)])[:-1].tolist()
    at = list(head).index(best)
    strong = frozenset((k, at) for k, block in zip(first, ordered, strict=True) if len(block) > 1)
    return Table(tuple(head), tuple(zip(*head.values(), strict=True)), strong=strong)


def _learning_curves(groups: Sequence[Group]) -> Table:
    """A line for each network, a column for each number of training samples: test errors."""
    ordered = sorted(groups, key=lambda group: (group.model, group.budget.samples))
    by_model = grouped(ordered, lambda group: group.model)
    counts = sorted({group.budget.samples for group in groups})
    budget: Cells = {"steps": partial(_effort, "steps"), **SEEDS, **EFFORT}
    lines, cells = [], []
    for model, ours in by_model.items():
        found = {g.budget.samples: _text(g.summary()) for g in ours}
        told = [", ".join(dict.fromkeys(map(cell, ours))) for cell in budget.values()]
        lines.append((model, *(found.get(n, MISSING) for n in counts), *told))
        cells.append([_least(ours, n) for n in counts])
    best = np.array(cells).argmin(axis=0).tolist()
    strong = frozenset((line, k + 1) for k, line in enumerate(best))
    head = ("network", *(f"{n} samples" for n in counts), *budget)
    return Table(head, tuple(lines), strong=strong)


def _least(groups: Sequence[Group], samples: int) -> float:
    found = [g.summary() for g in groups if g.budget.samples == samples]
    return min((summary.mean for summary in found if summary), default=float("inf"))


def verdicts() -> Table:
    """Each claim by the runs of each folder that tests it; others with what they would cost."""
    lines: list[tuple[str, ...]] = []
    known = [name for name in folders() if name != "operators"]
    for claim in claims.CLAIMS:
        tested = [
            (name, verdict)
            for name in known
            if any(results_of(name).study(study) for study in claim.studies)
            and (verdict := claims.judge(claim, results_of(name))).answer != "not tested here"
        ]
        if not tested:  # or it takes two studies
            verdict = claims.judge(claim, results_of(*_alike(claim.studies, known)))
            tested = [("several", verdict)] if verdict.answer != "not tested here" else []
        for folder, verdict in tested:
            place = f"`results/{folder}`" if folder != "several" else "all"
            told = f"{verdict.numbers} ({verdict.budget})"
            part = ", as far as run" if "(not run: " in verdict.numbers else ""
            lines.append((claim.text, claim.place, verdict.answer + part, told, place))
        if not tested:
            told = f"{verdict.numbers}: {_cost(claim)}"
            lines.append((claim.text, claim.place, verdict.answer, told, MISSING))
    strong = frozenset((k, 2) for k, line in enumerate(lines) if line[2] == "holds")
    head = ("claim", "in the paper", "verdict here", "numbers, or what is missing", "runs")
    return Table(head, tuple(lines), strong=strong)


def _alike(studies: Sequence[str], known: Sequence[str]) -> list[str]:
    """Folders for a claim on several studies: only those trained as long as the first of them."""
    epochs = {
        name: {group.budget.epochs for one in studies for group in results_of(name).study(one)}
        for name in known
    }
    first = [epochs[name] for name in known if results_of(name).study(studies[0])]
    if len(studies) == 1 or not first:
        return list(known)
    return [name for name in known if epochs[name] & set.union(*first)]


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
    for group in results_of(*folders()).every_group:
        spent, budget = group.summary("training", "cpu seconds"), group.budget
        there = (group.specification.get("problem") or {}).get("name")
        if spent is not None and there == problem:
            points = budget.epochs * budget.samples * group.resolution**dim
            rates.setdefault(group.metadata.family, []).append(spent.mean / points)
    every = [rate for found in rates.values() for rate in found]
    return float(np.median(rates.get(family, every)))


def written(text: str) -> str:
    """A page with its tables as the rows have them."""

    def replace(found: re.Match[str]) -> str:
        made = verdicts() if found[2] == "claims" else table_of(found[2], found[3] or "")
        return f"{found[1]}{made.markdown()}{found[4]}"

    return MARKED.sub(replace, text)


def digest_of(folders: Sequence[str]) -> str:
    """The SHA-256 of rows and histories of all runs of some folders."""
    found = hashlib.sha256()
    for run in sorted(run for folder in folders for run in _runs(folder)):
        for name in (run_folder.METRICS, run_folder.HISTORY):
            found.update((run / name).read_bytes())
    return found.hexdigest()


def stale_figures() -> Mapping[str, Path]:
    """Figures that were drawn from other runs, or are not there, of those that have runs."""
    places = {name: ROOT / "docs" / "images" / f"{name}.png" for name in FIGURES}
    return {
        name: path
        for name, path in places.items()
        if any(any(_runs(folder)) for folder in FIGURES[name][1])
        and not (path.is_file() and _drawn_from(path) == digest_of(FIGURES[name][1]))
    }


def _drawn_from(path: Path) -> str | None:
    with Image.open(path) as picture:
        return getattr(picture, "text", {}).get(DIGEST)


def draw(name: str, path: Path) -> None:
    """Draw one figure with the digest of its runs."""
    entry, sources = FIGURES[name]
    made = entry(results_of(*sources))
    if made is None:
        raise SystemExit(f"the runs of {', '.join(sources)} have not what figure {name} needs")
    drawn, told = io.BytesIO(), PngInfo()
    with figure_style():
        made.savefig(drawn, format="png")
    told.add_text(DIGEST, digest_of(sources))
    # 256 colours are enough for curves, in half of the bytes
    Image.open(drawn).convert("RGB").quantize(256).save(path, pnginfo=told, optimize=True)


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
    told = "not in step with results/: run `make results`" if check else "written from results/"
    known = "all tables and figures are in step with results/"
    print(f"{', '.join(changed)} {told}" if changed else known)
    sys.exit(bool(check and changed))


if __name__ == "__main__":
    main()
