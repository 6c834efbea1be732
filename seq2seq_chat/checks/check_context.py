"""What the checks run on: the architecture of a configuration, at the size that a check needs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seq2seq_chat.config import TARGET_SETTINGS, Config, Data
from seq2seq_chat.data.build_codecs import build_codecs, build_tokenizers
from seq2seq_chat.data.corpus_file import bundled_conversations, corpus_paths, write_conversations
from seq2seq_chat.data.dataset import Batch, Dataset
from seq2seq_chat.data.samples import Sample, read_samples
from seq2seq_chat.model.seq2seq import Seq2Seq
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import Tokenizers
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, Vocabulary
from seq2seq_chat.training.distribution import SINGLE_DEVICE
from seq2seq_chat.training.language_model import LanguageModelSetup
from seq2seq_chat.training.learner import Learner, build_learner, training_batches

SAMPLE_CORPUS = str(bundled_conversations())
PROBED_SAMPLES = 1000  # read to verify that a corpus is readable

OnProgress = Callable[[str], object]


class CheckResult(NamedTuple):
    passed: bool
    measured: str
    required: str
    detail: str = ""
    curve: tuple[tuple[int, float], ...] = ()  # (step, loss in nats per token) of a check that trains
    remedy: str = ""  # a command with settings that pass
    replaced: str = ""  # of the configuration; empty: what the check always replaces


@dataclass(eq=False)
class CheckContext:
    """A configuration to check.

    The architecture is kept: cell, layers, attention, projection, reversed input, and sampled softmax if the check's
    vocabulary is large enough. Hidden, embedding and projection sizes are reduced to what a check needs unless
    ``full_size`` is set; each check chooses vocabulary, steps, optimizer and learning rate.
    """

    config: Config
    folder: Path  # for the files of the checks
    fast: bool = False  # use shorter sequences in the copy task, and fewer steps to judge the settings
    full_size: bool = False  # keep the hidden, embedding and projection sizes
    source: tuple[str, Sequence[str]] = ("CONFIG", ())  # the file and the overrides of its settings, for commands

    @cached_property
    def _tokenizers(self) -> Tokenizers:
        """The configured tokenizers. Raises UserError."""
        return build_tokenizers(self.config.data)

    @cached_property
    def missing_files(self) -> list[str]:
        """The files of the configured corpora that do not exist."""
        data = self.config.data
        paths = [path for files in (data.train, data.validation, data.test) if files for path in corpus_paths(files)]
        return [str(path) for path in paths if not path.exists()]

    @cached_property
    def data_error(self) -> str | None:
        """Why the configured training corpus cannot be used, or None if it can."""
        data = self.config.data
        try:
            samples = list(islice(read_samples(data.train, data, self._tokenizers), PROBED_SAMPLES))
        except UserError as error:
            return str(error)
        return None if samples else f"{data.train} has no pair of an utterance and a reply"

    @cached_property
    def text_setup(self) -> LanguageModelSetup:
        """The text and the vocabulary of a language model. Raises UserError."""
        return LanguageModelSetup(self.config, build_codecs(self.config.data, running_text=True))

    def real_samples(self) -> Iterator[Sample]:
        """The samples of the configured training corpus, or of the bundled one if that is missing."""
        data = self.config.data
        if self.data_error is None:
            return read_samples(data.train, data, self._tokenizers)
        english = Data(train=str(SAMPLE_CORPUS), pairing="alternating")
        return read_samples(SAMPLE_CORPUS, english, build_tokenizers(english))

    def small_config(
        self, vocabulary_size: int, *, hidden_size: int, embedding_size: int, steps: int, **changes: dict[str, Any]
    ) -> Config:
        """The configuration at a smaller size.

        A sampled softmax over at least the whole vocabulary is reduced to three quarters of it.

        Args:
            hidden_size: largest hidden size.
            embedding_size: largest embedding and projection size.
            steps: encoder and decoder steps.
            changes: other settings by section: ``training={"optimizer": "sgd"}``.
        """
        settings = self.config.model_dump()
        if settings["task"] == "translation":  # the corpora of the checks are conversations
            settings["task"] = "conversation"
        data, model, training = settings["data"], settings["model"], settings["training"]
        if not self.full_size:
            model["hidden_size"] = min(model["hidden_size"], hidden_size)
            model["embedding_size"] = min(model["embedding_size"], embedding_size)
            model["projection_size"] = model["projection_size"] and min(model["projection_size"], embedding_size)
        if model["tie_embeddings"]:
            model["embedding_size"] = model["projection_size"] or model["hidden_size"]
        model |= {"encoder_steps": steps, "decoder_steps": steps, "pretrained_embeddings": None}
        data |= {"vocabulary_size": vocabulary_size, "tokenizer": "whitespace", "pairing": "alternating"}
        data |= {"context_turns": 1, "swap_source_target": False, "shared_vocabulary": True}
        data |= dict.fromkeys((*TARGET_SETTINGS, "tokenizer_file", "vocabulary", "buckets"))
        training["best_metric"] = "loss"
        sampled = training["sampled_softmax"]
        if sampled is not None and vocabulary_size <= sampled < self.config.data.target_text.vocabulary_size:
            training["sampled_softmax"] = max(1, vocabulary_size * 3 // 4)
        for section, values in changes.items():
            settings[section] |= values
        return Config.model_validate(settings)

    def learning_config(self, vocabulary_size: int, steps: int, training: dict[str, Any], units: int = 128) -> Config:
        """The configuration for a task that is learned within minutes, with Adam and without dropout.

        Args:
            steps: encoder and decoder steps.
            training: further changes of the section ``training``.
            units: largest hidden size, and twice the largest embedding size.
        """
        return self.small_config(
            vocabulary_size,
            hidden_size=units,
            embedding_size=units // 2,
            steps=steps,
            model={"dropout": 0.0},
            training={"optimizer": "adam", "momentum": 0.0} | training,
        )

    def write_corpus(self, name: str, pairs: Iterable[tuple[str, str]], codecs: Codecs) -> Dataset:
        """Write utterances and replies to ``NAME.txt``, each pair a conversation of its own, and open the file."""
        path = self.folder / f"{name}.txt"
        write_conversations(path, pairs)
        return Dataset.open(path, codecs, Data(train=str(path), pairing="alternating"))

    def random_corpus(self, name: str, vocabulary_size: int, samples: int, max_length: int) -> tuple[Dataset, Codecs]:
        """A corpus of uniformly distributed artificial words, in utterances of 1 to ``max_length`` words."""
        rng = np.random.default_rng(self.config.seed)
        words = [f"w{number}" for number in range(vocabulary_size - len(SPECIAL_WORDS))]

        def utterance() -> str:
            return " ".join(rng.choice(words, rng.integers(1, max_length + 1)))

        codecs = Codecs.of_words(Vocabulary([*SPECIAL_WORDS, *words]))
        return self.write_corpus(name, [(utterance(), utterance()) for _ in range(samples)], codecs), codecs


def learner_of(config: Config, codecs: Codecs, corpus: Dataset | None = None) -> Learner[Any]:
    """The learner of an experiment on one device; ``corpus``: in place of the whole configured one, for samples."""
    if config.task == "language_model":
        return LanguageModelSetup(config, codecs).build_learner(SINGLE_DEVICE)
    corpus = corpus or Dataset.open(config.data.train, codecs, config.data)
    return build_learner(config, codecs, training_batches(config, codecs, corpus))


def first_samples(corpus: Dataset, size: int, steps: int, config: Config) -> Batch:
    """The first samples of a corpus, padded to ``steps``."""
    reverse = config.data.reverse_input
    return corpus.batch(range(size), size=size, source_steps=steps, target_steps=steps, reverse=reverse)


def global_norm(arrays: Iterable[np.ndarray]) -> float:
    """The Euclidean norm of the numbers of all arrays."""
    return math.sqrt(sum(float(np.sum(np.square(array, dtype=np.float64))) for array in arrays))


def scale_weights(model: Seq2Seq) -> None:
    """Enlarge the initial weights so that word probabilities differ and cells reach their nonlinear range."""
    for variable in model.trainable_variables:
        if variable.shape.rank > 1:
            variable.assign(tf.clip_by_value(variable * 4.0, -1.0, 1.0))
