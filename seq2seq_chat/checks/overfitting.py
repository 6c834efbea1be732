"""Overfitting: the model memorizes a few dozen real samples."""

from __future__ import annotations

from collections import Counter

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.checks.reply_task import REQUIRED_ACCURACY, ReplyTask, check_reply_task
from seq2seq_chat.text.vocabulary import Vocabulary

SAMPLES = 48
MAX_STEPS = 900


def check_overfitting(context: CheckContext, on_progress: OnProgress) -> CheckResult:
    """Greedy replies to the training utterances equal the training targets, word for word. Dropout is off."""
    pairs = _short_pairs(context)
    if not pairs:
        reason = "no sample fits into the model's encoder and decoder steps"
        return CheckResult(False, "no sample", f"≥ {100 * REQUIRED_ACCURACY:.0f} %", reason)
    counts = Counter(word for pair in pairs for words in pair for word in words.split())
    vocabulary = Vocabulary.from_counts(counts, 10**6)
    config = context.small_config(
        len(vocabulary),
        hidden_size=128,
        embedding_size=64,
        steps=max(len(words.split()) for pair in pairs for words in pair) + 1,
        model={"dropout": 0.0},
        training={"batch_size": 16, "optimizer": "adam", "learning_rate": 0.005, "momentum": 0.0},
    )
    source = context.config.data.train if context.data_error is None else "the bundled sample"
    task = ReplyTask("overfitting", f"{len(pairs)} samples of {source}", vocabulary, pairs, pairs, MAX_STEPS)
    return check_reply_task(context, config, task, on_progress)


def _short_pairs(context: CheckContext) -> list[tuple[str, str]]:
    """Samples with different utterances that fit into the model's steps."""
    model = context.config.model
    pairs: dict[str, str] = {}
    for _, _, source, target in context.real_samples():
        if len(source) <= model.encoder_steps and len(target) < model.decoder_steps:
            pairs.setdefault(" ".join(source), " ".join(target))
        if len(pairs) == SAMPLES:
            break
    return list(pairs.items())
