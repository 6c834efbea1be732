"""The search for a reply as a person can watch it: its steps, with tokens for ids and the attention to the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.replies import HypothesisReader, SourceText
from seq2seq_chat.config import Decoding
from seq2seq_chat.engines import ReplyEngine
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.search.logit_rules import forbidding_setting, logit_rules
from seq2seq_chat.search.methods import length_divisor
from seq2seq_chat.search.records import Candidate, Node, SearchStep
from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS

END = SPECIAL_WORDS[EOS]


class WatchedSearch:
    """The beam search for the reply to one utterance.

    Args:
        ids: The encoder's input, int32 [1, source steps].
        length: int32 [1]; 0 if the utterance has no tokens, and then there are no steps.
        source: The utterance, with its history.
        decoding: The settings; the method is beam search and there is no reranking, whatever they say.
        prefix: Tokens that the reply must start with; ``<eos>`` ends it, and unknown ones are ``<unknown>``.
    """

    def __init__(
        self,
        engine: ReplyEngine,
        ids: npt.NDArray[np.int32],
        length: npt.NDArray[np.int32],
        source: SourceText,
        reader: HypothesisReader,
        decoding: Decoding,
        prefix: Sequence[str],
    ) -> None:
        self.source, self.decoding = source, decoding
        self._engine, self._input, self._reader = engine, (ids, length), reader
        self._vocabulary = reader.codecs.target.vocabulary
        self._prefix = [EOS if token == END else self._vocabulary.ids([token])[0] for token in prefix]

    def __iter__(self) -> Iterator[SearchStep]:
        """Search, and yield each step."""
        ids, length = self._input
        return self._engine.search(self.decoding).watch(ids, length, self._prefix) if length[0] else iter(())

    def token(self, word: int) -> str:
        """The token of an id; the end marker is ``<eos>``."""
        return self._vocabulary.words[word]

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
        return self._reader.read(hypothesis, self.source).text

    def attention(self, weights: npt.NDArray[np.float32]) -> list[float]:
        """The attention to each token of the source, from that to the encoder's steps; empty without attention."""
        return self._reader.attention(weights[np.newaxis], self.source)[0] if weights.size else []

    def forbidding_setting(self, candidate: Candidate, node: Node) -> str | None:
        """The decoding setting whose rule forbids a candidate for the next word of a hypothesis."""
        if candidate.fate != "forbidden":
            return None
        return forbidding_setting(logit_rules(self.decoding), node.words, candidate.word)

    def divisor(self, node: Node) -> float:
        """What the score of a hypothesis is divided by to rank it."""
        return float(length_divisor(len(node.words) - node.ended, self.decoding.length_penalty))
