"""How equations are solved, in float64 and with a checked result.

`solve` is the one verb. `exponential` steps semilinear equations, `elliptic` solves Darcy flow by
conjugate gradients or elimination, and `published` has the schemes behind the published data.
"""
