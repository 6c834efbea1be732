"""Training of a language model on running text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from seq2seq_chat.chat.generator import Generator
from seq2seq_chat.chat.language_model_scorer import LanguageModelScorer
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.data.running_text import RunningText, TextDecoder
from seq2seq_chat.data.streams import Streams
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.metrics.perplexity import CorpusLoss
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.training.distribution.collective import Distribution
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.text_loss import TextLoss
from seq2seq_chat.training.validation import SampleReply, Validator

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


class TextSetup:
    """What training a language model needs; see :class:`seq2seq_chat.training.setup.TaskSetup`.

    Args:
        config: the experiment.
        codecs: of the run.

    Raises:
        CorpusError: a text cannot be used, or is too short.
    """

    def __init__(self, config: Config, codecs: Codecs) -> None:
        self._config, self.codecs, data = config, codecs, config.data
        self.corpus = RunningText.open(str(data.train), codecs, data)
        self._validation_text = RunningText.open(str(data.validation), codecs, data) if data.validation else None
        self._streams = _divide(self.corpus, config)

    def build_learner(self, distribution: Distribution) -> Learner[LanguageModel]:
        """The model, and what trains it."""
        config, vocabulary_size = self._config, len(self.codecs.source.vocabulary)
        self._model = LanguageModel(config.model, vocabulary_size, config.seed)
        loss = TextLoss(self._model, config.training)
        return Learner(self._model, self._streams, config.training, distribution, loss, loss.variables)

    def describe_data(self) -> str:
        """Numbers of tokens, unknown tokens, and how a pass over the text is divided."""
        corpus, validation, settings = self.corpus, self._validation_text, self._config.training
        validated = f"{len(validation):,} validation tokens" if validation else "no validation text"
        steps = settings.truncation
        return (
            f"{len(corpus):,} training tokens ({100 * corpus.unknown_share():.1f} % are <unknown>), {validated}; "
            f"{settings.batch_size} streams of {self._streams.length:,} tokens, {self._streams.batches_per_pass:,} "
            f"steps per pass; updates every {steps.forward} tokens, gradients over {steps.backward}"
        )

    def build_validator(self) -> Validator | None:
        """What validates the model of the learner; None without a validation text."""
        if self._validation_text is None:
            return None
        engine = TensorFlowLanguageModel(self._model)
        generator = Generator(engine, self.codecs.source)
        training, decoding = self._config.training, self._config.decoding
        tokens = self._validation_text.tokens
        return TextValidator(LanguageModelScorer(engine), generator, tokens, decoding, training.sample_replies)


def _divide(text: RunningText, config: Config) -> Streams:
    """Divide the training text into streams. Raises CorpusError if it is too short."""
    settings, steps = config.training, config.training.truncation
    name, tokens = config.data.train, text.tokens
    if np.all(tokens[:1_000_000] == tokens[0]) and np.all(np.asarray(tokens) == tokens[0]):
        raise CorpusError(f"{name} has only one distinct token, so there is nothing to learn. Use another text.")
    length = (len(tokens) - 1) // settings.batch_size
    if length < steps.steps:
        setting = "training.bptt_backward" if steps.backward > steps.forward else "training.bptt_forward"
        raise CorpusError(
            f"{name} has {len(tokens):,} tokens, which makes {settings.batch_size} streams of {length:,}, but "
            f"{setting} is {steps.steps:,}. Lower it or training.batch_size, or use a longer text."
        )
    return Streams(tokens, settings.batch_size, steps.forward, steps.backward)
