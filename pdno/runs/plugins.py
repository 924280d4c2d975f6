"""The registry: recipes by name, and problems, symbols, networks and tasks of other packages.

A plug-in is a module whose import calls `register`. In Python it is imported; the command line
imports those of `--plugin MODULE` and of installed packages which declare

    [project.entry-points."pdno.plugins"]
    anything = "the_module"

A specification file only names what is registered: reading one never imports anything.
"""

import importlib
import sys
import warnings
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import entry_points
from inspect import isclass, isfunction, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from pdno.data.problems import PROBLEMS, Problem

if TYPE_CHECKING:  # it imports torch, which the help of the command line does without
    from pdno.runs.specification import Experiment

GROUP = "pdno.plugins"
T = TypeVar("T", bound=Callable[..., object])


@dataclass(frozen=True)
class Study:
    """Several experiments that belong to one table or figure."""

    name: str  #: of the experiment, for example darcy
    preset: str
    experiments: tuple["Experiment", ...]
    measure: Literal["training", "resources", "discovery"] = "training"
    """Trained, one step measured, or equations found, which has no experiments."""

    def __post_init__(self) -> None:
        if not self.experiments and self.measure != "discovery":
            raise ValueError(f"the study {self.name} has no experiments: give at least one")


RECIPES: dict[str, Callable[..., Study]] = {}
"""Functions that return a study: `pdno list` has the first line of their docstrings."""


@overload
def register(thing: T, *, name: str | None = None) -> T: ...
@overload
def register(*, name: str) -> Callable[[T], T]: ...
def register(thing: Any = None, *, name: str | None = None) -> Any:
    """A decorator that makes something known to the command line and to specifications:

    - a `pdno.data.problems.Problem`, by its `name`: `pdno generate NAME`, `problem: {name: NAME}`;
    - a `pdno.symbols.Symbol`, by the `name` given here: `PDNO(symbol=NAME)`. It is called with the
      channels and those of scale, layers, hidden, ... that its `__init__` names;
    - a network, a torch module made with dim, in_channels, out_channels and options by name, by
      the `name` given here: `network: {kind: NAME}`;
    - a `pdno.training.task.Task`, by its `kind`: `task: {kind: KIND}`;
    - a function that returns a `pdno.recipes.Study`: `pdno reproduce NAME`, after its own name.
    """
    if thing is None:
        return partial(register, name=name)
    if isfunction(thing):
        _add(RECIPES, "experiment", name or thing.__name__.replace("_", "-"), thing)
    elif isclass(thing) and issubclass(thing, Problem):
        try:
            thing()  # type: ignore[call-arg]  # a subclass gives the defaults
        except ValueError as error:
            wrong = f"a problem is not made by its defaults alone ({error})"
            raise ValueError(f"{wrong}: give all of its fields defaults that work") from error
        _add(PROBLEMS, "problem", name or thing.name, thing)
    else:
        _register_learning(thing, name)
    return thing


def _register_learning(thing: Any, name: str | None) -> None:
    # these import torch, which the help of the command line does without
    from pdno.networks.pdno import SYMBOLS
    from pdno.networks.specification import NETWORKS, SIZES, record_class
    from pdno.symbols.base import Symbol
    from pdno.training.task import TASKS, Task

    bases = thing.__mro__ if isclass(thing) else ()
    arguments = tuple(signature(thing).parameters) if bases else ()
    if Task in bases:
        name = name or getattr(thing.model_fields.get("kind"), "default", None)
    elif Symbol not in bases and arguments[:3] != SIZES:
        network = f"network (a class made with {', '.join(SIZES)})"
        expected = f"expected a Problem, Symbol, Task or {network}, or a function for a recipe"
        raise ValueError(f"{thing!r} cannot be registered; {expected}")
    if name is None:
        raise ValueError(f"{thing.__name__} needs a name: register(..., name='wave') or so")
    if Task in bases:
        _add(TASKS, "task kind", name, thing)
    elif Symbol not in bases:
        record_class(name, thing)  # refuses options that no file can hold
        _add(NETWORKS, "network kind", name, thing)
    else:
        _add(SYMBOLS, "symbol", name, thing)


def _add(registry: MutableMapping[str, Any], what: str, name: str, thing: object) -> None:
    """A name means one thing; the same code may be registered again, as notebooks do."""

    def origin(entry: object) -> tuple[str, str]:
        return getattr(entry, "__module__", ""), getattr(entry, "__qualname__", "")

    if name in registry and origin(registry[name]) != origin(thing):
        raise ValueError(f"{what} {name!r} is taken: choose another name")
    registry[name] = thing


def load_plugins(modules: Iterable[str] = ()) -> None:
    """Import the plug-ins of installed packages, and these modules or .py files.

    An installed one that fails is reported and left out; one of `modules` must work.
    """
    for entry in entry_points(group=GROUP):
        try:
            entry.load()
        except Exception as problem:
            message = f"plug-in {entry.name!r} ({entry.value}) is left out: {problem!r}"
            warnings.warn(f"{message}; update or remove its package", UserWarning, stacklevel=2)
    for module in modules:
        folder, name = Path.cwd(), module
        if module.endswith(".py"):
            folder, name = Path(module).resolve().parent, Path(module).stem
            if not Path(module).is_file():
                raise ValueError(f"--plugin {module}: there is no such file")
        if str(folder) not in sys.path:
            # last, so that nothing there hides an installed module; worker processes get it, too
            sys.path.append(str(folder))
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as missing:
            wrong = f" needs {missing.name}: install it"
            if f"{name}.".startswith(f"{missing.name}."):
                wrong = f": no module {name!r} is installed or in {folder}"
            raise ValueError(f"--plugin {module}{wrong}") from missing
