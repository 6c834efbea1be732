"""Generate and score text with a language model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.load import load_language_model_engine
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.running_text import TextDecoder, encode_text
from seq2seq_chat.engines import MAX_LOGITS, LanguageModelEngine
from seq2seq_chat.runs.find import find_run
from seq2seq_chat.runs.run import Run
from seq2seq_chat.search.engine import Block, BlockRequest, WordDistribution
from seq2seq_chat.search.logit_rules import forbidden_ids
from seq2seq_chat.system.hardware import AUTO, EngineOptions
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS

SHOWN_UNKNOWN = 5  # tokens in a warning
BLOCK = 32  # tokens per call: few enough to appear at once, enough that the call itself takes no time
MAX_PROMPT = 10_000  # tokens: the model hardly remembers what was before


class Alternative(NamedTuple):
    """A token that may come next."""

    text: str
    probability: float


class GeneratedToken(NamedTuple):
    """A token of a generated text.

    Probabilities are the model's own, at temperature 1, among the tokens that it may write.
    """

    text: str  # what it adds to the text
    probability: float
    alternatives: list[Alternative]  # the most probable tokens, which may include this one


class Generator:
    """Generates text, token by token.

    Random numbers are a function of (seed, position), so the same seed and settings give the same text.

    Args:
        step: training steps of the weights, if they come from a run.
    """

    def __init__(self, engine: LanguageModelEngine, codec: TextCodec, step: int | None = None) -> None:
        self.engine, self.codec, self.step = engine, codec, step

    @classmethod
    def load(cls, run: Run | str, snapshot: str | None = None, engine: EngineOptions = AUTO) -> Generator:
        """The generator of a run or an exported model, or of the name of one.

        Raises:
            UserError: See :func:`find_run` and :func:`load_language_model_engine`.
        """
        run = find_run(run) if isinstance(run, str) else run
        loaded = load_language_model_engine(run, snapshot, engine)
        return cls(loaded.engine, loaded.codecs.source, loaded.step)

    def notes(self, prompt: str) -> list[str]:
        """What a person should know about how the model reads a prompt."""
        tokens = dict.fromkeys(self.codec.tokenizer.encode(prompt))
        unknown = [token for token in tokens if token not in self.codec.vocabulary]
        if not unknown:
            return []
        more = f" and {len(unknown) - SHOWN_UNKNOWN:,} more" if len(unknown) > SHOWN_UNKNOWN else ""
        return [f"the prompt has tokens that the model does not know: {', '.join(unknown[:SHOWN_UNKNOWN])}{more}"]

    def stream(self, prompt: str, length: int, decoding: Decoding, seed: int) -> Iterator[str]:
        """Yield the text that continues a prompt, in pieces, as it is generated.

        Args:
            prompt: not part of the result; "" to start a new line.
            length: number of tokens.
            decoding: temperature, top_k, top_p and allow_unknown.
            seed: the seed of the random numbers.
        """
        ids = encode_text(prompt, self.codec)
        decoder = TextDecoder(self.codec, ids)
        for block in self.blocks([ids], length, decoding, [seed]):
            yield decoder.add(block.ids[0].tolist())

    def explained_stream(
        self, prompt: str, length: int, decoding: Decoding, seed: int
    ) -> Iterator[list[GeneratedToken]]:
        """The same text as :meth:`stream`, as tokens with their probabilities and alternatives, in blocks."""
        ids = encode_text(prompt, self.codec)
        decoder = TextDecoder(self.codec, ids)
        for block in self.blocks([ids], length, decoding, [seed], explain=True):
            rows = (part[0].tolist() for part in block)
            yield [
                GeneratedToken(
                    decoder.add([token]), own, [*map(Alternative, map(self._token_text, words), probabilities)]
                )
                for token, (*probabilities, own), words in zip(*rows, strict=True)
            ]

    def _token_text(self, index: int) -> str:
        """The text of a token that stands alone."""
        return "\n" if index == EOS else self.codec.tokenizer.decode(self.codec.vocabulary.tokens([index]))

    def blocks(
        self,
        prompts: Sequence[list[int]],
        length: int,
        decoding: Decoding,
        seeds: Sequence[int],
        explain: bool = False,
    ) -> Iterator[Block]:
        """Continue prompts of equal length together; yield further tokens, up to ``BLOCK`` at a time.

        Args:
            prompts: ids; empty ones to start a new line.
            length: number of tokens.
            decoding: see :meth:`stream`.
            seeds: one for each prompt.
            explain: whether blocks have probabilities.
        """
        inputs = np.array([prompt[-MAX_PROMPT:] or [self.line_break] for prompt in prompts], np.int32)
        states = self.engine.read(inputs[:, :-1], self.engine.start(len(inputs)))
        token = inputs[:, -1]
        generators = [np.random.default_rng([seed]) for seed in seeds]
        distribution, forbidden = WordDistribution.of_settings(decoding), self.forbidden(decoding)
        for first in range(0, length, BLOCK):
            steps = min(BLOCK, length - first)
            uniform = np.stack([generator.random(steps) for generator in generators])
            request = BlockRequest(token, uniform, distribution, forbidden, explain)
            block, states = self.engine.sample_block(states, request)
            token = block.ids[:, -1]
            yield block

    def token_log_probabilities(self, lines: Sequence[list[str]]) -> list[npt.NDArray[np.float64]]:
        """The log-probability of each token of lines and of their line breaks, given those before it, in nats.

        Each line begins after a line break, as if nothing were before it.
        """
        ids = [[self.line_break, *self.codec.vocabulary.ids(tokens), self.line_break] for tokens in lines]
        padded = np.zeros([len(ids), max(map(len, ids), default=1)], np.int32)
        for row, line in zip(padded, ids, strict=True):
            row[: len(line)] = line
        nats, states = np.zeros(padded.shape), self.engine.start(len(ids))
        for t in range(1, padded.shape[1]):
            (nats[:, t], _), states = self.engine.score(padded[:, t - 1 : t], padded[:, t : t + 1], states)
        return [-row[1 : len(line)] for row, line in zip(nats, ids, strict=True)]

    @property
    def line_break(self) -> int:
        """The id that an empty prompt stands for: a line break, or the most frequent token if there is none."""
        if not self.codec.tokenizer.keeps_line_breaks:
            return EOS
        (index,) = self.codec.vocabulary.ids(self.codec.tokenizer.encode("\n"))
        return index if index >= len(SPECIAL_WORDS) else len(SPECIAL_WORDS)

    def forbidden(self, decoding: Decoding) -> tuple[int, ...]:
        """Ids of tokens that are never written."""
        end = [EOS] if self.codec.tokenizer.keeps_line_breaks else []
        return (*forbidden_ids(decoding.allow_unknown), *end)


MAX_STREAMS = 64
MIN_LENGTH = 512  # tokens of a stream: in shorter ones, too much is read twice
MAX_STEPS = 256  # read in one call
WARM_UP = 512  # tokens before a stream, from which its first state is estimated; at most MIN_LENGTH
TOLERANCE = 1e-3  # between the units of two states that count as equal


class TextScore(NamedTuple):
    """How well a model predicts a text, from its second token on."""

    nats: float
    tokens: int
    correct: int  # tokens that are the most probable ones
    stretches: npt.NDArray[np.float64]  # nats of up to 64 parts of equal length, which leave out less than 64 tokens
    stretch_tokens: int  # of each part


class LanguageModelScorer:
    """Scores texts, many tokens at a time.

    A text is divided into streams that are read in parallel, although each starts from the state in which the one
    before it ends. That state is estimated first, from a few hundred tokens. Once everything is read, the streams that
    have started from another state than that in which the one before has ended are read again, until there are none. A
    recurrent network forgets, so these are few.
    """

    def __init__(self, engine: LanguageModelEngine) -> None:
        self._engine = engine

    def score(self, tokens: npt.NDArray[Any]) -> TextScore:
        """Score a text. tokens: ids [n].

        Raises:
            ValueError: there are fewer than two tokens.
        """
        predicted = len(tokens) - 1
        if predicted < 1:
            raise ValueError("a text needs at least two tokens")
        count = max(1, min(MAX_STREAMS, predicted // MIN_LENGTH))
        length, rest = divmod(predicted, count)
        starts = np.arange(count) * length
        states, ends = self._estimate(tokens, starts), self._engine.start(count)
        sums = np.zeros([2, count])  # of nats and correct tokens
        differing = np.arange(count)
        while len(differing):
            first_states = [state[differing] for state in states]
            sums[:, differing], last_states = self._read(tokens, starts[differing], length, first_states)
            for end, last in zip(ends, last_states, strict=True):
                end[differing] = last
            expected = [np.concatenate([np.zeros_like(end[:1]), end[:-1]]) for end in ends]
            pairs = zip(map(np.tanh, states), map(np.tanh, expected), strict=True)  # a memory cell is read through tanh
            distances = [np.max(np.abs(one - two), axis=1) for one, two in pairs]
            differing = np.flatnonzero(np.max(distances, axis=0) > TOLERANCE)
            for state, better in zip(states, expected, strict=True):
                state[differing] = better[differing]
        # the last stream is followed by fewer tokens than there are streams
        tail, _ = self._read(tokens, starts[-1:] + length, rest, [end[-1:] for end in ends])
        nats, correct = sums.sum(axis=1) + tail[:, 0]
        return TextScore(float(nats), predicted, int(correct), sums[0], length)

    def _estimate(self, tokens: npt.NDArray[Any], starts: np.ndarray) -> list[np.ndarray]:
        """The states before each stream, from the tokens before it; zero before the first."""
        states = self._engine.start(len(starts))
        if len(starts) > 1:
            _, ends = self._read(tokens, starts[1:] - WARM_UP, WARM_UP, [state[1:] for state in states])
            for state, end in zip(states, ends, strict=True):
                state[1:] = end
        return states

    def _read(
        self, tokens: npt.NDArray[Any], starts: np.ndarray, length: int, states: list[np.ndarray]
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """Read ``length`` tokens from each start.

        Returns:
            nats and correct predictions of the tokens that follow them, [2, streams], and the states at the end.
        """
        sums = np.zeros([2, len(starts)])
        steps = int(max(1, min(MAX_STEPS, MAX_LOGITS / self._engine.vocabulary_size / len(starts))))
        for first in range(0, length, steps):
            positions = starts[:, np.newaxis] + np.arange(first, min(first + steps, length))
            inputs, targets = (tokens[positions + shift].astype(np.int32) for shift in (0, 1))
            some, states = self._engine.score(inputs, targets, states)
            sums += some
        return sums, states
