"""Replies of a trained run, for the terminal, the web page and scripts.

::

    from seq2seq_chat import Chatbot, find_run

    bot = Chatbot.load(find_run("latest"))
    print(bot.reply("how are you?").text)
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.load import AUTO, TENSORFLOW, EngineOptions, load_engine
from seq2seq_chat.chat.replies import (
    READABLE,
    Hypothesis,
    HypothesisReader,
    Reply,
    SourceText,
    removed_letters,
    source_text,
)
from seq2seq_chat.chat.watched_search import WatchedSearch
from seq2seq_chat.config import Config, Decoding, override_decoding
from seq2seq_chat.data.dataset import Dataset, fit_source
from seq2seq_chat.engines import ReplyEngine
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.search.batches import ReplySearch, Seeds
from seq2seq_chat.search.engine import NEG_INF, Hypotheses, OnStep
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs, convert_tokens
from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS, TURN

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on


MIN_WORDS = 3  # of an utterance, for the share of its words that are unknown

OnTexts = Callable[[list[str]], bool]


class Chatbot:
    """A trained model that replies to any number of utterances."""

    TASK: str | None = None  # of the runs that can be loaded; None: any that replies

    def __init__(
        self,
        engine: ReplyEngine,
        codecs: Codecs,
        config: Config,
        step: int = 0,
        results: Path = Path("results"),
    ) -> None:
        self.config, self.codecs, self.engine, self._results = config, codecs, engine, results
        self.step = step  # training steps of the weights, if they come from a run
        self.warnings: list[str] = []  # damaged checkpoints that were skipped
        self._backward: dict[str, Chatbot] = {}
        self._engine_options = TENSORFLOW  # of the backward model
        self._readers: dict[tuple[bool, str | None], HypothesisReader] = {}

    @classmethod
    def load(
        cls,
        run: Run,
        snapshot: str | None = None,
        engine: EngineOptions = AUTO,
        decoding: Decoding | None = None,
    ) -> Self:
        """The chatbot of a run or an exported model; see :func:`load_engine` for arguments and errors raised."""
        if cls.TASK not in (None, run.config.task):
            raise RunError(f"run {run.name} is no {cls.TASK}: its task is {run.config.task}")
        loaded = load_engine(run, snapshot, engine, decoding)
        chatbot = cls(loaded.engine, loaded.codecs, run.config, loaded.step, run.results)
        chatbot.warnings, chatbot._engine_options = loaded.warnings, engine
        return chatbot

    @property
    def unreadable(self) -> str:
        """The message about an utterance without tokens; it has no full stop."""
        readable = READABLE.get(self.codecs.source.tokenizer.name)
        return f"This model reads only {readable}" if readable else "There is nothing to read in this text"

    def reply(self, text: str, decoding: Decoding | None = None, history: Sequence[str] = ()) -> Reply:
        """Reply to one utterance; see :meth:`replies`."""
        return self.replies([text], decoding, [history])[0]

    def replies(
        self,
        texts: Sequence[str],
        decoding: Decoding | None = None,
        histories: Sequence[Sequence[str]] | None = None,
        seeds: Sequence[int] | None = None,
        on_step: OnTexts | None = None,
    ) -> list[Reply]:
        """Reply to several independent utterances at once.

        Args:
            texts: utterances, which may be any strings.
            decoding: settings of the search; those of the run if None.
            histories: the turns before each, oldest first; ignored by models that read a single turn
                (data.context_turns).
            seeds: of sampling, one for each; that of the settings if None.
            on_step: called with the replies so far after each step of the search; the search ends early if it returns
                False.

        Raises:
            UserError: the run for reranking is missing or was not trained for it, or the lexicon cannot be read.
        """
        start = time.perf_counter()
        decoding = decoding or self.config.decoding
        reader = self.reader(decoding)
        steps = self.config.model.encoder_steps
        utterances = [self.codecs.source.tokenizer.encode(text) for text in texts]
        sources = [
            self._with_history(words, history)
            for words, history in zip(utterances, histories or [()] * len(texts), strict=True)
        ]
        readable = [row for row, words in enumerate(utterances) if words]
        results: dict[int, Hypotheses] = {}
        if readable:
            ids, lengths = self._source_ids([sources[row] for row in readable])
            chosen = decoding.seed if seeds is None else [seeds[row] for row in readable]
            report = on_step and self._report(on_step, readable, len(texts))
            targets = [utterances[row] for row in readable]
            hypotheses = self.search_and_rerank(ids, lengths, decoding, targets, chosen, report)
            results = {row: hypotheses.at(n) for n, row in enumerate(readable)}
        seconds = time.perf_counter() - start
        replies = []
        for row, words in enumerate(utterances):
            source = sources[row][-steps:] if words else []
            read = SourceText(source, texts[row])
            candidates = reader.distinct(results[row], read) if row in results else []
            unknown = [word for word in dict.fromkeys(words) if word not in self.codecs.source.vocabulary]
            text, unread = candidates[0].text if candidates else "", max(0, len(words) - steps)
            share, removed = self._unknown_share(words), removed_letters(texts[row], words, self.codecs.source)
            replies.append(Reply(text, candidates, source, unknown, seconds, unread, share, removed))
        return replies

    def _report(self, on_step: OnTexts, rows: list[int], count: int) -> OnStep:
        """Calls ``on_step`` with the text of each first hypothesis; ``rows`` are the utterances searched for."""
        texts = [""] * count

        def report(first: int, hypotheses: Hypotheses) -> bool:
            words, lengths = np.asarray(hypotheses.words[:, 0]), np.asarray(hypotheses.lengths[:, 0])
            for n, (ids, length) in enumerate(zip(words, lengths, strict=True), start=first):
                texts[rows[n]] = self.codecs.target.decode(ids[:length])
            return on_step(list(texts))

        return report

    def watch(
        self, text: str, decoding: Decoding, history: Sequence[str] = (), prefix: Sequence[str] = ()
    ) -> WatchedSearch:
        """The search for a reply to an utterance, step by step; see :class:`WatchedSearch`.

        Raises:
            LexiconError: The lexicon cannot be read.
        """
        words = self.codecs.source.tokenizer.encode(text)
        source = self._with_history(words, history)[-self.config.model.encoder_steps :] if words else []
        ids, length = self._source_ids([source])
        return WatchedSearch(
            self.engine, ids, length, SourceText(source, text), self.reader(decoding), decoding, prefix
        )

    def _unknown_share(self, words: list[str]) -> float:
        """Share of unknown tokens among those with letters; 0 for a name or two in letters that the vocabulary has."""
        words = [word for word in words if any(map(str.isalpha, word))]
        if len(words) < MIN_WORDS:
            letters = set(filter(str.isalpha, "".join(words)))
            return float(bool(letters) and letters.isdisjoint(self._known_letters))
        return sum(word not in self.codecs.source.vocabulary for word in words) / len(words)

    @functools.cached_property
    def _known_letters(self) -> frozenset[str]:
        """The characters of the words that the model reads."""
        return frozenset("".join(self.codecs.source.vocabulary.words[len(SPECIAL_WORDS) :]))

    def _with_history(self, words: list[str], history: Sequence[str]) -> list[str]:
        """The words of an utterance, preceded by as many turns as the model reads."""
        turns_before = self.config.data.context_turns - 1
        if not turns_before:
            return words
        turns = [turn for text in history if (turn := self.codecs.source.tokenizer.encode(text))]
        return [word for turn in turns[-turns_before:] for word in [*turn, TURN]] + words

    def _source_ids(self, sources: Sequence[list[str]]) -> tuple[np.ndarray, np.ndarray]:
        """The encoder's input: ids int32 [n, source steps], lengths int32 [n]."""
        steps, reverse = self.config.model.encoder_steps, self.config.data.reverse_input
        rows = [fit_source(self.codecs.source.vocabulary.ids(words), steps, reverse) for words in sources]
        return np.stack([ids for ids, _ in rows]), np.array([length for _, length in rows], np.int32)

    def search_and_rerank(
        self,
        source: np.ndarray,
        lengths: np.ndarray,
        decoding: Decoding,
        utterances: list[list[str]],
        seeds: Seeds | None = None,
        on_step: OnStep | None = None,
    ) -> Hypotheses:
        """Search for replies to encoded sources, and rerank them by mutual information if configured.

        Reranking favors replies that fit the utterance over replies that fit any. T is a reply, S the utterance, λ is
        ``rerank_weight`` and γ ``rerank_prefix_length``::

            anti-language model   log p(T|S) - λ Σ_{k ≤ γ} log p(t_k | t_1 … t_{k-1})      equations 9 to 11
            bidirectional         (1 - λ) log p(T|S) + λ log p(S|T)                        equation 12

        The language model p(T) is the model itself with an empty source. p(S|T) is another model, trained with source
        and target swapped. Source: Li, Galley, Brockett, Gao & Dolan, "A diversity-promoting objective function for
        neural conversation models", 2016.

        Args:
            source: Ids int32 [n, source steps].
            lengths: int32 [n].
            decoding: The settings.
            utterances: The tokens of the sources.
            seeds, on_step: See :func:`seq2seq_chat.search.batches.search_in_batches`.
        """
        if decoding.rerank == "none":
            return self.search(decoding)(source, lengths, seeds, on_step)
        search = self.search(decoding.model_copy(update={"n_best": decoding.beam_width}))
        hypotheses, weight = search(source, lengths, on_step=on_step), decoding.rerank_weight
        if decoding.rerank == "anti_language_model":
            ranks = hypotheses.scores - weight * self._prefix_scores(hypotheses, decoding.rerank_prefix_length)
        else:
            backward = self._backward_scores(self.backward_bot(decoding), hypotheses, utterances)
            ranks = (1 - weight) * hypotheses.scores + weight * backward
        ranks = np.where(np.isfinite(hypotheses.scores), ranks, NEG_INF).astype(np.float32)  # missing ones stay last
        order = np.argsort(-ranks, axis=1, kind="stable")[:, : decoding.n_best]
        return hypotheses._replace(ranks=ranks).at((np.arange(len(order))[:, np.newaxis], order))

    def _prefix_scores(self, hypotheses: Hypotheses, prefix_length: int) -> np.ndarray:
        """log P(first words | empty source) of hypotheses in nats: [batch, n]."""
        batch, n, steps = hypotheses.words.shape
        source = np.zeros([batch * n, self.engine.scorer.source_steps], np.int32), np.zeros(batch * n, np.int32)
        lengths = np.minimum(hypotheses.lengths.reshape(-1), prefix_length).astype(np.int32)
        log_p = self.engine.scorer.log_probabilities(*source, hypotheses.words.reshape(-1, steps), lengths)
        return log_p.reshape(batch, n)

    def _backward_scores(self, backward: Chatbot, hypotheses: Hypotheses, utterances: list[list[str]]) -> np.ndarray:
        """log P(utterance | hypothesis) in nats, by a model with tokenizers and vocabularies of its own: [batch, n]."""
        batch, n, steps = hypotheses.words.shape
        (source, target), (backward_source, backward_target) = self.codecs.tokenizers, backward.codecs.tokenizers
        rows = zip(hypotheses.words.reshape(-1, steps), hypotheses.lengths.reshape(-1), strict=True)
        replies = [self.codecs.target.words(ids[:length]) for ids, length in rows]
        converted = [convert_tokens(words, source, backward_target) for words in utterances]
        return backward.log_probabilities(
            [convert_tokens(words, target, backward_source) for words in replies],
            [words for words in converted for _ in range(n)],
        ).reshape(batch, n)

    def log_probabilities(self, sources: Sequence[list[str]], targets: Sequence[list[str]]) -> np.ndarray:
        """log P(target | source) of pairs of tokens in nats, with the end marker: [n]."""
        source, source_lengths = self._source_ids(sources)
        target, lengths = np.zeros([len(targets), self.engine.scorer.target_steps], np.int32), []
        for row, words in zip(target, targets, strict=True):
            ids = [*self.codecs.target.vocabulary.ids(words), EOS][: len(row)]
            row[: len(ids)] = ids
            lengths.append(len(ids))
        return self.engine.scorer.log_probabilities(source, source_lengths, target, np.array(lengths, np.int32))

    def backward_bot(self, decoding: Decoding) -> Chatbot:
        """The model of ``decoding.backward_run``. Raises UserError if the run is missing or not trained for it."""
        name = str(decoding.backward_run)
        if name not in self._backward:
            run = find_run(name, self._results)
            if not run.config.data.swap_source_target:
                raise UserError(
                    f"decoding.backward_run {name} was not trained with data.swap_source_target; use a run that was"
                )
            self._backward[name] = Chatbot.load(run, engine=self._engine_options)
        return self._backward[name]

    def search(self, decoding: Decoding) -> ReplySearch:
        """The search with the given settings, without reranking."""
        return self.engine.search(decoding)

    def reader(self, decoding: Decoding) -> HypothesisReader:
        """What turns hypotheses into tokens. Raises LexiconError."""
        key = (decoding.replace_unknown, decoding.lexicon)
        if key not in self._readers:
            self._readers[key] = HypothesisReader(self.config, decoding, self.codecs)
        return self._readers[key]


class Translator(Chatbot):
    """A chatbot whose replies are translations; loading a run of another task raises RunError."""

    TASK = "translation"

    def translate(self, texts: Sequence[str], decoding: Decoding | None = None) -> list[str]:
        """Translate texts independently of each other; see :meth:`replies`."""
        return [reply.text for reply in self.replies(texts, decoding)]


ROWS = 640  # samples decoded together


def greedy(decoding: Decoding) -> Decoding:
    """Greedy search with the logit rules of ``decoding``."""
    return override_decoding(decoding, method="greedy", n_best=1)


def decode_corpus(
    bot: Chatbot, corpus: Dataset, decoding: Decoding, indices: npt.NDArray[np.integer], rows: int = ROWS
) -> Iterator[Hypothesis]:
    """Yield the best hypothesis for each of some samples, in their order: the one way from batch to text.

    Args:
        indices: The samples, [n].
        rows: Maximum number of samples in a batch.
    """
    reader = bot.reader(decoding)
    for start in range(0, len(indices), rows):
        block = indices[start : start + rows]
        batch = corpus.batch(
            block,
            size=len(block),
            source_steps=bot.config.model.encoder_steps,
            target_steps=1,
            reverse=bot.config.data.reverse_input,
        )
        sources, utterances = [SourceText([], "")] * len(block), list[list[str]]()
        if reader.replaces_unknown or decoding.rerank == "bidirectional":
            samples = corpus.samples(block)
            sources = [source_text(corpus, index, sample) for index, sample in zip(block, samples, strict=True)]
            utterances = [sample.source_tokens for sample in samples]
        hypotheses = bot.search_and_rerank(batch.source, batch.source_length, decoding, utterances, decoding.seed)
        for row, source in enumerate(sources):
            yield reader.read(hypotheses.at((row, 0)), source)
