"""Training of a language model on running text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from seq2seq_chat.chat.generator import Generator, LanguageModelScorer
from seq2seq_chat.config import Config, Decoding, Training
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.corpus_file import CorpusError, explain_validation
from seq2seq_chat.data.running_text import RunningText, Streams, TextBatch, TextDecoder
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.metrics.scores import CorpusLoss
from seq2seq_chat.model.execution import MicroBatch, Share, micro_batch_count, split_batch
from seq2seq_chat.model.language_model import LanguageModel, States
from seq2seq_chat.model.output import SampledWords
from seq2seq_chat.model.randomness import RandomContext
from seq2seq_chat.model.seq2seq import Loss
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.training.distribution import Distribution
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.step import Tensors
from seq2seq_chat.training.validation import SampleReply

PROMPT, CONTINUATION = 50, 150  # tokens


class LanguageModelValidator:
    """Evaluates the current weights on the validation text.

    Args:
        scorer: Computes the loss, with the current weights.
        generator: Writes continuations, with the current weights.
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
        blocks = [block.ids for block in self._generator.blocks(prompts, CONTINUATION, self._decoding, seeds)]
        samples = []
        for start, prompt, ids in zip(self._starts, prompts, np.concatenate(blocks, axis=1), strict=True):
            original = self._tokens[start + PROMPT : start + PROMPT + CONTINUATION].tolist()
            text, target = (self._decode(following, prompt) for following in (ids.tolist(), original))
            samples.append(SampleReply(self._decode(prompt), text, target))
        return samples

    def _decode(self, ids: list[int], context: list[int] | None = None) -> str:
        return TextDecoder(self._generator.codec, context or []).add(ids)


class LanguageModelSetup:
    """What training a language model needs.

    Raises:
        CorpusError: a text cannot be used, or is too short.
    """

    def __init__(self, config: Config, codecs: Codecs) -> None:
        self._config, self.codecs, data = config, codecs, config.data
        self.corpus = RunningText.open(str(data.train), codecs, data)
        with explain_validation():
            self._validation_text = RunningText.open(str(data.validation), codecs, data) if data.validation else None
        self._streams = _divide(self.corpus, config)

    def build_learner(self, distribution: Distribution) -> Learner[LanguageModel]:
        """The model, and what trains it."""
        config, vocabulary_size = self._config, len(self.codecs.source.vocabulary)
        self._model = LanguageModel(config.model, vocabulary_size, config.seed)
        loss = LanguageModelLoss(self._model, config.training)
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

    def build_validator(self) -> LanguageModelValidator | None:
        """What validates the model of the learner; None without a validation text."""
        if self._validation_text is None:
            return None
        engine = TensorFlowLanguageModel(self._model)
        generator = Generator(engine, self.codecs.source)
        training, decoding = self._config.training, self._config.decoding
        tokens = self._validation_text.tokens
        return LanguageModelValidator(LanguageModelScorer(engine), generator, tokens, decoding, training.sample_replies)


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


class LanguageModelLoss:
    """The loss of streams, whose state is carried from batch to batch; the batch is a :class:`TextBatch`.

    See :class:`seq2seq_chat.training.step.TaskLoss`.

    Attributes:
        variables: the carried state, [streams, hidden] each; part of every checkpoint.
    """

    def __init__(self, model: LanguageModel, settings: Training) -> None:
        self._model, self._truncation, self._settings = model, settings.truncation, settings
        self.micro_batches = micro_batch_count(model.config, settings)
        layers = enumerate(model.decoder.cells)
        names = [f"state/layer{layer}/{field}" for layer, cell in layers for field in cell.STATE._fields]
        self._zero = model.start(settings.batch_size)
        values = zip(names, tf.nest.flatten(self._zero), strict=True)
        self.variables = [tf.Variable(value, trainable=False, name=name) for name, value in values]

    def tokens(self, batch: Tensors) -> tf.Tensor:
        inputs, end = TextBatch(*batch).inputs, TextBatch(*batch).end
        return tf.cast(inputs.shape[0] * (end - self._truncation.first_loss), tf.float32)

    def split(self, batch: Tensors, share: Share, random: RandomContext) -> list[tuple[MicroBatch, Tensors]]:
        """The text of the streams of each micro-batch, followed by their states."""
        inputs, targets, start, end, is_first = TextBatch(*batch)
        forgets = is_first
        if self._settings.state_reset:
            numbers = tf.random.stateless_uniform([inputs.shape[0], 1], random.stateless_seed("state_reset"))
            forgets |= numbers < self._settings.state_reset
        carried = [tf.where(forgets, 0.0, variable) for variable in self.variables]
        parts = split_batch([inputs, targets, *carried], self.micro_batches, share)
        return [
            (micro_batch, [inputs, targets, start, end, *states]) for micro_batch, (inputs, targets, *states) in parts
        ]

    def loss(
        self, tensors: Tensors, random: RandomContext, sampled_words: SampledWords | None
    ) -> tuple[Loss, list[tf.Tensor]]:
        inputs, targets, start, end, *carried = tensors
        states: States = tf.nest.pack_sequence_as(self._zero, carried)
        batch = TextBatch(inputs, targets, start, end, is_first=np.bool_(False))
        loss, states = self._model.loss(
            batch, states, self._truncation, random, sampled_words, self._settings.label_smoothing
        )
        return loss, tf.nest.flatten(states)

    def carry(self, states: Sequence[list[tf.Tensor]]) -> None:
        for variable, parts in zip(self.variables, zip(*states, strict=True), strict=True):
            variable.assign(tf.concat(parts, axis=0))
