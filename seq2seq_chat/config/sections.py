"""What an experiment is: one typed, strict JSON file.

Every setting has its type, its range, its one default and one line of meaning here and nowhere else. An unknown key
or an impossible value is a :class:`ConfigError` that names the path of the key and what is allowed. Sections carry the
names of the packages that read them.
"""

from __future__ import annotations

import json
import os
from typing import Annotated, Literal, Optional, Union

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from seq2seq_chat.errors import UserError

PositiveInt = Annotated[int, Field(gt=0, le=10**9)]
Units = Annotated[int, Field(gt=0, le=10**6)]
Steps = Annotated[int, Field(gt=0, le=10**4)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Limits = Annotated[tuple[PositiveInt, PositiveInt], Field(strict=False)]  # JSON has lists only


def _file_path(path: str) -> str:
    try:
        if path and b"\0" not in os.fsencode(path):
            return path
    except UnicodeEncodeError:
        pass
    raise ValueError(f"must be the path of a file (it is {json.dumps(path)})")


FilePath = Annotated[str, AfterValidator(_file_path)]
RUN_NAME = r"^[A-Za-z0-9][A-Za-z0-9_.-]*$"


class ConfigError(UserError):
    """A configuration that cannot be used; the message names the key, the fault and the remedy."""


class Section(BaseModel):
    """Common rules of all sections: no unknown keys, no silent conversions, immutable once read."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Data(Section):
    """The corpora, the vocabulary, and how utterances become samples."""

    train: FilePath = Field(description="corpus file to learn from, relative to the working directory")
    validation: Optional[FilePath] = Field(
        None, description="corpus file for the loss while training; null: not validated"
    )
    test: Optional[FilePath] = Field(None, description="corpus file that `evaluate` uses unless told otherwise")
    vocabulary: Optional[FilePath] = Field(
        None, description="vocabulary file, one word a line; null: counted on the training corpus"
    )
    vocabulary_size: Annotated[int, Field(gt=4)] = Field(
        50_000, description="words the model knows, the four special ones included; rarer words are <unknown>"
    )
    level: Literal["word", "character"] = Field("word", description="what a token is")
    pairing: Literal["sliding", "alternating"] = Field(
        "sliding", description="sliding: each utterance answers the one before; alternating: odd lines ask, even answer"
    )
    buckets: Union[Literal["auto"], list[Limits], None] = Field(
        None,
        description="step limits [source, target] of batches, each a graph of its own; samples go where they fit, so "
        "that little is computed for padding; auto: chosen from the corpus's lengths; null: one graph of all steps",
    )
    most_buckets: PositiveInt = Field(6, description="graphs that `buckets: auto` may choose")
    context_turns: Annotated[int, Field(gt=0, le=1000)] = Field(
        1, description="last turns of the conversation that the encoder reads, separated by a marker word"
    )
    swap_samples: bool = Field(
        False, description="learn what was said from what was answered, for reranking with this model"
    )
    reverse_input: bool = Field(False, description="feed the source utterance to the encoder last word first")

    @model_validator(mode="after")
    def _swapped_single_turns(self) -> Data:
        if self.swap_samples and self.context_turns > 1:
            raise ValueError("swap_samples needs context_turns 1: what was said before an answer is one turn")
        return self


class Model(Section):
    """The architecture. Everything here shapes the variables and cannot change when a run goes on."""

    cell: Literal["lstm", "gru", "rnn"] = Field("lstm", description="recurrent cell of encoder and decoder")
    layers: Annotated[int, Field(gt=0, le=100)] = Field(
        1, description="stacked cells in the encoder, and as many in the decoder"
    )
    bidirectional: bool = Field(False, description="whether the encoder reads in both directions")
    hidden_size: Units = Field(2048, description="units of a cell's state")
    embedding_size: Units = Field(1024, description="units of a word vector")
    projection_size: Optional[Units] = Field(
        1024, description="units between the decoder and the softmax; null: the softmax reads the decoder directly"
    )
    attention: Literal["additive", "concat", "dot", "general", "none"] = Field(
        "additive", description="score of the decoder's attention; concat is another name of additive"
    )
    unrolling: Literal["static", "dynamic"] = Field(
        "static", description="the decoder's loop: our graph of all steps, or tensorflow-addons' dynamic decoder"
    )
    dropout: Annotated[float, Field(ge=0, lt=1)] = Field(
        0.0, description="share of units dropped while training, at word vectors, between layers and before the output"
    )
    shared_embeddings: bool = Field(False, description="one table of word vectors for encoder and decoder")
    pretrained_embeddings: Optional[FilePath] = Field(
        None, description="word2vec or fastText text file whose vectors start the tables, of embedding_size units"
    )
    encoder_steps: Steps = Field(30, description="tokens of an utterance that the encoder reads, at most")
    decoder_steps: Steps = Field(30, description="tokens of a reply, the end marker included, at most")

    @model_validator(mode="after")
    def _dot_needs_equal_sizes(self) -> Model:
        if self.attention == "dot" and self.bidirectional:
            raise ValueError(
                "attention dot needs encoder outputs of the decoder's size, and those of a bidirectional encoder are "
                "twice as large; choose general"
            )
        return self


class Training(Section):
    """How the variables are learned."""

    batch_size: PositiveInt = Field(64, description="samples in a step, those of all devices together")
    batch_parts: Optional[PositiveInt] = Field(
        None,
        description="parts of a batch that are computed side by side, each on its cores; null: as suits the machine",
    )
    steps: PositiveInt = Field(3_000_000, description="batches until training is finished")
    optimizer: Literal["adagrad", "adadelta", "adam", "rmsprop", "sgd"] = Field(
        "adagrad", description="rule that turns gradients into updates"
    )
    learning_rate: PositiveFloat = Field(0.01, description="size of an update")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(0.0, description="momentum of rmsprop and sgd")
    learning_rate_schedule: Literal["constant", "exponential", "plateau"] = Field(
        "constant",
        description="how the learning rate falls: never, step by step, or when the validation gets no better",
    )
    learning_rate_decay: Annotated[float, Field(gt=0, lt=1)] = Field(
        0.5, description="factor of the learning rate after learning_rate_decay_steps, or at a plateau"
    )
    learning_rate_decay_steps: PositiveInt = Field(100_000, description="exponential: steps to that factor")
    learning_rate_patience: PositiveInt = Field(
        2, description="plateau: validations without a new best until the learning rate falls"
    )
    early_stopping: Optional[PositiveInt] = Field(
        None, description="validations without a new best after which training is finished; null: it goes on to steps"
    )
    gradient_clipping: Optional[PositiveFloat] = Field(
        10.0, description="largest global norm of the gradient, or largest number in it; null: any"
    )
    gradient_clipping_by: Literal["norm", "value"] = Field(
        "norm", description="rescale the whole gradient, which keeps its direction, or cut each of its numbers"
    )
    scheduled_sampling: Literal["none", "constant", "linear", "exponential", "inverse_sigmoid"] = Field(
        "none", description="how the probability grows that the decoder is given its own word while training"
    )
    own_words: Annotated[float, Field(ge=0, le=1)] = Field(
        0.25, description="largest probability of an own word in scheduled sampling"
    )
    own_words_steps: PositiveInt = Field(
        100_000, description="scale of the growth; inverse_sigmoid is at half after about this times its logarithm"
    )
    sampled_softmax: Optional[PositiveInt] = Field(
        512,
        description="words sampled for the training loss where the vocabulary is larger; null: always the full softmax",
    )
    deterministic: Optional[bool] = Field(
        None, description="the same bits every time, slower on a GPU; null: on a processor yes, on a GPU no"
    )
    strategy: Literal["single", "mirrored", "multi_worker"] = Field(
        "single",
        description="devices that share each batch: one, several of this machine, or those of several machines",
    )
    replicas: Optional[PositiveInt] = Field(
        None,
        description="mirrored: how many GPUs, or parts of the processor where there are none; null: all GPUs, or cores",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        "float32",
        description="type in which matrices are multiplied while training; weights, optimizer and loss stay in float32",
    )
    log_every: PositiveInt = Field(50, description="steps between two lines of training metrics")
    validate_every: PositiveInt = Field(10_000, description="steps between two validations")
    validation_limit: Optional[PositiveInt] = Field(
        10_000, description="samples of the validation corpus that are used, evenly spread; null: all"
    )
    sample_replies: Annotated[int, Field(ge=0)] = Field(
        5, description="validation utterances that are answered at each validation, to watch the model learn"
    )
    checkpoint_every: PositiveInt = Field(10_000, description="steps between two checkpoints")
    keep_checkpoints: PositiveInt = Field(3, description="newest checkpoints that are kept")
    snapshot_every: Optional[PositiveInt] = Field(
        500_000, description="steps between two snapshots of the weights that are kept for ever; null: no snapshots"
    )

    @model_validator(mode="after")
    def _every_part_has_rows(self) -> Training:
        if self.batch_parts is not None and self.batch_parts > self.batch_size:
            raise ValueError(f"batch_parts is {self.batch_parts}, but a batch has {self.batch_size} samples only")
        return self

    @model_validator(mode="after")
    def _replicas_share_a_batch(self) -> Training:
        if self.replicas is not None and self.strategy != "mirrored":
            raise ValueError(f"replicas is used by the strategy mirrored only, and the strategy is {self.strategy}")
        if self.replicas is not None and self.batch_size % self.replicas:
            raise ValueError(
                f"batch_size is {self.batch_size}, which {self.replicas} replicas cannot share equally; "
                "it counts the samples of all replicas"
            )
        return self

    @model_validator(mode="after")
    def _momentum_has_a_reader(self) -> Training:
        if self.momentum and self.optimizer not in ("rmsprop", "sgd"):
            raise ValueError(f"momentum is used by rmsprop and sgd only, and the optimizer is {self.optimizer}")
        return self


class Decoding(Section):
    """How a reply is searched, unless the person who chats chooses otherwise."""

    method: Literal["greedy", "beam", "sample"] = Field(
        "greedy", description="best word by word, beam search, or drawing words at random"
    )
    n_best: PositiveInt = Field(1, description="replies returned, best first; when sampling, replies drawn")
    beam_width: Annotated[int, Field(gt=0, le=1000)] = Field(10, description="beam: hypotheses kept")
    length_penalty: Annotated[float, Field(ge=0, le=10)] = Field(
        0.0, description="beam: scores are divided by ((5 + words) / 6)^this, so that long replies have a chance"
    )
    beam_groups: PositiveInt = Field(1, description="beam: groups the beam is divided into, for more varied replies")
    group_diversity: Annotated[float, Field(ge=0, le=100)] = Field(
        0.5, description="beam: nats a word loses for each earlier group that took it"
    )
    temperature: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="sample: logits are divided by it; below 1 likely words become likelier"
    )
    top_k: Optional[PositiveInt] = Field(None, description="sample: draw from this many most probable words only")
    top_p: Optional[Annotated[float, Field(gt=0, le=1)]] = Field(
        None, description="sample: draw from the fewest words whose probabilities add up to this"
    )
    seed: Optional[Annotated[int, Field(ge=0, lt=2**31)]] = Field(
        None, description="sample: the same seed draws the same replies; without one they differ every time"
    )
    minimum_length: Annotated[int, Field(ge=0, le=10**4)] = Field(0, description="words before a reply may end")
    no_repeated_ngrams: Annotated[int, Field(ge=0, le=10**4)] = Field(
        0, description="no this many words in a row come twice in a reply; 0 allows it"
    )
    repetition_penalty: Annotated[float, Field(ge=1, le=100)] = Field(
        1.0, description="logits of words said before are divided by it, or multiplied if negative"
    )
    unrolling: Optional[Literal["static", "dynamic"]] = Field(
        None,
        description="greedy, beam: our search, or tensorflow-addons' dynamic decoder; null: as model.unrolling, "
        "where the options allow it",
    )
    rerank: Literal["none", "anti_language_model", "bidirectional"] = Field(
        "none", description="beam: order the hypotheses by mutual information, against replies that fit everything"
    )
    rerank_weight: Annotated[float, Field(ge=0, le=10)] = Field(
        0.5, description="rerank: weight of the language model, or of the backward model"
    )
    rerank_words: PositiveInt = Field(
        5, description="rerank anti_language_model: first words of a reply that the language model judges"
    )
    backward_run: Optional[FilePath] = Field(
        None, description="rerank bidirectional: a run trained with data.swap_samples"
    )
    allow_unknown: bool = Field(False, description="whether <unknown> may stand in a reply")
    replace_unknown: bool = Field(
        False, description="put the word of the utterance with the most attention in the place of <unknown>"
    )

    @model_validator(mode="after")
    def _n_best_within_the_beam(self) -> Decoding:
        available = {"greedy": 1, "beam": self.beam_width}.get(self.method, self.n_best)
        if self.n_best > available:
            raise ValueError(
                f"n_best is {self.n_best}, but {self.method} search has {available} "
                f"hypothes{'is' if available == 1 else 'es'}; use beam search with a beam_width of at least n_best"
            )
        return self

    @model_validator(mode="after")
    def _options_of_the_method(self) -> Decoding:
        for method, names in OPTIONS_OF_METHOD.items():
            unused = [name for name in names if getattr(self, name) != type(self).model_fields[name].default]
            if unused and self.method != method:
                raise ValueError(
                    f"{unused[0]} is used by method {method} only, and the method is {self.method}; "
                    f"leave it out or choose {method}"
                )
        if self.beam_width % self.beam_groups and self.beam_groups > 1:
            raise ValueError(
                f"beam_groups is {self.beam_groups}, which does not divide the beam_width of {self.beam_width}"
            )
        if self.unrolling == "dynamic" and not self.dynamic_can:
            raise ValueError(
                "unrolling dynamic knows greedy and beam search with a length_penalty, and no other option; "
                "leave the others out or choose static"
            )
        if self.rerank == "bidirectional" and self.backward_run is None:
            raise ValueError("rerank bidirectional needs a backward_run, a run trained with data.swap_samples")
        if self.backward_run is not None and self.rerank != "bidirectional":
            raise ValueError("backward_run is used by rerank bidirectional only")
        if self.replace_unknown and not self.allow_unknown:
            raise ValueError("replace_unknown has nothing to replace as long as allow_unknown is false")
        return self

    @property
    def dynamic_can(self) -> bool:
        """Whether the dynamic decoder has what is asked for."""
        return (
            self.method != "sample"
            and self.beam_groups == 1
            and not (self.minimum_length or self.no_repeated_ngrams or self.repetition_penalty != 1)
        )


OPTIONS_OF_METHOD = {
    "beam": ("length_penalty", "beam_groups", "group_diversity", "rerank", "backward_run"),
    "sample": ("temperature", "top_k", "top_p", "seed"),
}
"""Options that only one method of decoding reads; beam_width may stand anywhere, for whoever turns to beam search."""


class Config(Section):
    """One experiment."""

    name: Annotated[str, Field(pattern=RUN_NAME, max_length=100)] = Field(
        description="what the experiment is called; part of the run's folder"
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(1, description="source of every random number")
    data: Data
    model: Model = Model()
    training: Training = Training()
    decoding: Decoding = Decoding()

    @model_validator(mode="after")
    def _dynamic_in_float32(self) -> Config:
        if self.model.unrolling == "dynamic" and self.training.precision != "float32":
            raise ValueError(
                f"training.precision {self.training.precision} works with model.unrolling static only; "
                "the dynamic decoder computes in float32"
            )
        return self

    @model_validator(mode="after")
    def _what_needs_a_validation(self) -> Config:
        if self.data.validation is None:
            for key, used in (
                ("learning_rate_schedule plateau", self.training.learning_rate_schedule == "plateau"),
                ("early_stopping", self.training.early_stopping is not None),
            ):
                if used:
                    raise ValueError(f"training.{key} needs a data.validation to see whether the model gets better")
        return self

    def to_json(self) -> str:
        """The complete experiment, defaults included, as it is kept in a run."""
        return json.dumps(self.model_dump(), indent=2) + "\n"
