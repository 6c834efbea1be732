"""The base class of all sections, the types that several of them use, and when a setting applies."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    model_validator,
)
from pydantic.fields import FieldInfo

from seq2seq_chat.system.errors import UserError, cut

MAX_ERRORS = 5


def explain(error: ValidationError, where: str, model: type[BaseModel]) -> str:
    """Format the errors of a validation: the path of each key and what is allowed."""
    errors = [_explain_one(details, model) for details in error.errors()]
    more = f"; and {len(errors) - MAX_ERRORS} more" if len(errors) > MAX_ERRORS else ""
    return f"{where}: {'; '.join(errors[:MAX_ERRORS])}{more}"


def _explain_one(error: Any, model: type[BaseModel]) -> str:
    location = [str(part) for part in error["loc"] if part not in ("[file]", "[files]")]
    if error["type"] != "extra_forbidden":  # drop pydantic's names of the members of a union
        location = [part for part in location if "[" not in part]
    path = ".".join(location)
    if error["type"] == "extra_forbidden":
        return f"unknown key {cut(path)}{_suggestion(location, model)}"
    if error["type"] == "missing":
        return f"{path} is missing"
    if error["type"] == "value_error":
        return (f"{path}: " if path else "") + str(error["ctx"]["error"])
    message = error["msg"].replace("Input should be", "must be").replace("'", "")
    message = message.replace("must be a valid dictionary or instance of", "must be a JSON object with the settings of")
    if error["type"] == "string_pattern_mismatch":
        message = (
            "must consist of the letters a to z, digits, dots, dashes and underscores, and start with a letter or digit"
        )
    return f"{path} {message} (it is {cut(json.dumps(error['input'], default=str, ensure_ascii=False))})"


def _suggestion(location: list[str], model: type[BaseModel]) -> str:
    """Suggest the closest valid key, in any section."""
    valid = list(_paths(model))
    path = ".".join(location)
    same_name = [candidate for candidate in valid if candidate.split(".")[-1] == location[-1]]
    close_name = difflib.get_close_matches(location[-1], [candidate.split(".")[-1] for candidate in valid], n=1)
    close_path = [
        candidate
        for candidate in difflib.get_close_matches(path, valid, n=1, cutoff=0.6)
        if difflib.SequenceMatcher(None, candidate.split(".")[-1], location[-1]).ratio() >= 0.5  # not just the section
    ]
    if same_name:
        return f"; did you mean {same_name[0]}?"
    if close_path and (not close_name or close_path[0].split(".")[-1] == close_name[0]):
        return f"; did you mean {close_path[0]}?"
    if close_name:
        return f"; did you mean {next(c for c in valid if c.split('.')[-1] == close_name[0])}?"
    siblings = [c for c in valid if c.split(".")[:-1] == location[:-1]]
    return f"; valid keys are {', '.join(c.split('.')[-1] for c in siblings)}" if siblings else ""


def _paths(model: type[BaseModel], prefix: str = "") -> Iterable[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _paths(field.annotation, f"{prefix}{name}.")


class ConfigError(UserError):
    """An invalid configuration; the message names the key, the problem and the remedy."""


def _file_path(path: str) -> str:
    try:
        if path and b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise ValueError(f"must be the path of a file (it is {json.dumps(path)})")


PositiveInt = Annotated[int, Field(gt=0, le=10**9)]
FilePath = Annotated[str, AfterValidator(_file_path)]


class AppliesIf:
    """Metadata of a setting: it applies only with some values of another one.

    Elsewhere a value that is not the default is an error, or has no effect, which is worth a warning. The reference of
    the settings and the JSON schema show it, too, and so does the form of the page if the other setting is the method.

    Args:
        setting: Path of the other setting, or of a property.
        values: Its values with which this setting applies.
        unless: In place of ``values``, the values with which this setting does not apply.
        when: Whether it applies in a configuration, if that depends on more than one setting.
        error: What is said after the name of the setting; ``{}`` stands for the value of the other one, which is in
            the same section. "" for a warning.
        silent: Whether the setting may be given anyway, as what to use once the other setting has one of ``values``.
    """

    def __init__(
        self,
        setting: str,
        *values: Any,
        unless: Sequence[Any] = (),
        when: Callable[[Any], bool] | None = None,
        error: str = "",
        silent: bool = False,
    ) -> None:
        self.setting, self.values, self.unless, self.error, self.silent = setting, values, unless, error, silent
        self._when = when

    def allows(self, value: Any) -> bool:
        """Whether the setting applies with this value of the other one."""
        return value in self.values if self.values else value not in self.unless

    def is_met(self, config: Any) -> bool:
        """Whether the setting applies in a configuration."""
        return self._when(config) if self._when else self.allows(attrgetter(self.setting)(config))

    def describe(self) -> str:
        """The condition in words: ``method beam``, or ``model.attention is none`` for what does not meet it."""
        if self.values:
            key = self.setting.rpartition(".")[2]
            return key if self.values == (True,) else f"{key} {', '.join(self.values)}"
        values = [value if isinstance(value, str) else json.dumps(value) for value in self.unless]
        return f"{self.setting} is {' or '.join(values)}" if values else ""


OF_SAMPLES, OF_LANGUAGE_MODELS = AppliesIf("task", unless=["language_model"]), AppliesIf("task", "language_model")


class LanguageModelsRequire(NamedTuple):
    """Metadata of a setting: its only value in the configuration of a language model, and why."""

    value: Any
    reason: str = "has no source"

    def problem(self, path: str, value: Any) -> str:
        """What is wrong with another value."""
        given = f"{path} {json.dumps(value)}"
        return f"a language model {self.reason}, so {given} does not apply to it; remove the setting"


def conditions(field: FieldInfo) -> list[AppliesIf]:
    """The conditions under which a setting applies."""
    return [each for each in field.metadata if isinstance(each, AppliesIf)]


def describe(field: FieldInfo) -> str:
    """The description of a setting, with the conditions under which it applies."""
    shown = conditions(field)
    only = ", ".join(each.describe() for each in shown if each.values)
    never = " or ".join(each.describe() for each in shown if each.unless)
    description = " ".join((field.description or "").split())
    return f"{only and f'{only}: '}{description}{never and f'; no effect if {never}'}"


AnySection = TypeVar("AnySection", bound="Section")


class Section(BaseModel):
    """Base class of all sections: no unknown keys, no type conversions, immutable.

    The docstring below a setting is its description in the reference and the JSON schema, and on the page unless that
    has its own.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    def problems(self) -> Iterator[str]:
        """Sentences on settings that contradict each other."""
        yield from ()

    @model_validator(mode="after")
    def _has_no_problems(self: AnySection) -> AnySection:
        for problem in (*self._misapplied(), *self.problems()):
            raise ValueError(problem)
        return self

    def _misapplied(self) -> Iterator[str]:
        """A sentence for each setting that does not apply, where that is an error."""
        for name, field in type(self).model_fields.items():
            for condition in conditions(field) if getattr(self, name) != field.default else ():
                value = attrgetter(condition.setting.partition(".")[2])(self) if condition.error else None
                if condition.error and not condition.allows(value):
                    yield f"{name} {condition.error.format(value)}"

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        reference = handler(core_schema)
        for name, schema in handler.resolve_ref_schema(reference).get("properties", {}).items():
            if "description" in schema:  # and not in the schema of another section
                schema["description"] = describe(cls.model_fields[name])
        return reference
