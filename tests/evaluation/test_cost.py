"""Costs: the best of alternating repetitions, and memory that was really touched."""

import sys
import time

import pytest
import torch

from pdno.evaluation.cost import peak_growth, time_alternately


def test_contenders_take_turns_and_the_best_counts():
    calls = []
    pauses = {"slow": iter([0.0, 0.05, 0.03]), "fast": iter([0.0, 0.01, 0.02])}

    def make(name):
        def run():
            calls.append(name)
            time.sleep(next(pauses[name]))

        return run

    best = time_alternately({name: make(name) for name in ("slow", "fast")}, repeats=2)
    assert calls == ["slow", "fast"] * 3
    assert 0.03 <= best["slow"] < 0.05
    assert 0.01 <= best["fast"] < 0.02


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("megabytes", [64, 256])
def test_peak_memory_is_what_was_touched_even_if_it_is_free_again(megabytes):
    torch.ones(400 * 2**18).sum()  # an earlier, higher peak must not hide the next one
    growth = peak_growth(lambda: torch.ones(megabytes * 2**18).sum())
    assert growth == pytest.approx(megabytes * 2**20, rel=0.1)
