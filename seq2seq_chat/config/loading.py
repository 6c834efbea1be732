"""Load configurations from JSON, apply overrides, and validate the result."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seq2seq_chat.config.decoding import Decoding
from seq2seq_chat.config.experiment import Config, unused_settings
from seq2seq_chat.config.legacy import moved_file, upgrade_flat_settings, upgrade_override, upgrade_settings
from seq2seq_chat.config.section import ConfigError, conditions, explain
from seq2seq_chat.system.errors import cut
from seq2seq_chat.system.files import BUNDLED

logger = logging.getLogger(__name__)

STREAM_SETTINGS = ("training.batch_size", "training.bptt_forward", "training.bptt_backward")  # they divide the text
FILE_SETTINGS = {
    "data": (
        *("train", "validation", "test", "vocabulary", "target_vocabulary"),
        *("tokenizer_file", "target_tokenizer_file"),
    ),
    "model": ("pretrained_embeddings",),
    "decoding": ("lexicon",),
}
"""Settings that name files, by section; the files may move, also to beside the configuration."""


def load_config(
    path: str | Path, overrides: Sequence[str] = (), *, warn: bool = True, option: str = "--set", is_run: bool = False
) -> Config:
    """Load a configuration file; see :func:`parse_config`.

    Unless it is the configuration of a run, a file that is not found from the working directory is looked for beside
    it, and ``configs/…/NAME.json`` among the experiments that come with the program.

    Raises:
        ConfigError: The file cannot be read or is not a valid configuration.
    """
    file = Path(moved_file(str(path)))
    if not is_run and file.parts[:1] == ("configs",) and not file.exists():
        bundled = BUNDLED.joinpath(*file.parts[1:])
        file = bundled if bundled.is_file() else file
    settings = _read_json(file)
    if not is_run and isinstance(settings, dict):
        settings = _find_beside(settings, file.parent)
    return parse_config(settings, str(path), overrides, warn=warn, option=option)


def _find_beside(settings: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Replace the paths of missing files that stand in a folder, or are below its parent as they are named."""
    found: list[str] = []
    is_bundled = BUNDLED in (folder, folder.parent)
    roots = (folder, folder.parent, *([BUNDLED.parent] if is_bundled else []))

    def find(value: Any) -> Any:
        if isinstance(value, dict):  # source and target
            return {key: find(path) for key, path in value.items()}
        if not isinstance(value, str) or os.path.exists(value):  # noqa: PTH110  Path.exists fails if it cannot tell
            return value
        files = [*(root / value for root in roots), folder / Path(value).name]
        beside = next(filter(os.path.isfile, files), None)
        if beside is None:
            return value
        found.append(beside.name)
        return str(beside)

    settings = dict(settings)
    for section, keys in FILE_SETTINGS.items():
        if isinstance(values := settings.get(section), dict):
            settings[section] = {key: find(value) if key in keys else value for key, value in values.items()}
    if found and not is_bundled:
        logger.warning("using %s from %s, beside the configuration", ", ".join(dict.fromkeys(found)), folder)
    return settings


def parse_config(
    settings: Any, where: str, overrides: Sequence[str] = (), *, warn: bool = True, option: str = "--set"
) -> Config:
    """Validate settings read from JSON.

    Args:
        settings: Keys of earlier versions are renamed.
        where: Origin of the settings, for error messages.
        overrides: ``section.key=value`` strings; values are JSON or plain text.
        warn: Whether to warn about renamed keys and unused values in the settings; in overrides they always cause a
            warning.
        option: The option that gave the overrides, for error messages.

    Raises:
        ConfigError: The settings are not a valid configuration.
    """
    if not isinstance(settings, dict):
        raise ConfigError(f"{where}: a configuration must be a JSON object, {{…}}, not a {_json_type(settings)}")
    original = {key: value for key, value in settings.items() if key != "$schema"}
    settings, warnings = upgrade_settings(original, where)
    if not warn:
        warnings = []
    for override in overrides:
        upgraded, override_warnings = upgrade_override(override)
        _apply_override(settings, upgraded)
        warnings += override_warnings
    settings, override_warnings = upgrade_settings(settings, "--set")  # keys within an overridden section
    warnings += override_warnings
    for warning in warnings:
        logger.warning("%s", warning)
    before = None
    if overrides:
        with suppress(ValidationError):
            before = Config.model_validate(upgrade_settings(original, where)[0])
    try:
        config = Config.model_validate(settings)
    except ValidationError as error:
        if before is not None:
            where = " ".join(f"{option} {cut(override)}" for override in _rejected(overrides, error))
        raise ConfigError(explain(error, where, Config)) from error
    known = unused_settings(before) if before else []
    for unused in unused_settings(config):
        causes = [f"{option} {cut(o)}" for o in overrides if unused not in known and o.partition("=")[0] in unused]
        if warn or causes:
            logger.warning("%s: %s", " ".join(causes) or where, unused)
    return config


def _rejected(overrides: Sequence[str], error: ValidationError) -> Sequence[str]:
    """The overrides that the errors of a validation are about; all of them if that is not clear."""
    paths = [".".join(map(str, details["loc"])) + "." for details in error.errors()]
    keys = [override.partition("=")[0] + "." for override in overrides]
    rejected = [
        override
        for override, key in zip(overrides, keys, strict=True)
        if any(path.startswith(key) or key.startswith(path) for path in paths)
    ]
    return rejected or overrides


def override_decoding(decoding: Decoding, /, **changes: Any) -> Decoding:
    """Change some decoding settings.

    If the method changes, options that apply only to the old method are reset to their defaults.

    Raises:
        ConfigError: A key is unknown, or the values are invalid together.
    """
    changes = upgrade_settings({"decoding": changes}, "decoding")[0]["decoding"]
    settings = _applicable(decoding, changes.get("method", decoding.method)) | changes
    try:
        return Decoding.model_validate(settings)
    except ValidationError as error:
        raise ConfigError(explain(error, "decoding", Decoding)) from error


def set_decoding(config: Config, overrides: Sequence[str]) -> Decoding:
    """The decoding settings of a run, changed by ``decoding.key=value`` strings of the option --set.

    If the method changes, options that apply only to the old method are reset to their defaults.

    Raises:
        ConfigError: An override is about another section, or the settings are not valid.
    """
    changes: dict[str, Any] = {}
    for override in overrides:
        _apply_override(changes, upgrade_override(override)[0])
        if list(changes) != ["decoding"]:
            raise ConfigError(f"--set {cut(override)}: only the search can be changed here, with decoding.KEY=VALUE")
    section = changes.get("decoding")
    method = section.get("method", config.decoding.method) if isinstance(section, dict) else config.decoding.method
    settings = {**config.model_dump(mode="json"), "decoding": _applicable(config.decoding, method)}
    return parse_config(settings, config.name, overrides, warn=False).decoding


def _applicable(decoding: Decoding, method: Any) -> dict[str, Any]:
    """The settings, without options that apply only to methods other than ``method``."""
    return {
        key: getattr(decoding, key)
        for key, field in type(decoding).model_fields.items()
        if all(c.allows(method) for c in conditions(field) if c.error and c.setting == "decoding.method")
    }


def flat_settings(config: Config) -> dict[str, Any]:
    """All settings by their paths: {"seed": 1, "model.cell": "lstm", …}."""
    flat: dict[str, Any] = {}
    for section, value in config.model_dump(mode="json").items():
        flat |= {f"{section}.{key}": v for key, v in value.items()} if isinstance(value, dict) else {section: value}
    return flat


def json_schema() -> str:
    """The JSON schema of a configuration, for completion and validation in editors."""
    schema = Config.model_json_schema()
    schema["properties"]["$schema"] = {"type": "string", "description": "path of this schema, for editors"}
    return json.dumps(schema, indent=2) + "\n"


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"), object_pairs_hook=_unique_keys)
    except IsADirectoryError as error:
        prepared = path / "experiment.json"
        example = f", such as {prepared}" if prepared.is_file() else ""
        raise ConfigError(f"{path} is a folder; name a configuration file{example}") from error
    except FileNotFoundError as error:
        raise ConfigError(f"{path}: no such configuration file") from error
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}: invalid JSON at line {error.lineno}, column {error.colno}: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (byte {error.start}); save the file as UTF-8") from None
    except _DuplicateKey as error:
        raise ConfigError(f"{path}: the key {error} is duplicated; remove one of them") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, or thousands of brackets
        raise ConfigError(f"{path}: a number is too long, or brackets are nested too deeply") from error
    except OSError as error:
        raise ConfigError(f"{path}: could not read the file: {error.strerror}") from error


class _DuplicateKey(Exception):
    """A key is duplicated in a JSON object; Python would silently use the last one."""


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in pairs:
        if key in settings:
            raise _DuplicateKey(key)
        settings[key] = value
    return settings


def _apply_override(settings: dict[str, Any], override: str) -> None:
    path, separator, text = override.partition("=")
    if not separator or not path:
        raise ConfigError(f"--set {override}: must be KEY=VALUE, for example training.batch_size=32")
    *sections, key = path.split(".")
    target = settings
    for section in sections:
        inner = target.get(section, {})
        if not isinstance(inner, dict):
            raise ConfigError(f"--set {override}: {section} is a setting, not a section")
        target[section] = dict(inner)  # a copy: the original stays as it is
        target = target[section]
    try:
        target[key] = json.loads(text)
    except json.JSONDecodeError:
        target[key] = text
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"--set {path}=…: the number is too long, or brackets are nested too deeply") from error


def _json_type(value: Any) -> str:
    names: dict[type, str] = {list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return "null" if value is None else names[type(value)]


def trained_settings(config: Config) -> dict[str, Any]:
    """The settings that a checkpoint keeps, by path: all but where the lexicon is, of which the run has a copy."""
    return {path: value for path, value in flat_settings(config).items() if path != "decoding.lexicon"}


def resume_settings(config: Config) -> dict[str, Any]:
    """The settings that must not change, by path: ``model.hidden_size``."""
    return {
        path: value
        for path, value in flat_settings(config).items()
        if path in ("seed", "task", "training.optimizer")  # another optimizer has other variables
        or (path in STREAM_SETTINGS and config.task == "language_model")
        or (path.startswith(("data.", "model.")) and path.partition(".")[2] not in FILE_SETTINGS["data"])
    }


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The settings that have changed: ``model.hidden_size (16 → 17), …``; "" if there are none.

    Settings that only one of the two has were added or removed by another version, and are ignored.
    """
    before = upgrade_flat_settings(before)
    return ", ".join(
        f"{path} ({json.dumps(before[path], ensure_ascii=False)} → {json.dumps(now[path], ensure_ascii=False)})"
        for path in now
        if path in before and before[path] != now[path]
    )
