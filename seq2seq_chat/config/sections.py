"""The sections of a configuration: the type, range, default and description of every setting."""

from __future__ import annotations

import json
import os
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from seq2seq_chat.system.errors import UserError


class ConfigError(UserError):
    """An invalid configuration; the message names the key, the problem and the remedy."""


def _file_path(path: str) -> str:
    try:
        if path and b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise ValueError(f"must be the path of a file (it is {json.dumps(path)})")


PositiveInt = Annotated[int, Field(gt=0, le=10**9)]
Units = Annotated[int, Field(gt=0, le=10**6)]
Steps = Annotated[int, Field(gt=0, le=10**4)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
BucketSize = Annotated[tuple[PositiveInt, PositiveInt], Field(strict=False)]  # a list in JSON
FilePath = Annotated[str, AfterValidator(_file_path)]
RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class Section(BaseModel):
    """Base class of all sections: no unknown keys, no type conversions, immutable."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Data(Section):
    """Corpora, vocabulary, and how utterances become samples."""

    train: FilePath = Field(description="training corpus, a path relative to the working directory")
    validation: FilePath | None = Field(None, description="validation corpus; null: no validation")
    test: FilePath | None = Field(None, description="default corpus of `evaluate`")
    vocabulary: FilePath | None = Field(
        None, description="vocabulary file, one word per line; null: built from the training corpus"
    )
    vocabulary_size: Annotated[int, Field(gt=4)] = Field(
        50_000, description="words in the vocabulary, including the four special ones; other words become <unknown>"
    )
    level: Literal["word", "character"] = Field("word", description="what a token is")
    pairing: Literal["sliding", "alternating"] = Field(
        "sliding",
        description="sliding: each utterance is the reply to the one before; alternating: utterances on odd lines, "
        "replies on even lines",
    )
    buckets: Literal["auto"] | list[BucketSize] | None = Field(
        None,
        description="maximum steps [source, target] of each bucket, which has a graph of its own; samples go into the "
        "smallest that fits, to save padding; auto: chosen from the lengths in the corpus; null: one bucket",
    )
    max_buckets: PositiveInt = Field(6, description="maximum number of buckets for `buckets: auto`")
    context_turns: Annotated[int, Field(gt=0, le=1000)] = Field(
        1, description="number of most recent turns in a source, separated by a marker word"
    )
    swap_source_target: bool = Field(
        False, description="train on (reply, utterance) instead of (utterance, reply), for decoding.backward_run"
    )
    reverse_input: bool = Field(False, description="feed the source to the encoder in reverse order")

    @model_validator(mode="after")
    def _swapping_needs_single_turns(self) -> Data:
        if self.swap_source_target and self.context_turns > 1:
            raise ValueError("swap_source_target requires context_turns 1, because the target is then one utterance")
        return self


class Model(Section):
    """The architecture. It cannot be changed when a run is resumed."""

    cell: Literal["lstm", "gru", "rnn"] = Field("lstm", description="recurrent cell of encoder and decoder")
    layers: Annotated[int, Field(gt=0, le=100)] = Field(1, description="layers of the encoder, and of the decoder")
    bidirectional: bool = Field(False, description="whether the encoder reads in both directions")
    hidden_size: Units = Field(2048, description="units of a cell")
    embedding_size: Units = Field(1024, description="dimensions of a word embedding")
    projection_size: Units | None = Field(
        1024, description="units of the projection between decoder and softmax; null: no projection"
    )
    attention: Literal["additive", "concat", "dot", "general", "none"] = Field(
        "additive", description="attention score function; concat is the same as additive"
    )
    unrolling: Literal["static", "dynamic"] = Field(
        "static", description="loop of the decoder: unrolled in the graph, or tensorflow-addons' dynamic decoder"
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="dropout rate of embeddings, between layers and before the output, in training"
    )
    shared_embeddings: bool = Field(False, description="share the word embeddings of encoder and decoder")
    pretrained_embeddings: FilePath | None = Field(
        None, description="initial word embeddings: a word2vec or fastText text file of embedding_size dimensions"
    )
    encoder_steps: Steps = Field(30, description="maximum tokens of a source")
    decoder_steps: Steps = Field(30, description="maximum tokens of a target, including the end-of-sequence token")

    @model_validator(mode="after")
    def _dot_needs_equal_sizes(self) -> Model:
        if self.attention == "dot" and self.bidirectional:
            raise ValueError(
                "attention dot requires encoder outputs of the size of the decoder, but those of a bidirectional "
                "encoder are twice as large; use general"
            )
        return self


class Training(Section):
    """Optimizer, loss, devices, and how often to log, validate and save."""

    batch_size: PositiveInt = Field(64, description="samples per step, over all devices")
    micro_batches: PositiveInt | None = Field(
        None,
        description="micro-batches per step, computed in parallel on CPU cores; null: chosen automatically",
    )
    steps: PositiveInt = Field(3_000_000, description="number of training steps, of one batch each")
    optimizer: Literal["adagrad", "adadelta", "adam", "rmsprop", "sgd"] = Field("adagrad", description="optimizer")
    learning_rate: PositiveFloat = Field(0.01, description="initial learning rate")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="momentum of rmsprop and sgd")
    learning_rate_schedule: Literal["constant", "exponential", "plateau"] = Field(
        "constant",
        description="exponential: decay with every step; plateau: decay when the validation loss stops improving",
    )
    learning_rate_decay: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="factor by which the learning rate decays"
    )
    learning_rate_decay_steps: PositiveInt = Field(
        100_000, description="exponential: steps over which the learning rate decays by learning_rate_decay"
    )
    learning_rate_patience: PositiveInt = Field(
        2, description="plateau: validations without improvement before the learning rate decays"
    )
    early_stopping: PositiveInt | None = Field(
        None, description="validations without improvement after which training stops; null: train for all steps"
    )
    gradient_clipping: PositiveFloat | None = Field(
        10.0, description="maximum global norm of the gradient, or maximum absolute value; null: no clipping"
    )
    gradient_clipping_by: Literal["norm", "value"] = Field(
        "norm", description="clip the gradient by its global norm, or each of its values"
    )
    source_noise: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0,
        description="probability in training that a source word becomes <unknown>, or a punctuation mark is left out",
    )
    scheduled_sampling: Literal["none", "constant", "linear", "exponential", "inverse_sigmoid"] = Field(
        "none", description="schedule of the probability that the decoder is fed its own output in training"
    )
    scheduled_sampling_probability: Annotated[float, Field(ge=0, le=1)] = Field(
        0.25, description="maximum probability of scheduled sampling"
    )
    scheduled_sampling_steps: PositiveInt = Field(
        100_000,
        description="time scale of the schedule; inverse_sigmoid reaches half of the maximum after about this many "
        "steps times their natural logarithm",
    )
    sampled_softmax: PositiveInt | None = Field(
        512, description="words sampled for the training loss if the vocabulary is larger; null: full softmax"
    )
    deterministic: bool | None = Field(
        None, description="bit-for-bit reproducible training, slower on a GPU; null: only without a GPU"
    )
    strategy: Literal["single", "mirrored", "multi_worker"] = Field(
        "single", description="devices that share a batch: one, all of one machine, or those of several machines"
    )
    replicas: PositiveInt | None = Field(
        None,
        description="mirrored: number of GPUs, or of virtual devices on a machine without; null: all GPUs, or one per "
        "core",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="data type of matrix products in training; weights, optimizer and loss are always float32",
    )
    log_every: PositiveInt = Field(50, description="steps between lines of training metrics")
    validate_every: PositiveInt = Field(10_000, description="steps between validations")
    validation_limit: PositiveInt | None = Field(
        10_000, description="maximum validation samples, evenly spaced over the corpus; null: all"
    )
    sample_replies: Annotated[int, Field(ge=0)] = Field(
        5, description="validation utterances to reply to at each validation"
    )
    checkpoint_every: PositiveInt = Field(10_000, description="steps between checkpoints")
    keep_checkpoints: PositiveInt = Field(3, description="number of newest checkpoints to keep")
    snapshot_every: PositiveInt | None = Field(
        500_000, description="steps between snapshots (weights that are never deleted); null: no snapshots"
    )

    @model_validator(mode="after")
    def _micro_batches_are_not_empty(self) -> Training:
        if self.micro_batches is not None and self.micro_batches > self.batch_size:
            raise ValueError(f"micro_batches is {self.micro_batches}, but batch_size is only {self.batch_size}")
        return self

    @model_validator(mode="after")
    def _replicas_share_a_batch(self) -> Training:
        if self.replicas is not None and self.strategy != "mirrored":
            raise ValueError(f"replicas applies to strategy mirrored only, but strategy is {self.strategy}")
        if self.replicas is not None and self.batch_size % self.replicas:
            raise ValueError(
                f"batch_size {self.batch_size} does not divide evenly among {self.replicas} replicas; it counts the "
                "samples of all replicas"
            )
        return self

    @model_validator(mode="after")
    def _momentum_applies(self) -> Training:
        if self.momentum and self.optimizer not in ("rmsprop", "sgd"):
            raise ValueError(f"momentum applies to rmsprop and sgd only, but optimizer is {self.optimizer}")
        return self


class Decoding(Section):
    """How replies are searched for; can be overridden when chatting."""

    method: Literal["greedy", "beam", "sample"] = Field(
        "greedy", description="the most probable word at each step, beam search, or random sampling"
    )
    n_best: PositiveInt = Field(1, description="number of replies; with sample: number of samples")
    beam_width: Annotated[int, Field(gt=0, le=1000)] = Field(10, description="beam: number of hypotheses")
    length_penalty: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="beam: divide scores by ((5 + words) / 6)^length_penalty, which favors longer replies"
    )
    beam_groups: PositiveInt = Field(1, description="beam: number of groups for diverse beam search")
    diversity_penalty: Annotated[float, Field(ge=0, le=100)] = Field(
        0.5, description="beam: penalty in nats for each earlier group that chose the same word"
    )
    temperature: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="sample: divide logits by this; lower values make probable words more probable"
    )
    top_k: PositiveInt | None = Field(None, description="sample: sample from the k most probable words")
    top_p: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="sample: sample from the most probable words whose probabilities add up to p"
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] | None = Field(
        None, description="sample: the same seed gives the same replies; null: different ones each time"
    )
    min_length: Annotated[int, Field(ge=0, le=10**4)] = Field(0, description="minimum words of a reply")
    no_repeat_ngram_size: Annotated[int, Field(ge=0, le=10**4)] = Field(
        0, description="n-grams of this size may not occur twice in a reply; 0: no restriction"
    )
    repetition_penalty: Annotated[float, Field(ge=1, le=100)] = Field(
        1.0, description="divide positive logits of words already in the reply by this, multiply negative ones"
    )
    unrolling: Literal["static", "dynamic"] | None = Field(
        None,
        description="greedy, beam: our search, or tensorflow-addons' dynamic decoder; null: as model.unrolling if the "
        "other options allow it",
    )
    rerank: Literal["none", "anti_language_model", "bidirectional"] = Field(
        "none", description="beam: rerank hypotheses by mutual information, to avoid generic replies"
    )
    rerank_weight: Annotated[float, Field(ge=0, le=10)] = Field(
        0.5, description="rerank: weight of the language model, or of the backward model"
    )
    rerank_prefix_length: PositiveInt = Field(
        5, description="rerank anti_language_model: number of first words of a reply that are penalized"
    )
    backward_run: FilePath | None = Field(
        None, description="rerank bidirectional: a run trained with data.swap_source_target"
    )
    allow_unknown: bool = Field(False, description="allow <unknown> in replies")
    replace_unknown: bool = Field(
        False, description="replace <unknown> by the source word with the highest attention weight"
    )

    @model_validator(mode="after")
    def _n_best_is_available(self) -> Decoding:
        available = {"greedy": 1, "beam": self.beam_width}.get(self.method, self.n_best)
        if self.n_best > available:
            raise ValueError(
                f"n_best is {self.n_best}, but {self.method} search has {available} "
                f"hypothes{'is' if available == 1 else 'es'}; use beam search with a beam_width of at least n_best"
            )
        return self

    @model_validator(mode="after")
    def _options_apply(self) -> Decoding:
        for method, names in OPTIONS_OF_METHOD.items():
            unused = [name for name in names if getattr(self, name) != type(self).model_fields[name].default]
            if unused and self.method != method:
                raise ValueError(
                    f"{unused[0]} applies to method {method} only, but method is {self.method}; "
                    f"remove it or use {method}"
                )
        if self.beam_width % self.beam_groups and self.beam_groups > 1:
            raise ValueError(f"beam_width {self.beam_width} does not divide evenly into {self.beam_groups} beam_groups")
        if self.unrolling == "dynamic" and not self.supports_dynamic:
            raise ValueError(
                "unrolling dynamic supports only greedy and beam search with a length_penalty; remove the other "
                "options or use static"
            )
        if self.rerank == "bidirectional" and self.backward_run is None:
            raise ValueError("rerank bidirectional requires backward_run, a run trained with data.swap_source_target")
        if self.backward_run is not None and self.rerank != "bidirectional":
            raise ValueError("backward_run applies to rerank bidirectional only")
        if self.replace_unknown and not self.allow_unknown:
            raise ValueError("replace_unknown requires allow_unknown")
        return self

    @property
    def supports_dynamic(self) -> bool:
        """Whether the dynamic decoder supports these options."""
        return (
            self.method != "sample"
            and self.beam_groups == 1
            and not (self.min_length or self.no_repeat_ngram_size or self.repetition_penalty != 1)
        )


OPTIONS_OF_METHOD = {
    "beam": ("length_penalty", "beam_groups", "diversity_penalty", "rerank", "backward_run"),
    "sample": ("temperature", "top_k", "top_p", "seed"),
}
"""Options that apply to one method only. beam_width is allowed with any, as the default for beam search."""


class Config(Section):
    """One experiment."""

    name: Annotated[str, Field(pattern=RUN_NAME, max_length=100)] = Field(
        description="name of the experiment, part of the name of the run's folder"
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(1, description="seed of all random numbers")
    data: Data
    model: Model = Model()
    training: Training = Training()
    decoding: Decoding = Decoding()

    @model_validator(mode="after")
    def _dynamic_needs_float32(self) -> Config:
        if self.model.unrolling == "dynamic" and self.training.precision != "float32":
            raise ValueError(
                f"training.precision {self.training.precision} requires model.unrolling static; the dynamic decoder "
                "computes in float32"
            )
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
