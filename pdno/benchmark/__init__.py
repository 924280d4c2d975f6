"""`pdno bench`: what things cost, as ratios in one run.

contenders   problem sizes, the networks that are compared, the ratios that are aimed at
worker       one measurement of networks, in a process of its own
run          all measurements, the solvers' among them, their tables and the scaling plot
"""
