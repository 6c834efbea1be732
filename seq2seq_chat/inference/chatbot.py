"""A trained run → replies: the one door for terminal, web and scripts.

::

    bot = Chatbot.load(find_run("latest"))
    print(bot.reply("how are you ?").text)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Optional

import numpy as np

from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.encoded import fit_source
from seq2seq_chat.corpus.text import detokenize, tokenize
from seq2seq_chat.corpus.vocabulary import EOS, TURN, UNKNOWN, Vocabulary
from seq2seq_chat.decoding.hypotheses import Hypotheses
from seq2seq_chat.decoding.reply_search import ReplySearch
from seq2seq_chat.decoding.reranking import Judge, less_like_any_reply, ranked
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.runs import Run, find_run
from seq2seq_chat.training.restore import load_trained_model

MOST_SEARCHES = 8  # compiled graphs that a chat bot keeps: people try settings
NOT_OF_THE_SEARCH = {
    "seed": None,
    "rerank": "none",
    "rerank_weight": 0.5,
    "rerank_words": 5,
    "backward_run": None,
    "replace_unknown": False,
}
"""Settings that do not change the compiled search."""


class Hypothesis(NamedTuple):
    """One possible reply."""

    text: str
    words: list[str]  # without the end marker
    score: float  # log-probability of the words and the end marker, nats
    ended: bool  # true: by the end marker, false: cut at the model's step limit
    attention: list[list[float]]  # a row for each word, a column for each word of the source; empty without attention
    rank: float  # what the hypotheses are ordered by: the score, unless a setting weighs something else


class Reply(NamedTuple):
    """What the model says, and why."""

    text: str  # of the best hypothesis; empty where the utterance had no word the model could read
    hypotheses: list[Hypothesis]  # best first; no two with the same words
    source_words: list[str]  # what the model read, in the order it was written
    unknown_words: list[str]  # words of the utterance that are not in the vocabulary
    seconds: float  # time for all utterances answered together


class Chatbot:
    """A trained model that answers utterances. Loaded once, it answers any number of them."""

    def __init__(
        self,
        model: Seq2Seq,
        vocabulary: Vocabulary,
        config: Config,
        step: Optional[int] = None,
        results: Path = Path("results"),
    ) -> None:
        self.config, self.vocabulary, self._model, self._results = config, vocabulary, model, results
        self.step = step  # training steps behind the weights, where they come from a run
        self._searches: dict[Decoding, ReplySearch] = {}  # the least recently used first
        self._judge: Optional[Judge] = None
        self._backward: dict[str, Chatbot] = {}

    @classmethod
    def load(
        cls, run: Run, snapshot: Optional[str] = None, warn: Callable[[str], object] = lambda text: None
    ) -> Chatbot:
        """The chatbot of a run; see :func:`load_trained_model` for the errors raised."""
        trained = load_trained_model(run, snapshot, warn)
        return cls(trained.model, trained.vocabulary, run.config, trained.step, run.path.parent)

    def reply(self, text: str, decoding: Optional[Decoding] = None, history: Sequence[str] = ()) -> Reply:
        """Answer one utterance, whatever a person may have typed; ``history`` are the turns before it, oldest first."""
        return self.replies([text], decoding, [history])[0]

    def replies(
        self,
        texts: Sequence[str],
        decoding: Optional[Decoding] = None,
        histories: Optional[Sequence[Sequence[str]]] = None,
    ) -> list[Reply]:
        """Answer utterances that have nothing to do with each other, all at once.

        Args:
            texts: what is said.
            decoding: how to search; as configured if None.
            histories: the turns before each, oldest first. Models of a single turn (data.context_turns) read none.

        Raises:
            UserError: the run for reranking is missing or was not trained for it.
        """
        begun = time.perf_counter()
        decoding = decoding or self.config.decoding
        level, steps = self.config.data.level, self.config.model.encoder_steps
        said = [tokenize(text, level) for text in texts]
        sources = [
            self._with_turns(words, history)
            for words, history in zip(said, histories or [()] * len(texts), strict=True)
        ]
        readable = [row for row, words in enumerate(said) if words]
        fitted = [
            fit_source(self.vocabulary.ids(sources[row]), steps, self.config.data.reverse_input) for row in readable
        ]
        found: Optional[Hypotheses] = None
        if fitted:
            lengths = np.array([length for _, length in fitted], np.int32)
            found = self._find(np.stack([ids for ids, _ in fitted]), lengths, decoding, [said[row] for row in readable])
        seconds = time.perf_counter() - begun
        place = {row: number for number, row in enumerate(readable)}
        replies = []
        for row, words in enumerate(said):
            read = sources[row][-steps:]
            hypotheses = self._hypotheses(found, place[row], read, decoding) if found and words else []
            unknown = [word for word in dict.fromkeys(words) if word not in self.vocabulary]
            replies.append(Reply(hypotheses[0].text if hypotheses else "", hypotheses, read, unknown, seconds))
        return replies

    def _with_turns(self, words: list[str], history: Sequence[str]) -> list[str]:
        """The words of an utterance after those of the turns before it, as far as the model reads any."""
        before = self.config.data.context_turns - 1
        if not before:
            return words
        turns = [turn for text in history if (turn := tokenize(text, self.config.data.level))]
        return [word for turn in turns[-before:] for word in [*turn, TURN]] + words

    def _find(self, source: np.ndarray, lengths: np.ndarray, decoding: Decoding, said: list[list[str]]) -> Hypotheses:
        """The hypotheses of encoded sources, ranked as the settings ask for."""
        if decoding.rerank == "none":
            return self._search(decoding)(source, lengths, decoding.seed)
        found = self._search(decoding.model_copy(update={"n_best": decoding.beam_width}))(source, lengths)
        if decoding.rerank == "anti_language_model":
            self._judge = self._judge or Judge(self._model)
            found = less_like_any_reply(found, self._judge, decoding.rerank_weight, decoding.rerank_words)
        else:
            back = self._backward_bot(decoding).log_probabilities(self._texts(found), said)
            weight = decoding.rerank_weight
            found = ranked(found, (1 - weight) * found.scores + weight * back.reshape(found.scores.shape))
        return Hypotheses(*(field[:, : decoding.n_best] for field in found))

    def log_probabilities(self, sources: list[list[list[str]]], targets: list[list[str]]) -> np.ndarray:
        """log P(target | source) in nats, of the words of several sources for each target: [targets, sources]."""
        self._judge = self._judge or Judge(self._model)
        judge, reverse = self._judge, self.config.data.reverse_input
        pairs = [(source, target) for group, target in zip(sources, targets, strict=True) for source in group]
        fitted = [fit_source(self.vocabulary.ids(source), judge.source_steps, reverse) for source, _ in pairs]
        ids = np.zeros([len(pairs), judge.target_steps], np.int32)
        lengths = np.zeros(len(pairs), np.int32)
        for row, (_, target) in enumerate(pairs):
            words = [*self.vocabulary.ids(target), EOS][: judge.target_steps]
            ids[row, : len(words)], lengths[row] = words, len(words)
        nats = judge(np.stack([s for s, _ in fitted]), np.array([n for _, n in fitted], np.int32), ids, lengths)
        return nats.reshape(len(targets), -1)

    def _texts(self, found: Hypotheses) -> list[list[list[str]]]:
        """The words of all hypotheses, [batch][n][words]."""
        return [
            [self.vocabulary.tokens(int(i) for i in ids[:length] if i != EOS) for ids, length in zip(*row, strict=True)]
            for row in zip(found.words, found.lengths, strict=True)
        ]

    def _backward_bot(self, decoding: Decoding) -> Chatbot:
        wanted = str(decoding.backward_run)
        if wanted not in self._backward:
            run = find_run(wanted, self._results)
            if not run.config.data.swap_samples:
                raise UserError(
                    f"decoding.backward_run {wanted} was not trained with data.swap_samples; train one that was"
                )
            self._backward[wanted] = Chatbot.load(run)
        return self._backward[wanted]

    def _search(self, decoding: Decoding) -> ReplySearch:
        """The compiled search of some settings; those used last are kept."""
        key = decoding.model_copy(update=NOT_OF_THE_SEARCH)
        search = self._searches.pop(key, None) or ReplySearch(self._model, key)
        self._searches[key] = search
        if len(self._searches) > MOST_SEARCHES:
            del self._searches[next(iter(self._searches))]
        return search

    def _hypotheses(self, found: Hypotheses, row: int, read: list[str], decoding: Decoding) -> list[Hypothesis]:
        different: dict[tuple[int, ...], Hypothesis] = {}
        for n in range(found.scores.shape[1]):
            ids = tuple(int(i) for i in found.words[row, n, : found.lengths[row, n]])
            if np.isfinite(found.scores[row, n]) and ids not in different:  # what is drawn may be drawn twice
                one = Hypotheses(*(field[row, n] for field in found))
                different[ids] = self._hypothesis(one, read, decoding.replace_unknown)
        return list(different.values())

    def _hypothesis(self, found: Hypotheses, read: list[str], replace_unknown: bool) -> Hypothesis:
        ids = [int(i) for i in found.words[: found.lengths] if i != EOS]
        words = self.vocabulary.tokens(ids)
        attention = found.attention[: len(ids), : len(read)]
        if self.config.data.reverse_input:
            attention = attention[:, ::-1]  # back to the order the words were written in
        rows = attention.tolist() if attention.shape[1] else []
        if replace_unknown and rows:
            looked_at = [read[int(np.argmax(row))] for row in rows]
            words = [copy if i == UNKNOWN else word for i, word, copy in zip(ids, words, looked_at, strict=True)]
        text = detokenize(words, self.config.data.level)
        return Hypothesis(text, words, float(found.scores), bool(found.ended), rows, float(found.ranks))
