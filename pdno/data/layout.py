"""How a data file is read: which arrays are inputs and outputs, and what their axes are.

One record for Python (`pdno.read_own`), for specifications (`file: {path: own.npz, inputs: a}`)
and for the command line (`--inputs a`), which answers quickly as torch is not imported here.
"""

__all__ = ["NAME_THEM", "DataFile", "Layout"]

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, field_validator, model_validator

from pdno.interface.records import Record

Names = tuple[str, ...]
NAME_THEM = "name its arrays: inputs and outputs, or --inputs NAME --outputs NAME as arguments"


class Layout(Record):
    """Which arrays of a file are inputs and outputs, and how they lie on a grid.

    Axes are letters: n samples, t time, c channels, and x, y, z space. So "nxyc" has its channels
    last, and "nxyt" is (samples, N1, N2, frames). By default arrays with two axes are "nx" and
    with three "nxy"; all others need their axes.
    """

    inputs: Names = ()
    """Name of the array of inputs; several become channels. In files of The Well: fields, of which
    the first frame is taken, and scalars."""
    outputs: Names = ()
    """Name of the array of outputs; several become channels."""
    input_axes: str | None = None
    """Letters of the axes of the inputs: n samples, c channels, x y z space."""
    output_axes: str | None = None
    """Letters of the axes of the outputs, with t for time; those of the inputs by default."""
    input_channels: Names = ()
    """Names of the channels of the inputs; those of the arrays by default."""
    output_channels: Names = ()
    """Names of the channels of the outputs."""
    periodic: bool | None = None
    """Whether the points lie on a torus, or else in a box; a torus, or what the file says."""
    offset: Annotated[float, Field(ge=0, lt=1)] | None = None
    """Position of the first point in its cell, as in pdno.Grid; 0.5 for cell centres."""
    times: tuple[float, ...] | None = None
    """Times of the frames of the outputs; what the file says, else 1, 2, ... by default."""

    @field_validator("inputs", "outputs", "input_channels", "output_channels", mode="before")
    @classmethod
    def _one_name(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    def keyword_arguments(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return self.model_dump(include=set(Layout.model_fields), exclude_defaults=True)


class DataFile(Layout):
    """A data file or folder, and how it is read."""

    path: Path

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, values: object) -> object:
        return {"path": values} if isinstance(values, (str, Path)) else values

    def spelled(self) -> str | dict[str, Any]:
        """As in a specification: the path alone where there are no options."""
        values = self.model_dump(mode="json", exclude_defaults=True)
        return values if len(values) > 1 else str(self.path)
