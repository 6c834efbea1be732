"""An experiment that fits a prepared corpus: sizes, steps and settings for about half an hour of training."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from seq2seq_chat.architecture.variables import parameter_counts
from seq2seq_chat.config import parse_config
from seq2seq_chat.data.build_codecs import build_codecs
from seq2seq_chat.data.corpus_file import read_pairs, read_utterances
from seq2seq_chat.prepare.pipeline import EXPERIMENT_FILE
from seq2seq_chat.system.hardware import available_cores
from seq2seq_chat.system.tables import pluralize
from seq2seq_chat.text.codec import Codecs

MEASURED_TEXTS = 20_000  # whose lengths are measured, evenly spaced over the training corpus
MAX_READ_TEXTS = 5_000_000  # of the training corpus, to find these
MAX_STEPS_OF_A_TEXT = 60  # tokens of a source or target that a model reads
MINUTES = 30  # of training
TRUNCATION = 64  # tokens of each stream per step of a language model, the default of training.bptt_forward
SPEED = 60e9  # floating-point operations that a training step does per core and second, on processors of today
MIN_PROJECTED, MAX_FULL_SOFTMAX = 2_000, 20_000  # words of the target vocabulary


class ModelSize(NamedTuple):
    """A model for corpora of up to some number of samples, or of tokens for a language model."""

    samples: int
    hidden_size: int
    dropout: float
    batch_size: int
    max_epochs: int


SIZES = (
    ModelSize(5_000, 128, 0.3, 32, 40),
    ModelSize(50_000, 256, 0.3, 64, 20),
    ModelSize(1_000_000, 512, 0.2, 64, 10),
    ModelSize(10**12, 1024, 0.1, 128, 3),
)
LANGUAGE_MODEL_SIZES = (
    ModelSize(300_000, 128, 0.3, 16, 40),
    ModelSize(1_000_000, 256, 0.2, 32, 30),
    ModelSize(10_000_000, 512, 0.1, 64, 20),
    ModelSize(10**12, 1024, 0.0, 64, 3),
)


def fit_experiment(task: str, data: Mapping[str, Any], amount: int, name: str) -> tuple[dict[str, Any], list[str]]:
    """Choose the settings of an experiment on a corpus.

    Args:
        task: Of the experiment.
        data: The settings of the section ``data`` that name the prepared files.
        amount: Samples of the training corpus, or tokens for a language model.
        name: Of the experiment; characters that a name cannot have become dashes.

    Returns:
        The configuration, and a sentence for each choice in it.

    Raises:
        UserError: A prepared file cannot be read.
    """
    is_text = task == "language_model"
    size = next(size for size in (LANGUAGE_MODEL_SIZES if is_text else SIZES) if amount <= size.samples)
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._") or "experiment"
    base = {"name": name, "seed": 1, "task": task, "data": {**data, **({} if is_text else {"buckets": "auto"})}}
    codecs = build_codecs(parse_config(base, EXPERIMENT_FILE, warn=False).data, running_text=is_text)
    target_words, _ = codecs.vocabulary_sizes
    model: dict[str, Any] = {
        "hidden_size": size.hidden_size,
        "embedding_size": size.hidden_size // 2,
        "dropout": size.dropout,
        "projection_size": size.hidden_size // 2 if target_words > MIN_PROJECTED else None,
    }
    lengths = np.zeros([1, 2]) if is_text else _lengths(data["train"], codecs, amount)
    if not is_text:
        source, target = np.clip(np.percentile(lengths, 99, axis=0).astype(int), 8, MAX_STEPS_OF_A_TEXT).tolist()
        model |= {"bidirectional": True, "encoder_steps": source, "decoder_steps": target + 1}
    base["model"] = model
    config = parse_config(base, EXPERIMENT_FILE, warn=False)
    counts = parameter_counts(config, *codecs.vocabulary_sizes)
    # Multiplications for a token: all parameters but the embeddings, of which a token reads a row.
    products = sum(count for part, count in counts.items() if part != "embedding")
    tokens = TRUNCATION * size.batch_size if is_text else size.batch_size * lengths.mean(axis=0).sum()
    seconds = 6 * tokens * products / (SPEED * available_cores())
    per_epoch = max(1, amount // (TRUNCATION * size.batch_size if is_text else size.batch_size))
    steps = int(np.clip(60 * MINUTES / seconds, 200, max(200, size.max_epochs * per_epoch)))
    hours = float(np.clip(round(steps * seconds / 3600, 2), 0.02, MINUTES / 60))
    interval = max(20, steps // 12)
    base["training"] = {
        "hours": hours,
        "batch_size": size.batch_size,
        "steps": steps,
        "optimizer": "adam",
        "learning_rate": 0.002 if size.hidden_size >= 512 else 0.004,
        "learning_rate_schedule": "linear",
        "gradient_clipping": 5.0,
        "sampled_softmax": None if target_words <= MAX_FULL_SOFTMAX else 512,
        "log_every": max(10, steps // 100),
        **({"validate_every": interval, "early_stopping": 3} if "validation" in data else {}),
        "checkpoint_every": interval,
        "snapshot_every": 3 * interval,
    }
    base["decoding"] = {"method": "sample", "temperature": 0.8} if is_text else {"method": "beam", "beam_width": 5}
    reasons = [
        f"{pluralize(amount, 'token' if is_text else 'sample')}: {size.hidden_size} units, dropout {size.dropout}, "
        f"{sum(counts.values()) / 1e6:.1f} million parameters",
        f"{hours:g} h: about {steps:,} steps of {size.batch_size} on {available_cores()} cores, "
        f"{steps / per_epoch:.1f} passes through the corpus; --hours gives it more or less time",
    ]
    if not is_text:
        reasons.append(f"at most {source} tokens of a source and {target} of a target: 99 % are no longer")
    reasons.append(
        "the best weights are kept, and training stops when validation stops improving"
        if "validation" in data
        else "there is no validation corpus, so nothing tells when to stop (data.validation is null)"
    )
    return base, reasons


def _lengths(train: Any, codecs: Codecs, amount: int) -> np.ndarray:
    """The numbers of tokens of some sources and targets: [texts, 2]."""
    pairs: Iterator[tuple[str, str]] = ((text, text) for _, text in read_utterances(train))
    if str(train).endswith(".tsv"):
        pairs = read_pairs(train)
    counts = [
        [len(codec.tokenizer.encode(text)) for codec, text in zip((codecs.source, codecs.target), pair, strict=True)]
        for pair in islice(pairs, 0, MAX_READ_TEXTS, max(1, min(amount, MAX_READ_TEXTS) // MEASURED_TEXTS))
    ]
    return np.array(counts or [[1, 1]])
