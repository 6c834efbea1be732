"""Overfitting: a few dozen real samples are learned by heart."""

from __future__ import annotations

from seq2seq_chat.checks.learning import learn_to_answer
from seq2seq_chat.checks.subject import Finding, Progress, Subject
from seq2seq_chat.corpus.vocabulary import Vocabulary

SAMPLES, LEAST = 48, 0.99
MOST_STEPS = 900


def check_overfitting(subject: Subject, progress: Progress) -> Finding:
    """Greedy replies to real utterances are, word for word, the ones that were learned. Dropout is off."""
    pairs = _pairs(subject)
    if not pairs:
        return Finding(False, "no sample", f"≥ {100 * LEAST:.0f} %", "no sample is short enough for the model's steps")
    vocabulary = Vocabulary.from_counts(Vocabulary.count(words.split() for pair in pairs for words in pair), 10**6)
    steps = max(len(words.split()) for pair in pairs for words in pair) + 1
    config = subject.sized(
        len(vocabulary),
        hidden=128,
        units=64,
        steps=steps,
        model__dropout=0.0,
        training__batch_size=16,
        training__optimizer="adam",
        training__learning_rate=0.005,
        training__momentum=0.0,
    )
    learned = learn_to_answer(
        subject,
        config,
        vocabulary,
        "overfitting",
        pairs,
        asked=pairs,
        least=LEAST,
        most_steps=MOST_STEPS,
        progress=progress,
    )
    where = subject.config.data.train if subject.missing_data is None else "the bundled sample"
    return learned.finding(LEAST, f"{len(pairs)} samples of {where}")


def _pairs(subject: Subject) -> list[tuple[str, str]]:
    """Samples that can be learned: every utterance once, short enough for the steps of the model."""
    model = subject.config.model
    pairs: dict[str, str] = {}
    for source, target in subject.real_samples():
        if len(source) <= model.encoder_steps and len(target) < model.decoder_steps:
            # a corpus file of words: the space, where tokens are characters, becomes one
            pairs.setdefault(*(" ".join(token.strip("<>") for token in tokens) for tokens in (source, target)))
        if len(pairs) == SAMPLES:
            break
    return list(pairs.items())
