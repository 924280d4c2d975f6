"""Objects that remember the arguments they were made with, so that a file can tell them.

    {"class": "PDNO", "arguments": {"dim": 1, "in_channels": 1, "out_channels": 1, "width": 8}}

is all that it takes to make a network again; its weights are another file. Arguments are numbers,
words, sequences of them, and other such objects, an operator's symbol for example. A file names a
class that is there already, it never imports one.
"""

__all__ = ["RecordsArguments", "describe", "rebuild"]

import inspect
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self


class RecordsArguments:
    """A base class, before `nn.Module`, for what can be made again from its description.

    A class that hands its **options to a dataclass names that, so that defaults are told, too: a
    file should not depend on those of a later version.
    """

    options_record: ClassVar[Any] = None
    made_with: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *given: Any, **options: Any) -> Self:
        made = super().__new__(cls)
        # past the __setattr__ of modules, which wants their __init__ first
        object.__setattr__(made, "made_with", (given, options))
        return made


def describe(made: object) -> dict[str, Any]:
    """How to make an object again, as plain JSON; ValueError where that cannot be told."""
    if not isinstance(made, RecordsArguments):
        raise ValueError(f"a {type(made).__name__} does not keep the arguments it was made with")
    given, options = made.made_with
    signature = inspect.signature(type(made).__init__)
    bound = signature.bind(made, *given, **options)
    bound.apply_defaults()
    told: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[1:]:
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL and value:
            raise ValueError(f"a {type(made).__name__} takes arguments without names (*{name})")
        if kind is inspect.Parameter.VAR_KEYWORD:
            record = type(made).options_record
            told |= value if record is None else vars(record(**value))
        elif kind is not inspect.Parameter.VAR_POSITIONAL:
            told[name] = value
    plain = {name: _plain(value, f"{name} of {_name(type(made))}") for name, value in told.items()}
    return {"class": _name(type(made)), "arguments": plain}


def rebuild(description: Mapping[str, Any]) -> Any:
    """Make an object from its description; its class has to be imported already."""
    known = {_name(kind): kind for kind in _below(RecordsArguments)}
    name = description["class"]
    if name not in known:
        raise ValueError(f"there is no class {name}: import the module that defines it first")
    return known[name](**{key: _made(value) for key, value in description["arguments"].items()})


def _plain(value: Any, where: str) -> Any:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, RecordsArguments):
        return describe(value)
    if isinstance(value, Sequence):
        return [_plain(one, where) for one in value]
    raise ValueError(f"{where} is a {type(value).__name__}, which a file cannot tell")


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_made(one) for one in value)
    return rebuild(value) if isinstance(value, dict) else value


def _name(kind: type) -> str:
    """Our classes by their name alone, so that they may move; others with their module."""
    ours = kind.__module__.startswith("pdno.")
    return kind.__qualname__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
