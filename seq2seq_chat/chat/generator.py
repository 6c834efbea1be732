"""Generate text with a language model."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.load import AUTO, EngineOptions, load_language_model_engine
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.running_text import TextDecoder, encode_text
from seq2seq_chat.engines.protocols import LanguageModelEngine
from seq2seq_chat.runs.run import Run
from seq2seq_chat.search.engine import Block, WordDistribution
from seq2seq_chat.search.logit_rules import forbidden_ids
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.vocabulary import EOS, SPECIAL_WORDS

logger = logging.getLogger(__name__)

SHOWN_UNKNOWN = 5
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
        engine: computes with the model.
        codec: that it was trained with.
        step: training steps of the weights, if they come from a run.
    """

    def __init__(self, engine: LanguageModelEngine, codec: TextCodec, step: int | None = None) -> None:
        self.engine, self.codec, self.step = engine, codec, step

    @classmethod
    def load(cls, run: Run, snapshot: str | None = None, engine: EngineOptions = AUTO) -> Generator:
        """The generator of a run or an exported model; see :func:`load_language_model_engine` for the errors raised."""
        loaded = load_language_model_engine(run, snapshot, engine)
        return cls(loaded.engine, loaded.codecs.source, loaded.step)

    def warn_of_unknown_tokens(self, prompt: str) -> None:
        """Log a warning if the model does not know some tokens of a prompt."""
        for note in self.notes(prompt):
            logger.warning("%s", note)

    def notes(self, prompt: str) -> list[str]:
        """What a person should know about how the model reads a prompt."""
        tokens = dict.fromkeys(self.codec.tokenizer.encode(prompt))
        unknown = [token for token in tokens if token not in self.codec.vocabulary]
        if not unknown:
            return []
        more = f" and {len(unknown) - SHOWN_UNKNOWN:,} more" if len(unknown) > SHOWN_UNKNOWN else ""
        return [f"the model does not know {', '.join(unknown[:SHOWN_UNKNOWN])}{more} of the prompt"]

    def stream(self, prompt: str, length: int, decoding: Decoding, seed: int) -> Iterator[str]:
        """Yield the text that continues a prompt, in pieces, as it is generated.

        Args:
            prompt: not part of the result; "" to start a new line.
            length: number of tokens.
            decoding: temperature, top_k, top_p and allow_unknown.
            seed: of the random numbers.
        """
        ids = encode_text(prompt, self.codec)
        decoder = TextDecoder(self.codec, ids)
        for block in self.blocks([ids], length, decoding, [seed]):
            yield decoder.add(block[0].tolist())

    def explained_stream(
        self, prompt: str, length: int, decoding: Decoding, seed: int
    ) -> Iterator[list[GeneratedToken]]:
        """The same text as :meth:`stream`, as tokens with their probabilities and alternatives, in blocks."""
        ids = encode_text(prompt, self.codec)
        decoder = TextDecoder(self.codec, ids)
        for block in self._blocks([ids], length, decoding, [seed], explain=True):
            rows = (part[0].tolist() for part in block)
            yield [
                GeneratedToken(
                    decoder.add([token]),
                    probabilities[-1],
                    [
                        Alternative(self._token_text(index), probability)
                        for index, probability in zip(words, probabilities[:-1], strict=True)
                    ],
                )
                for token, probabilities, words in zip(*rows, strict=True)
            ]

    def _token_text(self, index: int) -> str:
        """The text of a token that stands alone."""
        return "\n" if index == EOS else self.codec.tokenizer.decode(self.codec.vocabulary.tokens([index]))

    def blocks(
        self, prompts: Sequence[list[int]], length: int, decoding: Decoding, seeds: Sequence[int]
    ) -> Iterator[npt.NDArray[np.int32]]:
        """Continue prompts of equal length together; yield the ids of further tokens, [prompts, up to ``BLOCK``].

        Args:
            prompts: ids; empty ones to start a new line.
            length: number of tokens.
            decoding: see :meth:`stream`.
            seeds: one for each prompt.
        """
        for block in self._blocks(prompts, length, decoding, seeds, explain=False):
            yield block.ids

    def _blocks(
        self, prompts: Sequence[list[int]], length: int, decoding: Decoding, seeds: Sequence[int], explain: bool
    ) -> Iterator[Block]:
        inputs = np.array([prompt[-MAX_PROMPT:] or [self.line_break] for prompt in prompts], np.int32)
        states = self.engine.read(inputs[:, :-1], self.engine.start(len(inputs)))
        token = inputs[:, -1]
        generators = [np.random.default_rng([seed]) for seed in seeds]
        distribution, forbidden = WordDistribution.of_settings(decoding), self.forbidden(decoding)
        for first in range(0, length, BLOCK):
            steps = min(BLOCK, length - first)
            uniform = np.stack([generator.random(steps) for generator in generators])
            block, states = self.engine.sample_block(token, states, uniform, distribution, forbidden, explain)
            token = block.ids[:, -1]
            yield block

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


def random_seed(decoding: Decoding) -> int:
    """The seed of the settings, or a new one."""
    return secrets.randbits(31) if decoding.seed is None else decoding.seed
