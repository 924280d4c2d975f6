"""Fixtures and where the reference data of other implementations lie, if they are there."""

from pathlib import Path

import pytest
import torch

SHARED = Path(__file__).resolve().parents[2] / "shared"


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
    folder = SHARED / "golden"
    if not folder.is_dir():
        pytest.skip("no golden vectors of the published implementations beside this checkout")
    return folder


@pytest.fixture(scope="session")
def published_weights() -> Path:
    path = SHARED / "reference" / "pdno_ns_v1e-5_published.bin"
    if not path.is_file():
        pytest.skip("the authors' published weights are not beside this checkout")
    return path
