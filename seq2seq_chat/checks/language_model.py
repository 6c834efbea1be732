"""Checks of language models, on small models of the configured architecture and random or configured text."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

import numpy as np
import tensorflow as tf

from seq2seq_chat.chat.generator import Generator, LanguageModelScorer
from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.data.corpus_file import bundled_conversations
from seq2seq_chat.data.running_text import Streams, encode_text, read_text
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import TextCodec
from seq2seq_chat.text.tokenizers.character import CharacterTokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.training.language_model import LanguageModelLoss
from seq2seq_chat.training.learner import Learner
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep

MIN_COVERAGE = 80.0  # percent of the tokens
INITIAL_VOCABULARY, INITIAL_TOLERANCE = 2000, 0.05
CARRIED_TOLERANCE, GRADIENT_TOLERANCE = 1e-4, 1e-3  # relative
MEMORIZED, PROMPT, MAX_STEPS, EVALUATE_EVERY = 300, 20, 1200, 60  # tokens, tokens, steps


def check_text_data(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The texts are readable and long enough, and the vocabulary covers them."""
    required = f"files readable, streams long enough, coverage ≥ {MIN_COVERAGE:.0f} %"
    try:
        on_progress("reading")
        setup = context.text_setup
    except UserError as error:
        return CheckResult(False, "text not usable", required, str(error))
    coverage = 100 * (1 - setup.corpus.unknown_share())
    return CheckResult(coverage >= MIN_COVERAGE, f"coverage {coverage:.1f} %", required, setup.describe_data())


def check_text_initial_loss(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The loss before any training is ln(vocabulary size)."""
    config = context.small_config(INITIAL_VOCABULARY, hidden_size=128, embedding_size=64, steps=10)
    model = LanguageModel(config.model, INITIAL_VOCABULARY, config.seed)
    score = LanguageModelScorer(TensorFlowLanguageModel(model)).score(
        _random_tokens(config.seed, INITIAL_VOCABULARY, 2000)
    )
    loss, expected = score.nats / score.tokens, math.log(INITIAL_VOCABULARY)
    return CheckResult(
        passed=abs(loss / expected - 1) <= INITIAL_TOLERANCE,
        measured=f"{loss:.3f} nats, {100 * (loss / expected - 1):+.1f} %",
        required=f"ln({INITIAL_VOCABULARY}) = {expected:.3f} nats ± {100 * INITIAL_TOLERANCE:.0f} %",
    )


def check_carried_state(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Read in chunks, a text has the loss it has when read at once, and its gradients are those of the whole text."""
    vocabulary, rows, length, chunk = 50, 2, 24, 6
    tokens = _random_tokens(context.config.seed, vocabulary, rows * length + 1)
    whole, chunks, windows = (  # windows: gradients go back to the beginning
        _updates(context, tokens, vocabulary, {"batch_size": rows, "bptt_forward": forward, "bptt_backward": backward})
        for forward, backward in ((length, length), (chunk, chunk), (chunk, length))
    )
    losses = [np.mean([loss for loss, _ in updates]) for updates in (whole, chunks)]
    gradients = [[np.mean(parts, axis=0) for parts in zip(*(g for _, g in u), strict=True)] for u in (whole, windows)]
    loss = abs(losses[1] / losses[0] - 1)
    norm = math.sqrt(sum(float(np.sum(np.square(g))) for g in gradients[0]))
    pairs = zip(*gradients, strict=True)
    gradient = math.sqrt(sum(float(np.sum(np.square(one - two))) for one, two in pairs)) / norm
    return CheckResult(
        passed=bool(loss <= CARRIED_TOLERANCE and gradient <= GRADIENT_TOLERANCE),
        measured=f"losses differ by {100 * loss:.1e} %, gradients by {100 * gradient:.1e} %",
        required=f"≤ {100 * CARRIED_TOLERANCE:g} %, ≤ {100 * GRADIENT_TOLERANCE:g} %",
        detail=f"{rows} streams of {length} tokens in chunks of {chunk}",
    )


def check_text_overfitting(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A short text is memorized: from its beginning, the most probable tokens are the rest of it. Dropout is off."""
    text = "".join(islice(_characters(context), MEMORIZED))
    codec = TextCodec(
        CharacterTokenizer(), Vocabulary([*SPECIAL_WORDS, *dict.fromkeys(CharacterTokenizer().encode(text))])
    )
    tokens = np.array(encode_text(text, codec))
    config = context.small_config(
        len(codec.vocabulary),
        hidden_size=128,
        embedding_size=64,
        steps=10,
        model={"dropout": 0.0},
        training={
            **{"batch_size": 1, "micro_batches": 1, "bptt_forward": 50, "bptt_backward": None, "state_reset": 0.0},
            **{"optimizer": "adam", "learning_rate": 0.005, "momentum": 0.0},
        },
    )
    model = LanguageModel(config.model, len(codec.vocabulary), config.seed)
    loss = LanguageModelLoss(model, config.training)
    learner = Learner(model, Streams(tokens, 1, 50, 50), config.training, task_loss=loss, carried=loss.variables)
    generator, share, curve = Generator(TensorFlowLanguageModel(model), codec), 0.0, []
    nats = count = 0.0
    while learner.step < MAX_STEPS and share < 1:
        result = learner.train_step().loss
        nats, count = nats + float(result.nats), count + float(result.tokens)
        if learner.step % EVALUATE_EVERY == 0:
            curve.append((learner.step, nats / count))
            share = _recited(generator, tokens)
            on_progress(f"step {learner.step}, loss {nats / count:.3f}, {share:.0%} recited")
            nats = count = 0.0
    return CheckResult(
        passed=share == 1,
        measured=f"{share:.1%} of {len(tokens) - PROMPT} characters recited",
        required="100 %",
        detail=f"after {learner.step} steps, from the first {PROMPT} characters",
        curve=tuple(curve),
    )


def _recited(generator: Generator, tokens: np.ndarray) -> float:
    """The share of the text up to the first wrong token, written from its beginning."""
    greedy = Decoding(method="sample", top_k=1)
    blocks = generator.blocks([tokens[:PROMPT].tolist()], len(tokens) - PROMPT, greedy, [0])
    right = np.concatenate([block.ids for block in blocks], axis=1)[0] == tokens[PROMPT:]
    return float(np.argmin(right) if not np.all(right) else len(right)) / len(right)


def _updates(
    context: CheckContext, tokens: np.ndarray, vocabulary_size: int, training: dict[str, int]
) -> list[tuple[float, list[np.ndarray]]]:
    """The loss per token and the gradients of each update of a pass over a text; no weight changes."""
    exact = {"sampled_softmax": None, "state_reset": 0.0, "precision": "float32", "micro_batches": 1}
    config: Config = context.small_config(
        vocabulary_size, hidden_size=32, embedding_size=24, steps=10, model={"dropout": 0.0}, training=exact | training
    )
    settings, model = config.training, LanguageModel(config.model, vocabulary_size, config.seed)
    streams = Streams(tokens, settings.batch_size, settings.bptt_forward, settings.bptt_backward or 0)
    step = TrainingStep(model, build_optimizer(settings), settings, task_loss=LanguageModelLoss(model, settings))

    @tf.function(autograph=False)
    def update(*batch: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        loss, gradients = step.gradients(batch, tf.constant(0, tf.int64))
        return loss.nats / loss.tokens, [tf.convert_to_tensor(gradient) for gradient in gradients]

    updates = []
    for number in range(streams.batches_per_pass):
        loss, gradients = update(*map(tf.constant, streams.batch(number)))
        updates.append((float(loss), [gradient.numpy() for gradient in gradients]))
    return updates


def _characters(context: CheckContext) -> Iterator[str]:
    """The characters of the training text, or of the bundled conversations if it cannot be read."""
    try:
        yield from (character for piece in read_text(str(context.config.data.train)) for character in piece)
    except UserError:
        yield from bundled_conversations().read_text(encoding="utf-8")


def _random_tokens(seed: int, vocabulary_size: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(len(SPECIAL_WORDS), vocabulary_size, count).astype(np.int32)
