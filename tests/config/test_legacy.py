"""Configurations of earlier versions: renamed keys and moved files."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import Config, ConfigError, load_config, override_decoding, parse_config, upgrade_flat_settings
from seq2seq_chat.config.legacy import RENAMED_KEYS
from tests.conftest import Cli

OLD_VALUES = {
    "data.level": "word",
    "data.most_buckets": 3,
    "data.swap_samples": True,
    "training.batch_parts": 2,
    "training.own_words": 0.5,
    "training.own_words_steps": 7,
    "decoding.group_diversity": 0.25,
    "decoding.minimum_length": 2,
    "decoding.no_repeated_ngrams": 3,
    "decoding.rerank_words": 4,
}


NEW_VALUES = {**OLD_VALUES, "data.level": "english"}


def settings(**changes: Any) -> dict[str, Any]:
    """Settings in which every renamed key has an effect."""
    result: dict[str, Any] = {
        "name": "old",
        "data": {"train": "train.txt", "buckets": "auto"},
        "training": {"scheduled_sampling": "linear"},
        "decoding": {"method": "beam", "beam_groups": 2, "rerank": "anti_language_model"},
    }
    for path, value in changes.items():
        section, key = path.split(".")
        result.setdefault(section, {})[key] = value
    return result


def value_of(config: Config, path: str) -> Any:
    section, key = path.split(".")
    return getattr(getattr(config, section), key)


@pytest.mark.parametrize(("level", "tokenizer"), [("word", "english"), ("character", "english_character")])
def test_levels_are_tokenizers(level: str, tokenizer: str) -> None:
    assert parse_config(settings(**{"data.level": level}), "old").data.tokenizer == tokenizer
    assert upgrade_flat_settings({"data.level": level}) == {"data.tokenizer": tokenizer}
    for value in (level, f'"{level}"'):
        assert parse_config(settings(), "x", [f"data.level={value}"]).data.tokenizer == tokenizer


@pytest.mark.parametrize("old", RENAMED_KEYS)
def test_an_old_key_is_read_with_one_warning(old: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """From a file; and as for ``--resume RUN --set OLD=VALUE``, where the run's own configuration is complete."""
    new, path, value = RENAMED_KEYS[old], tmp_path / "old.json", OLD_VALUES[old]
    path.write_text(json.dumps(settings(**{old: value})), encoding="utf-8")
    config = load_config(path)
    assert value_of(config, new) == NEW_VALUES[old]
    assert config == parse_config(settings(**{new: NEW_VALUES[old]}), "new")
    assert load_config(path, warn=False) == config
    override = f"{old}={json.dumps(value)}"
    complete = json.loads(parse_config(settings(), "x").to_json())
    assert value_of(parse_config(complete, "config.json", [override], warn=False), new) == NEW_VALUES[old]
    renamed = f"{old} was renamed to {new}"
    assert caplog.messages == [f"{path}: {renamed}", f"--set {override}: {renamed}"]
    assert caplog.records[0].levelno == logging.WARNING
    with pytest.raises(ConfigError) as error:
        parse_config(settings(**{old: value, new: value}), "x.json")
    assert str(error.value) == f"x.json: {renamed}, and both are set; remove {old}"


def test_an_old_key_of_decoding(caplog: pytest.LogCaptureFixture) -> None:
    config = parse_config(settings(), "x", ['decoding={"method": "beam", "minimum_length": 2}'])
    assert config.decoding.min_length == 2
    assert caplog.messages == ["--set: decoding.minimum_length was renamed to decoding.min_length"]
    decoding = parse_config(settings(), "x").decoding
    assert override_decoding(decoding, group_diversity=0.25).diversity_penalty == 0.25


def test_a_moved_file_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old = Path("seq2seq_chat/corpus/sample/conversations.txt")
    config = parse_config(settings(**{"data.train": str(old)}), "x")
    assert config.data.train == "configs/sample/dialogues.txt"
    old.parent.mkdir(parents=True)
    old.touch()
    assert parse_config(settings(**{"data.train": str(old)}), "x").data.train == str(old)


def test_train_warns_on_stderr(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(json.dumps(settings(**{"data.train": "missing.txt", "data.most_buckets": 3})), encoding="utf-8")
    result = cli("train", path, "--results", tmp_path / "results")
    warning, error = result.err.splitlines()
    assert warning == f"seq2seq-chat: warning: {path}: data.most_buckets was renamed to data.max_buckets"
    assert "missing.txt does not exist" in error


def test_the_configuration_of_a_run_is_read_silently(
    cli: Cli, run_copy: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = run_copy / "config.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    for old, new in RENAMED_KEYS.items():
        section, old_key, new_key = *old.split("."), new.split(".")[1]
        stored[section][old_key] = stored[section].pop(new_key)
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert cli("experiments", "list", "--results", run_copy.parent).err == ""
    result = cli("train", "--resume", run_copy)
    assert (result.status, result.err) == (0, "")
    assert caplog.messages == []


@pytest.mark.parametrize(
    ("old", "name"), [("configs/dates.json", "dates"), ("configs/shakespeare_words.json", "words")]
)
def test_experiments_that_have_moved(
    old: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They are found from any folder, and so is a bundled corpus."""
    monkeypatch.chdir(tmp_path)
    config = load_config(old)
    assert config.name == name and caplog.text == ""
    assert Path(str(config.data.train)).is_file() == (name == "dates")
