"""A configuration: the sections of an experiment, and what their settings require of each other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from seq2seq_chat.config import language_model
from seq2seq_chat.config.data import Data, is_pairs
from seq2seq_chat.config.decoding import Decoding
from seq2seq_chat.config.labels import LABELS, Labels
from seq2seq_chat.config.model import Model
from seq2seq_chat.config.section import Section
from seq2seq_chat.config.training import Training

RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class Config(Section):
    """One experiment."""

    name: Annotated[str, Field(pattern=RUN_NAME, max_length=100)] = Field(
        description="name of the experiment, part of the name of the run's folder"
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(1, description="seed of all random numbers")
    task: Literal["conversation", "translation", "language_model"] = Field(
        "conversation",
        description="conversation: reply to utterances; translation: map source to target texts, learned from pairs; "
        "language_model: continue a text, learned from running text",
    )
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
        return language_model.fill_in_defaults(settings)

    @model_validator(mode="after")
    def _settings_apply_to_language_models(self) -> Config:
        if self.task == "language_model":
            language_model.ensure_applicable(self.data, self.model, self.training, self.decoding)
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
