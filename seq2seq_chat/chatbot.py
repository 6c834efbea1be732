"""A trained run → replies: the one door for terminal, web and scripts.

::

    bot = Chatbot.load(find_run("latest"))
    print(bot.reply("how are you ?").text)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

import numpy as np

from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.encoded import fit_source
from seq2seq_chat.corpus.text import detokenize, tokenize
from seq2seq_chat.corpus.vocabulary import EOS, Vocabulary
from seq2seq_chat.decoding.hypotheses import Hypotheses
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs import Run
from seq2seq_chat.training.restore import load_trained_model


class Hypothesis(NamedTuple):
    """One possible reply."""

    text: str
    words: list[str]  # without the end marker
    score: float  # log-probability of the words and the end marker, nats
    ended: bool  # false: cut at the model's step limit
    attention: list[list[float]]  # a row for each word, a column for each word of the source; empty without attention


class Reply(NamedTuple):
    """What the model says, and why."""

    text: str  # of the best hypothesis; empty where the utterance had no word the model could read
    hypotheses: list[Hypothesis]  # best first; no two with the same words
    source_words: list[str]  # what the model read, in the order it was written
    unknown_words: list[str]  # words of the utterance that are not in the vocabulary
    seconds: float  # time for all utterances answered together


class Chatbot:
    """A trained model that answers utterances. Loaded once, it answers any number of them."""

    def __init__(self, model: Seq2Seq, vocabulary: Vocabulary, config: Config) -> None:
        self.config, self.vocabulary, self._model = config, vocabulary, model
        self._searches: dict[Decoding, ReplySearch] = {}

    @classmethod
    def load(
        cls, run: Run, snapshot: Optional[str] = None, warn: Callable[[str], object] = lambda text: None
    ) -> Chatbot:
        """The chatbot of a run; see :func:`load_trained_model` for the errors raised."""
        trained = load_trained_model(run, snapshot, warn)
        return cls(trained.model, trained.vocabulary, run.config)

    def reply(self, text: str, decoding: Optional[Decoding] = None) -> Reply:
        """Answer one utterance, whatever a person may have typed."""
        return self.replies([text], decoding)[0]

    def replies(self, texts: Sequence[str], decoding: Optional[Decoding] = None) -> list[Reply]:
        """Answer utterances that have nothing to do with each other, all at once."""
        begun = time.perf_counter()
        level, steps = self.config.data.level, self.config.model.encoder_steps
        sources = [tokenize(text, level) for text in texts]
        readable = [row for row, words in enumerate(sources) if words]
        fitted = [
            fit_source(self.vocabulary.ids(sources[row]), steps, self.config.data.reverse_input) for row in readable
        ]
        found: Optional[Hypotheses] = None
        if fitted:
            lengths = np.array([length for _, length in fitted], np.int32)
            found = self._search(decoding or self.config.decoding)(np.stack([ids for ids, _ in fitted]), lengths)
        seconds = time.perf_counter() - begun
        place = {row: number for number, row in enumerate(readable)}
        replies = []
        for row, words in enumerate(sources):
            read = words[-steps:]
            hypotheses = self._hypotheses(found, place[row], len(read)) if found and words else []
            unknown = [word for word in dict.fromkeys(words) if word not in self.vocabulary]
            replies.append(Reply(hypotheses[0].text if hypotheses else "", hypotheses, read, unknown, seconds))
        return replies

    def _search(self, decoding: Decoding) -> ReplySearch:
        if decoding not in self._searches:
            self._searches[decoding] = ReplySearch(self._model, decoding)
        return self._searches[decoding]

    def _hypotheses(self, found: Hypotheses, row: int, source_words: int) -> list[Hypothesis]:
        return [
            self._hypothesis(Hypotheses(*(field[row, n] for field in found)), source_words)
            for n in range(found.scores.shape[1])
            if np.isfinite(found.scores[row, n])
        ]

    def _hypothesis(self, found: Hypotheses, source_words: int) -> Hypothesis:
        ids = [int(i) for i in found.words[: found.lengths] if i != EOS]
        words = self.vocabulary.tokens(ids)
        attention = found.attention[: len(ids), :source_words]
        if self.config.data.reverse_input:
            attention = attention[:, ::-1]  # back to the order the words were written in
        rows = attention.tolist() if attention.shape[1] else []
        text = detokenize(words, self.config.data.level)
        return Hypothesis(text, words, float(found.scores), bool(found.ended), rows)
