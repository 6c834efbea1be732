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
from seq2seq_chat.config.model import Model
from seq2seq_chat.config.section import FilePath, LanguageModelsRequire, Section, conditions
from seq2seq_chat.config.training import Training
from seq2seq_chat.system.errors import cut

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
    results: FilePath | None = None
    """folder for new runs, unless --results names one; null: the folder in SEQ2SEQ_CHAT_RESULTS, or else ./results"""
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

    def problems(self) -> Iterator[str]:
        data, model, training = self.data, self.model, self.training
        yield from self._problems_of_the_task()
        if training.best_metric == "bleu" and self.task != "translation":
            yield f"training.best_metric bleu applies to task translation only, but task is {self.task}; use loss"
        if model.shared_embeddings and not data.has_shared_vocabulary:
            yield (
                "model.shared_embeddings requires that source and target share a vocabulary, but they have two; set "
                "model.shared_embeddings to false, or data.shared_vocabulary to true"
            )
        if model.unrolling == "dynamic" and training.precision != "float32":
            yield (
                f"training.precision {training.precision} requires model.unrolling static; the dynamic decoder "
                "computes in float32"
            )
        if self.decoding.unrolling == "dynamic" and model.static_only:
            yield f"decoding.unrolling dynamic does not support model.{model.static_only}; use built_in"
        if data.validation is None and training.learning_rate_schedule == "plateau":
            yield "training.learning_rate_schedule plateau requires data.validation"
        if data.validation is None and training.early_stopping is not None:
            yield "training.early_stopping requires data.validation"

    def _problems_of_the_task(self) -> Iterator[str]:
        """Settings and corpora that do not suit the task."""
        if self.task == "language_model":
            for path, _, required in _language_model_settings():
                if (value := attrgetter(path)(self)) != required.value:
                    yield required.problem(path, value)
            if self.data.shared_vocabulary is False:
                yield "a language model has no source, so data.shared_vocabulary does not apply to it; remove it"
        for name in ("train", "validation", "test"):
            files = getattr(self.data, name)
            if files is not None and self.task == "language_model" and is_pairs(files):
                yield f"task is language_model, but data.{name} ({files}) has pairs; use a text file"
            if files is not None and self.task == "translation" and not is_pairs(files):
                yield (
                    f"task is translation, but data.{name} ({files}) is a file of conversations; use pairs of texts: a "
                    '.tsv of two columns, or {"source": FILE, "target": FILE}'
                )

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
