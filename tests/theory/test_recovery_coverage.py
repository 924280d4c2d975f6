"""Error bars of the recovered diffusivity: how often they hold, in five models of noise."""

import math

import pytest
import torch

from pdno.theory.extraction import recover_diffusivity

TIMES = torch.linspace(0.05, 0.95, 10, dtype=torch.float64)[:, None]
ONE = {name: torch.tensor([[t]], dtype=torch.float64) for name, t in
       (("early", 0.005), ("middle", 0.1), ("late", 0.5))}  # fmt: skip


def independent(shape, draw):
    return torch.randn(shape, generator=draw, dtype=torch.float64)


def common_to_all_times(shape, draw):
    """A mode is learned a little wrong, in the same way at all times."""
    return independent((1, shape[1]), draw).expand(shape)


@pytest.mark.parametrize(("size", "complex_noise"), [(1e-4, False), (1e-2, True)])
@pytest.mark.parametrize(
    ("times", "noise"),
    [
        (TIMES, independent),
        (ONE["early"], independent),
        (ONE["middle"], independent),
        (ONE["late"], independent),
        (TIMES, common_to_all_times),
    ],
    ids=["independent", "early", "middle", "late", "common"],
)
def test_error_bars_hold_two_times_out_of_three(times, noise, complex_noise, size):
    draw, xi = torch.Generator().manual_seed(0), torch.arange(33)[:, None]
    exact = torch.exp(-4 * math.pi**2 * 0.05 * xi[:, 0] ** 2 * times)
    inside, trials = 0, 300
    for _ in range(trials):
        wrong = noise(exact.shape, draw)
        if complex_noise:
            wrong = torch.complex(wrong, noise(exact.shape, draw))
        estimate = recover_diffusivity(exact + size * wrong, xi, times)
        inside += abs(estimate.value - 0.05) < estimate.error
    assert 0.60 <= inside / trials <= 0.76
