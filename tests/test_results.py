"""The tables of README and manual say what the rows in results/ say."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import results  # noqa: E402  (a tool of the repository, not of the package)


@pytest.fixture(scope="module")
def groups():
    return results.Results(tuple(results.find_runs([ROOT / "results"]))).every_group


def test_the_tables_are_in_step():
    command = [sys.executable, ROOT / "tools" / "results.py", "--check"]
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_table_stands_in_a_page(groups):
    pages = "".join((ROOT / name).read_text(encoding="utf-8") for name in results.FILES)
    assert [name for name in results.TABLES if f"<!-- results: {name} -->" not in pages] == []


def test_a_number_that_was_changed_by_hand_is_found(groups):
    page = (ROOT / "docs/results.md").read_text(encoding="utf-8")
    changed = page.replace("2.20e-5", "1.20e-5")
    assert changed != page and results.written(changed, groups) == page


def test_each_run_tells_its_commit(groups):
    assert [group.folder for group in groups if not group.environment.get("commit")] == []


def test_a_table_that_is_not_known_is_refused(groups):
    with pytest.raises(SystemExit, match="no table 'mine'"):
        results.written("<!-- results: mine -->\n<!-- end of results -->", groups)
