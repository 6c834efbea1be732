"""Learn pairs of question and answer until they are answered right, or for so long and no longer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from seq2seq_chat.chatbot import Chatbot
from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.config import Config, Decoding
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.training.learner import Learner

ASK_EVERY = 60  # steps
PROMISING = 1.0  # nats per token: above it nothing can be right yet, and asking costs time

Pairs = Sequence[tuple[str, str]]


class Learned(NamedTuple):
    """How far a model came."""

    right: int  # answers that are right word for word
    asked: int
    steps: int
    curve: tuple[tuple[int, float], ...]  # (step, loss in nats per target token)

    def finding(self, least: float, what: str) -> Finding:
        """The verdict of a check that wants a share of ``least`` right."""
        return Finding(
            passed=self.right >= least * self.asked,
            figure=f"{self.right} of {self.asked} exactly ({100 * self.right / self.asked:.1f} %)",
            threshold=f"≥ {100 * least:.0f} %",
            detail=f"{what}; {self.steps} steps, loss {self.curve[-1][1]:.3f}",
            curve=self.curve,
        )


def learn_to_answer(
    subject: Subject,
    config: Config,
    vocabulary: Vocabulary,
    name: str,
    pairs: Pairs,
    *,
    asked: Pairs,
    least: float,
    most_steps: int,
    progress: Progress,
) -> Learned:
    """Train on ``pairs``; stop when a share of ``least`` of ``asked`` is answered right, or after ``most_steps``.

    Nothing is taken a shorter way than in a real experiment: corpus file, batches, training step; questions are asked
    as text through the chatbot, greedily.
    """
    path = subject.write_corpus(name, pairs)
    corpus = EncodedCorpus.open(path, vocabulary, level="word", pairing="alternating")
    learner = Learner(config, len(vocabulary), corpus)
    bot = Chatbot(learner.model, vocabulary, config)
    right, curve = 0, []
    nats = tokens = 0.0
    while learner.step < most_steps:
        loss = learner.learn().loss
        nats, tokens = nats + float(loss.nats), tokens + float(loss.tokens)
        if learner.step % 10 == 0:
            progress(f"step {learner.step}, loss {nats / tokens:.3f}, {right} of {len(asked)} right")
        if learner.step % ASK_EVERY == 0:
            curve.append((learner.step, nats / tokens))
            if nats / tokens < PROMISING or learner.step + ASK_EVERY > most_steps:
                right = right_answers(bot, asked)
            if right >= least * len(asked):
                break
            nats = tokens = 0.0
    return Learned(right, len(asked), learner.step, tuple(curve))


def right_answers(bot: Chatbot, asked: Pairs) -> int:
    """How many questions are answered word for word."""
    replies = bot.replies([question for question, _ in asked], Decoding(method="greedy"))
    return sum(reply.text == answer for reply, (_, answer) in zip(replies, asked, strict=True))
