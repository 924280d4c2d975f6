"""Datasets: generation, storage, and third-party files (docs/data_format.md)."""
