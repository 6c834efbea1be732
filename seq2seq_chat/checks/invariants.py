"""What holds before training: data and memory suffice; initial loss, padding, decoding and carried state are right."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np
import tensorflow as tf

from seq2seq_chat.architecture.variables import estimate_memory, gigabytes
from seq2seq_chat.chat.generator import LanguageModelScorer
from seq2seq_chat.checks.check_context import (
    CheckContext,
    CheckResult,
    OnProgress,
    first_samples,
    global_norm,
    scale_weights,
)
from seq2seq_chat.config import Decoding
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.data.running_text import Streams
from seq2seq_chat.engines.tensorflow.language_model import TensorFlowLanguageModel
from seq2seq_chat.engines.tensorflow.scorer import Scorer
from seq2seq_chat.engines.tensorflow.search import GraphSearch
from seq2seq_chat.model.language_model import LanguageModel
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.report.scoring import find_leakage, sample_hashes
from seq2seq_chat.search.engine import Hypotheses
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.hardware import available_memory
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, UNKNOWN
from seq2seq_chat.training.language_model import LanguageModelLoss
from seq2seq_chat.training.optimizers import build_optimizer
from seq2seq_chat.training.step import TrainingStep
from seq2seq_chat.training.validation import corpus_loss

MAX_SAMPLES = 1_000_000  # from the beginning of the training corpus
MAX_HELD_OUT = 100_000  # from the beginning of the validation and of the test corpus
MIN_COVERAGE, MAX_TRUNCATED, MAX_OVERLAP = 80.0, 50.0, 25.0  # percent
DATA_REQUIRED = (
    f"files readable, coverage ≥ {MIN_COVERAGE:.0f} %, truncated ≤ {MAX_TRUNCATED:.0f} %, overlap ≤ {MAX_OVERLAP:.0f} %"
)
INITIAL_WORDS, INITIAL_STEPS, INITIAL_SAMPLES = 2000, 10, 128
INITIAL_TOLERANCE = 0.05  # relative
PADDING_WORDS, PADDING_SAMPLES = 60, 16
UNPADDED_STEPS, PADDED_STEPS = 8, 13  # of two models
PADDING_TOLERANCE = 1e-4  # nats per target token; reordered sums differ by 1e-6
DECODING_WORDS, DECODING_STEPS, DECODING_SAMPLES, BEAM_WIDTH = 40, 8, 16, 40
DECODING_TOLERANCE = 1e-3  # nats per reply
CARRIED_TOLERANCE, GRADIENT_TOLERANCE = 1e-4, 1e-3  # relative


def check_data(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Vocabulary coverage, samples truncated by the step limits, duplicates, and held-out samples seen in training."""
    data, model = context.config.data, context.config.model
    if context.config.task == "language_model":
        return _check_text_data(context, on_progress)
    try:
        codecs = build_codecs(data)
        corpus = Dataset.open(data.train, codecs, data).select(slice(MAX_SAMPLES))
        held_out = [Dataset.open(files, codecs, data) for files in (data.validation, data.test) if files]
    except UserError as error:
        return CheckResult(False, "files not readable", DATA_REQUIRED, str(error))
    source, target = corpus.last_turn_lengths(), corpus.target_lengths()
    if data.max_length:
        fits = np.maximum(source, target) <= data.max_length
        corpus, source, target = corpus.select(fits), source[fits], target[fits]
    samples = len(corpus)
    if not samples:
        reason = f"{data.train} has no sample of at most {data.max_length} tokens"
        return CheckResult(False, "no samples", DATA_REQUIRED, reason)
    unknown = sum(int((ids == UNKNOWN).sum()) for ids in corpus.targets(np.arange(samples)))
    unknown_share = _percent(unknown, int(target.sum()))
    truncated = _percent(((source > model.encoder_steps) | (target + 1 > model.decoder_steps)).sum(), samples)
    different = len(np.unique(sample_hashes(corpus, slice(None))[0]))
    leaks = [find_leakage(each, np.arange(min(len(each), MAX_HELD_OUT)), corpus).samples for each in held_out]
    overlap = max((_percent(leaked.sum(), len(leaked)) for leaked in leaks), default=0.0)
    return CheckResult(
        passed=100 - unknown_share >= MIN_COVERAGE and truncated <= MAX_TRUNCATED and overlap <= MAX_OVERLAP,
        measured=f"coverage {100 - unknown_share:.1f} %, truncated {truncated:.1f} %, overlap {overlap:.1f} %",
        required=DATA_REQUIRED,
        detail=f"{'first ' if samples == MAX_SAMPLES else ''}{samples:,} samples, <unknown> {unknown_share:.2f} % of "
        f"the words, duplicate samples {_percent(samples - different, samples):.1f} %",
    )


def _percent(part: float, total: float) -> float:
    return float(100 * part / total) if total else 0.0


def _check_text_data(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The texts are readable and long enough, and the vocabulary covers them."""
    required = f"files readable, streams long enough, coverage ≥ {MIN_COVERAGE:.0f} %"
    try:
        on_progress("reading")
        setup = context.text_setup
    except UserError as error:
        return CheckResult(False, "text not usable", required, str(error))
    coverage = 100 * (1 - setup.corpus.unknown_share())
    return CheckResult(coverage >= MIN_COVERAGE, f"coverage {coverage:.1f} %", required, setup.describe_data())


def check_memory(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The training's own memory estimate does not exceed the free memory."""
    config, available = context.config, available_memory()
    sizes = config.data.target_text.vocabulary_size, config.data.source_text.vocabulary_size
    if config.task == "language_model":
        with suppress(UserError):  # which the check of the data reports
            sizes = context.text_setup.codecs.vocabulary_sizes
    estimate = estimate_memory(config, *sizes)
    return CheckResult(
        passed=estimate.total <= available,
        measured=f"about {gigabytes(estimate.total)}",
        required=f"≤ {gigabytes(available)} free",
        detail=estimate.describe(),
    )


def check_initial_loss(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """The exact loss before any training is ln(vocabulary size)."""
    config = context.small_config(INITIAL_WORDS, hidden_size=128, embedding_size=64, steps=INITIAL_STEPS)
    if config.task == "language_model":
        text_model = LanguageModel(config.model, INITIAL_WORDS, config.seed)
        scorer = LanguageModelScorer(TensorFlowLanguageModel(text_model))
        score = scorer.score(_random_tokens(config.seed, INITIAL_WORDS, 2000))
        loss = score.nats / score.tokens
    else:
        corpus, _ = context.random_corpus("initial_loss", INITIAL_WORDS, INITIAL_SAMPLES, INITIAL_STEPS - 1)
        model = Seq2Seq(config.model, INITIAL_WORDS, config.seed)
        buckets = [(INITIAL_STEPS, INITIAL_STEPS)]
        loss = corpus_loss(Scorer(model), corpus, buckets, config.data.reverse_input).loss
    expected = math.log(INITIAL_WORDS)
    return CheckResult(
        passed=abs(loss / expected - 1) <= INITIAL_TOLERANCE,
        measured=f"{loss:.3f} nats, {100 * (loss / expected - 1):+.1f} %",
        required=f"ln({INITIAL_WORDS}) = {expected:.3f} nats ± {100 * INITIAL_TOLERANCE:.0f} %",
    )


def check_padding(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Losses and greedy replies are the same alone, in a batch with longer samples, and with more padding."""
    corpus, _ = context.random_corpus("padding", PADDING_WORDS, PADDING_SAMPLES, UNPADDED_STEPS - 1)

    def build(steps: int) -> tuple[Seq2Seq, Batch]:
        config = context.small_config(PADDING_WORDS, hidden_size=32, embedding_size=24, steps=steps)
        model = Seq2Seq(config.model, PADDING_WORDS, config.seed)
        scale_weights(model)
        return model, first_samples(corpus, PADDING_SAMPLES, steps, config)

    (model, batch), (padded_model, padded) = build(UNPADDED_STEPS), build(PADDED_STEPS)
    single, single_padded = np.zeros(PADDING_SAMPLES), np.zeros(PADDING_SAMPLES)  # losses of samples on their own, nats
    for sample in range(PADDING_SAMPLES):
        row, padded_row = (Batch(*(field[sample : sample + 1] for field in each)) for each in (batch, padded))
        unpadded_source = row.source[:, : int(row.source_length[0])]
        single[sample] = float(model.loss(unpadded_source, *row[1:]).nats)
        single_padded[sample] = float(padded_model.loss(*padded_row).nats)
    tokens = batch.target_length.astype(float)
    padding_difference = float(np.max(np.abs(single - single_padded) / tokens))
    batch_difference = abs(float(model.loss(*batch).nats) - single.sum()) / tokens.sum()
    difference = max(padding_difference, batch_difference)
    greedy = Decoding(method="greedy", allow_unknown=True)
    replies, padded_replies = (
        GraphSearch(one, greedy)(of.source, of.source_length).words[:, 0, :UNPADDED_STEPS]
        for one, of in ((model, batch), (padded_model, padded))
    )
    changed = int(np.any(replies != padded_replies, axis=1).sum())
    return CheckResult(
        passed=difference <= PADDING_TOLERANCE and not changed,
        measured=f"losses differ by {difference:.1e} nats per token, {changed} of {PADDING_SAMPLES} replies change",
        required=f"≤ {PADDING_TOLERANCE:.0e} nats per token, no reply",
    )


def check_decoding(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """A beam of 1 is greedy search, a wide beam is not worse, and scores equal teacher-forced log-probabilities."""
    config = context.small_config(DECODING_WORDS, hidden_size=32, embedding_size=24, steps=DECODING_STEPS)
    corpus, _ = context.random_corpus("decoding", DECODING_WORDS, DECODING_SAMPLES, DECODING_STEPS - 1)
    model = Seq2Seq(config.model, DECODING_WORDS, config.seed)
    scale_weights(model)
    batch = first_samples(corpus, DECODING_SAMPLES, DECODING_STEPS, config)

    def search(**decoding: object) -> Hypotheses:
        settings = Decoding.model_validate({"allow_unknown": True, **decoding})
        return GraphSearch(model, settings)(batch.source, batch.source_length)

    greedy = search(method="greedy")
    on_progress("beam search")
    narrow = search(method="beam", beam_width=1)
    wide = search(method="beam", beam_width=BEAM_WIDTH, n_best=BEAM_WIDTH)
    different = int(np.any(narrow.words != greedy.words, axis=(1, 2)).sum())
    worse = int(np.sum(wide.scores[:, 0] < greedy.scores[:, 0] - DECODING_TOLERANCE))
    on_progress("teacher forcing")
    scorer = Scorer(model)
    error = max(_score_error(scorer, batch, hypotheses) for hypotheses in (greedy, wide))
    return CheckResult(
        passed=not different and not worse and error <= DECODING_TOLERANCE,
        measured=f"beam 1 differs from greedy {different} times, beam {BEAM_WIDTH} is worse {worse} times, "
        f"scores are off by {error:.1e} nats",
        required=f"0, 0, ≤ {DECODING_TOLERANCE:.0e}",
        detail=f"{DECODING_SAMPLES} utterances, {DECODING_SAMPLES * BEAM_WIDTH} hypotheses",
    )


def _score_error(scorer: Scorer, batch: Batch, hypotheses: Hypotheses) -> float:
    """The largest difference between a hypothesis's score and its teacher-forced log-probability, in nats."""
    row, n = np.nonzero(np.isfinite(hypotheses.scores))
    words, word_lengths = hypotheses.words[row, n], hypotheses.lengths[row, n]
    expected = scorer.log_probabilities(batch.source[row], batch.source_length[row], words, word_lengths)
    return float(np.max(np.abs(expected - hypotheses.scores[row, n])))


def check_carried_state(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Read in chunks, a text has the loss it has when read at once, and the same gradients."""
    vocabulary, rows, length, chunk = 50, 2, 24, 6
    tokens = _random_tokens(context.config.seed, vocabulary, rows * length + 1)
    whole, chunks, windows = (  # windows: gradients go back to the beginning
        _updates(context, tokens, vocabulary, {"batch_size": rows, "bptt_forward": forward, "bptt_backward": backward})
        for forward, backward in ((length, length), (chunk, chunk), (chunk, length))
    )
    losses = [np.mean([loss for loss, _ in updates]) for updates in (whole, chunks)]
    gradients = [[np.mean(parts, axis=0) for parts in zip(*(g for _, g in u), strict=True)] for u in (whole, windows)]
    loss = abs(losses[1] / losses[0] - 1)
    gradient = global_norm(one - two for one, two in zip(*gradients, strict=True)) / global_norm(gradients[0])
    return CheckResult(
        passed=bool(loss <= CARRIED_TOLERANCE and gradient <= GRADIENT_TOLERANCE),
        measured=f"losses differ by {100 * loss:.1e} %, gradients by {100 * gradient:.1e} %",
        required=f"≤ {100 * CARRIED_TOLERANCE:g} %, ≤ {100 * GRADIENT_TOLERANCE:g} %",
        detail=f"{rows} streams of {length} tokens in chunks of {chunk}",
    )


def _updates(
    context: CheckContext, tokens: np.ndarray, vocabulary_size: int, training: dict[str, int]
) -> list[tuple[float, list[np.ndarray]]]:
    """The loss per token and the gradients of each update of a pass over a text; no weight changes."""
    exact = {"sampled_softmax": None, "state_reset": 0.0, "precision": "float32", "micro_batches": 1}
    config = context.small_config(
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


def _random_tokens(seed: int, vocabulary_size: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(len(SPECIAL_WORDS), vocabulary_size, count).astype(np.int32)
