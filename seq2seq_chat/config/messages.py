"""What is wrong with a configuration, in a sentence a person can act on."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, where: str, model: type[BaseModel]) -> str:
    """One sentence for each fault, with the path of the key and what is allowed."""
    faults = [_explain_fault(fault, model) for fault in error.errors()]
    shown = "; ".join(faults[:5])
    return f"{where}: {shown}" + (f"; and {len(faults) - 5} more" if len(faults) > 5 else "")


def _explain_fault(fault: Any, model: type[BaseModel]) -> str:
    location = [str(part) for part in fault["loc"]]
    if fault["type"] != "extra_forbidden":  # pydantic's names for the members of a union are no keys
        location = [part for part in location if "[" not in part]
    path = ".".join(location)
    if fault["type"] == "extra_forbidden":
        return f"unknown key {path}{_suggestion(location, model)}"
    if fault["type"] == "missing":
        return f"{path} is missing"
    if fault["type"] == "value_error":
        return (f"{path}: " if path else "") + str(fault["ctx"]["error"])
    message = fault["msg"].replace("Input should be", "must be").replace("'", "")
    message = message.replace("must be a valid dictionary or instance of", "must be a JSON object with the settings of")
    if fault["type"] == "string_pattern_mismatch":
        message = "must be made of letters, digits, dots, dashes and underscores, and start with a letter or digit"
    given = json.dumps(fault["input"], default=str)
    return f"{path} {message} (it is {given if len(given) <= 60 else given[:57] + '...'})"


def _suggestion(location: list[str], model: type[BaseModel]) -> str:
    """Where the unknown key was probably meant to go: the nearest name anywhere in the configuration."""
    valid = list(_paths(model))
    path = ".".join(location)
    same_name = [candidate for candidate in valid if candidate.split(".")[-1] == location[-1]]
    near_name = difflib.get_close_matches(location[-1], [candidate.split(".")[-1] for candidate in valid], n=1)
    near_path = [
        candidate
        for candidate in difflib.get_close_matches(path, valid, n=1, cutoff=0.6)
        if difflib.SequenceMatcher(None, candidate.split(".")[-1], location[-1]).ratio() >= 0.5  # not the section alone
    ]
    if same_name:
        return f"; did you mean {same_name[0]}?"
    if near_path and (not near_name or near_path[0].split(".")[-1] == near_name[0]):
        return f"; did you mean {near_path[0]}?"
    if near_name:
        return f"; did you mean {next(c for c in valid if c.split('.')[-1] == near_name[0])}?"
    siblings = [c for c in valid if c.split(".")[:-1] == location[:-1]]
    return f"; known here: {', '.join(c.split('.')[-1] for c in siblings)}" if siblings else ""


def _paths(model: type[BaseModel], prefix: str = "") -> Iterable[str]:
    for name, field in model.model_fields.items():
        yield prefix + name
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _paths(field.annotation, f"{prefix}{name}.")
