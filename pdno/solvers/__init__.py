"""How equations are solved, in float64 and with a checked result.

`solve` solves all equations, `elliptic` Darcy flow by conjugate gradients or elimination, and
`published` has the schemes behind the published data.
"""
