"""Grids and their Fourier transform: where physics and learning meet."""
