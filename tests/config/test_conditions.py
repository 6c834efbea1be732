"""Settings that another setting rules out are refused."""

from __future__ import annotations

from typing import Any

import pytest

from seq2seq_chat.config import AppliesIf, Config, ConfigError, parse_config
from seq2seq_chat.config.section import LanguageModelsRequire

SMALLEST: dict[str, Any] = {"name": "smallest", "data": {"train": "train.txt", "validation": "validation.txt"}}
SECTIONS: dict[str, Any] = {
    name: Config.model_fields[name].annotation for name in ("data", "model", "training", "decoding")
}
BEAM, SAMPLE = "decoding.method=beam", "decoding.method=sample"
ONLY_BEAM = "applies to method beam only, but method is sample; remove it or use beam"
ONLY_SAMPLE = "applies to method sample only, but method is greedy; remove it or use sample"
ONLY_SUBWORDS = "applies to the subword tokenizer only, but the tokenizer is unicode"
REFUSED = [  # a setting, the one that rules it out, the message, and what it is accepted with
    ("data.tokenizer_file=x", "data.tokenizer=unicode", ONLY_SUBWORDS, ["data.tokenizer=subword"]),
    ("data.target_tokenizer_file=x", "data.target_tokenizer=unicode", ONLY_SUBWORDS, ["data.target_tokenizer=subword"]),
    ("data.target_tokenizer_file=x", "data.tokenizer=unicode", ONLY_SUBWORDS, ["data.tokenizer=subword"]),
    (
        "training.momentum=0.5",
        "training.optimizer=adam",
        "applies to rmsprop and sgd only, but optimizer is adam",
        ["training.optimizer=sgd"],
    ),
    (
        "training.replicas=2",
        "training.strategy=multi_worker",
        "applies to strategy mirrored only, but strategy is multi_worker",
        ["training.strategy=mirrored"],
    ),
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


def parse(*overrides: str) -> Config:
    return parse_config(SMALLEST, "x.json", overrides)


@pytest.mark.parametrize(("setting", "cause", "message", "accepted"), REFUSED)
def test_a_setting_that_does_not_apply_is_refused(setting: str, cause: str, message: str, accepted: list[str]) -> None:
    with pytest.raises(ConfigError) as error:
        parse(cause, setting)
    section, _, key = setting.partition("=")[0].partition(".")
    assert str(error.value).endswith(f"{section}: {key} {message}")
    parse(*accepted, setting)


def test_every_condition_is_tested() -> None:
    refused = {setting.partition("=")[0] for setting, *_ in REFUSED}
    assert refused == settings_with(AppliesIf, lambda each: each.error)


@pytest.mark.parametrize(("setting", "reason"), REFUSED_BY_LANGUAGE_MODELS)
def test_language_models_refuse_what_they_do_not_have(setting: str, reason: str) -> None:
    path, _, value = setting.partition("=")
    with pytest.raises(ConfigError) as error:
        parse("task=language_model", "data.tokenizer=subword", setting)
    expected = f"a language model {reason}, so {path} {value} does not apply to it; remove the setting"
    assert str(error.value).endswith(expected)


def test_every_requirement_of_language_models_is_tested() -> None:
    refused = {setting.partition("=")[0] for setting, _ in REFUSED_BY_LANGUAGE_MODELS}
    assert refused == settings_with(LanguageModelsRequire)


def test_language_models_have_other_defaults() -> None:
    config = parse("task=language_model")
    assert (config.model.attention, config.decoding.method) == ("none", "sample")
