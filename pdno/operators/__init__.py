"""The operators K of a network: fields (B, I, *N) -> (B, O, *N).

pseudo_differential    K_a of a symbol, its values cached, and the Fourier integral operator of FNO
kernel                 what is summed where, and by which backend
compiled               compiled kernels and GPU kernels as operators of torch
reference              plain torch
native                 compiled kernels for a CPU, and their plan
triton                 kernels for a GPU
multiwavelet           the operator of MWT and its filters
"""
