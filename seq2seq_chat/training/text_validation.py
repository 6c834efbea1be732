"""Validation of a language model during training: the exact loss of a text, and sample continuations."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.chat.language_model_scorer import LanguageModelScorer
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.running_text import TextDecoder
from seq2seq_chat.metrics.perplexity import CorpusLoss
from seq2seq_chat.training.validation import SampleReply

PROMPT, CONTINUATION = 50, 150  # tokens


class TextValidator:
    """Evaluates the current weights on the validation text.

    Args:
        scorer: of the model.
        generator: of the model.
        tokens: ids of the validation text, [n].
        decoding: how continuations are sampled.
        samples: number of continuations, of prompts evenly spaced over the text.
    """

    def __init__(
        self,
        scorer: LanguageModelScorer,
        generator: Generator,
        tokens: npt.NDArray[Any],
        decoding: Decoding,
        samples: int,
    ) -> None:
        self._scorer, self._generator, self._tokens, self._decoding = scorer, generator, tokens, decoding
        self._starts = evenly_spaced(max(0, len(tokens) - PROMPT - CONTINUATION), samples)

    def loss(self) -> CorpusLoss:
        """The exact loss."""
        score = self._scorer.score(self._tokens)
        return CorpusLoss(score.nats, score.tokens, None)

    def bleu(self) -> None:
        """None, as there are no references."""

    def replies(self) -> list[SampleReply]:
        """Continuations of parts of the text, each with what follows there; always with the same random numbers."""
        prompts = [self._tokens[start : start + PROMPT].tolist() for start in self._starts]
        if not prompts:
            return []
        seeds = [(self._decoding.seed or 0) + number for number in range(len(prompts))]
        blocks = list(self._generator.blocks(prompts, CONTINUATION, self._decoding, seeds))
        samples = []
        for start, prompt, ids in zip(self._starts, prompts, np.concatenate(blocks, axis=1), strict=True):
            original = self._tokens[start + PROMPT : start + PROMPT + CONTINUATION].tolist()
            text, target = (self._decode(following, prompt) for following in (ids.tolist(), original))
            samples.append(SampleReply(self._decode(prompt), text, target))
        return samples

    def _decode(self, ids: list[int], context: list[int] | None = None) -> str:
        return TextDecoder(self._generator.codec, context or []).add(ids)
