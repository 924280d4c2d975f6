"""Write the tables of README and docs from the runs in results/, or check that they are in step.

    python tools/results.py             write
    python tools/results.py --check     exit with 1 where a file would change

A table stands between the lines `<!-- results: NAME -->` and `<!-- end of results -->`; what is
between them is replaced. Numbers are means over seeds, with their deviation where there are some.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pdno.evaluation.rows import Summary
from pdno.report.runs import Group, Results, find_runs
from pdno.report.tables import MISSING, Table

ROOT = Path(__file__).resolve().parent.parent
FILES = (
    "README.md",
    "results/README.md",
    "docs/results.md",
    "docs/training.md",
    "docs/families.md",
)
MARKED = re.compile(r"(<!-- results: (\S+) -->\n).*?(<!-- end of results -->)", re.DOTALL)
Cell = Callable[[Group], str]


def measured(split: str, metric: str = "relative_l2", *, points: int | None = None) -> Cell:
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


BUDGET: dict[str, Cell] = {
    "seeds": lambda group: str(group.budget.seeds),
    "epochs": lambda group: str(group.budget.epochs),
    "CPU seconds": partial(_effort, "cpu seconds"),
    "commit": lambda group: str(group.environment.get("commit", MISSING)),
}
ERRORS: dict[str, Cell] = {
    "parameters": lambda group: f"{group.rows[0].parameters:,}",
    "train": measured("train"),
    "test": measured("test"),
}
FINER: dict[str, Cell] = {
    f"{points}, {split}": measured(split, points=points)
    for points in (64, 128)
    for split in ("zero-shot", "interpolated")
}
BEYOND = ("diffusivity 0.005 to 0.01", "diffusivity 0.1 to 0.2", "t 1 to 2")
HEAT_FAMILY: dict[str, Cell] = {
    "worst sample": measured("test", "worst relative_l2"),
    "symbol, where excited": measured("symbol", "symbol difference excited"),
    **{part: measured("outside", f"relative_l2 {part}") for part in BEYOND},
}
BY_VISCOSITY = (
    "1e-05 to 3.16e-05",
    "3.16e-05 to 0.0001",
    "0.0001 to 0.000316",
    "0.000316 to 0.001",
)
FLOW_FAMILY: dict[str, Cell] = {
    **{part: measured("by scalar", f"relative_l2 viscosity {part}") for part in BY_VISCOSITY},
    **{
        f"outside, {part}": measured("outside", f"relative_l2 viscosity {part}")
        for part in ("5e-06 to 1e-05", "0.001 to 0.002")
    },
}
TIMES: dict[str, Cell] = {
    f"t = {t}": measured("test", f"relative_l2 t={t}") for t in (11, 13, 15, 17, 19, 20)
}
HEAT: dict[str, Cell] = {
    **{f"t = {t}": measured("test", f"relative_l2 t={t}") for t in (0.1, 0.5, 1)},
    "symbol, where excited": measured("symbol", "symbol difference excited"),
    "diffusivity": measured("symbol", "diffusivity"),
    "its error bar": measured("symbol", "diffusivity standard error"),
}


@dataclass(frozen=True)
class Written:
    """The runs of a folder of results as a table; the least number of `strong` stands out."""

    folder: str
    columns: dict[str, Cell]
    strong: str = "test"

    def table(self, groups: Sequence[Group]) -> Table:
        """The lines in order of the number that stands out."""
        at = list(self.columns).index(self.strong) + 1
        of = {"test": "test", "validation": "validation"}[self.strong]

        def error(group: Group) -> float:
            found = group.summary(of)
            return float("inf") if found is None else found.mean

        ours = sorted((g for g in groups if self.folder in g.folder.parts), key=error)
        if not ours:
            raise SystemExit(f"no finished run in results/{self.folder}: the table has no line")
        lines = [(g.model, *(cell(g) for cell in self.columns.values())) for g in ours]
        return Table(("network", *self.columns), tuple(lines), strong=frozenset({(0, at)}))


PAYS: dict[str, Cell] = {"validation": measured("validation"), "test": measured("test")}
PAYS |= {"steps": partial(_effort, "steps"), **BUDGET}
del PAYS["epochs"]
TABLES = {
    "heat": Written("heat-small", {**ERRORS, **HEAT, **BUDGET}),
    "darcy": Written("darcy-training", {**ERRORS, "test / train": _gap, **FINER, **BUDGET}),
    "darcy-short": Written("darcy-training", {**ERRORS, "64, zero-shot": FINER["64, zero-shot"]}),
    "darcy-paper": Written("darcy-paper", {**ERRORS, "test / train": _gap, **BUDGET}),
    "navier-stokes": Written("navier-stokes-small", {**ERRORS, **TIMES, **BUDGET}),
    "navier-stokes-transport": Written("navier-stokes-transport", {**ERRORS, **TIMES, **BUDGET}),
    "heat-family": Written("heat-family", {**ERRORS, **HEAT_FAMILY, **BUDGET}),
    "navier-stokes-family": Written("navier-stokes-family", {**ERRORS, **FLOW_FAMILY, **BUDGET}),
    "darcy-pays": Written("darcy-training", PAYS, "validation"),
    "navier-stokes-pays": Written("navier-stokes-training", PAYS, "validation"),
    "burgers-pays": Written("burgers-training", PAYS, "validation"),
}


def written(text: str, groups: Sequence[Group]) -> str:
    """A page with its tables as the rows have them."""

    def replace(found: re.Match[str]) -> str:
        if found[2] not in TABLES:
            raise SystemExit(f"no table {found[2]!r}: expected one of {', '.join(TABLES)}")
        return f"{found[1]}{TABLES[found[2]].table(groups).markdown()}{found[3]}"

    return MARKED.sub(replace, text)


def main() -> None:
    """Write, or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 instead")
    check = parser.parse_args().check
    groups = Results(tuple(find_runs([ROOT / "results"]))).every_group
    changed = []
    for name in FILES:
        path = ROOT / name
        before = path.read_text(encoding="utf-8")
        after = written(before, groups)
        if after != before:
            changed.append(name)
            if not check:
                path.write_text(after, encoding="utf-8")
    told = "not in step with results/: run `make results`" if check else "written from results/"
    print(f"{', '.join(changed)} {told}" if changed else "all tables are in step with results/")
    sys.exit(bool(check and changed))


if __name__ == "__main__":
    main()
