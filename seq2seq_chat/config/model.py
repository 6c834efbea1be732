"""The section `model`: the architecture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from seq2seq_chat.config.section import OF_SAMPLES, AppliesIf, FilePath, LanguageModelsRequire, Section

Units = Annotated[int, Field(gt=0, le=10**6)]
Steps = Annotated[int, Field(gt=0, le=10**4), OF_SAMPLES]
AttentionScore = Literal["additive", "concat", "dot", "general", "none"]
WITH_ATTENTION = AppliesIf("model.attention", unless=["none"])


class Model(Section):
    """The architecture. It cannot be changed when a run is resumed."""

    cell: Literal["lstm", "gru", "rnn"] = "lstm"
    """recurrent cell of encoder and decoder"""
    activation: Annotated[Literal["tanh", "relu"], AppliesIf("model.cell", "rnn")] = "tanh"
    """activation function: tanh, or relu, which passes gradients unchanged through an initial identity matrix (Le
    et al. 2015)"""
    layers: Annotated[int, Field(gt=0, le=100)] = 1
    """layers of the encoder, and of the decoder"""
    residual: Annotated[bool, AppliesIf("model.layers", unless=[1])] = False
    """whether each layer from the second on adds its input to its output (Wu et al. 2016)"""
    bidirectional: Annotated[bool, LanguageModelsRequire(False)] = False
    """whether the encoder reads in both directions"""
    bridge: Annotated[Literal["both", "backward"], AppliesIf("model.bidirectional", True)] = "both"
    """compute the decoder's initial state from the final states of both directions, or of the backward one
    (Bahdanau et al. 2014)"""
    hidden_size: Units = 2048
    """units of a cell"""
    embedding_size: Units = 1024
    """dimensions of a word embedding"""
    projection_size: Units | None = 1024
    """units of the projection between decoder and softmax; null: no projection"""
    attention: Annotated[AttentionScore, LanguageModelsRequire("none")] = "additive"
    """attention score function; concat is the same as additive"""
    attention_query: Annotated[Literal["current", "previous"], WITH_ATTENTION] = "current"
    """decoder state that attention is computed from: current, after the cell's step (Luong et al. 2015), or
    previous, so that the context enters the cell (Bahdanau et al. 2014)"""
    input_feeding: Annotated[bool, WITH_ATTENTION, AppliesIf("model.attention_query", "current")] = True
    """whether the cell also reads the decoder's previous output vector"""
    context: Annotated[Literal["initial_state", "every_step"], LanguageModelsRequire("initial_state")] = "initial_state"
    """where the thought vector, the encoder's final state, enters the decoder: as its initial state, or also as an
    input of the cell at every step (Cho et al. 2014)"""
    output: Literal["attentional", "maxout", "concatenated"] = "attentional"
    """output vector of the decoder: tanh of state and context (Luong et al. 2015); a maxout layer of state, previous
    word and context, with projection_size or else hidden_size units (Bahdanau et al. 2014); or state and context side
    by side (the thesis, 3.3)"""
    recurrent_initializer: Literal["glorot", "orthogonal", "identity"] = "glorot"
    """initial recurrent matrix of each gate of a cell; orthogonal: a random one"""
    unrolling: Annotated[Literal["static", "dynamic"], LanguageModelsRequire("static", "is unrolled statically")] = (
        "static"
    )
    """loop of the decoder: unrolled in the graph, or tensorflow-addons' dynamic decoder"""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """dropout rate of embeddings, between layers and before the output, in training"""
    shared_embeddings: Annotated[bool, LanguageModelsRequire(False)] = False
    """share the word embeddings of encoder and decoder"""
    tie_embeddings: bool = False
    """share the embedding of the target words with the output layer (Press & Wolf 2017), which requires output
    vectors of embedding_size"""
    pretrained_embeddings: FilePath | None = None
    """initial word embeddings: a word2vec or fastText text file of embedding_size dimensions"""
    encoder_steps: Steps = 30
    """maximum tokens of a source"""
    decoder_steps: Steps = 30
    """maximum tokens of a target, including the end-of-sequence token"""

    def problems(self) -> Iterator[str]:
        if self.attention == "dot" and self.bidirectional:
            yield (
                "attention dot requires encoder outputs of the size of the decoder, but those of a bidirectional "
                "encoder are twice as large; use general"
            )
        encoder_size = self.hidden_size * (2 if self.bidirectional else 1)
        size = self.projection_size or self.hidden_size + (encoder_size if self.output == "concatenated" else 0)
        if self.output == "concatenated" and self.attention == "none":
            yield "output concatenated requires attention, as without it there is no context; use attentional"
        if self.tie_embeddings and size != self.embedding_size:
            yield (
                f"tie_embeddings requires output vectors of embedding_size ({self.embedding_size}), but they have "
                f"{size} units; set projection_size to {self.embedding_size}"
            )
        if self.bidirectional and self.bridge == "backward" and self.attention == "none":
            yield (
                "bridge backward requires attention, as nothing else reads the outputs of the encoder's forward "
                "direction; use both"
            )
        if self.unrolling == "dynamic" and self.static_only:
            yield f"unrolling dynamic does not support {self.static_only}; use static"

    @property
    def static_only(self) -> str:
        """The setting that the dynamic decoder does not support, or "" if it supports all."""
        if self.attention_query == "previous" and self.attention != "none":
            return "attention_query previous"
        return "" if self.output == "attentional" else f"output {self.output}"
