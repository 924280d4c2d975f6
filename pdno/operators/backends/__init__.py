"""The pairwise operator on different machines: one module for each way to compute it."""
