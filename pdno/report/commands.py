"""The commands that fill gaps: what to run for a table or a figure that is missing."""

__all__ = ["SYMBOL_COMMAND", "command_of"]

SYMBOL_COMMAND = "pdno symbol RUN"
"""Looks into one run; it is no study."""


def command_of(study: str, *, preset: str = "small", resolution: int | None = None) -> str:
    """The command that runs a study.

    Example:
        >>> command_of("darcy", resolution=64)
        'pdno reproduce darcy --preset small --resolution 64'
    """
    if study == SYMBOL_COMMAND:
        return study
    points = "" if resolution is None else f" --resolution {resolution}"
    return f"pdno reproduce {study} --preset {preset}{points}"
