"""Objects that record their constructor arguments, so that a file can describe them.

    {"class": "PDNO", "arguments": {"dim": 1, "in_channels": 1, "out_channels": 1, "width": 8}}

describes a network; its weights are another file. Arguments are numbers, words, sequences of them,
and other such objects. A file names a class that is imported already, it never imports one.
"""

import inspect
import numbers
from functools import partial
from typing import ClassVar, Self

from pydantic_core import to_jsonable_python

from pdno.interface.errors import LONGEST_NAME
from pdno.interface.records import Options, refuse_unknown

_classes: dict[str, type["RecordsArguments"]] = {}


class RecordsArguments:
    """A mixin, before `nn.Module`, for objects that can be rebuilt from a description.

    A class that hands its **options to a record, `class C(B, options=Record)`, lists them by name
    in its signature, and describes objects with all of their defaults.
    """

    constructor_arguments: tuple[tuple[object, ...], dict[str, object]]
    __signature__: ClassVar[inspect.Signature]

    def __init_subclass__(cls, options: type | None = None) -> None:
        super().__init_subclass__()
        # our classes by their name alone, so that they may move; others with their module
        ours = cls.__module__.startswith("pdno.")
        _classes[cls.__qualname__ if ours else f"{cls.__module__}.{cls.__qualname__}"] = cls
        if "__init__" in vars(cls):
            _, *parameters = inspect.signature(cls.__init__).parameters.values()
            if options is not None:
                parameters[-1:] = inspect.signature(options).parameters.values()
            cls.__signature__ = inspect.Signature(parameters)

    def __new__(cls, *arguments: object, **options: object) -> Self:
        own = getattr(cls, "__signature__", None)
        if own is not None and all(p.kind is not p.VAR_KEYWORD for p in own.parameters.values()):
            refuse_unknown(own.parameters, options)
        made = super().__new__(cls)
        # past the __setattr__ of modules, which needs their __init__ first
        object.__setattr__(made, "constructor_arguments", (arguments, options))
        return made


def describe(made: object) -> Options:
    """How to make an object again, as plain JSON; ValueError where that is not possible."""
    if not isinstance(made, RecordsArguments):
        raise ValueError(f"a {type(made).__name__} does not keep the arguments it was made with")
    name = next(name for name, kind in _classes.items() if kind is type(made))
    arguments, options = made.constructor_arguments
    bound = inspect.signature(type(made)).bind(*arguments, **options)
    bound.apply_defaults()
    if any(item.kind is item.VAR_POSITIONAL for item in bound.signature.parameters.values()):
        raise ValueError(f"a {name} takes arguments without names")
    values = dict(zip(bound.signature.parameters, bound.args, strict=False)) | bound.kwargs
    plain = {
        key: to_jsonable_python(value, fallback=partial(_plain, f"{key} of {name}"))
        for key, value in values.items()
    }
    return {"class": name, "arguments": plain}


def _plain(name: str, value: object) -> object:
    if isinstance(value, RecordsArguments):
        return describe(value)
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    raise ValueError(f"{name} is a {type(value).__name__}, which a file cannot describe")


def rebuild(description: Options) -> "RecordsArguments":
    """Make an object from its description; its class has to be imported already."""
    name = description["class"]
    if name not in _classes:
        raise ValueError(
            f"there is no class {name!s:.{LONGEST_NAME}}: import the module that defines it first"
        )
    return _classes[name](**{key: _made(value) for key, value in description["arguments"].items()})


def _made(value: object) -> object:
    if isinstance(value, list):
        return tuple(map(_made, value))
    return rebuild(value) if isinstance(value, dict) and "class" in value else value
