"""Generate text with a language model."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from seq2seq_chat.checkpoint.restore import load_language_model
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.codec import Codec
from seq2seq_chat.data.running_text import TextDecoder, encode_text
from seq2seq_chat.data.vocabulary import EOS, SPECIAL_WORDS
from seq2seq_chat.decoding.logit_rules import forbidden_words
from seq2seq_chat.decoding.parameters import SearchParameters
from seq2seq_chat.decoding.result import NEG_INF
from seq2seq_chat.decoding.sampling import Distribution, sample_words, truncated_softmax
from seq2seq_chat.inference.text_scorer import state_specs
from seq2seq_chat.model.language_model import LanguageModel, States
from seq2seq_chat.runs.run import Run

logger = logging.getLogger(__name__)

SHOWN_UNKNOWN = 5
BLOCK = 32  # tokens per call: few enough to appear at once, enough that the call itself takes no time
ALTERNATIVES = 5
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


class Block(NamedTuple):
    """What a call of the graph generates; the last two are None unless they are asked for."""

    ids: tf.Tensor  # [rows, steps]
    probabilities: tf.Tensor | None  # of the most probable tokens and then the generated one, [rows, steps, k + 1]
    most_probable: tf.Tensor | None  # ids, [rows, steps, k]


class Generator:
    """Generates text, token by token.

    Random numbers are a function of (seed, position), so the same seed and settings give the same text.

    Args:
        model: its variables may change between calls.
        codec: that it was trained with.
    """

    def __init__(self, model: LanguageModel, codec: Codec) -> None:
        self.model, self.codec = model, codec
        ids = tf.TensorSpec([None, None], tf.int32)
        states = state_specs(model)
        self._read = tf.function(
            lambda inputs, states: model.read(inputs, states)[1], autograph=False, input_signature=[ids, states]
        )
        self._graphs: dict[tuple[bool, bool], tf.function] = {}  # by whether they allow unknown tokens, explain

    @classmethod
    def load(cls, run: Run, snapshot: str | None = None) -> Generator:
        """The generator of a run; see :func:`load_language_model` for the errors raised."""
        trained = load_language_model(run, snapshot)
        return cls(trained.model, trained.codecs.source)

    def warn_of_unknown_tokens(self, prompt: str) -> None:
        """Log a warning if the model does not know some tokens of a prompt."""
        tokens = dict.fromkeys(self.codec.tokenizer.encode(prompt))
        unknown = [token for token in tokens if token not in self.codec.vocabulary]
        if unknown:
            more = f" and {len(unknown) - SHOWN_UNKNOWN:,} more" if len(unknown) > SHOWN_UNKNOWN else ""
            logger.warning("the model does not know %s%s of the prompt", ", ".join(unknown[:SHOWN_UNKNOWN]), more)

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
            rows = (np.asarray(part)[0].tolist() for part in block)
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
            yield block.ids.numpy()

    def _blocks(
        self, prompts: Sequence[list[int]], length: int, decoding: Decoding, seeds: Sequence[int], explain: bool
    ) -> Iterator[Block]:
        inputs = np.array([prompt[-MAX_PROMPT:] or [self.line_break] for prompt in prompts], np.int32)
        states = self._read(tf.constant(inputs[:, :-1]), self.model.start(len(inputs)))
        token = tf.constant(inputs[:, -1])
        generators = [np.random.default_rng([seed]) for seed in seeds]
        graph, parameters = self._graph(decoding, explain), SearchParameters.of_settings(decoding)
        values = (parameters.temperature, parameters.top_k, parameters.top_p)
        limits = [tf.constant(value, dtype) for value, dtype in zip(values, LIMIT_TYPES, strict=True)]
        for first in range(0, length, BLOCK):
            steps = min(BLOCK, length - first)
            uniform = np.stack([generator.random(steps) for generator in generators])
            block, states = graph(token, states, tf.constant(uniform), *limits)
            token = block.ids[:, -1]
            yield block

    @property
    def line_break(self) -> int:
        """The id that an empty prompt stands for: a line break, or the most frequent token if there is none."""
        if not self.codec.tokenizer.keeps_line_breaks:
            return EOS
        (index,) = self.codec.vocabulary.ids(self.codec.tokenizer.encode("\n"))
        return index if index >= len(SPECIAL_WORDS) else len(SPECIAL_WORDS)

    def _graph(self, decoding: Decoding, explain: bool) -> tf.function:
        key = (decoding.allow_unknown, explain)
        if key not in self._graphs:
            mask = self.output_mask(decoding)
            signature = [
                tf.TensorSpec([None], tf.int32),
                state_specs(self.model),
                tf.TensorSpec([None, None], tf.float64),
                *(tf.TensorSpec([], dtype) for dtype in LIMIT_TYPES),
            ]

            def block(token: tf.Tensor, states: States, uniform: tf.Tensor, *limits: tf.Tensor) -> tuple[Block, States]:
                return self.sample(token, states, uniform, mask, truncated_softmax(*limits), explain)

            self._graphs[key] = tf.function(block, autograph=False, input_signature=signature)
        return self._graphs[key]

    def output_mask(self, decoding: Decoding) -> tf.Tensor:
        """What is added to the logits, [vocabulary]: -inf for tokens that are never written, 0 for others."""
        forbidden = forbidden_words(decoding.allow_unknown)
        if self.codec.tokenizer.keeps_line_breaks:
            forbidden = [*forbidden, EOS]
        return tf.reduce_sum(tf.one_hot(forbidden, self.model.vocabulary_size, NEG_INF, 0.0), axis=0)

    def sample(
        self,
        token: tf.Tensor,
        states: States,
        uniform: tf.Tensor,
        mask: tf.Tensor,
        distribution: Distribution,
        explain: bool = False,
    ) -> tuple[Block, States]:
        """Sample tokens, in a graph.

        Args:
            token: the last one, ids [rows].
            states: before it.
            uniform: random numbers in [0, 1), [rows, steps].
            mask: see :meth:`output_mask`.
            distribution: to sample from.
            explain: whether to return probabilities.

        Returns:
            The tokens, and the states before the last of them.
        """
        steps = tf.shape(uniform)[1]
        types = ((tf.int32, [None]), (tf.float32, [None, None]), (tf.int32, [None, None]))[: 3 if explain else 1]
        arrays = tuple(tf.TensorArray(dtype, steps, element_shape=shape) for dtype, shape in types)

        def step(
            t: tf.Tensor, token: tf.Tensor, states: States, arrays: tuple[tf.TensorArray, ...]
        ) -> tuple[tf.Tensor, tf.Tensor, States, tuple[tf.TensorArray, ...]]:
            logits, states = self.model.step(token, states)
            logits += mask
            token = sample_words(distribution(logits), uniform[:, t])
            values = (token, *_explanation(logits, token)) if explain else (token,)
            return t + 1, token, states, tuple(a.write(t, v) for a, v in zip(arrays, values, strict=True))

        _, _, states, arrays = tf.while_loop(lambda t, *_: t < steps, step, (tf.constant(0), token, states, arrays))
        ids, *explanation = (array.stack() for array in arrays)
        explanation = [tf.transpose(part, [1, 0, 2]) for part in explanation] or [None, None]
        return Block(tf.transpose(ids), *explanation), states


def _explanation(logits: tf.Tensor, token: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The parts of a :class:`Block` for one step. logits: [rows, vocabulary], token: [rows]."""
    probabilities = tf.nn.softmax(logits)
    largest, words = tf.math.top_k(probabilities, min(ALTERNATIVES, logits.shape[-1]))
    return tf.concat([largest, tf.gather(probabilities, token[:, tf.newaxis], batch_dims=1)], axis=1), words


def random_seed(decoding: Decoding) -> int:
    """The seed of the settings, or a new one."""
    return secrets.randbits(31) if decoding.seed is None else decoding.seed


LIMIT_TYPES = (tf.float32, tf.int32, tf.float32)  # of temperature, top_k and top_p
