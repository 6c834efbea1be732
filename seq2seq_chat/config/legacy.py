"""Upgrade settings of earlier versions: renamed keys, and bundled files that have moved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seq2seq_chat.config.section import ConfigError

RENAMED_KEYS = {
    "data.level": "data.tokenizer",
    "data.most_buckets": "data.max_buckets",
    "data.swap_samples": "data.swap_source_target",
    "training.batch_parts": "training.micro_batches",
    "training.own_words": "training.scheduled_sampling_probability",
    "training.own_words_steps": "training.scheduled_sampling_steps",
    "decoding.group_diversity": "decoding.diversity_penalty",
    "decoding.minimum_length": "decoding.min_length",
    "decoding.no_repeated_ngrams": "decoding.no_repeat_ngram_size",
    "decoding.rerank_words": "decoding.rerank_prefix_length",
}
"""Old path of a key → its new path, in the same section."""

RENAMED_VALUES = {"data.tokenizer": {"word": "english", "character": "english_character"}}
"""New path of a renamed key → its old values and their new names."""

MOVED_FILES = {
    "seq2seq_chat/corpus/sample/conversations.txt": "configs/sample/dialogues.txt",
    "seq2seq_chat/corpus/sample/validation.txt": "configs/sample/dialogues_validation.txt",
    "configs/dates.json": "configs/recipes/dates.json",
    "configs/shakespeare_words.json": "configs/recipes/words.json",
}
"""Old path of a bundled file → its new path."""


def upgrade_settings(settings: Mapping[str, Any], where: str) -> tuple[dict[str, Any], list[str]]:
    """Replace renamed keys and the paths of moved files.

    A path is replaced only if the file does not exist.

    Returns:
        A copy of the settings, and one warning per renamed key.

    Raises:
        ConfigError: A key is present under both names.
    """
    upgraded: dict[str, Any] = {
        name: dict(section) if isinstance(section, Mapping) else section for name, section in settings.items()
    }
    warnings: list[str] = []
    for old, new in RENAMED_KEYS.items():
        section_name, _, old_key = old.partition(".")
        section, new_key = upgraded.get(section_name), new.partition(".")[2]
        if not isinstance(section, dict) or old_key not in section:
            continue
        if new_key in section:
            raise ConfigError(f"{where}: {old} was renamed to {new}, and both are set; remove {old}")
        section[new_key] = _renamed_value(new, section.pop(old_key))
        warnings.append(_warning(where, old, new))
    data = upgraded.get("data")
    if isinstance(data, dict):
        upgraded["data"] = {key: moved_file(value) for key, value in data.items()}
    return upgraded, warnings


def upgrade_override(override: str) -> tuple[str, list[str]]:
    """Replace a renamed key in a ``section.key=value`` string; return it with the warnings."""
    old, separator, value = override.partition("=")
    new = RENAMED_KEYS.get(old, old)
    if new == old:
        return override, []
    value = _renamed_value(new, value.strip('"')) if new in RENAMED_VALUES else value
    return f"{new}{separator}{value}", [_warning(f"--set {override}", old, new)]


def upgrade_flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace renamed keys in the flat settings stored in a checkpoint."""
    return {
        RENAMED_KEYS.get(path, path): _renamed_value(RENAMED_KEYS[path], value) if path in RENAMED_KEYS else value
        for path, value in settings.items()
    }


def _warning(where: str, old: str, new: str) -> str:
    return f"{where}: {old} was renamed to {new}"


def _renamed_value(key: str, value: Any) -> Any:
    return RENAMED_VALUES.get(key, {}).get(value, value) if isinstance(value, str) else value


def moved_file(value: Any) -> Any:
    """The new path of a bundled file that has moved; any other value as it is."""
    if isinstance(value, str) and value in MOVED_FILES and not Path(value).exists():
        return MOVED_FILES[value]
    return value
