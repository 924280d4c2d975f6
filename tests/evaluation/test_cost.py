"""Costs: the best of alternating repetitions, and memory that was really touched."""

import subprocess
import sys

import pytest

from pdno.evaluation import speed as speed_module
from pdno.evaluation.speed import time_alternately


def test_contenders_take_turns_and_the_best_counts(monkeypatch):
    calls, clock = [], [0.0]
    seconds = {"slow": iter([9.0, 5.0, 3.0]), "fast": iter([9.0, 1.0, 2.0])}
    monkeypatch.setattr(speed_module.time, "perf_counter", lambda: clock[0])

    def make(name):
        def run():
            calls.append(name)
            clock[0] += next(seconds[name])

        return run

    best = time_alternately({name: make(name) for name in ("slow", "fast")}, repeats=2)
    assert calls == ["slow", "fast"] * 3
    assert best == {"slow": 3.0, "fast": 1.0}


MEASURE = """
import sys, torch
from pdno.evaluation.speed import peak_growth
torch.ones(400 * 2**18).sum()  # an earlier, higher peak must not hide the next one
print(peak_growth(lambda: torch.ones(int(sys.argv[1]) * 2**18).sum()))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_peak_memory_is_what_was_touched_even_if_it_is_free_again():
    megabytes = 192
    # in a process of its own: here memory that earlier tests released could be used again
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, str(megabytes)], capture_output=True, text=True, check=True
    )
    assert int(ended.stdout) == pytest.approx(megabytes * 2**20, rel=0.1)
