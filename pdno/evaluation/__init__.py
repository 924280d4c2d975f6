"""Evaluation: the errors and the speed of a prediction."""
