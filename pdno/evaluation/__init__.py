"""Evaluation: what a prediction is worth.

evaluate         predictors and their errors, also at other resolutions and times than trained at
speed            seconds against the solver; time and memory of anything
symbol_recovery  a learned symbol against that of the heat equation
rows             results as a plain table
"""
