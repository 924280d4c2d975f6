"""`pdno bench`: the cost of networks and solvers, as ratios in one run."""
