"""Constants and sizes of the layers."""

from __future__ import annotations

from typing import NamedTuple

from seq2seq_chat.config import Model

FORGET_BIAS = 1.0  # initial bias of an LSTM's forget gate
MASK_VALUE = -1e9  # added to masked scores, or in place of masked logits: exp() turns it into zero


class CellLayout(NamedTuple):
    """The blocks of units of a cell's matrices, and its state."""

    gates: int  # number of gates, including the candidate
    state: tuple[str, ...]  # names of the parts of the state, the output first
    recurrent: dict[str, int]  # the matrices applied to the state, and the number of gates of each


CELL_LAYOUTS = {
    "lstm": CellLayout(4, ("output", "memory"), {"recurrent": 4}),
    "gru": CellLayout(3, ("output",), {"recurrent": 2, "candidate": 1}),
    "rnn": CellLayout(1, ("output",), {"recurrent": 1}),
}
ATTENTION_VARIABLES: dict[str, tuple[str, ...]] = {
    "additive": ("key", "query", "score"),
    "concat": ("key", "query", "score"),
    "dot": (),
    "general": ("key",),
}


def encoder_output_size(config: Model) -> int:
    """Units of the encoder's outputs, which are the outputs of both directions if it is bidirectional."""
    return config.hidden_size * (2 if config.bidirectional else 1)


def decoder_output_size(config: Model) -> int:
    """Units of the decoder's outputs h̃."""
    return config.projection_size or config.hidden_size if config.output == "maxout" else config.hidden_size


def queries_previous(config: Model) -> bool:
    """Whether attention is computed from the decoder's previous state, so that the context enters the cell."""
    return config.attention != "none" and config.attention_query == "previous"


def feeds_output(config: Model) -> bool:
    """Whether the cell reads the decoder's previous output h̃."""
    return config.attention != "none" and config.input_feeding and not queries_previous(config)


def step_input_size(config: Model) -> int:
    """Units of what the decoder's first layer reads besides the word: the context, h̃, or nothing."""
    if queries_previous(config):
        return encoder_output_size(config)
    return decoder_output_size(config) if feeds_output(config) else 0


def context_size(config: Model) -> int:
    """Units of the vector that is combined with the decoder's state: the context, the thought vector, or nothing."""
    if config.attention != "none":
        return encoder_output_size(config)
    return config.hidden_size if config.output == "maxout" and config.context == "every_step" else 0
