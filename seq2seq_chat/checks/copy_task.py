"""The copy task: repeat a sequence of numbers (the thesis, section 4.3)."""

from __future__ import annotations

from seq2seq_chat.checks.learning import learn_to_answer
from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.corpus.copy_task import LONGEST, copy_corpus, copy_vocabulary

LEAST = 0.99
LONGEST_FAST = 10
LONGEST_WITHOUT_ATTENTION = 5  # all of it must pass through one small state
MOST_STEPS = 3000


def check_copy_task(subject: Subject, progress: Progress) -> Finding:
    """Trained on 10,000 sequences, the model copies 500 it has never seen, exactly. Dropout is off."""
    longest = LONGEST_FAST if subject.fast else LONGEST
    if subject.config.model.attention == "none":
        longest = min(longest, LONGEST_WITHOUT_ATTENTION)
    sequences, held_out = copy_corpus(longest, subject.config.seed)
    vocabulary = copy_vocabulary()
    config = subject.sized(
        len(vocabulary),
        hidden=128,
        units=64,
        steps=longest + 1,
        model__dropout=0.0,
        training__batch_size=64,
        training__optimizer="adam",
        training__learning_rate=0.002,
        training__momentum=0.0,
        training__sampled_softmax=None,  # of so few words nothing is sampled in an experiment either
    )
    learned = learn_to_answer(
        subject,
        config,
        vocabulary,
        "copy_task",
        [(sequence, sequence) for sequence in sequences],
        asked=[(sequence, sequence) for sequence in held_out],
        least=LEAST,
        most_steps=MOST_STEPS,
        progress=progress,
    )
    return learned.finding(LEAST, f"sequences of 1 to {longest} symbols, not seen in training")
