"""The paper, arXiv:2201.11967v3 (TMLR 2024): the numbers of its tables 1, 2, 3, 5 and 6.

All errors are relative L2. Curves are not here: the paper prints none of their values.
"""

__all__ = ["TABLE_1", "TABLE_2", "TABLE_3", "TABLE_5", "TABLE_6", "Dataset", "Resources"]

from collections import namedtuple
from typing import NamedTuple

SOURCE = "arXiv:2201.11967v3"
PDNO, PLAIN, ONE_SHOT = "PDNO a(x,ξ)", "PDNO a(ξ)", "PDNO a(x,ξ,t)"
RELU, PROVABLE = "PDNO a(x,ξ) relu", "PDNO provable"
"""Networks as `Facts.network` calls them; the provable ones are ours."""
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


class Dataset(NamedTuple):  # of Navier-Stokes
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


Settings = namedtuple(
    "Settings", "batch learning_rate weight_decay epochs step channels layers hidden activation"
)
TABLE_5 = {
    "heat": Settings(20, 1e-2, 1e-6, 10000, 2000, 1, 2, 40, "gelu"),
    "darcy": Settings(20, 1e-2, 1e-6, 1000, 200, 20, 3, 32, "gelu"),
    "navier-stokes": Settings(20, 5e-3, 1e-6, 1000, 200, 20, 2, 32, "gelu"),
    "burgers": Settings(20, 5e-3, 0.0, 1000, 100, 64, 2, 64, "tanh"),
}
"""Settings of PDNO by problem; layers, hidden and activation are those of the symbol networks."""


class Resources(NamedTuple):
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
"""MB, parameters (complex count once) and seconds per epoch by network, k_max and channels."""

BASELINE_EPOCHS = 500  # of the published FNO and MWT scripts
ABLATIONS = {"darcy-modes": "darcy", "darcy-activation": "darcy"}
ABLATIONS |= {"navier-stokes-width": "navier-stokes"}
"""Which problem of table 5 a study is about, where that is not its name."""


def published_epochs(study: str, network: str) -> int | None:
    """Epochs of the published protocol; None for experiments that the paper does not have."""
    settings = TABLE_5.get(ABLATIONS.get(study, study))
    return settings and (BASELINE_EPOCHS if network in BASELINES else settings.epochs)


def published_samples(study: str, viscosity: float | None, samples: int) -> int | None:
    """Training samples of the published protocol, for a run with so many.

    Of 10,000 samples 200 are for the test, so 9,800 are all that can be trained on.
    """
    problem = ABLATIONS.get(study, study)
    if problem == "navier-stokes":
        dataset = published_dataset(viscosity, samples)
        return None if dataset is None else min(dataset.samples, 9800)
    return {"heat": 100, "darcy": 1000, "burgers": 1000}.get(problem)


def published_dataset(viscosity: float | None, samples: int) -> Dataset | None:
    """The dataset of table 2 with this viscosity and the nearest number of samples."""
    known = [dataset for dataset in TABLE_2 if dataset.viscosity == viscosity]
    return min(known, key=lambda dataset: abs(dataset.samples - samples), default=None)
