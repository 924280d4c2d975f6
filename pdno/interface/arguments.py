"""Objects that record their constructor arguments, so that a file can describe them.

    {"class": "PDNO", "arguments": {"dim": 1, "in_channels": 1, "out_channels": 1, "width": 8}}

describes a network; its weights are another file. Arguments are numbers, words, sequences of them,
and other such objects. A file names a class that is imported already, it never imports one.
"""

import inspect
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel


class RecordsArguments:
    """A base class, before `nn.Module`, of what can be made again from its description.

    A class that hands its **options to a dataclass names it as `options_record`, so that the
    description has all defaults and does not depend on those of a later version.
    """

    options_record: ClassVar[type | None] = None
    constructor_arguments: tuple[tuple[object, ...], dict[str, object]]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        own = [item for item in parameters if item.kind is not item.VAR_KEYWORD]
        if cls.options_record is not None and len(own) < len(parameters):
            parameters = [*own, *inspect.signature(cls.options_record).parameters.values()]
        cls.__signature__ = inspect.Signature(parameters)

    def __new__(cls, *arguments: object, **options: object) -> Self:
        made = super().__new__(cls)
        # past the __setattr__ of modules, which needs their __init__ first
        object.__setattr__(made, "constructor_arguments", (arguments, options))
        return made


def describe(made: object) -> dict[str, Any]:
    """How to make an object again, as plain JSON; ValueError where that is not possible."""
    if not isinstance(made, RecordsArguments):
        raise ValueError(f"a {type(made).__name__} does not keep the arguments it was made with")
    name, signature = _name(type(made)), inspect.signature(type(made))
    bound = signature.bind(*made.constructor_arguments[0], **made.constructor_arguments[1])
    bound.apply_defaults()
    names = [
        item.name
        for item in signature.parameters.values()
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
    ]
    if len(bound.args) > len(names):
        raise ValueError(f"a {name} takes arguments without names")
    values = dict(zip(names, bound.args, strict=True)) | bound.kwargs
    plain = {key: _plain(value, f"{key} of {name}") for key, value in values.items()}
    return {"class": name, "arguments": plain}


def rebuild(description: Mapping[str, Any]) -> Any:
    """Make an object from its description; its class has to be imported already."""
    classes = {_name(kind): kind for kind in _subclasses(RecordsArguments)}
    name = description["class"]
    if name not in classes:
        raise ValueError(f"there is no class {name}: import the module that defines it first")
    return classes[name](**{key: _made(value) for key, value in description["arguments"].items()})


def _plain(value: object, name: str) -> object:
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    if isinstance(value, RecordsArguments):
        return describe(value)
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping) and "class" not in value:
        return {str(key): _plain(item, name) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [_plain(item, name) for item in value]
    raise ValueError(f"{name} is a {type(value).__name__}, which a file cannot describe")


def _made(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_made, value))
    return rebuild(value) if isinstance(value, dict) and "class" in value else value


def _name(kind: type) -> str:
    """Our classes by their name alone, so that they may move; others with their module."""
    ours = kind.__module__.startswith("pdno.")
    return kind.__qualname__ if ours else f"{kind.__module__}.{kind.__qualname__}"


def _subclasses(kind: type[RecordsArguments]) -> Iterator[type[RecordsArguments]]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)
