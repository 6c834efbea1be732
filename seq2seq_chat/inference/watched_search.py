"""The search for a reply as a person can watch it: its steps, with tokens for ids and the attention to the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Decoding
from seq2seq_chat.data.codec import Codec
from seq2seq_chat.data.source_text import SourceText
from seq2seq_chat.data.vocabulary import EOS, SPECIAL_WORDS, UNKNOWN
from seq2seq_chat.decoding.result import Hypotheses
from seq2seq_chat.decoding.search_steps import Candidate, Node, SearchStep
from seq2seq_chat.inference.hypothesis_reader import HypothesisReader

if TYPE_CHECKING:
    from seq2seq_chat.inference.observed_search import ObservedSearch

END = SPECIAL_WORDS[EOS]


class WatchedSearch:
    """The beam search for the reply to one utterance.

    Args:
        search: Of the model.
        ids: The encoder's input, int32 [1, source steps].
        length: int32 [1]; 0 if the utterance has no tokens, and then there are no steps.
        source: The utterance, with its history.
        codec: Of the target.
        reader: Turns hypotheses into tokens.
        decoding: The settings; the method is beam search and there is no reranking, whatever they say.
        prefix: Tokens that the reply must start with; ``<eos>`` ends it, and unknown ones are ``<unknown>``.
    """

    def __init__(
        self,
        search: ObservedSearch,
        ids: npt.NDArray[np.int32],
        length: npt.NDArray[np.int32],
        source: SourceText,
        codec: Codec,
        reader: HypothesisReader,
        decoding: Decoding,
        prefix: Sequence[str],
    ) -> None:
        self.source, self.decoding = source, decoding
        self._search, self._input, self._codec, self._reader = search, (ids, length), codec, reader
        self._prefix = [EOS if token == END else codec.vocabulary.ids([token])[0] for token in prefix]

    def __iter__(self) -> Iterator[SearchStep]:
        """Search, and yield each step."""
        ids, length = self._input
        return self._search(ids, length, self.decoding, self._prefix) if length[0] else iter(())

    def token(self, word: int) -> str:
        """The token of an id; the end marker is ``<eos>``."""
        return self._codec.vocabulary.words[word]

    def text(self, node: Node) -> str:
        """A hypothesis as people write it."""
        hypothesis = Hypotheses(
            words=np.array(node.words, np.int32),
            lengths=np.array(len(node.words)),
            scores=np.array(node.score),
            ended=np.array(node.ended),
            attention=np.stack(node.attention),
            ranks=np.array(node.rank),
        )
        return self._codec.text(self._reader.read(hypothesis, self.source)[0])

    def attention(self, weights: npt.NDArray[np.float32]) -> list[float]:
        """The attention to each token of the source, given that of the encoder's steps; empty without attention."""
        return self._reader.attention(weights[np.newaxis], self.source)[0] if weights.size else []

    def forbidding_setting(self, candidate: Candidate, node: Node) -> str | None:
        """The decoding setting whose rule forbids a candidate for the next word of a hypothesis."""
        if candidate.fate != "forbidden":
            return None
        if candidate.word == UNKNOWN and not self.decoding.allow_unknown:
            return "allow_unknown"
        if candidate.word == EOS and len(node.words) < self.decoding.min_length:
            return "min_length"
        return "no_repeat_ngram_size"
