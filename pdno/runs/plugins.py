"""Plug-ins: problems, symbols, networks, tasks and recipes of other packages, by name.

A plug-in is a module whose import calls `register`. Python users import it, the command line does
for `--plugin MODULE`, or without a word where the package of the plug-in declares

    [project.entry-points."pdno.plugins"]
    anything = "the_module"

A specification file only names what is registered: reading one never imports anything.
"""

__all__ = ["load_plugins", "register"]

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterable, MutableMapping
from functools import partial
from importlib.metadata import entry_points
from inspect import Parameter, isclass, isfunction, signature
from pathlib import Path
from typing import Any, TypeVar, overload

from pydantic import ValidationError

from pdno.data.problems import PROBLEMS, Problem
from pdno.paper import EXPERIMENTS, RECIPES

GROUP = "pdno.plugins"
Thing = TypeVar("Thing", bound=Callable[..., Any])


@overload
def register(thing: Thing, *, name: str | None = None) -> Thing: ...
@overload
def register(*, name: str) -> Callable[[Thing], Thing]: ...
def register(thing: Any = None, *, name: str | None = None) -> Any:
    """Make something of another package known to the command line and to specifications.

    Used as a decorator, or called. What it is decides where it goes:

    - a `pdno.data.problems.Problem`, by its `name`: `pdno generate NAME`, `problem: {name: NAME}`;
    - a `pdno.symbols.Symbol`, by the `name` given here: `PDNO(symbol=NAME)`. It is called with the
      channels and those of scale, layers, hidden, ... that its `__init__` names;
    - a record of a network, a subclass of `pdno.runs.networks.NetworkRecord`, and
    - a `pdno.training.task.Task`, by their `kind`: `network: {kind: KIND}`, `task: {kind: KIND}`;
    - a function that returns a `pdno.recipes.Study`: `pdno reproduce NAME`, after its own name.
    """
    if thing is None:
        return partial(register, name=name)
    if isclass(thing) and issubclass(thing, Problem):
        _add(PROBLEMS, "problem", name or thing.name, _with_defaults(thing))
    elif isfunction(thing):
        chosen = name or thing.__name__.replace("_", "-")
        _add({**EXPERIMENTS, **RECIPES}, "experiment", chosen, thing)
        RECIPES[chosen] = thing
    else:
        _register_learning(thing, name)
    return thing


def _register_learning(thing: Any, name: str | None) -> None:
    # these import torch, which the help of the command line does without
    from pdno.runs.networks import NETWORKS, NetworkRecord
    from pdno.symbols.base import Symbol
    from pdno.training.task import TASKS, Task

    for base, kinds in ((NetworkRecord, NETWORKS), (Task, TASKS)):
        if isclass(thing) and issubclass(thing, base):
            kind = name or _default_kind(thing)
            _add(kinds, f"{base.__name__} kind", kind, thing)
            return
    if not (isclass(thing) and issubclass(thing, Symbol)):
        expected = "a Problem, Symbol, NetworkRecord or Task (classes), or a function for a recipe"
        raise ValueError(f"{thing!r} cannot be registered; expected {expected}")
    if name is None:
        raise ValueError(f"symbol {thing.__name__} needs a name: register(..., name='wave') or so")
    _register_symbol(thing, name)


def _default_kind(record: Any) -> str:
    kind = record.model_fields.get("kind")
    if kind is None or not isinstance(kind.default, str):
        raise ValueError(
            f"{record.__name__} has no kind: give it one, as in kind: Literal['mine'] = 'mine'"
        )
    return kind.default


def _with_defaults(problem: type[Problem]) -> type[Problem]:
    try:
        problem()  # type: ignore[call-arg]  # a subclass gives the defaults
    except ValidationError as error:
        lacking = ", ".join(str(item["loc"][0]) for item in error.errors() if item["loc"])
        raise ValueError(
            f"{problem.__name__} is not made by its defaults alone ({lacking or error}): give all "
            "of its numbers defaults that work"
        ) from error
    return problem


def _register_symbol(symbol: Any, name: str) -> None:
    from pdno.networks import pdno as networks

    takes = signature(symbol).parameters
    all_of_them = any(one.kind is Parameter.VAR_KEYWORD for one in takes.values())

    def make(in_channels: int, out_channels: int, **options: Any) -> Any:
        given = {key: value for key, value in options.items() if all_of_them or key in takes}
        return symbol(in_channels, out_channels, **given)

    own = set(networks.PDNOOptions.__dataclass_fields__) & set(takes)
    make.__wrapped__ = symbol  # type: ignore[attr-defined]  # by which the same one is known again
    _add(networks.SYMBOLS, "symbol", name, (make, tuple(sorted(own))))


def _add(known: MutableMapping[Any, Any], what: str, name: str, thing: Any) -> None:
    """A name means one thing; the same code may be registered again, as notebooks do."""

    def home(one: Any) -> tuple[str, str]:
        one = one[0] if isinstance(one, tuple) else one
        one = getattr(one, "__wrapped__", one)
        return getattr(one, "__module__", ""), getattr(one, "__qualname__", "")

    if name in known and home(known[name]) != home(thing):
        raise ValueError(f"{what} {name!r} is taken: choose another name")
    known[name] = thing


def load_plugins(modules: Iterable[str] = ()) -> None:
    """Import the plug-ins of installed packages, and these modules or .py files.

    One that is installed and does not work is told and left out; one that is asked for must work.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as problem:
            told = f"plug-in {entry.name!r} ({entry.value}) is left out: {problem!r}"
            warnings.warn(f"{told}; update or remove its package", UserWarning, stacklevel=2)
    for module in modules:
        _import(module)


def _import(module: str) -> None:
    folder, name = os.getcwd(), module
    if module.endswith(".py"):
        path = Path(module).resolve()
        if not path.is_file():
            raise ValueError(f"--plugin {module}: there is no such file")
        folder, name = str(path.parent), path.stem
    if folder not in sys.path:
        # last, so that nothing there hides an installed module; worker processes get it, too
        sys.path.append(folder)
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
            raise ValueError(f"--plugin {module} needs {missing.name}: install it") from missing
        raise ValueError(
            f"--plugin {module}: no module {missing.name!r} is installed or in {folder}; give the "
            "name of a module as in `import NAME`, or a .py file"
        ) from missing
