"""Objects that remember the arguments they were made with, so that a file can tell them.

    {"class": "PDNO", "arguments": {"dim": 1, "in_channels": 1, "out_channels": 1, "width": 8}}

is all that it takes to make a network again; its weights are another file. Arguments are numbers,
words, sequences of them, and other such objects, an operator's symbol for example. A file names a
class that is there already, it never imports one.
"""

import inspect
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel


class RecordsArguments:
    """A base class, before `nn.Module`, for what can be made again from its description.

    A class that hands its **options to a dataclass names that, so that defaults are told, too: a
    file should not depend on those of a later version.
    """

    options_record: ClassVar[Any] = None
    made_with: tuple[tuple[Any, ...], dict[str, Any]]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.__signature__ = _full_signature(cls)

    def __new__(cls, *given: Any, **options: Any) -> Self:
        made = super().__new__(cls)
        # past the __setattr__ of modules, which wants their __init__ first
        object.__setattr__(made, "made_with", (given, options))
        return made


def describe(made: object) -> dict[str, Any]:
    """How to make an object again, as plain JSON; ValueError where that cannot be told."""
    if not isinstance(made, RecordsArguments):
        raise ValueError(f"a {type(made).__name__} does not keep the arguments it was made with")
    arguments, options = made.made_with
    name, signature = _name(type(made)), inspect.signature(type(made))
    bound = signature.bind(*arguments, **options)
    bound.apply_defaults()
    values = dict(bound.arguments)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL and values.pop(parameter.name):
            raise ValueError(f"a {name} takes arguments without names (*{parameter.name})")
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            values |= values.pop(parameter.name)
    plain = {key: _plain(value, f"{key} of {name}") for key, value in values.items()}
    return {"class": name, "arguments": plain}


def _full_signature(kind: type[RecordsArguments]) -> inspect.Signature:
    """The parameters of a constructor, with those of its options record in place of **options."""
    _, *parameters = inspect.signature(kind.__init__).parameters.values()
    if kind.options_record is not None:
        own = [one for one in parameters if one.kind is not inspect.Parameter.VAR_KEYWORD]
        if len(own) < len(parameters):
            parameters = [*own, *inspect.signature(kind.options_record).parameters.values()]
    return inspect.Signature(parameters)


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
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping) and "class" not in value:
        return {str(key): _plain(one, where) for key, one in value.items()}
    if isinstance(value, Sequence):
        return [_plain(one, where) for one in value]
    raise ValueError(f"{where} is a {type(value).__name__}, which a file cannot tell")


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_made(one) for one in value)
    return rebuild(value) if isinstance(value, dict) and "class" in value else value


def _name(kind: type) -> str:
    """Our classes by their name alone, so that they may move; others with their module."""
    ours = kind.__module__.startswith("pdno.")
    return kind.__qualname__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def _below(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _below(one)
