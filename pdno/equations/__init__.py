"""Equations: evolution equations (`base`), and elliptic Darcy flow (`darcy`)."""
