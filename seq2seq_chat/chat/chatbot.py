"""Replies of a trained run, for the terminal, the web page and scripts.

::

    from seq2seq_chat import Chatbot, find_run

    bot = Chatbot.load(find_run("latest"))
    print(bot.reply("how are you?").text)
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.load import load_engine
from seq2seq_chat.chat.replies import READABLE, HypothesisReader, Reply, SourceText, removed_letters
from seq2seq_chat.chat.watched_search import WatchedSearch
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.engines import ReplyEngine
from seq2seq_chat.engines.scorer import StepScorer
from seq2seq_chat.runs.find import RunSnapshot, find_run
from seq2seq_chat.runs.run import Run, RunError
from seq2seq_chat.search.batches import Prefixes, Seeds
from seq2seq_chat.search.engine import NEG_INF, Hypotheses
from seq2seq_chat.system.errors import UserError, cut
from seq2seq_chat.system.hardware import AUTO, TENSORFLOW, EngineOptions
from seq2seq_chat.text.codec import Codecs, convert_tokens
from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS, TURN, fit_source

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on

MIN_WORDS = 3  # of an utterance, for the share of its words that are unknown


class Utterance(NamedTuple):
    """An utterance as a model reads it."""

    text: str
    words: list[str]  # its tokens
    source: list[str]  # the last tokens of the turns before it and its own that the model reads; none without ``words``


def before_reranking(decoding: Decoding) -> Decoding:
    """The settings of the search for the replies that reranking chooses from."""
    return decoding if decoding.rerank == "none" else decoding.model_copy(update={"n_best": decoding.beam_width})


class Chatbot:
    """A trained model that replies to any number of utterances."""

    TASK: str | None = None  # of the runs that can be loaded; None: any that replies

    def __init__(
        self, engine: ReplyEngine, codecs: Codecs, config: Config, step: int = 0, results: Path = Path("results")
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
        run: Run | str,
        snapshot: str | None = None,
        engine: EngineOptions = AUTO,
        decoding: Decoding | None = None,
        others: Sequence[RunSnapshot] = (),
    ) -> Self:
        """The chatbot of a run or an exported model, or of the name of one; see :func:`load_engine`."""
        run = find_run(run) if isinstance(run, str) else run
        if cls.TASK not in (None, run.config.task):
            raise RunError(f"run {run.name} is not a {cls.TASK} model: its task is {run.config.task}")
        loaded = load_engine(run, snapshot, engine, decoding, others)
        chatbot = cls(loaded.engine, loaded.codecs, run.config, loaded.step, run.results)
        chatbot.warnings, chatbot._engine_options = loaded.warnings, engine
        return chatbot

    @property
    def unreadable(self) -> str:
        """The message about an utterance without tokens; it has no full stop."""
        readable = READABLE.get(self.codecs.source.tokenizer.name)
        return f"This model reads only {readable}" if readable else "There is nothing to read in this text"

    def reply(
        self, text: str, decoding: Decoding | None = None, history: Sequence[str] = (), prefix: str = ""
    ) -> Reply:
        """Reply to one utterance; see :meth:`replies`."""
        return self.replies([text], decoding, [history], prefixes=[prefix] if prefix else ())[0]

    def replies(
        self,
        texts: Sequence[str],
        decoding: Decoding | None = None,
        histories: Sequence[Sequence[str]] | None = None,
        seeds: Sequence[int] | None = None,
        prefixes: Sequence[str | Sequence[str]] = (),
    ) -> list[Reply]:
        """Reply to several independent utterances at once.

        Args:
            texts: utterances, which may be any strings.
            decoding: settings of the search; None for the run's settings.
            histories: the turns before each, oldest first; ignored by models that read a single turn
                (data.context_turns).
            seeds: seeds of sampling, one for each; if None, the seed of the settings.
            prefixes: what each reply starts with: a text, in whole tokens, or tokens; none if there are none.

        Raises:
            UserError: a prefix is too long, or the model does not know all of its tokens; the run for reranking is
                missing or was not trained for it, or the lexicon cannot be read.
            TypeError: ``texts`` is a single text, whose characters would be taken for texts.
        """
        if isinstance(texts, str):
            raise TypeError("texts must be a list of texts; for a single one, write [text]")
        start = time.perf_counter()
        decoding = decoding or self.config.decoding
        reader = self.reader(decoding)
        starts = [self.prefix_ids(prefix) for prefix in prefixes]
        read = [self.read(text, history) for text, history in zip(texts, histories or [()] * len(texts), strict=True)]
        readable = [row for row, utterance in enumerate(read) if utterance.words]
        results: dict[int, Hypotheses] = {}
        if readable:
            ids, lengths = self.source_ids([read[row].source for row in readable])
            chosen = decoding.seed if seeds is None else [seeds[row] for row in readable]
            targets = [read[row].words for row in readable]
            forced = [starts[row] for row in readable] if starts else ()
            hypotheses = self.search_and_rerank(ids, lengths, decoding, targets, chosen, forced)
            results = {row: hypotheses.at(n) for n, row in enumerate(readable)}
        seconds = time.perf_counter() - start
        return [self.to_reply(utterance, reader, results.get(row), seconds) for row, utterance in enumerate(read)]

    def read(self, text: str, history: Sequence[str]) -> Utterance:
        """The tokens of an utterance and of the turns before it, oldest first."""
        tokenizer, turns_before = self.codecs.source.tokenizer, self.config.data.context_turns - 1
        words, turns = tokenizer.encode(text), list[list[str]]()
        if words and turns_before:
            turns = [turn for text in history if (turn := tokenizer.encode(text))][-turns_before:]
        source = [word for turn in turns for word in [*turn, TURN]] + words
        return Utterance(text, words, source[-self.config.model.encoder_steps :])

    def to_reply(
        self, utterance: Utterance, reader: HypothesisReader, hypotheses: Hypotheses | None, seconds: float
    ) -> Reply:
        """The reply to an utterance; ``hypotheses`` are None if it has no tokens."""
        text, words, source = utterance
        candidates = [] if hypotheses is None else reader.distinct(hypotheses, SourceText(source, text))
        unknown = [word for word in dict.fromkeys(words) if word not in self.codecs.source.vocabulary]
        reply = candidates[0].text if candidates else ""
        unread = max(0, len(words) - self.config.model.encoder_steps)
        share, removed = self._unknown_share(words), removed_letters(text, words, self.codecs.source)
        return Reply(reply, candidates, source, unknown, seconds, unread, share, removed)

    def watch(
        self, text: str, decoding: Decoding, history: Sequence[str] = (), prefix: str | Sequence[str] = ()
    ) -> WatchedSearch:
        """The search for a reply to an utterance, step by step; see :class:`WatchedSearch`.

        Args:
            prefix: What the reply starts with: a text, or tokens.

        Raises:
            UserError: The lexicon cannot be read, or no reply can start with the text of the prefix.
        """
        tokens, source = self.prefix_tokens(prefix), self.read(text, history).source
        (ids, length), reader = self.source_ids([source]), self.reader(decoding)
        return WatchedSearch(self.engine, ids, length, SourceText(source, text), reader, decoding, tokens)

    def prefix_tokens(self, text: str | Sequence[str]) -> Sequence[str]:
        """The tokens of a prefix, a text or tokens. Raises UserError if no reply can start with the text."""
        if not isinstance(text, str):
            return text
        codec, limit = self.codecs.target, self.config.model.decoder_steps - 1
        tokens = codec.tokenizer.encode(text)
        unknown = [token for token in dict.fromkeys(tokens) if token not in codec.vocabulary]
        if unknown or (text.strip() and not tokens):
            raise UserError(f"the prefix has {cut(', '.join(unknown) or text)}, which the model cannot write")
        if len(tokens) > limit:
            raise UserError(f"the prefix has {len(tokens)} tokens, but a reply has at most {limit}; shorten it")
        return tokens

    def prefix_ids(self, prefix: str | Sequence[str]) -> list[int]:
        """The ids of a prefix; see :meth:`prefix_tokens`."""
        return self.codecs.target.vocabulary.ids(self.prefix_tokens(prefix))

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

    def source_ids(self, sources: Sequence[list[str]]) -> tuple[np.ndarray, np.ndarray]:
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
        prefixes: Prefixes = (),
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
            utterances: The tokens of the sources.
            seeds, prefixes: See :func:`seq2seq_chat.search.batches.search_in_batches`.
        """
        search = self.engine.search(before_reranking(decoding))
        return self.rerank(search(source, lengths, seeds, prefixes), decoding, utterances)

    def rerank(self, hypotheses: Hypotheses, decoding: Decoding, utterances: list[list[str]]) -> Hypotheses:
        """Sort hypotheses by mutual information if configured; see :meth:`search_and_rerank`."""
        if decoding.rerank == "none":
            return hypotheses
        weight = decoding.rerank_weight
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
        source = np.zeros([batch * n, self.config.model.encoder_steps], np.int32), np.zeros(batch * n, np.int32)
        lengths = np.minimum(hypotheses.lengths.reshape(-1), prefix_length).astype(np.int32)
        log_p = StepScorer(self.engine.steps).log_probabilities(*source, hypotheses.words.reshape(-1, steps), lengths)
        return log_p.sum(axis=1).reshape(batch, n)

    def _backward_scores(self, backward: Chatbot, hypotheses: Hypotheses, utterances: list[list[str]]) -> np.ndarray:
        """log P(utterance | hypothesis) in nats, by a model with tokenizers and vocabularies of its own: [batch, n]."""
        batch, n, steps = hypotheses.words.shape
        (source, target), (backward_source, backward_target) = self.codecs.tokenizers, backward.codecs.tokenizers
        rows = zip(hypotheses.words.reshape(-1, steps), hypotheses.lengths.reshape(-1), strict=True)
        replies = [self.codecs.target.words(ids[:length]) for ids, length in rows]
        converted = [convert_tokens(words, source, backward_target) for words in utterances]
        log_p = backward.token_log_probabilities(
            [convert_tokens(words, target, backward_source) for words in replies],
            [words for words in converted for _ in range(n)],
        )
        return np.array([values.sum() for values in log_p], np.float32).reshape(batch, n)

    def token_log_probabilities(
        self, sources: Sequence[list[str]], targets: Sequence[list[str]]
    ) -> list[npt.NDArray[np.float32]]:
        """The log-probability of each token of targets and of their end markers, given those before it, in nats."""
        target, lengths = np.zeros([len(targets), self.config.model.decoder_steps], np.int32), []
        for row, words in zip(target, targets, strict=True):
            ids = [*self.codecs.target.vocabulary.ids(words), EOS][: len(row)]
            row[: len(ids)] = ids
            lengths.append(len(ids))
        source, scorer = self.source_ids(sources), StepScorer(self.engine.steps)
        log_p = scorer.log_probabilities(*source, target, np.array(lengths, np.int32))
        return [row[:length] for row, length in zip(log_p, lengths, strict=True)]

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
