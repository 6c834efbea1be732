"""The task of a configuration, and what follows from it."""

import json
from typing import Any

import pytest

from seq2seq_chat.config import Config, ConfigError, Data, parse_config

PARALLEL = {"source": "a.en", "target": "a.fr"}


def parse(task: str | None = "translation", *overrides: str, **data: Any) -> Config:
    settings = {"name": "x", "data": {"train": "t.tsv", "validation": PARALLEL, **data}}
    return parse_config(settings | ({"task": task} if task else {}), "x.json", overrides)


def test_the_vocabularies_of_a_task() -> None:
    config = parse(None)
    assert config.task == "conversation"
    assert config.data.has_shared_vocabulary
    assert parse(shared_vocabulary=True).data.has_shared_vocabulary


@pytest.mark.parametrize("given", [{}, {"shared_vocabulary": None}, {"target_vocabulary_size": 9}])
def test_a_translation_has_two_vocabularies(given: dict[str, Any]) -> None:
    config = parse(**given)
    assert not config.data.has_shared_vocabulary
    assert parse_config(json.loads(config.to_json()), "again") == config
    assert not parse("conversation", "task=translation", **given).data.has_shared_vocabulary
    assert not Config(name="x", task="translation", data=Data(train="t.tsv", **given)).data.has_shared_vocabulary


@pytest.mark.parametrize("key", ["train", "validation", "test"])
def test_a_translation_needs_pairs(key: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"^x.json: task is translation, but data\.{key} \(t\.txt\) is a file of con"
    ):
        parse(**{key: "t.txt"})
    parse("conversation", **{key: "t.txt"})


def test_only_translations_have_a_bleu() -> None:
    assert parse("translation", "training.best_metric=bleu").training.best_metric == "bleu"
    with pytest.raises(ConfigError, match="best_metric bleu applies to task translation only, but task is conversa"):
        parse("conversation", "training.best_metric=bleu")


@pytest.mark.parametrize("task", ["language", "Translation", 3, None])
def test_unknown_tasks(task: Any) -> None:
    with pytest.raises(ConfigError, match="task must be conversation, translation or language_model"):
        parse_config({"name": "x", "task": task, "data": {"train": "t.tsv"}}, "x.json")
