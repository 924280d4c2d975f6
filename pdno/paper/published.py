"""The paper, arXiv:2201.11967v3 (TMLR 2024): its tables 1, 2, 3, 5 and 6, and its budgets.

All errors are relative L2. Curves are not here: the paper prints none of their values.
"""

__all__ = [
    "TABLE_1",
    "TABLE_2",
    "TABLE_3",
    "TABLE_5",
    "TABLE_6",
    "Budget",
    "Dataset",
    "Resources",
    "Settings",
    "describe_budgets",
    "published_dataset",
]

from collections.abc import Iterable
from typing import Literal, NamedTuple

from pdno.files.metric_table import NetworkMetrics

SOURCE = "arXiv:2201.11967v3"
PDNO, PLAIN, ONE_SHOT = "PDNO a(x,ξ)", "PDNO a(ξ)", "PDNO a(x,ξ,t)"
RELU, PROVABLE = "PDNO a(x,ξ) relu", "PDNO provable"
"""Networks as `Metadata.network` calls them; the provable ones are ours."""
BASELINES = ("MWT Leg", "MWT Chb", "FNO", "FNO-3D")
"""Networks that the paper compares with; FNO is FNO-2D on Navier-Stokes."""

TABLE_1: dict[int, dict[str, tuple[float, float]]] = {
    points: dict(zip((PDNO, PLAIN, "MWT Leg", "FNO"), errors, strict=True))
    for points, errors in {
        32: ((3.52e-3, 3.34e-3), (4.08e-3, 3.82e-3), (1.17e-3, 1.62e-2), (2.65e-3, 1.78e-2)),
        64: ((2.59e-3, 2.52e-3), (2.98e-3, 2.85e-3), (1.81e-3, 1.08e-2), (2.93e-3, 1.12e-2)),
        128: ((1.58e-3, 1.62e-3), (2.57e-3, 2.45e-3), (1.49e-3, 9.27e-3), (2.77e-3, 1.04e-2)),
        256: ((1.54e-3, 1.41e-3), (2.62e-3, 2.54e-3), (1.34e-3, 8.83e-3), (2.78e-3, 1.01e-2)),
        512: ((1.98e-3, 1.93e-3), (2.25e-3, 2.17e-3), (1.32e-3, 9.27e-3), (2.80e-3, 1.02e-2)),
    }.items()
}
"""Darcy: training and test error by points per axis and network."""


class Dataset(NamedTuple):
    """A dataset of Navier-Stokes."""

    viscosity: float
    final_time: int
    samples: int

    def __str__(self) -> str:
        mantissa, exponent = f"{self.viscosity:e}".split("e")
        viscosity = f"{float(mantissa):g}e{int(exponent)}"
        return f"ν = {viscosity}, T = {self.final_time}, N = {self.samples}"


TABLE_2: dict[Dataset, dict[str, float]] = {
    dataset: dict(zip((PDNO, ONE_SHOT, *BASELINES), errors, strict=True))
    for dataset, errors in {
        Dataset(1e-3, 50, 1000): (0.00903, 0.0299, 0.00625, 0.00720, 0.0128, 0.0086),
        Dataset(1e-4, 30, 1000): (0.1320, 0.2296, 0.1518, 0.1574, 0.1559, 0.1918),
        Dataset(1e-4, 30, 10000): (0.0679, 0.1605, 0.0667, 0.0720, 0.0973, 0.0820),
        Dataset(1e-5, 20, 1000): (0.1093, 0.1852, 0.1541, 0.1667, 0.1556, 0.1893),
    }.items()
}
"""Navier-Stokes: test error by dataset and network."""

TABLE_3: dict[int, dict[str, float]] = {
    points: dict(zip((PDNO, PLAIN, "MWT Leg", "MWT Chb", "FNO"), errors, strict=True))
    for points, errors in {
        256: (6.85e-4, 9.03e-4, 1.99e-3, 4.02e-3, 6.49e-4),
        512: (8.49e-4, 1.22e-3, 1.85e-3, 3.81e-3, 6.47e-4),
        1024: (1.10e-3, 1.25e-3, 1.84e-3, 3.36e-3, 6.40e-4),
        2048: (1.18e-3, 1.29e-3, 1.86e-3, 3.95e-3, 6.47e-4),
        4096: (1.78e-3, 1.91e-3, 1.85e-3, 2.99e-3, 6.53e-4),
    }.items()
}
"""Burgers: test error by points and network."""


class Settings(NamedTuple):
    """Training and network of PDNO; the last three are those of the symbol networks."""

    batch: int
    learning_rate: float
    weight_decay: float
    epochs: int
    step: int
    channels: int
    layers: int
    hidden: int
    activation: str


TABLE_5 = {
    "heat": Settings(20, 1e-2, 1e-6, 10000, 2000, 1, 2, 40, "gelu"),
    "darcy": Settings(20, 1e-2, 1e-6, 1000, 200, 20, 3, 32, "gelu"),
    "navier-stokes": Settings(20, 5e-3, 1e-6, 1000, 200, 20, 2, 32, "gelu"),
    "burgers": Settings(20, 5e-3, 0.0, 1000, 100, 64, 2, 64, "tanh"),
}
"""Settings of PDNO by problem."""


class Resources(NamedTuple):
    """MB, parameters (complex count once) and seconds per epoch."""

    memory: float
    parameters: float
    seconds: float


TABLE_6: dict[tuple[str, int, int], Resources] = {
    ("PDNO", 12, 20): Resources(9939, 1.90e5, 20.77),
    ("PDNO", 12, 30): Resources(17819, 3.91e5, 40.73),
    ("PDNO", 32, 20): Resources(10143, 1.90e5, 22.05),
    ("FNO", 12, 20): Resources(3625, 4.66e5, 4.58),
    ("FNO", 12, 30): Resources(3941, 1.05e6, 5.49),
    ("FNO", 32, 20): Resources(3957, 3.28e6, 4.80),
}
"""By network, k_max and channels."""

# Budgets

BASELINE_EPOCHS = 500  # of the published FNO and MWT scripts
ABLATIONS = {"darcy-modes": "darcy", "darcy-activation": "darcy"}
ABLATIONS |= {"navier-stokes-width": "navier-stokes"}
"""Which problem of table 5 a study is about, where that is not its name."""
SAMPLES = {"heat": 100, "darcy": 1000, "burgers": 1000}
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
        done = network.values("training", "epochs")
        problem = ABLATIONS.get(metadata.study, metadata.study)
        epochs = TABLE_5[problem].epochs if problem in TABLE_5 else None
        if epochs and metadata.network in BASELINES:
            epochs = BASELINE_EPOCHS
        paper_samples = SAMPLES.get(problem)
        if problem == "navier-stokes" and (
            dataset := published_dataset(metadata.viscosity, samples)
        ):
            # of 10,000 samples 200 are for the test, so 9,800 are all that can be trained on
            paper_samples = min(dataset.samples, 9800)
        seeds = len(network.seeds)
        return cls(int(min(done, default=planned)), samples, seeds, epochs, paper_samples)

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
