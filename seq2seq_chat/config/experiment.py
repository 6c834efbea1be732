"""A configuration: the sections of an experiment, what their settings require of each other, and words of its task."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from operator import attrgetter
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import Field, model_validator
from pydantic.fields import FieldInfo

from seq2seq_chat.config.data import Data, is_pairs
from seq2seq_chat.config.decoding import Decoding
from seq2seq_chat.config.messages import cut
from seq2seq_chat.config.model import Model
from seq2seq_chat.config.section import LanguageModelsRequire, Section, conditions
from seq2seq_chat.config.training import Training

RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class Labels(NamedTuple):
    """Names of the source, the output and the target of a model."""

    source: str
    sources: str
    output: str
    outputs: str
    reference: str  # the target that the output is compared with
    references: str
    you: str  # in front of what a person types
    model: str  # in front of what the model answers


LABELS = {
    "conversation": Labels(
        "utterance", "utterances", "reply", "replies", "expected reply", "expected replies", "you", "bot"
    ),
    "translation": Labels(
        "source", "sources", "translation", "translations", "reference", "references", "source", "translation"
    ),
    "language_model": Labels(
        "prompt", "prompts", "continuation", "continuations", "original", "originals", "prompt", "text"
    ),
}
"""What the parts of a sample are called where people read them, by task."""


class Config(Section):
    """One experiment."""

    name: Annotated[str, Field(pattern=RUN_NAME, max_length=100)]
    """name of the experiment, part of the name of the run's folder"""
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    """seed of all random numbers"""
    task: Literal["conversation", "translation", "language_model"] = "conversation"
    """conversation: reply to utterances; translation: map source to target texts, learned from pairs;
    language_model: continue a text, learned from running text"""
    data: Data
    model: Model = Model()
    training: Training = Training()
    decoding: Decoding = Decoding()

    @property
    def labels(self) -> Labels:
        """What source, output and target are called for this task."""
        return LABELS[self.task]

    @model_validator(mode="before")
    @classmethod
    def _translation_has_two_vocabularies(cls, settings: Any) -> Any:
        """Set ``data.shared_vocabulary`` to false, unless it is given."""
        if not isinstance(settings, Mapping) or settings.get("task") != "translation":
            return settings
        data = settings.get("data")
        if isinstance(data, Data) and data.shared_vocabulary is None:
            data = data.model_copy(update={"shared_vocabulary": False})
        elif isinstance(data, Mapping) and data.get("shared_vocabulary") is None:
            data = {**data, "shared_vocabulary": False}
        return {**settings, "data": data}

    @model_validator(mode="before")
    @classmethod
    def _language_models_have_no_source(cls, settings: Any) -> Any:
        """Set ``model.attention`` to none and ``decoding.method`` to sample, unless they are given."""
        if not isinstance(settings, Mapping) or settings.get("task") != "language_model":
            return settings
        filled = dict(settings)
        for path, field, required in _language_model_settings():
            section, _, key = path.partition(".")
            given = filled.get(section, {})
            if required.value == field.default:
                continue
            if isinstance(given, Section) and key not in given.model_fields_set:
                filled[section] = given.model_copy(update={key: required.value})
            elif isinstance(given, Mapping):
                filled[section] = {key: required.value, **given}
        return filled

    @model_validator(mode="after")
    def _settings_apply_to_language_models(self) -> Config:
        if self.task != "language_model":
            return self
        for path, _, required in _language_model_settings():
            required.ensure(path, attrgetter(path)(self))
        if self.data.shared_vocabulary is False:
            raise ValueError(
                "a language model has no source, so data.shared_vocabulary does not apply to it; remove it"
            )
        for name in ("train", "validation", "test"):
            files = getattr(self.data, name)
            if files is not None and is_pairs(files):
                raise ValueError(f"task is language_model, but data.{name} ({files}) has pairs; use a text file")
        return self

    @model_validator(mode="after")
    def _translation_needs_pairs(self) -> Config:
        for name in ("train", "validation", "test") if self.task == "translation" else ():
            files = getattr(self.data, name)
            if files is not None and not is_pairs(files):
                raise ValueError(
                    f"task is translation, but data.{name} ({files}) is a file of conversations; use pairs of texts: a "
                    '.tsv of two columns, or {"source": FILE, "target": FILE}'
                )
        return self

    @model_validator(mode="after")
    def _only_translations_have_a_bleu(self) -> Config:
        if self.training.best_metric == "bleu" and self.task != "translation":
            raise ValueError(
                f"training.best_metric bleu applies to task translation only, but task is {self.task}; use loss"
            )
        return self

    @model_validator(mode="after")
    def _shared_embeddings_need_a_shared_vocabulary(self) -> Config:
        if self.model.shared_embeddings and not self.data.has_shared_vocabulary:
            raise ValueError(
                "model.shared_embeddings requires that source and target share a vocabulary, but they have two; set "
                "model.shared_embeddings to false, or data.shared_vocabulary to true"
            )
        return self

    @model_validator(mode="after")
    def _dynamic_needs_float32(self) -> Config:
        if self.model.unrolling == "dynamic" and self.training.precision != "float32":
            raise ValueError(
                f"training.precision {self.training.precision} requires model.unrolling static; the dynamic decoder "
                "computes in float32"
            )
        return self

    @model_validator(mode="after")
    def _dynamic_search_supports_the_decoder(self) -> Config:
        if self.decoding.unrolling == "dynamic" and self.model.static_only:
            raise ValueError(f"decoding.unrolling dynamic does not support model.{self.model.static_only}; use static")
        return self

    @model_validator(mode="after")
    def _validation_corpus_is_set(self) -> Config:
        if self.data.validation is None:
            for key, used in (
                ("learning_rate_schedule plateau", self.training.learning_rate_schedule == "plateau"),
                ("early_stopping", self.training.early_stopping is not None),
            ):
                if used:
                    raise ValueError(f"training.{key} requires data.validation")
        return self

    def to_json(self) -> str:
        """The complete configuration, including defaults, as JSON."""
        return json.dumps(self.model_dump(), indent=2) + "\n"


def unused_settings(config: Config) -> list[str]:
    """A sentence for each setting that differs from its default and has no effect."""
    unused = []
    for path, field in _settings():
        if attrgetter(path)(config) == field.default:
            continue
        for condition in conditions(field):
            if not (condition.error or condition.silent or condition.is_met(config)):
                cause = attrgetter(condition.setting)(config)
                text = cut(cause if isinstance(cause, str) else json.dumps(cause))
                unused.append(f"{path} has no effect, because {condition.setting} is {text}")
                break
    return unused


def _settings() -> Iterator[tuple[str, FieldInfo]]:
    """All settings of the sections, by their paths."""
    sections: dict[str, type[Section]] = {"data": Data, "model": Model, "training": Training, "decoding": Decoding}
    for name, section in sections.items():
        yield from ((f"{name}.{key}", field) for key, field in section.model_fields.items())


def _language_model_settings() -> Iterator[tuple[str, FieldInfo, LanguageModelsRequire]]:
    """The settings of which a language model requires a value."""
    for path, field in _settings():
        yield from ((path, field, each) for each in field.metadata if isinstance(each, LanguageModelsRequire))
