"""Networks that map functions to functions.

neural_operator     the skeleton: lift, blocks of W + K, project; counts of parameters
pdno, fno           the skeleton with symbol networks, or with tables
mwt                 the multiwavelet network of the comparison
rollout             a network fed with its own predictions
published_weights   published checkpoints as networks of ours
"""
