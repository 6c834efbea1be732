"""From JSON, and from what a person changes of it, to an experiment that holds together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

from pydantic import ValidationError

from seq2seq_chat.config.explaining import explain
from seq2seq_chat.config.sections import OPTIONS_OF_METHOD, Config, ConfigError, Decoding


def load_config(path: Union[str, Path], overrides: Iterable[str] = ()) -> Config:
    """Read an experiment; ``overrides`` are ``section.key=value`` strings, the value JSON or plain text.

    Raises:
        ConfigError: the file cannot be read, is not JSON, or does not describe an experiment.
    """
    return parse_config(_read_json(Path(path)), where=str(path), overrides=overrides)


def parse_config(settings: Any, where: str, overrides: Iterable[str] = ()) -> Config:
    """Check settings that were read from JSON; ``where`` names their origin in messages."""
    if not isinstance(settings, dict):
        raise ConfigError(f"{where}: a configuration is a JSON object, {{…}}, not a {_json_type(settings)}")
    settings = {key: value for key, value in settings.items() if key != "$schema"}  # written for editors
    for override in overrides:
        _apply_override(settings, override)
    try:
        return Config.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, where, Config)) from error


def decoding_with(decoding: Decoding, **changes: Any) -> Decoding:
    """The same way of decoding with some settings changed; a changed value of None means "as it was".

    Where the method changes, options that only the old one reads go back to their defaults.

    Raises:
        ConfigError: a key does not exist or the values do not fit together.
    """
    return changed_decoding(decoding, {key: value for key, value in changes.items() if value is not None})


def changed_decoding(decoding: Decoding, changes: Mapping[str, Any]) -> Decoding:
    """The same way of decoding with some settings changed; None is a value like any other.

    Raises:
        ConfigError: a key does not exist or the values do not fit together.
    """
    settings = decoding.model_dump() | dict(changes)
    for method, names in OPTIONS_OF_METHOD.items():
        if settings["method"] != method:  # options of a method that was left mean nothing to the new one
            settings = {key: value for key, value in settings.items() if key not in names or key in changes}
    try:
        return Decoding.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, "decoding", Decoding)) from error


def flat_settings(config: Config) -> dict[str, Any]:
    """All settings by their paths: {"seed": 1, "model.cell": "lstm", …}."""
    flat: dict[str, Any] = {}
    for section, value in config.model_dump(mode="json").items():
        flat |= {f"{section}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {section: value}
    return flat


def json_schema() -> str:
    """The JSON schema of a configuration, for editors that complete and check while typing."""
    schema = Config.model_json_schema()
    schema["properties"]["$schema"] = {"type": "string", "description": "this schema, for editors"}
    return json.dumps(schema, indent=2) + "\n"


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_without_repetition)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such configuration file") from None
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: not valid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    except _RepeatedKey as repeated:
        raise ConfigError(f"{path}: the key {repeated} stands there twice; remove one of them") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or thousands of brackets
        raise ConfigError(f"{path}: has a number or a nesting of brackets that is far too long") from error
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None


class _RepeatedKey(Exception):
    """A JSON object with a key that stands there twice, of which Python would silently take the last."""


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in pairs:
        if key in settings:
            raise _RepeatedKey(key)
        settings[key] = value
    return settings


def _apply_override(settings: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    if not separator or not path:
        raise ConfigError(f"--set {override}: write KEY=VALUE, for example training.batch_size=32")
    *sections, key = path.split(".")
    target = settings
    for section in sections:
        inner = target.get(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: {section} is a value, not a section")
        target[section] = target = dict(inner)  # never change the caller's nested settings
    try:
        target[key] = json.loads(text)
    except json.JSONDecodeError:
        target[key] = text
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set {path}=…: this number or nesting of brackets is far too long") from error


def _json_type(value: Any) -> str:
    names: dict[type, str] = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return "null" if value is None else names[type(value)]
