"""The first steps of training, exactly as configured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.architecture.variables import WORD_VARIABLES
from seq2seq_chat.checks.check_context import CheckContext, OnProgress, global_norm, learner_of
from seq2seq_chat.config import Config, Training
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import write_conversations
from seq2seq_chat.data.dataset import Batch, open_training_corpus
from seq2seq_chat.model.variables import variable_name
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.optimizers import Schedule

MIN_STEPS = 7  # of a trial
CORPUS_STEPS = 3 / 8  # of them
MAX_PRODUCTS = {True: 2e11, False: 8e11}  # of a trial, with --fast and without: multiplications of the forward pass
FINAL_STEPS = 3  # whose median loss is the final one, as a single step may overshoot
MAX_ACCELERATION = 3.0
ROUNDING = 1e-5  # nats: the trend of losses that differ less is not meaningful
RATE_AT = (0.01, 0.1, 0.5)  # parts of the training
CORPUS, SYNTHETIC_BATCHES = "learning.txt", 20
CHARACTERS = 100  # words of the synthetic corpus of a model of characters


class Trial(NamedTuple):
    """What the first steps of training did; losses are in nats per token."""

    settings: Training
    losses: list[float]  # of batches of the corpus, one after the other
    fixed_losses: list[float]  # of the first batch, with the same random numbers, in the steps that follow
    norms: list[float]  # of the gradients of all steps
    movement: float  # share by which a step changes the weights, on average
    weights: int  # their number
    untrained: list[str]  # variables that never changed

    @property
    def final_loss(self) -> float:
        """The last losses of the fixed batch, their median."""
        return float(np.median(self.fixed_losses[-FINAL_STEPS:]))

    @property
    def final_corpus_loss(self) -> float:
        """The last losses of the batches of the corpus, their median."""
        return float(np.median(self.losses[-FINAL_STEPS:]))

    def fall_per_step(self, steps: float) -> float:
        """The fall of the loss, in nats per token and step, if so many steps follow at the initial rate.

        The first steps from small random weights are slower than the next ones. The larger one of two: the fall from
        the first loss to the last ones, and the trend of the fixed batch, as far as that increases by itself.
        """
        rates = list(_rates(self.settings, range(len(self.norms))))
        done = np.cumsum([0.0, *rates[:-1]])  # before each step, in steps at the initial rate
        times, losses = done[len(self.losses) :], np.array(self.fixed_losses)
        average = (self.losses[0] - self.final_loss) / max(float(done[-1]), 1.0)
        has_stopped = len(times) < 4 or times[-1] - times[len(times) // 2] < 1e-6
        if has_stopped or losses[0] - losses[-1] < ROUNDING:
            return average
        halves = slice(len(times) // 2 + 1), slice(len(times) // 2, None)
        early, late = (-float(np.polyfit(times[half], losses[half], 1)[0]) for half in halves)
        acceleration = (late - early) / (times[halves[1]].mean() - times[halves[0]].mean())
        trend = min(late + max(0.0, acceleration) * steps / 2, MAX_ACCELERATION * late)
        return max(average, trend)

    @property
    def kept(self) -> float:
        """The share of the gradient's norm that clipping keeps, the median of all steps, 0 to 1."""
        limit, norm = self.settings.gradient_clipping, float(np.median(self.norms))
        if limit is None or norm == 0:
            return 1.0
        if self.settings.gradient_clipping_by == "value":  # no vector of clipped values is longer
            limit *= math.sqrt(self.weights)
        return min(1.0, limit / norm)


def run_trial(context: CheckContext, config: Config, max_steps: int, on_progress: OnProgress) -> Trial:
    """Train from the initial weights: first on batches of the corpus, then on the first of them again and again."""
    learner, schedule = _build_learner(context, config), Schedule(config.training)
    variables = learner.model.trainable_variables
    before = [variable.numpy() for variable in variables]
    steps = min(max_steps, _affordable_steps(learner, context.fast))
    corpus_steps = int(steps * CORPUS_STEPS)
    losses: list[float] = []
    norms: list[float] = []
    for step in range(steps):
        learner.set_learning_rate(schedule.learning_rate(step))
        if step >= corpus_steps:
            learner.step = 0  # its batch and its random numbers
        result = learner.train_step()
        losses.append(float(result.loss.nats) / float(result.loss.tokens))
        norms.append(float(result.gradient_norm))
        on_progress(f"step {step + 1} of {steps}, loss {losses[-1]:.3f}")
        if not math.isfinite(losses[-1]):
            break
    learner.close()
    changes = [variable.numpy() - old for variable, old in zip(variables, before, strict=True)]
    return Trial(
        config.training,
        losses[:corpus_steps],
        losses[corpus_steps:] or [math.nan],
        norms,
        movement=global_norm(changes) / global_norm(before) / len(norms),
        weights=sum(array.size for array in before),
        untrained=[
            variable_name(variable)
            for variable, change in zip(variables, changes, strict=True)
            if not (np.any(change) or _has_one_step(learner.batches.batch(0)))
        ],
    )


def _has_one_step(batch: Any) -> bool:
    """Whether all sources or targets have a single word, so that there is nothing to attend to or to remember."""
    return isinstance(batch, Batch) and bool(min(batch.source_length.max(), batch.target_length.max()) < 2)


def rates_at(settings: Training) -> list[float]:
    """The learning rate at ``RATE_AT``, relative to the initial one."""
    return list(_rates(settings, (int(part * settings.steps) for part in RATE_AT)))


def effective_steps(settings: Training) -> float:
    """The sum of the learning rates of the whole training, relative to the initial one."""
    ends = np.unique(np.geomspace(1, settings.steps, 10_000).astype(np.int64))  # most of them early
    starts = np.concatenate([[0], ends[:-1]])
    return float(np.dot(ends - starts, list(_rates(settings, starts.tolist()))))


def _rates(settings: Training, steps: Iterable[int]) -> Iterator[float]:
    """The learning rates of steps, relative to the initial one."""
    schedule = Schedule(settings)
    return (schedule.learning_rate(step) / settings.learning_rate for step in steps)


def trial_config(context: CheckContext) -> Config:
    """The configuration; if its corpus is missing, with a synthetic one of the same size."""
    config = context.config
    if not context.missing_files:
        return config
    model, data = config.model, config.data
    side = data.target_text
    size = min(side.vocabulary_size, CHARACTERS) if "character" in side.tokenizer else side.vocabulary_size
    return context.small_config(
        size,
        hidden_size=model.hidden_size,
        embedding_size=max(model.embedding_size, model.projection_size or 0),
        steps=1,
        model={"encoder_steps": model.encoder_steps, "decoder_steps": model.decoder_steps},
        data={"buckets": data.buckets, "train": str(context.folder / CORPUS)},
    )


def _build_learner(context: CheckContext, config: Config) -> Learner[Any]:
    """The learner of an experiment on one device, without a validation."""
    is_text = config.task == "language_model"
    if context.missing_files:
        codecs = _write_synthetic_corpus(context, config)
    else:
        codecs = build_codecs(config.data, running_text=is_text)
    config = config.model_copy(update={"data": config.data.model_copy(update={"validation": None})})
    return learner_of(config, codecs, None if is_text else open_training_corpus(config, codecs, lambda _: None))


def _write_synthetic_corpus(context: CheckContext, config: Config) -> Codecs:
    """Texts of as many tokens as the model reads, whose words are as frequent as by Zipf's law."""
    model, training, rng = config.model, config.training, np.random.default_rng(config.seed)
    words = np.array([f"w{number}" for number in range(max(2, config.data.vocabulary_size - len(SPECIAL_WORDS)))])
    frequencies = 1 / np.arange(1, len(words) + 1)
    maximum = max(1, min(model.encoder_steps, model.decoder_steps - 1, config.data.max_length or model.encoder_steps))
    count = SYNTHETIC_BATCHES * training.batch_size
    if config.task == "language_model":
        maximum, count = training.truncation.steps, count // 2 + training.batch_size
    ends = np.cumsum(rng.integers(1, maximum + 1, 2 * count))
    tokens = words[rng.choice(len(words), ends[-1], p=frequencies / frequencies.sum())]
    texts = [" ".join(part) for part in np.split(tokens, ends[:-1])]
    write_conversations(context.folder / CORPUS, zip(texts[:count], texts[count:], strict=True))
    return Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *words.tolist()]))


def _affordable_steps(learner: Learner[Any], fast: bool) -> int:
    """The number of steps that take a minute at most: fewer of a large model."""
    sizes = {variable_name(variable): math.prod(variable.shape) for variable in learner.model.trainable_variables}
    unused = WORD_VARIABLES if learner.sampled else WORD_VARIABLES[:3]  # of a table of words, only some rows are used
    products = sum(size for name, size in sizes.items() if name not in unused) * np.size(learner.batches.batch(0)[0])
    return max(MIN_STEPS, int(MAX_PRODUCTS[fast] / products))
