"""Error messages for invalid configurations."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError

MAX_ERRORS = 5


def explain(error: ValidationError, where: str, model: type[BaseModel]) -> str:
    """Format the errors of a validation: the path of each key and what is allowed."""
    errors = [_explain_one(details, model) for details in error.errors()]
    more = f"; and {len(errors) - MAX_ERRORS} more" if len(errors) > MAX_ERRORS else ""
    return f"{where}: {'; '.join(errors[:MAX_ERRORS])}{more}"


def cut(text: str) -> str:
    """The text, or its start if it is long."""
    return text if len(text) <= 60 else text[:57] + "..."


def _explain_one(error: Any, model: type[BaseModel]) -> str:
    location = [str(part) for part in error["loc"] if part not in ("[file]", "[files]")]
    if error["type"] != "extra_forbidden":  # drop pydantic's names of the members of a union
        location = [part for part in location if "[" not in part]
    path = ".".join(location)
    if error["type"] == "extra_forbidden":
        return f"unknown key {path}{_suggestion(location, model)}"
    if error["type"] == "missing":
        return f"{path} is missing"
    if error["type"] == "value_error":
        return (f"{path}: " if path else "") + str(error["ctx"]["error"])
    message = error["msg"].replace("Input should be", "must be").replace("'", "")
    message = message.replace("must be a valid dictionary or instance of", "must be a JSON object with the settings of")
    if error["type"] == "string_pattern_mismatch":
        message = "must consist of letters, digits, dots, dashes and underscores, and start with a letter or digit"
    return f"{path} {message} (it is {cut(json.dumps(error['input'], default=str))})"


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
