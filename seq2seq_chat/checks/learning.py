"""Train a model on utterances with known replies until it gives them, or until the steps run out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.data.codec import Codecs
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.inference.chatbot import Chatbot
from seq2seq_chat.training.learner import build_learner

PROGRESS_EVERY, EVALUATE_EVERY = 10, 60  # steps
MAX_LOSS = 1.0  # nats per token; above it no reply can be correct, so the replies are not evaluated
REQUIRED_ACCURACY = 0.99

Pairs = Sequence[tuple[str, str]]


class ReplyTask(NamedTuple):
    """Utterances, each with its only correct reply."""

    name: str
    description: str  # of the test pairs
    vocabulary: Vocabulary
    train_pairs: Pairs
    test_pairs: Pairs
    max_steps: int


def check_reply_task(context: CheckContext, config: Config, task: ReplyTask, on_progress: OnProgress) -> CheckResult:
    """Train on a task until ``REQUIRED_ACCURACY`` of the test replies are correct, or for ``max_steps``.

    Uses the same corpus file, batches, training step and chatbot as an experiment.
    """
    codecs = Codecs.of_words(task.vocabulary)
    corpus = context.write_corpus(task.name, task.train_pairs, codecs)
    learner = build_learner(config, codecs, corpus)
    chatbot = Chatbot(learner.model, codecs, config)
    total, required = len(task.test_pairs), REQUIRED_ACCURACY * len(task.test_pairs)
    correct = 0
    curve: list[tuple[int, float]] = []
    nats = tokens = 0.0
    while learner.step < task.max_steps and correct < required:
        loss = learner.train_step().loss
        nats, tokens = nats + float(loss.nats), tokens + float(loss.tokens)
        if learner.step % PROGRESS_EVERY == 0:
            on_progress(f"step {learner.step}, loss {nats / tokens:.3f}, {correct} of {total} replies correct")
        if learner.step % EVALUATE_EVERY == 0:
            curve.append((learner.step, nats / tokens))
            if nats / tokens < MAX_LOSS or learner.step + EVALUATE_EVERY > task.max_steps:
                correct = correct_replies(chatbot, task.test_pairs)
            nats = tokens = 0.0
    return CheckResult(
        passed=correct >= required,
        measured=f"{correct} of {total} replies correct ({100 * correct / total:.1f} %)",
        required=f"≥ {100 * REQUIRED_ACCURACY:.0f} %",
        detail=f"{task.description}; {learner.step} steps, loss {curve[-1][1]:.3f} nats per token",
        curve=tuple(curve),
    )


def correct_replies(chatbot: Chatbot, pairs: Pairs) -> int:
    """The number of utterances whose greedy reply is correct, word for word."""
    replies = chatbot.replies([utterance for utterance, _ in pairs], Decoding(method="greedy"))
    return sum(reply.text == expected for reply, (_, expected) in zip(replies, pairs, strict=True))
