"""Fixtures, the order of tests, and where the data of other implementations lie, if anywhere."""

import random
import signal
from pathlib import Path

import pytest
import torch

SHARED = Path(__file__).resolve().parents[2] / "shared"
OWN_GOLDEN = Path(__file__).parent / "golden"

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # as in background jobs: tests of Control-C, and their processes, have what a terminal gives
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run tests in a random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    seed = config.getoption("shuffle")
    if seed is not None:
        random.Random(seed).shuffle(items)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(0)


@pytest.fixture
def forget():
    """What a test registers (see `pdno.register`) is forgotten after it."""
    import pdno.paper.reproduce  # noqa: F401  # whose recipes are not of the test
    from pdno.data.problems import PROBLEMS
    from pdno.networks.pdno import SYMBOLS
    from pdno.networks.specification import NETWORKS
    from pdno.runs.plugins import RECIPES
    from pdno.training.task import TASKS

    registries = (PROBLEMS, RECIPES, NETWORKS, TASKS, SYMBOLS)
    before = [dict(known) for known in registries]
    yield
    for known, names in zip(registries, before, strict=True):
        known.clear()
        known.update(names)


@pytest.fixture(scope="session")
def golden() -> Path:
    """Golden vectors of the published implementations, or in a clone the small set of our own."""
    folder = SHARED / "golden"
    return folder if folder.is_dir() else OWN_GOLDEN


@pytest.fixture(scope="session")
def published_weights() -> Path:
    path = SHARED / "reference" / "pdno_ns_v1e-5_published.bin"
    if not path.is_file():
        pytest.skip("the authors' published weights are not beside this checkout")
    return path
