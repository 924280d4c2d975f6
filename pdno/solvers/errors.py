"""The error of a solver that did not reach its tolerance.

A field that is not a solution is worse than no field: it looks like one. Solvers therefore check
what they computed and raise instead of returning it.
"""

__all__ = ["SolverError"]


class SolverError(RuntimeError):
    """A solver failed for the named sample; the message says what happened and the cure."""
