"""Solvers in float64, with verified results."""
