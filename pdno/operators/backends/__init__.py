"""The operator on different machines: one module for each way to compute it.

reference   plain torch, for every device, precision and derivative
native      compiled loops for float32 on a CPU; `axes` plans their transforms
triton      GPU kernels for float32
"""
