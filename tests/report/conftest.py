"""Fixtures of the report: run folders whose numbers are known."""

import pytest
from fabricated_runs import write_paper, write_resources, write_run


@pytest.fixture
def make_run():
    return write_run


@pytest.fixture
def make_resources():
    return write_resources


@pytest.fixture(scope="session")
def paper_runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    write_paper(out)
    return out
