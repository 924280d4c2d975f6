"""Damaged files end in a clear error or in the same data; every case that ever failed is kept."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from mutations import BINARY, MADE, TEXT, mutate  # noqa: E402


def fuzz(*options):
    command = [sys.executable, str(HERE / "fuzz.py"), *map(str, options)]
    found = subprocess.run(command, capture_output=True, text=True)
    return found.returncode, found.stdout + found.stderr[-2000:]


@pytest.mark.parametrize("text", [False, True])
def test_a_mutation_changes_something_and_can_be_repeated(text):
    data = b'{"a": 1.5, "words": [1, 2, 3]}\n' * 4
    for seed in range(200):
        changed, names = mutate(data, random.Random(seed), text=text)
        assert changed != data and names
        assert mutate(data, random.Random(seed), text=text) == (changed, names)


# in a fixed order: a set of functions is ordered by their addresses, which differ between workers
@pytest.mark.parametrize(
    "mutation", dict.fromkeys((*BINARY, *TEXT, *MADE)), ids=lambda one: one.__name__
)
def test_a_mutation_takes_the_shortest_of_files(mutation):
    for seed in range(20):
        assert isinstance(mutation(b"x", random.Random(seed)), bytes)


def test_cases_that_failed_once_hold():
    code, said = fuzz("--replay")
    assert code == 0 and "held" in said, said


@pytest.mark.slow
def test_a_thousand_damaged_files(tmp_path):
    code, said = fuzz("--cases", 1000, "--seed", 7, "--keep", tmp_path)
    assert code == 0, said
