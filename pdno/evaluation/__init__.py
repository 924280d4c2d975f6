"""Evaluation: what a prediction is worth.

evaluate         predictors, predictions of a dataset, and their errors
resolution       other resolutions and times than those of the training
speed            seconds against the solver; time and memory of anything
symbol_recovery  a learned symbol against that of the heat equation
rows             results as a plain table
"""
