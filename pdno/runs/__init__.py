"""Runs: an experiment is what is to be done, a run what was done; both are plain files."""
