"""Fixtures of `small_experiments` and `fabricated_runs`."""

from fabricated_runs import make_resources, make_run, paper_runs
from small_experiments import darcy, datasets, flow, heat, in_process

__all__ = ["darcy", "datasets", "flow", "heat", "in_process"]
__all__ += ["make_resources", "make_run", "paper_runs"]
