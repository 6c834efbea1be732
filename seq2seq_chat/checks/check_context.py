"""What is checked: the architecture of a configuration, at a size that a check needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Optional

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import Config
from seq2seq_chat.corpus.encoded import EncodedCorpus
from seq2seq_chat.corpus.files import write_conversations
from seq2seq_chat.corpus.samples import iterate_samples, read_tokens
from seq2seq_chat.corpus.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.errors import UserError
from seq2seq_chat.model.seq2seq import Seq2Seq

SAMPLE_CORPUS = str(resources.files("seq2seq_chat") / "corpus" / "sample" / "conversations.txt")

Progress = Callable[[str], object]
"""Told from time to time how far a check is."""

LOOKED_AT = 1000  # samples that are read to see whether a corpus can be used


class Finding(NamedTuple):
    """What a check found."""

    passed: bool
    figure: str  # what was measured
    threshold: str  # what it had to be
    detail: str = ""  # what a person may want to know besides
    curve: tuple[tuple[int, float], ...] = ()  # (step, loss) where something was learned


class Subject:
    """A configuration under test.

    The architecture is used as it is: cell, layers, attention, projection, sampled softmax (where there are words
    enough to sample from), reversal. Hidden, embedding and projection sizes shrink to what a check needs unless
    ``full_size`` is set; vocabulary, steps, optimizer and learning rate are each check's own.

    Args:
        config: the experiment that somebody is about to train.
        folder: where a check may write.
        fast: shorter sequences in the copy task.
    """

    def __init__(self, config: Config, folder: Path, *, fast: bool = False, full_size: bool = False) -> None:
        self.config, self.folder, self.fast, self.full_size = config, folder, fast, full_size

    @cached_property
    def missing_data(self) -> Optional[str]:
        """Why the configured corpus cannot be used, or None where it can."""
        data = self.config.data
        try:
            first = list(islice(iterate_samples(read_tokens(data.train, data.level), data.pairing), LOOKED_AT))
        except UserError as error:
            return str(error)
        return None if first else f"{data.train} has no two utterances that belong together"

    def real_samples(self) -> Iterator[tuple[list[str], list[str]]]:
        """(source, target) of the configured training corpus, or of the bundled one where that is missing."""
        data = self.config.data
        if self.missing_data is None:
            return iterate_samples(read_tokens(data.train, data.level), data.pairing)
        return iterate_samples(read_tokens(SAMPLE_CORPUS, data.level), "sliding")

    def sized(self, vocabulary: int, hidden: int, units: int, steps: int, **changes: Any) -> Config:
        """The configuration at a smaller size; ``changes`` are ``section__key=value``.

        Args:
            vocabulary: words of the model; of a few, three quarters are sampled where many were to be.
            hidden: largest hidden size; units: largest size of embedding and projection.
            steps: steps of encoder and decoder.
        """
        settings = self.config.model_dump()
        model, training = settings["model"], settings["training"]
        if not self.full_size:
            model["hidden_size"] = min(model["hidden_size"], hidden)
            model["embedding_size"] = min(model["embedding_size"], units)
            model["projection_size"] = model["projection_size"] and min(model["projection_size"], units)
        model |= {"encoder_steps": steps, "decoder_steps": steps, "pretrained_embeddings": None}
        settings["data"] |= {"vocabulary_size": vocabulary, "buckets": None, "level": "word", "pairing": "alternating"}
        settings["data"] |= {"context_turns": 1, "swap_samples": False}  # questions and answers, no more
        sampled = training["sampled_softmax"]
        if sampled is not None and sampled < self.config.data.vocabulary_size and sampled >= vocabulary:
            training["sampled_softmax"] = max(1, vocabulary * 3 // 4)
        for path, value in changes.items():
            section, key = path.split("__")
            settings[section][key] = value
        return Config.model_validate(settings)

    def write_corpus(self, name: str, pairs: Iterable[tuple[str, str]]) -> Path:
        """A corpus file of questions and answers, each pair a conversation of its own."""
        path = self.folder / f"{name}.txt"
        write_conversations(path, pairs)
        return path

    def random_corpus(self, name: str, vocabulary: int, samples: int, longest: int) -> tuple[EncodedCorpus, Vocabulary]:
        """A corpus of equally likely made-up words, utterances of 1 to ``longest`` of them."""
        rng = np.random.default_rng(self.config.seed)
        words = [f"w{number}" for number in range(vocabulary - len(SPECIAL_WORDS))]

        def utterance() -> str:
            return " ".join(rng.choice(words, rng.integers(1, longest + 1)))

        path = self.write_corpus(name, [(utterance(), utterance()) for _ in range(samples)])
        known = Vocabulary([*SPECIAL_WORDS, *words])
        return EncodedCorpus.open(path, known, level="word", pairing="alternating"), known


def agitate(model: Seq2Seq, factor: float = 4.0) -> None:
    """Make a model's weights larger than they start, so that its words differ in probability and nothing is linear."""
    for variable in model.trainable_variables:
        if variable.shape.rank > 1:
            variable.assign(tf.clip_by_value(variable * factor, -1.0, 1.0))
