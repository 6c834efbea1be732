"""Settings that another setting rules out are refused; those that it leaves without effect are warned about."""

import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.config import Config, conditions, parse_config
from seq2seq_chat.config.section import AppliesIf, LanguageModelsRequire
from seq2seq_chat.runs.grid import new_experiments, parse_axis
from seq2seq_chat.runs.run import Run
from tests.config.test_config import parse, rejection, sections

SMALLEST: dict[str, Any] = {"name": "smallest", "data": {"train": "train.txt", "validation": "validation.txt"}}
SECTIONS = sections(Config)
BEAM, SAMPLE = "decoding.method=beam", "decoding.method=sample"


def case(row: str) -> list[str]:
    """The columns of a row; settings of the section of the first one begin with a dot."""
    section = row.partition(".")[0]
    row = row.replace("PAIRS", "data.train=x.tsv data.validation=y.tsv")
    return [re.sub(r"(^| )\.", rf"\1{section}.", column.strip()) for column in row.split("|")]


CASES = [
    case(row)
    for row in """\
data.lowercase=true | .tokenizer=english | | .tokenizer=unicode
data.lowercase=true | .tokenizer=english | | .target_tokenizer=unicode
data.normalize_apostrophes=true | .tokenizer=english | | .tokenizer=unicode
data.normalize_apostrophes=true | .tokenizer=english | | .target_tokenizer=unicode
data.subword_model=bpe | .tokenizer=english | | .tokenizer=subword
data.pairing=alternating | task=translation | PAIRS | task=conversation
data.max_buckets=3 | .buckets=null | | .buckets=auto
data.max_buckets=3 | .buckets=[[5, 5]] | | .buckets=auto
data.buckets=auto | .max_buckets=1 | | .max_buckets=2
training.validate_every=5 | data.validation=null | | data.validation=x
training.validation_limit=5 | data.validation=null | | data.validation=x
training.best_metric=bleu | data.validation=null | task=translation PAIRS | data.validation=y.tsv
training.bleu_limit=5 | data.validation=null | task=translation PAIRS | data.validation=y.tsv
training.bleu_limit=5 | task=conversation | PAIRS | task=translation
training.sample_replies=2 | data.validation=null | | data.validation=x
training.learning_rate_decay=0.3 | .learning_rate_schedule=constant | | .learning_rate_schedule=exponential
training.learning_rate_decay=0.3 | .learning_rate_schedule=constant | | .learning_rate_schedule=plateau
training.learning_rate_decay_steps=7 | .learning_rate_schedule=constant | | .learning_rate_schedule=exponential
training.learning_rate_decay_steps=7 | .learning_rate_schedule=plateau | | .learning_rate_schedule=exponential
training.learning_rate_patience=3 | .learning_rate_schedule=constant | | .learning_rate_schedule=plateau
training.learning_rate_patience=3 | .learning_rate_schedule=exponential | | .learning_rate_schedule=plateau
training.gradient_clipping_by=value | .gradient_clipping=null | | .gradient_clipping=1
training.scheduled_sampling_probability=0.5 | .scheduled_sampling=none | | .scheduled_sampling=constant
training.scheduled_sampling_steps=50 | .scheduled_sampling=none | | .scheduled_sampling=linear
training.scheduled_sampling_steps=50 | .scheduled_sampling=constant | | .scheduled_sampling=linear
training.scheduled_sampling=linear | .scheduled_sampling_probability=0.0 | | .scheduled_sampling_probability=0.1
training.sampled_softmax=100 | data.vocabulary_size=100 | | data.vocabulary_size=101
model.residual=true | .layers=1 | | .layers=2
model.activation=relu | .cell=lstm | | .cell=rnn
model.bridge=backward | .bidirectional=false | | .bidirectional=true
model.attention_query=previous | .attention=none | | .attention=dot
model.input_feeding=false | .attention=none | | .attention=dot
model.input_feeding=false | .attention_query=previous | | .attention_query=current
decoding.diversity_penalty=1 | .beam_groups=1 | .method=beam | .beam_groups=2
decoding.rerank=anti_language_model | .beam_width=1 | .method=beam | .beam_width=2
decoding.rerank=anti_language_model | .rerank_weight=0.0 | .method=beam | .rerank_weight=0.1
decoding.rerank_weight=0.3 | .rerank=none | .method=beam | .rerank=anti_language_model
decoding.rerank_prefix_length=3 | .rerank=none | .method=beam | .rerank=anti_language_model
decoding.rerank_prefix_length=3 | .rerank=bidirectional | .method=beam .backward_run=x |
decoding.temperature=0.5 | .top_k=1 | .method=sample | .top_k=2
decoding.top_p=0.5 | .top_k=1 | .method=sample | .top_k=2
decoding.seed=1 | .top_k=1 | .method=sample | .top_k=2
decoding.n_best=3 | .top_k=1 | .method=sample | .top_k=2
training.sampled_softmax=10|data.target_vocabulary_size=10|data.shared_vocabulary=false|data.target_vocabulary_size=11
decoding.replace_unknown=true | model.attention=none | .allow_unknown=true | model.attention=dot
decoding.lexicon=words.tsv | .replace_unknown=false | .allow_unknown=true | .replace_unknown=true
training.sampled_softmax_per=decoder_step | training.sampled_softmax=null | | training.sampled_softmax=8
training.candidate_sampler=uniform | training.sampled_softmax=null | | training.sampled_softmax=8
decoding.no_repeat_ngram_size=6 | model.decoder_steps=5 | | model.decoder_steps=6
model.encoder_steps=5 | task=language_model | | task=conversation
model.decoder_steps=5 | task=language_model | | task=conversation
training.validation_limit=5 | task=language_model | | task=conversation
decoding.beam_width=3 | task=language_model | | task=conversation
decoding.min_length=2 | task=language_model | | task=conversation
decoding.no_repeat_ngram_size=2 | task=language_model | | task=conversation
decoding.repetition_penalty=2.0 | task=language_model | | task=conversation
decoding.n_best=3 | task=language_model | .method=sample | task=conversation
training.bptt_forward=5 | task=conversation | | task=language_model
training.bptt_backward=5 | task=conversation | | task=language_model
training.state_reset=0.1 | task=conversation | | task=language_model
""".splitlines()
]
"""A setting without effect, the cause, other settings that they need, and a value with which it has one."""


def warnings(caplog: pytest.LogCaptureFixture, *overrides: str, settings: Any = SMALLEST, **options: Any) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        parse_config(settings, "x.json", overrides, **options)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize(("setting", "cause", "needed", "other"), CASES)
def test_a_setting_without_effect_is_named_with_its_cause(
    caplog: pytest.LogCaptureFixture, setting: str, cause: str, needed: str, other: str
) -> None:
    path, (causing, _, value) = setting.partition("=")[0], cause.partition("=")
    (warning,) = warnings(caplog, *needed.split(), cause, setting)
    assert warning.endswith(f": {path} has no effect, because {causing} is {value}")
    assert f"--set {setting}" in warning
    assert not any(f": {path} has" in message for message in warnings(caplog, *needed.split(), cause))
    if other:
        assert warnings(caplog, *needed.split(), other, setting) == []


def test_a_penalty_for_length_still_matters_when_reranking_has_no_weight(caplog: pytest.LogCaptureFixture) -> None:
    overrides = [BEAM, "decoding.rerank=anti_language_model", "decoding.rerank_weight=0.0"]
    assert warnings(caplog, *overrides, "decoding.length_penalty=1") == []


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


ONLY_BEAM = "applies to method beam only, but method is sample; remove it or use beam"
ONLY_SAMPLE = "applies to method sample only, but method is greedy; remove it or use sample"
ONLY_SUBWORDS = "applies to the subword tokenizer only, but the tokenizer is unicode"
ONLY_MOMENTUM = "applies to rmsprop and sgd only, but optimizer is adam"
ONLY_MIRRORED = "applies to strategy mirrored only, but strategy is multi_worker"
REFUSED = [  # a setting, the one that rules it out, the message, and what it is accepted with
    ("data.tokenizer_file=x", "data.tokenizer=unicode", ONLY_SUBWORDS, ["data.tokenizer=subword"]),
    ("data.target_tokenizer_file=x", "data.target_tokenizer=unicode", ONLY_SUBWORDS, ["data.target_tokenizer=subword"]),
    ("data.target_tokenizer_file=x", "data.tokenizer=unicode", ONLY_SUBWORDS, ["data.tokenizer=subword"]),
    ("training.momentum=0.5", "training.optimizer=adam", ONLY_MOMENTUM, ["training.optimizer=sgd"]),
    ("training.replicas=2", "training.strategy=multi_worker", ONLY_MIRRORED, ["training.strategy=mirrored"]),
    ("decoding.length_penalty=1", SAMPLE, ONLY_BEAM, [BEAM]),
    ("decoding.stop=first_end", SAMPLE, ONLY_BEAM, [BEAM]),
    ("decoding.beam_groups=2", SAMPLE, ONLY_BEAM, [BEAM]),
    ("decoding.diversity_penalty=1", SAMPLE, ONLY_BEAM, [BEAM]),
    ("decoding.rerank=anti_language_model", SAMPLE, ONLY_BEAM, [BEAM]),
    ("decoding.backward_run=x", SAMPLE, ONLY_BEAM, [BEAM, "decoding.rerank=bidirectional"]),
    ("decoding.backward_run=x", BEAM, "applies to rerank bidirectional only", [BEAM, "decoding.rerank=bidirectional"]),
    *(
        (f"decoding.{each}", "decoding.method=greedy", ONLY_SAMPLE, [SAMPLE])
        for each in ("temperature=0.5", "top_k=5", "top_p=0.5", "seed=1")
    ),
]
LANGUAGE_MODELS = {  # settings that they refuse, by the reason
    "has no source": """model.attention="dot" model.bidirectional=true model.context="every_step"
        model.shared_embeddings=true data.target_tokenizer="unicode" data.target_tokenizer_file="x"
        data.target_vocabulary="x" data.target_vocabulary_size=9 data.reverse_input=true training.source_noise=0.1""",
    "is trained on running text, not on samples": """data.swap_source_target=true data.context_turns=2
        data.buckets="auto" data.max_length=9""",
    "is unrolled statically": 'model.unrolling="dynamic"',
    "is trained with teacher forcing only": 'training.scheduled_sampling="linear"',
    "shares the sampled words of a batch": 'training.sampled_softmax_per="decoder_step"',
    "is trained on a single device": 'training.strategy="mirrored"',
    "generates text by sampling": 'decoding.method="beam"',
}
REFUSED_BY_LANGUAGE_MODELS = [(each, reason) for reason, refused in LANGUAGE_MODELS.items() for each in refused.split()]


def settings_with(kind: type, is_error: Any = lambda each: True) -> set[str]:
    """Paths of the settings that have metadata of a kind."""
    return {
        f"{section}.{key}"
        for section, model in SECTIONS.items()
        for key, field in model.model_fields.items()
        for each in field.metadata
        if isinstance(each, kind) and is_error(each)
    }


@pytest.mark.parametrize(("setting", "cause", "message", "accepted"), REFUSED)
def test_a_setting_that_does_not_apply_is_refused(setting: str, cause: str, message: str, accepted: list[str]) -> None:
    section, _, key = setting.partition("=")[0].partition(".")
    assert rejection(cause, setting).endswith(f"{section}: {key} {message}")
    parse(*accepted, setting)


def test_every_condition_is_tested() -> None:
    refused = {setting.partition("=")[0] for setting, *_ in REFUSED}
    assert refused == settings_with(AppliesIf, lambda each: each.error)
    refused = {setting.partition("=")[0] for setting, _ in REFUSED_BY_LANGUAGE_MODELS}
    assert refused == settings_with(LanguageModelsRequire)
    tested = {(setting.partition("=")[0], cause.partition("=")[0]) for setting, cause, _, _ in CASES}
    assert tested == {
        (f"{name}.{key}", condition.setting)
        for name, section in SECTIONS.items()
        for key, field in section.model_fields.items()
        for condition in conditions(field)
        if not (condition.error or condition.silent)
    }


@pytest.mark.parametrize(("setting", "reason"), REFUSED_BY_LANGUAGE_MODELS)
def test_language_models_refuse_what_they_do_not_have(setting: str, reason: str) -> None:
    path, _, value = setting.partition("=")
    expected = f"a language model {reason}, so {path} {value} does not apply to it; remove the setting"
    assert rejection("task=language_model", "data.tokenizer=subword", setting).endswith(expected)


def test_language_models_have_other_defaults() -> None:
    config = parse("task=language_model")
    assert (config.model.attention, config.decoding.method) == ("none", "sample")
