"""What is solved, without a word on how.

`base` is the contract of evolution equations, a linear symbol and a nonlinear term; `heat`,
`burgers` and `navier_stokes` keep it. `darcy` is the elliptic one.
"""
