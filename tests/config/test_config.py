"""Configurations: defaults, errors, files, overrides, the JSON schema, and what follows from the task."""

import copy
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from seq2seq_chat.config import (
    Config,
    ConfigError,
    Data,
    Decoding,
    conditions,
    describe_changes,
    json_schema,
    load_config,
    override_decoding,
    parse_config,
    resume_settings,
)
from tests.conftest import REPOSITORY, shipped_configs

SMALLEST: dict[str, Any] = {"name": "smallest", "data": {"train": "train.txt"}}


def parse(*overrides: str) -> Config:
    return parse_config(SMALLEST, "x.json", overrides)


def rejection(*overrides: str, settings: Any = SMALLEST) -> str:
    with pytest.raises(ConfigError) as error:
        parse_config(settings, "x.json", overrides)
    return str(error.value)


# defaults and shipped experiments


def test_defaults_are_the_thesis() -> None:
    config = parse()
    _assert_thesis(config)
    assert config.data.tokenizer == "english"
    assert config.data.validation is config.data.test is config.data.vocabulary is None
    assert config.data.reverse_input is False
    assert (config.decoding.method, config.decoding.n_best) == ("greedy", 1)


def _assert_thesis(config: Config, words: int = 50_000) -> None:
    """The table in the thesis: one LSTM cell each, and so on."""
    model, training = config.model, config.training
    assert (model.cell, model.layers, model.attention) == ("lstm", 1, "additive")
    assert (model.hidden_size, model.projection_size, model.embedding_size) == (2048, 1024, 1024)
    assert (model.encoder_steps, model.decoder_steps) == (30, 30)
    assert (model.unrolling, model.bidirectional, model.shared_embeddings) == ("static", False, False)
    assert (config.data.vocabulary_size, config.data.context_turns) == (words, 1)
    assert (training.optimizer, training.learning_rate, training.gradient_clipping) == ("adagrad", 0.01, 10.0)
    assert (training.gradient_clipping_by, training.scheduled_sampling) == ("norm", "none")
    assert (training.batch_size, training.sampled_softmax) == (64, 512)
    assert (training.steps, training.snapshot_every) == (3_000_000, 500_000)


@pytest.mark.parametrize("name", ["opensubtitles", "opensubtitles_100k", "reddit", "reddit_25k"])
def test_experiments_of_the_thesis(name: str) -> None:
    config, is_reddit = load_config(REPOSITORY / "configs" / f"thesis_{name}.json"), "reddit" in name
    _assert_thesis(config, {"100k": 100_000, "25k": 25_000}.get(name.rpartition("_")[2], 50_000))
    assert (config.data.tokenizer, config.data.reverse_input) == ("thesis", is_reddit)
    assert config.data.pairing == ("alternating" if is_reddit else "sliding")
    assert (config.decoding.method, config.decoding.length_penalty, config.model.dropout) == ("beam", 0, 0)


# errors


@pytest.mark.parametrize(
    ("override", "meant"),
    [
        ("model.hidden_siez=5", "model.hidden_size"),
        ("learning_rate=0.1", "training.learning_rate"),
        ("model.learning_rate=0.1", "training.learning_rate"),
        ("training.batchsize=5", "training.batch_size"),
        ("trainig.steps=5", "training"),
        ("Training.steps=5", "training"),
        ("data.revers_input=true", "data.reverse_input"),
        ("decoding.beamwidth=5", "decoding.beam_width"),
    ],
)
def test_an_unknown_key_suggests_the_closest_valid_one(override: str, meant: str) -> None:
    key, _, _ = override.partition("=")
    section, _, _ = key.partition(".")
    unknown = key if section in Config.model_fields else section
    assert rejection(override) == f"--set {override}: unknown key {unknown}; did you mean {meant}?"


def test_an_unknown_key_without_a_close_match_lists_the_valid_ones() -> None:
    for override, known in (("zzz=1", "training"), ("model.zzz=1", "hidden_size")):
        message = rejection(override)
        assert "did you mean" not in message
        assert known in message.split("valid keys are ")[1].split(", ")


@pytest.mark.parametrize(
    ("override", "path", "allowed"),
    [
        ("model.hidden_size=0", "model.hidden_size", "greater than 0"),
        ("model.hidden_size=100000000000", "model.hidden_size", "less than or equal to 1000000"),
        ("model.hidden_size=true", "model.hidden_size", "valid integer"),
        ('model.hidden_size="128"', "model.hidden_size", "valid integer"),
        ("training.steps.x=1", "training.steps", "valid integer"),
        ("training.learning_rate=0", "training.learning_rate", "greater than 0"),
        ("training.learning_rate=NaN", "training.learning_rate", "finite"),
        ("training.gradient_clipping=-Infinity", "training.gradient_clipping", "finite"),
        ("training.optimizer=Adam", "training.optimizer", "adagrad, adadelta, adam, rmsprop or sgd"),
        ("training.momentum=0.9", "training", "applies to rmsprop and sgd only"),
        ("model.dropout=1", "model.dropout", "less than 1"),
        ("model.dropout=NaN", "model.dropout", "less than 1"),
        ("model.dropout=-0.1", "model.dropout", "greater than or equal to 0"),
        ("data.vocabulary_size=4", "data.vocabulary_size", "greater than 4"),
        ("data.train=", "data.train", "path of a file"),
        ("data.validation=a\0b", "data.validation", "path of a file"),
        ('data.test="\\ud800"', "data.test", "path of a file"),
        ("data.train=null", "data.train", "valid string"),
        ("data.buckets=[[0, 5]]", "data.buckets", "data.buckets.0.0 must be greater than 0"),
        ("data.buckets=wide", "data.buckets", "must be auto"),
        ("seed=-1", "seed", "greater than or equal to 0"),
        ("seed=2147483648", "seed", "less than 2147483648"),
        ("name=../elsewhere", "name", "letters a to z, digits"),
        ("name=", "name", "letters a to z, digits"),
        (f"name={'x' * 101}", "name", "100 characters"),
        ("decoding.n_best=2", "decoding", "greedy search has 1 hypothesis"),
        ("decoding.beam_width=1001", "decoding.beam_width", "less than or equal to 1000"),
        ("model=5", "model", "JSON object"),
        ("data=null", "data", "JSON object"),
    ],
)
def test_an_invalid_value_names_its_path_and_what_is_allowed(override: str, path: str, allowed: str) -> None:
    message = rejection(override)
    assert re.match(rf"--set .+: {re.escape(path)}:? ", message)
    assert allowed in message


def test_an_error_names_its_origin() -> None:
    dropout = "model.dropout must be less than 1 (it is 1.5)"
    good, bad = "training.steps=5", "model.dropout=1.5"
    assert rejection(good, bad) == f"--set {bad}: {dropout}"
    invalid = {**SMALLEST, "model": {"dropout": 1.5}}
    assert rejection(good, settings=invalid) == f"x.json: {dropout}"
    assert rejection("training.momentum=0.9").startswith("--set training.momentum=0.9: training: momentum applies")


def test_errors_are_complete_but_not_long() -> None:
    assert rejection(settings={}) == "x.json: name is missing; data is missing"
    assert rejection(settings={"name": "x", "data": {}}) == "x.json: data.train is missing"
    message = rejection(*(f"model.zzz{number}=1" for number in range(9)))
    assert message.count("unknown key") == 5
    assert message.endswith("; and 4 more")
    assert len(rejection(f"training.steps={list(range(1000))}")) < 200


def test_a_configuration_is_an_object() -> None:
    kinds = (([], "list"), (None, "null"), (5, "number"), (0.5, "number"), ("x", "string"), (True, "boolean"))
    for value, kind in kinds:
        message = f"x.json: a configuration must be a JSON object, {{…}}, not a {kind}"
        assert rejection(settings=value) == message


# files


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b'{"name": "x",\n "data" 5}', "invalid JSON at line 2, column 9"),
        (b'{"name": "x", "name": "y"}', "the key name is duplicated; remove one of them"),
        (b"", "invalid JSON at line 1, column 1"),
        (b"\xff\xfe{", "not UTF-8 text (byte 0)"),
        (b'{"name": "caf\xe9"}', "not UTF-8 text (byte 13)"),
        (b"[1, 2]", "not a list"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"seed": ' + b"1" * 10_000 + b"}", "a number is too long"),
    ],
)
def test_an_invalid_file(tmp_path: Path, raw: bytes, message: str) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(raw)
    with pytest.raises(ConfigError) as error:
        load_config(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


def test_an_unreadable_file_and_one_with_a_byte_order_mark_and_a_schema(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such configuration file"):
        load_config(tmp_path / "none.json")
    with pytest.raises(ConfigError, match=r"is a folder; name a configuration file$"):
        load_config(tmp_path)
    (tmp_path / "experiment.json").touch()
    with pytest.raises(ConfigError, match=f"name a configuration file, such as {tmp_path}/experiment.json$"):
        load_config(tmp_path)
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"name": "x", "data": {"train": "x" * 300}}), encoding="utf-8")
    assert load_config(path).data.train == "x" * 300  # too long a path to look for
    path = tmp_path / "windows.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"$schema": "schema.json", **SMALLEST}).encode())
    assert load_config(path) == parse()


# --set


@pytest.mark.parametrize(
    ("override", "section", "key", "value"),
    [
        ("training.batch_size=32", "training", "batch_size", 32),
        ("training.learning_rate=1", "training", "learning_rate", 1.0),
        ("training.learning_rate=2e-4", "training", "learning_rate", 2e-4),
        ("training.optimizer=sgd", "training", "optimizer", "sgd"),
        ('training.optimizer="sgd"', "training", "optimizer", "sgd"),
        ("training.sampled_softmax=null", "training", "sampled_softmax", None),
        ("data.reverse_input=true", "data", "reverse_input", True),
        ("data.buckets=auto", "data", "buckets", "auto"),
        ("data.train=a=b.txt", "data", "train", "a=b.txt"),
        ("data.test=ünï.txt", "data", "test", "ünï.txt"),
        ('decoding={"method": "beam", "beam_width": 3}', "decoding", "beam_width", 3),
    ],
)
def test_set(override: str, section: str, key: str, value: Any) -> None:
    actual = getattr(getattr(parse(override), section), key)
    assert actual == value
    assert type(actual) is type(value)


def test_buckets_may_be_listed() -> None:
    config = parse("data.buckets=[[5, 5], [30, 30]]")
    assert [tuple(bucket) for bucket in config.data.buckets or ()] == [(5, 5), (30, 30)]
    assert parse_config(json.loads(config.to_json()), "again") == config


def test_the_last_override_wins() -> None:
    assert parse("seed=1", "training.steps=5", "seed=2").seed == 2
    original = SMALLEST | {"training": {"steps": 5}}
    assert "steps is a setting, not a section" in rejection("training.steps.x=1", settings=original)


def test_a_malformed_or_excessive_set() -> None:
    for override in ("training.steps", "=5", "", "--set"):
        message = f"--set {override}: must be KEY=VALUE, for example training.batch_size=32"
        assert rejection(override) == message
    for value in ("1" * 10_000, "[" * 100_000):
        assert "too long, or" in rejection(f"training.steps={value}")


def test_a_configuration_and_its_original_are_not_modified() -> None:
    files = {"source": "source.txt", "target": "target.txt"}
    original = {"$schema": "x", "name": "x", "data": {"train": "t", "test": files}, "training": {"steps": 5}}
    before = copy.deepcopy(original)
    assert rejection("data.test.source=", settings=original).startswith("--set data.test.source=: data.test.source")
    config = parse_config(original, "x", ["training.steps=7", "data.train=other.txt", "model.layers=2", "seed=9"])
    assert (config.training.steps, config.data.train, config.model.layers, config.seed) == (7, "other.txt", 2, 9)
    assert original == before
    with pytest.raises(ValueError, match="frozen"):
        parse().seed = 5


# overridden decoding


def test_override_decoding() -> None:
    base = Decoding(method="beam", beam_width=4, n_best=2)
    assert override_decoding(base, n_best=3) == Decoding(method="beam", beam_width=4, n_best=3)
    with pytest.raises(ConfigError, match="n_best is 5, but beam search has 4 hypotheses"):
        override_decoding(base, n_best=5)
    with pytest.raises(ConfigError, match=r"unknown key n_bset; did you mean n_best\?"):
        override_decoding(base, n_bset=5)


@pytest.mark.parametrize("task", ["conversation", "language_model"])
def test_settings_that_must_match_on_resume(task: str) -> None:
    """Those of model and samples, and how a text is divided; not where files are, nor what training may change."""
    names = {"data.train": "a.txt", "data.tokenizer": "unicode", "model.hidden_size": 7, "training.batch_size": 9}
    names |= {"data.lowercase": True, "training.optimizer": "sgd", "training.steps": 8, "decoding.allow_unknown": True}
    plain = {"name": "x", "task": task, "data": {"train": "train.txt"}}
    before = resume_settings(parse_config(plain, "x"))
    changed = {
        path
        for path, value in names.items()
        if describe_changes(before, resume_settings(parse_config(plain, "x", [f"{path}={json.dumps(value)}"])))
    }
    expected = {"data.tokenizer", "data.lowercase", "model.hidden_size", "training.optimizer"}
    assert changed == expected | ({"training.batch_size"} if task == "language_model" else set())


def test_an_explicit_option_of_another_method_is_rejected() -> None:
    """The run's options are reset when the method changes, but what a request asks for is not ignored."""
    beam = override_decoding(Decoding(), method="beam", length_penalty=2.0)
    assert override_decoding(beam, method="greedy") == Decoding()
    with pytest.raises(ConfigError, match="length_penalty applies to method beam only"):
        override_decoding(beam, method="greedy", length_penalty=2.0)
    assert override_decoding(beam, method="sample", n_best=20).n_best == 20  # more than the beam is wide
    with pytest.raises(ConfigError, match="top_p applies to method sample only"):
        override_decoding(Decoding(), top_p=0.5)


# the JSON schema


def sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    return {
        name: field.annotation
        for name, field in model.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    }


def test_the_schema_describes_every_key() -> None:
    schema = json.loads(json_schema())
    assert schema["type"] == "object"
    assert set(schema["required"]) == {"name", "data"}
    for name, section in [("", Config), *sections(Config).items()]:
        part = schema["$defs"][section.__name__] if name else schema
        assert set(part["properties"]) - {"$schema"} == set(section.model_fields)
        assert part["additionalProperties"] is False
        for key, field in section.model_fields.items():
            if key not in sections(section):
                assert field.description
                described = part["properties"][key]["description"]
                assert " ".join(field.description.split()) in described
                for condition in conditions(field):
                    assert condition.describe() in described
    assert "$schema" in schema["properties"]


@pytest.mark.parametrize("path", shipped_configs(), ids=lambda path: path.stem)
def test_the_schema_accepts_the_shipped_configurations(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    schema = json.loads(json_schema())
    written = json.loads(path.read_text(encoding="utf-8"))
    jsonschema_rs.validate(schema, written)
    config = load_config(path)
    assert caplog.messages == []  # no setting without effect
    complete = json.loads(config.to_json())
    jsonschema_rs.validate(schema, complete)
    assert config.name == path.stem
    assert parse_config(complete, "again") == config


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("model", "hiden_size", 5), ("training", "steps", 0), ("training", "optimizer", "Adam"), ("", "seed", "x")],
)
def test_the_schema_rejects_invalid_configurations(section: str, key: str, value: Any) -> None:
    settings = SMALLEST | ({section: {key: value}} if section else {key: value})
    assert not jsonschema_rs.is_valid(json.loads(json_schema()), settings)
    rejection(settings=settings)


# arbitrary input

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner)
)
plausible = st.sampled_from([1, 3, 0.5, True, False, None, "sgd", "beam", "word", "auto", "x", [[2, 2], [30, 30]]])
KEYS = ["name", "seed", "$schema", "data", "model", "training", "decoding", "modle"]
PATHS = [f"{section}.{key}" for section, model in sections(Config).items() for key in model.model_fields]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(anything | st.dictionaries(st.sampled_from(KEYS), anything))
def test_any_json_is_accepted_or_rejected(value: Any) -> None:
    try:
        assert isinstance(parse_config(value, "x"), Config)
    except ConfigError as error:
        assert str(error)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), plausible | anything), max_size=3))
def test_any_values_are_kept_or_rejected(changes: list[tuple[str, Any]]) -> None:
    try:
        config = parse_config(SMALLEST, "x", [f"{path}={json.dumps(value)}" for path, value in changes])
    except ConfigError as error:
        assert str(error)
        return
    written = json.loads(config.to_json())
    for path, value in dict(changes).items():
        section, key = path.split(".")
        assert written[section][key] == value
    assert parse_config(json.loads(config.to_json()), "again") == config


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=60) | anything.map(lambda value: json.dumps(value).encode()))
def test_any_bytes_are_rejected(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "any.json"
    path.write_bytes(raw)
    with pytest.raises(ConfigError):
        load_config(path)


@settings(max_examples=100, deadline=None)
@given(st.text())
def test_any_override_is_applied_or_rejected(override: str) -> None:
    with suppress(ConfigError):
        parse(override)


@pytest.mark.parametrize("files", ["t.tsv", "T.TSV.xz", {"source": "a", "target": "b"}])
@pytest.mark.parametrize("key", ["train", "validation", "test"])
def test_context_turns_need_conversations(key: str, files: Any) -> None:
    data = {"train": "t.txt", "context_turns": 2, key: files}
    with pytest.raises(ConfigError, match=rf"context_turns is 2, but {key} .*has pairs, .*use context_turns 1"):
        parse_config({"name": "x", "data": data}, "x.json")
    parse_config({"name": "x", "data": data | {"context_turns": 1}}, "x.json")


PARALLEL = {"source": "a.en", "target": "a.fr"}


def parse_task(task: str | None = "translation", *overrides: str, **data: Any) -> Config:
    settings = {"name": "x", "data": {"train": "t.tsv", "validation": PARALLEL, **data}}
    return parse_config(settings | ({"task": task} if task else {}), "x.json", overrides)


@pytest.mark.parametrize("given", [{}, {"shared_vocabulary": None}, {"target_vocabulary_size": 9}])
def test_a_translation_has_two_vocabularies(given: dict[str, Any]) -> None:
    assert parse_task(None).task == "conversation" and parse_task(None).data.has_shared_vocabulary
    assert parse_task(shared_vocabulary=True).data.has_shared_vocabulary
    config = parse_task(**given)
    assert not config.data.has_shared_vocabulary
    assert parse_config(json.loads(config.to_json()), "again") == config
    assert not parse_task("conversation", "task=translation", **given).data.has_shared_vocabulary
    assert not Config(name="x", task="translation", data=Data(train="t.tsv", **given)).data.has_shared_vocabulary


@pytest.mark.parametrize("key", ["train", "validation", "test"])
def test_a_translation_needs_pairs(key: str) -> None:
    with pytest.raises(ConfigError, match=rf"^x.json: task is translation, but data\.{key} \(t\.txt\) is a file of"):
        parse_task(**{key: "t.txt"})
    parse_task("conversation", **{key: "t.txt"})


def test_only_translations_have_a_bleu() -> None:
    assert parse_task("translation", "training.best_metric=bleu").training.best_metric == "bleu"
    with pytest.raises(ConfigError, match="best_metric bleu applies to task translation only, but task is conversa"):
        parse_task("conversation", "training.best_metric=bleu")


def test_unknown_tasks() -> None:
    for task in ("language", "Translation", 3, None):
        settings = {"name": "x", "task": task, "data": {"train": "t.tsv"}}
        assert "task must be conversation, translation or language_model" in rejection(settings=settings)
