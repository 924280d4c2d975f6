"""Datasets: made, stored, opened, and read from third-party files (docs/data_format.md)."""
