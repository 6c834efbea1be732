"""Train a model on utterances with known replies until it has learned them, or until the steps run out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.checks.check_context import CheckContext, CheckResult, OnProgress
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.engines.tensorflow.engine import TensorFlowEngine
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.vocabulary import Vocabulary
from seq2seq_chat.training.learner import build_learner, training_batches

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


class Learned(NamedTuple):
    """What a model has learned."""

    share: float  # the last result of the evaluation
    steps: int
    curve: tuple[tuple[int, float], ...]  # (step, loss in nats per token)

    def describe(self, task: ReplyTask) -> str:
        """The task, steps and loss."""
        return f"{task.description}; {self.steps} steps, loss {self.curve[-1][1]:.3f} nats per token"


def train_until(
    context: CheckContext,
    config: Config,
    task: ReplyTask,
    required: float,
    evaluate: Callable[[Chatbot], float],
    on_progress: OnProgress,
) -> Learned:
    """Train on a task until ``evaluate`` returns the ``required`` share, or for ``max_steps``.

    Uses the same corpus file, batches, training step and chatbot as an experiment.
    """
    codecs = Codecs.of_words(task.vocabulary)
    corpus = context.write_corpus(task.name, task.train_pairs, codecs)
    learner = build_learner(config, codecs, training_batches(config, codecs, corpus))
    chatbot = Chatbot(TensorFlowEngine(learner.model), codecs, config)
    share = 0.0
    curve: list[tuple[int, float]] = []
    nats = tokens = 0.0
    while learner.step < task.max_steps and share < required:
        loss = learner.train_step().loss
        nats, tokens = nats + float(loss.nats), tokens + float(loss.tokens)
        if learner.step % PROGRESS_EVERY == 0:
            on_progress(f"step {learner.step}, loss {nats / tokens:.3f}, {100 * share:.1f} % of {100 * required:.0f} %")
        if learner.step % EVALUATE_EVERY == 0:
            curve.append((learner.step, nats / tokens))
            if nats / tokens < MAX_LOSS or learner.step + EVALUATE_EVERY > task.max_steps:
                share = evaluate(chatbot)
            nats = tokens = 0.0
    return Learned(share, learner.step, tuple(curve))


def check_reply_task(context: CheckContext, config: Config, task: ReplyTask, on_progress: OnProgress) -> CheckResult:
    """Train until ``REQUIRED_ACCURACY`` of the test replies are correct, or for ``max_steps``."""
    total = len(task.test_pairs)
    learned = train_until(
        context,
        config,
        task,
        REQUIRED_ACCURACY,
        lambda chatbot: correct_replies(chatbot, task.test_pairs) / total,
        on_progress,
    )
    return CheckResult(
        passed=learned.share >= REQUIRED_ACCURACY,
        measured=f"{round(learned.share * total)} of {total} replies correct ({100 * learned.share:.1f} %)",
        required=f"≥ {100 * REQUIRED_ACCURACY:.0f} %",
        detail=learned.describe(task),
        curve=learned.curve,
    )


def correct_replies(chatbot: Chatbot, pairs: Pairs) -> int:
    """The number of utterances whose greedy reply is correct, word for word."""
    replies = chatbot.replies([utterance for utterance, _ in pairs], Decoding(method="greedy"))
    return sum(reply.text == expected for reply, (_, expected) in zip(replies, pairs, strict=True))
