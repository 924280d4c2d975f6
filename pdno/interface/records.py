"""Records: frozen, checked as a whole, with suggestions for unknown names.

Their kinds are plain dictionaries by name, so that other packages can add theirs
(`pdno.runs.plugins`); reading a record looks names up there and never imports anything.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from pdno.interface.errors import LONGEST_NAME, suggest, unknown_name


class Record(BaseModel):
    """A frozen record without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, values: object) -> object:
        if isinstance(values, dict):
            refuse_unknown(cls.__name__, cls.model_fields, values)
        return values

    def with_changes(self, **changes: object) -> Self:
        """The same with other values, checked as a whole."""
        values = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self).model_validate({**values, **changes})


def error_message(error: BaseException) -> str:
    """The message of an error; of a ValidationError what is wrong with each value, in one line."""
    if isinstance(error, FileNotFoundError) and error.filename:
        return f"there is no {error.filename}: check the path"
    if isinstance(error, OSError) and error.filename and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}"
    if not isinstance(error, ValidationError):
        return str(error)
    items = [
        (".".join(map(str, item["loc"])), item["msg"].removeprefix("Value error, "))
        for item in error.errors()
    ]
    return "; ".join(f"{location}: {text}" if location else text for location, text in items)


def refuse_unknown(title: str, existing: Iterable[str], values: Mapping[str, object]) -> None:
    """ValidationError that suggests the nearest existing key for each unknown one."""
    names, wrong = list(existing), list[InitErrorDetails]()
    for key, value in values.items():
        if isinstance(key, str) and key not in names:
            text = {"near": suggest(key, names), "known": ", ".join(names)}
            problem = PydanticCustomError("unknown_key", "unknown key; {near}known: {known}", text)
            short = key if len(key) <= LONGEST_NAME else f"{key[:LONGEST_NAME]}..."
            wrong.append(InitErrorDetails(type=problem, loc=(short,), input=value))
    if wrong:
        raise ValidationError.from_exception_data(title, wrong)


def by_kind(what: str, kinds: Mapping[str, type[BaseModel]]) -> Callable[[object], object]:
    """The validator that makes {"kind": name, ...}, or a name alone, the record of that kind."""

    def choose(value: object) -> object:
        values = {"kind": value} if isinstance(value, str) else value
        if not isinstance(values, dict):
            return value
        kind = values.get("kind")
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(unknown_name(f"{what} kind", kind, kinds))
        return kinds[kind].model_validate(values)

    return choose
