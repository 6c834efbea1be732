"""Settings that another setting leaves without effect are warned about."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import Config, conditions, load_config, parse_config
from seq2seq_chat.runs.grid import new_experiments, parse_axis
from seq2seq_chat.runs.run import Run
from tests.conftest import shipped_configs

SMALLEST: dict[str, Any] = {"name": "smallest", "data": {"train": "train.txt", "validation": "validation.txt"}}
PAIRS = ["data.train=x.tsv", "data.validation=y.tsv"]
BEAM, SAMPLE = "decoding.method=beam", "decoding.method=sample"
CASES = [  # a setting without effect, the cause, other settings that they need, a value with which it has one
    ("data.lowercase=true", "data.tokenizer=english", [], "data.tokenizer=unicode"),
    ("data.lowercase=true", "data.tokenizer=english", [], "data.target_tokenizer=unicode"),
    ("data.subword_model=bpe", "data.tokenizer=english", [], "data.tokenizer=subword"),
    ("data.pairing=alternating", "task=translation", PAIRS, "task=conversation"),
    ("data.max_buckets=3", "data.buckets=null", [], "data.buckets=auto"),
    ("data.max_buckets=3", "data.buckets=[[5, 5]]", [], "data.buckets=auto"),
    ("data.buckets=auto", "data.max_buckets=1", [], "data.max_buckets=2"),
    ("training.validate_every=5", "data.validation=null", [], "data.validation=x"),
    ("training.validation_limit=5", "data.validation=null", [], "data.validation=x"),
    ("training.best_metric=bleu", "data.validation=null", ["task=translation", *PAIRS], "data.validation=y.tsv"),
    ("training.bleu_limit=5", "data.validation=null", ["task=translation", *PAIRS], "data.validation=y.tsv"),
    ("training.bleu_limit=5", "task=conversation", PAIRS, "task=translation"),
    ("training.sample_replies=2", "data.validation=null", [], "data.validation=x"),
    *(
        ("training.learning_rate_decay=0.3", "training.learning_rate_schedule=constant", [], f"{key}={value}")
        for key, value in [("training.learning_rate_schedule", kind) for kind in ("exponential", "plateau")]
    ),
    *(
        ("training.learning_rate_decay_steps=7", f"training.learning_rate_schedule={kind}", [], used)
        for kind, used in [(kind, "training.learning_rate_schedule=exponential") for kind in ("constant", "plateau")]
    ),
    *(
        ("training.learning_rate_patience=3", f"training.learning_rate_schedule={kind}", [], used)
        for kind, used in [(kind, "training.learning_rate_schedule=plateau") for kind in ("constant", "exponential")]
    ),
    ("training.gradient_clipping_by=value", "training.gradient_clipping=null", [], "training.gradient_clipping=1"),
    (
        "training.scheduled_sampling_probability=0.5",
        "training.scheduled_sampling=none",
        [],
        "training.scheduled_sampling=constant",
    ),
    *(
        ("training.scheduled_sampling_steps=50", f"training.scheduled_sampling={kind}", [], used)
        for kind, used in [
            ("none", "training.scheduled_sampling=linear"),
            ("constant", "training.scheduled_sampling=linear"),
        ]
    ),
    (
        "training.scheduled_sampling=linear",
        "training.scheduled_sampling_probability=0.0",
        [],
        "training.scheduled_sampling_probability=0.1",
    ),
    ("training.sampled_softmax=100", "data.vocabulary_size=100", [], "data.vocabulary_size=101"),
    ("model.bridge=backward", "model.bidirectional=false", [], "model.bidirectional=true"),
    ("model.attention_query=previous", "model.attention=none", [], "model.attention=dot"),
    ("model.input_feeding=false", "model.attention=none", [], "model.attention=dot"),
    ("model.input_feeding=false", "model.attention_query=previous", [], "model.attention_query=current"),
    ("decoding.diversity_penalty=1", "decoding.beam_groups=1", [BEAM], "decoding.beam_groups=2"),
    ("decoding.rerank=anti_language_model", "decoding.beam_width=1", [BEAM], "decoding.beam_width=2"),
    ("decoding.rerank=anti_language_model", "decoding.rerank_weight=0.0", [BEAM], "decoding.rerank_weight=0.1"),
    ("decoding.rerank_weight=0.3", "decoding.rerank=none", [BEAM], "decoding.rerank=anti_language_model"),
    ("decoding.rerank_prefix_length=3", "decoding.rerank=none", [BEAM], "decoding.rerank=anti_language_model"),
    (
        "decoding.rerank_prefix_length=3",
        "decoding.rerank=bidirectional",
        [BEAM, "decoding.backward_run=x"],
        None,
    ),
    *(
        (f"decoding.{setting}", "decoding.top_k=1", [SAMPLE], "decoding.top_k=2")
        for setting in ("temperature=0.5", "top_p=0.5", "seed=1", "n_best=3")
    ),
    (
        "training.sampled_softmax=10",
        "data.target_vocabulary_size=10",
        ["data.shared_vocabulary=false"],
        "data.target_vocabulary_size=11",
    ),
    (
        "decoding.replace_unknown=true",
        "model.attention=none",
        ["decoding.allow_unknown=true"],
        "model.attention=dot",
    ),
    (
        "decoding.lexicon=words.tsv",
        "decoding.replace_unknown=false",
        ["decoding.allow_unknown=true"],
        "decoding.replace_unknown=true",
    ),
    *(
        (setting, "training.sampled_softmax=null", [], "training.sampled_softmax=8")
        for setting in ("training.sampled_softmax_per=decoder_step", "training.candidate_sampler=uniform")
    ),
    ("decoding.no_repeat_ngram_size=6", "model.decoder_steps=5", [], "model.decoder_steps=6"),
    *(
        (setting, "task=language_model", [], "task=conversation")
        for setting in (
            *("model.encoder_steps=5", "model.decoder_steps=5", "training.validation_limit=5", "decoding.beam_width=3"),
            *("decoding.min_length=2", "decoding.no_repeat_ngram_size=2", "decoding.repetition_penalty=2.0"),
        )
    ),
    ("decoding.n_best=3", "task=language_model", ["decoding.method=sample"], "task=conversation"),
    ("training.bptt_forward=5", "task=conversation", [], "task=language_model"),
    ("training.bptt_backward=5", "task=conversation", [], "task=language_model"),
    ("training.state_reset=0.1", "task=conversation", [], "task=language_model"),
]


def warnings(caplog: pytest.LogCaptureFixture, *overrides: str, settings: Any = SMALLEST, **options: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        parse_config(settings, "x.json", overrides, **options)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(("setting", "cause", "needed", "other"), CASES)
def test_a_setting_without_effect_is_named_with_its_cause(
    caplog: pytest.LogCaptureFixture, setting: str, cause: str, needed: list[str], other: str | None
) -> None:
    path, (causing, _, value) = setting.partition("=")[0], cause.partition("=")
    (warning,) = warnings(caplog, *needed, cause, setting)
    assert warning.endswith(f": {path} has no effect, because {causing} is {value}")
    assert f"--set {setting}" in warning
    assert not any(f": {path} has" in message for message in warnings(caplog, *needed, cause))
    if other:
        assert warnings(caplog, *needed, other, setting) == []


def test_every_pair_is_tested() -> None:
    tested = {(setting.partition("=")[0], cause.partition("=")[0]) for setting, cause, _, _ in CASES}
    sections = {name: Config.model_fields[name].annotation for name in ("data", "model", "training", "decoding")}
    assert tested == {
        (f"{name}.{key}", condition.setting)
        for name, section in sections.items()
        for key, field in section.model_fields.items()
        for condition in conditions(field)
        if not (condition.error or condition.silent)
    }


def test_a_penalty_for_length_still_matters_when_reranking_has_no_weight(caplog: pytest.LogCaptureFixture) -> None:
    overrides = [BEAM, "decoding.rerank=anti_language_model", "decoding.rerank_weight=0.0"]
    assert warnings(caplog, *overrides, "decoding.length_penalty=1") == []


@pytest.mark.parametrize("path", shipped_configs(), ids=lambda path: path.stem)
def test_shipped_configurations_have_no_settings_without_effect(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        load_config(path)
    assert caplog.messages == []


STORED = SMALLEST | {"training": {"learning_rate_decay": 0.3}}


def test_the_origin_is_the_file_or_the_override(caplog: pytest.LogCaptureFixture) -> None:
    because = "training.learning_rate_decay has no effect, because training.learning_rate_schedule is constant"
    assert warnings(caplog, settings=STORED) == [f"x.json: {because}"]
    assert warnings(caplog, "training.steps=5", settings=STORED) == [f"x.json: {because}"]
    override = "training.learning_rate_decay=0.2"
    assert warnings(caplog, override) == [f"--set {override}: {because}"]


def test_stored_settings_are_accepted_silently(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(STORED), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert Run(tmp_path).config.training.learning_rate_decay == 0.3
    assert caplog.messages == []
    assert warnings(caplog, "training.steps=5", settings=STORED, warn=False) == []
    (warning,) = warnings(caplog, "data.max_buckets=2", settings=STORED, warn=False)
    assert warning == "--set data.max_buckets=2: data.max_buckets has no effect, because data.buckets is null"


def test_a_grid_warns_once_about_its_base(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    base = tmp_path / "base.json"
    base.write_text(json.dumps(STORED), encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        new_experiments(base, [parse_axis("data.max_buckets=2,3")], tmp_path / "grid")
    assert [message.partition(" has no effect")[0] for message in caplog.messages] == [
        f"{base}: training.learning_rate_decay",
        "--grid data.max_buckets=2: data.max_buckets",
        "--grid data.max_buckets=3: data.max_buckets",
    ]
