"""The operators K of a network: fields (B, I, *N) -> (B, O, *N).

pseudo_differential    K_a of a symbol, and the Fourier integral operator of FNO
cache                  values of a symbol that are evaluated once and used many times
kernel                 what is summed where, and by which backend
compiled               compiled kernels and GPU kernels as operators of torch
reference              plain torch
native, axes           compiled kernels for a CPU, and how they transform an axis
triton                 kernels for a GPU
multiwavelet           the operator of MWT and its filters
"""
