"""`pdno bench`: what things cost, as ratios in one run."""
