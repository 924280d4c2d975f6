"""Model families: which network of the paper a model of ours is.

Runs name their models freely ("PDNO rollout", "FNO width=20"). The family is what the paper's
tables call the network; colours, published numbers and claims go by it. A model may carry its
setting in its name as words `key=value`.
"""

__all__ = ["BASELINES", "FAMILIES", "PROVABLE", "family_of", "is_of_the_paper", "setting_of"]

import re

FAMILIES = (
    "PDNO a(x,ξ)",
    "PDNO a(ξ)",
    "PDNO a(x,ξ,t)",
    "PDNO ReLU",
    "MWT Leg",
    "MWT Chb",
    "FNO",
    "FNO-3D",
)
"""Networks of the paper; FNO is FNO-2D on Navier-Stokes."""
BASELINES = ("MWT Leg", "MWT Chb", "FNO", "FNO-3D")
"""Those of them that the paper compares with."""
PROVABLE = "PDNO provable"
"""Ours: PDNO with symbols that are provably in S^m."""
# the first that fits counts
_PATTERNS = (
    (r"PD(NO|IO) a\(x,ξ,t\)", "PDNO a(x,ξ,t)"),
    (r"PDNO a\(ξ\)", "PDNO a(ξ)"),
    (r"PDNO ReLU", "PDNO ReLU"),
    (r"PDNO provable", PROVABLE),
    (r"PDNO", "PDNO a(x,ξ)"),
    (r"MWT Chb", "MWT Chb"),
    (r"MWT", "MWT Leg"),
    (r"FNO-3D", "FNO-3D"),
    (r"FNO", "FNO"),
)


def family_of(model: str) -> str | None:
    """The network of the paper, or of ours, that a model is, by its name; None for others.

    Example:
        >>> family_of("PDNO rollout"), family_of("FNO-2D"), family_of("DeepONet")
        ('PDNO a(x,ξ)', 'FNO', None)
    """
    return next((family for start, family in _PATTERNS if re.match(start, model)), None)


def is_of_the_paper(model: str) -> bool:
    """Whether the paper trains such a network this way; Markov training is ours."""
    return family_of(model) in FAMILIES and "Markov" not in model


def setting_of(model: str, key: str) -> str | None:
    """The value of a word `key=value` in the name of a model.

    Example:
        >>> setting_of("FNO k_max=12 width=20", "width")
        '20'
    """
    found = re.search(rf"\b{re.escape(key)}=(\S+)", model)
    return found[1] if found else None
