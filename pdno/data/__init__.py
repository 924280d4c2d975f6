"""Datasets: made, stored, opened, and read from files of others (docs/data_format.md)."""
