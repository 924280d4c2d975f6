"""Grids and their Fourier transform, shared by physics and learning."""
