"""Evaluation: the errors and the speed of a prediction.

evaluate         errors of predictors, also at other resolutions and times than trained at
speed            seconds against the solver; time and memory of anything
symbol_recovery  a learned symbol against that of the heat equation
"""
