"""Records: frozen, checked as a whole, with suggestions for unknown names.

Their kinds are plain dictionaries by name, so that other packages can add theirs
(`pdno.runs.plugins`); reading a record looks names up there and never imports anything.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from pdno.interface.errors import LONGEST_NAME, printable, suggest, unknown_name

Options = dict[str, Any]
"""Values by name, as files have them and as constructors take them."""


class Record(BaseModel):
    """A frozen record that rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def __init__(self, **values: object) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise ValueError(error_message(error)) from error

    # a record in a record is validated as if this were pydantic's own, and keeps its location
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @classmethod
    def model_validate(cls, obj: object, **options: Any) -> Self:
        """A record of values by name; ValueError with what is wrong with each of them."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise ValueError(error_message(error)) from error

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown(cls, values: object) -> object:
        if isinstance(values, dict):
            refuse_unknown(cls.model_fields, values)
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
    texts = []
    for item in error.errors():
        location, value = ".".join(map(str, item["loc"])), item["input"]
        text = item["msg"].removeprefix("Value error, ")
        if isinstance(value, int | float | str) and item["type"] != "value_error":
            text += f", not {value!r:.{LONGEST_NAME}}"
        texts.append(f"{location}: {text}" if location else text)
    return printable("; ".join(texts))


def refuse_unknown(existing: Iterable[str], values: Mapping[str, object]) -> None:
    """ValueError that suggests the nearest existing key for each unknown one."""
    names, wrong = list(existing), list[str]()
    for key in values:
        if isinstance(key, str) and key not in names:
            short = key if len(key) <= LONGEST_NAME else f"{key[:LONGEST_NAME]}..."
            wrong.append(f"{short}: unknown key; {suggest(key, names)}known: {', '.join(names)}")
    if wrong:
        raise ValueError(printable("; ".join(wrong)))


def by_kind(what: str, kinds: Mapping[str, type[BaseModel]]) -> Callable[[object], object]:
    """The validator that makes {"kind": name, ...}, or a name alone, the record of that kind."""

    def choose(value: object) -> object:
        values = {"kind": value} if isinstance(value, str) else value
        if not isinstance(values, dict):
            return value
        kind = values.get("kind")
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(unknown_name(f"{what} kind", kind, kinds))
        return kinds[kind].__pydantic_validator__.validate_python(values)

    return choose
