"""Replies of one model that are searched together, a step at a time, and can be read while they grow."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from seq2seq_chat.chat.chatbot import Chatbot, Utterance, before_reranking
from seq2seq_chat.chat.replies import HypothesisReader, Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.search.joint import JointSearches, OnHypotheses, Utterances
from seq2seq_chat.search.methods import certain_words
from seq2seq_chat.text.vocabulary import UNKNOWN


class StopRule(NamedTuple):
    """When a search may end early, as no more of the reply is needed; the reply itself is not cut."""

    tokens: int | None = None  # once it is certain to have more than these
    texts: Sequence[str] = ()  # once one of these is certain to be in it

    def applies(self, words: Sequence[str], text: str) -> bool:
        """Whether it applies to the words and the text with which the reply starts in any case."""
        longest = max(map(len, self.texts), default=0)
        enough = any(0 <= text.find(stop) <= len(text) - longest for stop in self.texts)
        return enough or (self.tokens is not None and len(words) > self.tokens)


NEVER = StopRule()


class Question(NamedTuple):
    """An utterance, and what becomes of the reply to it."""

    text: str
    history: Sequence[str]  # the turns before it, oldest first
    seed: int  # of sampling
    on_end: Callable[[Reply | Exception], None]
    on_step: Callable[[Callable[[], str]], bool] | None = None
    """Called after each step with what returns the text so far; whether to continue."""
    prefix: str | Sequence[str] = ""  # what the reply starts with: a text, in whole tokens, or tokens
    is_certain: bool = False  # whether ``on_step`` gets only the beginning of the reply that cannot change any more
    stop: StopRule = NEVER


class JointReplies:
    """Replies with any settings; each joins the others at the next step and leaves at its end."""

    def __init__(self, bot: Chatbot) -> None:
        self._bot = bot
        self._searches = JointSearches(bot.engine.steps)

    def __len__(self) -> int:
        """The number of replies that have not ended."""
        return len(self._searches)

    def __bool__(self) -> bool:
        return bool(self._searches)

    def step(self) -> None:
        """Compute a step of all replies."""
        self._searches.step()

    def start(self, questions: Sequence[Question], decoding: Decoding) -> None:
        """Start replies; see :meth:`Chatbot.replies`.

        Args:
            questions: Their functions are called after each step, and with the reply or the error.

        Raises:
            UserError: See :meth:`Chatbot.replies`; then none has started.
        """
        bot = self._bot
        reader, search = bot.reader(decoding), bot.engine.search(before_reranking(decoding))
        starts = [bot.prefix_ids(question.prefix) for question in questions]
        read = [bot.read(question.text, question.history) for question in questions]
        for question, utterance in zip(questions, read, strict=True):
            if not utterance.words:
                question.on_end(bot.to_reply(utterance, reader, None, 0.0))
        pairs = [pair for pair in zip(questions, read, strict=True) if pair[1].words]
        if pairs:
            ids, lengths = bot.source_ids([utterance.source for _, utterance in pairs])
            seeds, start = [question.seed for question, _ in pairs], time.perf_counter()
            prefixes = [prefix for prefix, utterance in zip(starts, read, strict=True) if utterance.words]
            watchers = [self._watcher(question) for question, _ in pairs]
            ends = [functools.partial(self._end, reader, decoding, start, *pair) for pair in pairs]
            self._searches.add(Utterances(search, ids, lengths, seeds, prefixes, watchers, ends))

    def _watcher(self, question: Question) -> OnHypotheses | None:
        """What calls ``on_step`` of a question."""
        target, on_step, stop = self._bot.codecs.target, question.on_step, question.stop
        if on_step is None:
            return None

        def watch(so_far: Callable[[], Hypotheses], _: Callable[[], Hypotheses]) -> bool:
            def text() -> str:
                found = so_far()
                return target.decode(found.words[0, : found.lengths[0]])

            return on_step(text)

        def watch_certain(so_far: Callable[[], Hypotheses], kept: Callable[[], Hypotheses]) -> bool:
            ids = certain_words(kept())
            words = target.words(itertools.takewhile(lambda word: word != UNKNOWN, ids))  # which may still be replaced
            text = target.text(words).rpartition(" ")[0]  # the last word may go on
            goes_on = on_step(lambda: text) if question.is_certain else watch(so_far, kept)
            return goes_on and not stop.applies(words, text)

        return watch_certain if question.is_certain or stop != NEVER else watch

    def _end(
        self,
        reader: HypothesisReader,
        decoding: Decoding,
        start: float,
        question: Question,
        utterance: Utterance,
        result: Hypotheses | Exception,
    ) -> None:
        """Call ``on_end`` of a question with the reply or the error."""
        reply: Reply | Exception
        try:
            if isinstance(result, Exception):
                raise result
            hypotheses = self._bot.rerank(result.at(np.newaxis), decoding, [utterance.words]).at(0)
            reply = self._bot.to_reply(utterance, reader, hypotheses, time.perf_counter() - start)
        except Exception as error:
            reply = error
        question.on_end(reply)
