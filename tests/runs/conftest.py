"""Fixtures of `small_experiments`."""

from small_experiments import darcy, datasets, flow, heat, in_process

__all__ = ["darcy", "datasets", "flow", "heat", "in_process"]
