"""The beam search of a model, one step at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from seq2seq_chat.config import Decoding
from seq2seq_chat.decoding.logit_rules import configured_rules
from seq2seq_chat.decoding.observed_beam import Proposals, Propose, observed_beam_search, propose_words
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.search import SearchInputs
from seq2seq_chat.decoding.search_steps import SearchStep
from seq2seq_chat.inference.reply_search import model_step
from seq2seq_chat.model.eager import call_with_arrays
from seq2seq_chat.model.seq2seq import Seq2Seq

INT = tf.TensorSpec([], tf.int32)


class ObservedSearch:
    """Searches for replies to one encoded utterance, with one graph for all settings.

    Args:
        model: its variables may change between searches.
    """

    def __init__(self, model: Seq2Seq) -> None:
        self._model = model
        source = tf.TensorSpec([None, model.config.encoder_steps], tf.int32)
        self._start = tf.function(
            lambda source, lengths: model.start(model.encode(source, lengths)),
            autograph=False,
            input_signature=[source, tf.TensorSpec([None], tf.int32)],
        )
        outputs = self._start.get_concrete_function().structured_outputs
        state, memory = tf.nest.map_structure(lambda part: tf.TensorSpec(part.shape, part.dtype), outputs)
        history = tf.TensorSpec([None, model.config.decoder_steps], tf.int32)
        rows = tf.TensorSpec([None], tf.int32)
        self._step = tf.function(
            self._propose,
            autograph=False,
            input_signature=[state, memory, history, rows, INT, INT, INT, *SearchParameters.specs()],
        )

    def __call__(
        self,
        source: npt.NDArray[np.int32],
        length: npt.NDArray[np.int32],
        decoding: Decoding,
        prefix: Sequence[int] = (),
    ) -> Iterator[SearchStep]:
        """The steps of a search, see :func:`observed_beam_search`; decoding.method is taken to be beam.

        Args:
            source: ids [1, source steps].
            length: [1].
            decoding: the settings; reranking is no part of a search.
            prefix: ids of the words that a reply starts with.
        """
        return observed_beam_search(
            self._proposer(source, length, decoding),
            self._model.config.decoder_steps,
            width=decoding.beam_width,
            n_best=decoding.n_best,
            length_penalty=decoding.length_penalty,
            groups=decoding.beam_groups,
            diversity=decoding.diversity_penalty,
            prefix=prefix,
        )

    def _proposer(self, source: npt.NDArray[np.int32], length: npt.NDArray[np.int32], decoding: Decoding) -> Propose:
        """The model as a function of the words so far; it holds the decoder's state."""
        state, memory = call_with_arrays(self._start, source, length)
        parameters = SearchParameters.of_settings(decoding).arrays()

        def propose(
            history: npt.NDArray[np.int32], parents: npt.NDArray[np.int32], t: int, count: int, word: int
        ) -> Proposals:
            nonlocal state
            scalars = [np.int32(value) for value in (t, count, word)]
            fields, state = call_with_arrays(
                lambda *arrays: self._step(state, memory, *arrays), history, parents, *scalars, *parameters
            )
            return Proposals(*(field.numpy() for field in fields))

        return propose

    def _propose(
        self,
        state: Any,
        memory: Any,
        history: tf.Tensor,
        parents: tf.Tensor,
        t: tf.Tensor,
        count: tf.Tensor,
        word: tf.Tensor,
        *parameters: tf.Tensor,
    ) -> tuple[tuple[tf.Tensor, ...], Any]:
        config = self._model.config
        inputs = SearchInputs(
            model_step(self._model),
            state,
            memory=memory,
            steps=config.decoder_steps,
            source_steps=config.encoder_steps if memory.attended else 0,
            logit_rules=configured_rules(SearchParameters(*parameters)),
        )
        return propose_words(inputs, history, parents, t, count, word)
