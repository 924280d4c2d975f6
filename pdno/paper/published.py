"""The paper, arXiv:2201.11967v3 (TMLR 2024): its tables (`published.yaml`), and its budgets."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

import yaml

from pdno.files.metric_table import NetworkMetrics
from pdno.interface.records import Options

SOURCE = "arXiv:2201.11967v3"
PDNO, PLAIN, ONE_SHOT = "PDNO a(x,ξ)", "PDNO a(ξ)", "PDNO a(x,ξ,t)"
RELU, CLASSICAL = "PDNO a(x,ξ) relu", "PDNO classical"
"""Networks as `Metadata.network` calls them; the classical ones are ours."""
BASELINES = ("MWT Leg", "MWT Chb", "FNO", "FNO-3D")
"""Networks that the paper compares with; FNO is FNO-2D on Navier-Stokes."""


class Dataset(NamedTuple):
    """A dataset of Navier-Stokes."""

    viscosity: float
    final_time: int
    samples: int

    def __str__(self) -> str:
        mantissa, exponent = f"{self.viscosity:e}".split("e")
        viscosity = f"{float(mantissa):g}e{int(exponent)}"
        return f"ν = {viscosity}, T = {self.final_time}, N = {self.samples}"


class Resources(NamedTuple):
    """MB, parameters (complex count once) and seconds per epoch."""

    memory: float
    parameters: float
    seconds: float


Errors = dict[str, tuple[float | None, float]]
"""Training error, where the paper prints it, and test error by network."""
_TABLES = yaml.safe_load(Path(__file__).with_name("published.yaml").read_text(encoding="utf-8"))


def _errors(name: str, values: list[float] | list[list[float]]) -> Errors:
    pairs = [(None, x) if isinstance(x, float) else (x[0], x[1]) for x in values]
    return dict(zip(_TABLES[name]["networks"], pairs, strict=True))


TABLE_1 = {s: _errors("table 1", x) for s, x in _TABLES["table 1"]["errors"].items()}
TABLE_2 = {Dataset(*key): _errors("table 2", x) for *key, x in _TABLES["table 2"]["errors"]}
TABLE_3 = {s: _errors("table 3", x) for s, x in _TABLES["table 3"]["errors"].items()}
TABLE_5: dict[str, Options] = _TABLES["table 5"]
TABLE_6 = {(network, k, w): Resources(*line) for network, k, w, line in _TABLES["table 6"]}

HANDFUL = 10  # training samples below which nothing can be learned


def published_dataset(viscosity: float | None, samples: int) -> Dataset | None:
    """The dataset of table 2 with this viscosity and the nearest number of samples."""
    similar = [dataset for dataset in TABLE_2 if dataset.viscosity == viscosity]
    return min(similar, key=lambda dataset: abs(dataset.samples - samples), default=None)


class Budget(NamedTuple):
    """The training of one network beside that of the paper."""

    epochs: int
    samples: int
    seeds: int
    paper_epochs: int | None = None
    paper_samples: int | None = None

    @classmethod
    def of(cls, network: NetworkMetrics) -> "Budget":
        """What the runs had, and what the paper has; None for what is not in the paper."""
        metadata = network.metadata
        samples, planned = metadata.samples or 0, metadata.epochs or 0
        done = int(min(network.values("training", "epochs"), default=planned))
        problem = _TABLES["ablations"].get(metadata.study, metadata.study)
        epochs = TABLE_5.get(problem, {}).get("epochs")
        if epochs and metadata.network in BASELINES:
            epochs = _TABLES["baseline epochs"]
        paper_samples = _TABLES["samples"].get(problem)
        flow = published_dataset(metadata.viscosity, samples)
        if problem == "navier-stokes" and flow:
            paper_samples = min(flow.samples, 9800)  # 200 of 10,000 samples are for the test
        return cls(done, samples, len(network.seeds), epochs, paper_samples)

    @property
    def work(self) -> int:
        return self.epochs * self.samples

    @property
    def level(self) -> Literal["smoke", "small", "paper"]:
        """`smoke` is a handful of samples, and no test of anything; `small` is fewer epochs or
        samples than the paper, or what the paper does not have."""
        if self.samples < HANDFUL:
            return "smoke"
        enough = self.paper_epochs is not None and self.epochs >= self.paper_epochs
        return "paper" if enough and self.samples >= (self.paper_samples or 0) else "small"

    def __str__(self) -> str:
        epochs = count_of(self.epochs, "epoch", self.paper_epochs)
        samples = count_of(self.samples, "training sample", self.paper_samples)
        return f"{self.level} budget: {epochs}, {samples}, {count_of(self.seeds, 'seed')}"


def count_of(count: int, word: str, paper: int | None = None) -> str:
    """A number, the paper's number, and their word, which has an s unless that is 1."""
    ending = "" if (paper or count) == 1 else "s"
    return f"{count} of {paper} {word}{ending}" if paper else f"{count} {word}{ending}"


def describe_budgets(budgets: Iterable[tuple[str, Budget]]) -> str:
    """One sentence for some models; those with the same budget share it."""
    by_text: dict[str, dict[str, None]] = {}
    for model, budget in budgets:
        by_text.setdefault(str(budget), {})[model] = None
    if len(by_text) == 1:
        return next(iter(by_text))
    return "; ".join(f"{text} ({', '.join(models)})" for text, models in by_text.items())
