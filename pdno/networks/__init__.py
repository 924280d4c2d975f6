"""Networks that map functions to functions.

neural_operator     the skeleton: lift, blocks of W + K, project; rollouts, counts of parameters
pdno                PDNO and FNO: the skeleton with symbol networks, or with tables; SemigroupStep
heads               what becomes of the outputs of a network: the transport head
mwt                 the multiwavelet network of the comparison
specification       networks by kind and options, as files name them
published_weights   published checkpoints as networks of ours
"""
