"""Random inputs: Gaussian fields, the distributions of the paper, and drawn PDE parameters."""
