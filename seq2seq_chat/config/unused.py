"""Settings that have no effect because of the value of another one."""

from __future__ import annotations

import json
from collections.abc import Callable
from operator import attrgetter
from typing import NamedTuple

from seq2seq_chat.config.data import Data
from seq2seq_chat.config.experiment import Config
from seq2seq_chat.config.messages import cut


class Rule(NamedTuple):
    """A setting has no effect if ``unused`` is true of the configuration; ``cause`` is the setting to change."""

    setting: str
    cause: str
    unused: Callable[[Config], bool]


def _tokenizers(config: Config) -> tuple[str, str]:
    return config.data.source_text.tokenizer, config.data.target_text.tokenizer


def _samples_all_words(config: Config) -> bool:
    return (config.training.sampled_softmax or 0) >= config.data.target_text.vocabulary_size


NOT_OF_LANGUAGE_MODELS = (
    *("model.encoder_steps", "model.decoder_steps", "training.validation_limit", "decoding.n_best"),
    *("decoding.beam_width", "decoding.min_length", "decoding.no_repeat_ngram_size", "decoding.repetition_penalty"),
)
RULES = (
    Rule("data.lowercase", "data.tokenizer", lambda c: "unicode" not in _tokenizers(c)),
    Rule("data.subword_model", "data.tokenizer", lambda c: "subword" not in _tokenizers(c)),
    Rule("data.pairing", "task", lambda c: c.task != "conversation"),
    *(Rule(path, "task", lambda c: c.task == "language_model") for path in NOT_OF_LANGUAGE_MODELS),
    *(
        Rule(f"training.{key}", "task", lambda c: c.task != "language_model")
        for key in ("bptt_forward", "bptt_backward", "state_reset")
    ),
    Rule("data.max_buckets", "data.buckets", lambda c: c.data.buckets != "auto"),
    Rule("data.buckets", "data.max_buckets", lambda c: c.data.buckets == "auto" and c.data.max_buckets == 1),
    *(
        Rule(f"training.{key}", "data.validation", lambda c: c.data.validation is None)
        for key in ("validate_every", "validation_limit", "bleu_limit", "sample_replies", "best_metric")
    ),
    Rule("training.bleu_limit", "task", lambda c: c.task != "translation" and c.data.validation is not None),
    Rule(
        "training.learning_rate_decay",
        "training.learning_rate_schedule",
        lambda c: c.training.learning_rate_schedule == "constant",
    ),
    Rule(
        "training.learning_rate_decay_steps",
        "training.learning_rate_schedule",
        lambda c: c.training.learning_rate_schedule != "exponential",
    ),
    Rule(
        "training.learning_rate_patience",
        "training.learning_rate_schedule",
        lambda c: c.training.learning_rate_schedule != "plateau",
    ),
    Rule(
        "training.gradient_clipping_by",
        "training.gradient_clipping",
        lambda c: c.training.gradient_clipping is None,
    ),
    Rule(
        "training.scheduled_sampling_probability",
        "training.scheduled_sampling",
        lambda c: c.training.scheduled_sampling == "none",
    ),
    Rule(
        "training.scheduled_sampling_steps",
        "training.scheduled_sampling",
        lambda c: c.training.scheduled_sampling in ("none", "constant"),
    ),
    Rule(
        "training.scheduled_sampling",
        "training.scheduled_sampling_probability",
        lambda c: c.training.scheduled_sampling_probability == 0,
    ),
    Rule(
        "training.sampled_softmax",
        "data.vocabulary_size",
        lambda c: c.data.target_vocabulary_size is None and _samples_all_words(c),
    ),
    Rule(
        "training.sampled_softmax",
        "data.target_vocabulary_size",
        lambda c: c.data.target_vocabulary_size is not None and _samples_all_words(c),
    ),
    Rule("model.bridge", "model.bidirectional", lambda c: not c.model.bidirectional),
    *(
        Rule(f"model.{key}", "model.attention", lambda c: c.model.attention == "none")
        for key in ("attention_query", "input_feeding")
    ),
    Rule(
        "model.input_feeding",
        "model.attention_query",
        lambda c: c.model.attention != "none" and c.model.attention_query == "previous",
    ),
    Rule("decoding.diversity_penalty", "decoding.beam_groups", lambda c: c.decoding.beam_groups == 1),
    Rule("decoding.rerank", "decoding.beam_width", lambda c: c.decoding.beam_width == 1),
    Rule(
        "decoding.rerank",
        "decoding.rerank_weight",
        lambda c: c.decoding.rerank_weight == 0 and c.decoding.length_penalty == 0,
    ),
    Rule("decoding.rerank_weight", "decoding.rerank", lambda c: c.decoding.rerank == "none"),
    Rule("decoding.rerank_prefix_length", "decoding.rerank", lambda c: c.decoding.rerank != "anti_language_model"),
    *(
        Rule(f"decoding.{key}", "decoding.top_k", lambda c: c.decoding.top_k == 1)
        for key in ("temperature", "top_p", "seed", "n_best")
    ),
    Rule("decoding.replace_unknown", "model.attention", lambda c: c.model.attention == "none"),
    Rule("decoding.lexicon", "decoding.replace_unknown", lambda c: not c.decoding.replace_unknown),
    Rule(
        "decoding.no_repeat_ngram_size",
        "model.decoder_steps",
        lambda c: c.decoding.no_repeat_ngram_size > c.model.decoder_steps,
    ),
)
_DEFAULT = Config(name="default", data=Data(train="default"))


def unused_settings(config: Config) -> list[str]:
    """A sentence for each setting that differs from its default and has no effect."""
    unused = []
    for setting, cause, is_unused in RULES:
        value, default = (attrgetter(setting)(each) for each in (config, _DEFAULT))
        if value != default and is_unused(config):
            unused.append(f"{setting} has no effect, because {cause} is {_text(attrgetter(cause)(config))}")
    return unused


def _text(value: object) -> str:
    return cut(value if isinstance(value, str) else json.dumps(value))
