"""The scores of predictions against one or several references."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Data
from seq2seq_chat.data.batches import evenly_spaced
from seq2seq_chat.data.corpus_file import Corpus
from seq2seq_chat.data.dataset import Dataset
from seq2seq_chat.metrics.scores import SCORES, CorpusScores, Score, sample_statistics
from seq2seq_chat.report.predictions import BLOCK, Predictions
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.lines import numbered_lines
from seq2seq_chat.system.tables import one_line
from seq2seq_chat.text.codec import Codecs
from seq2seq_chat.text.tokenizers import Tokenizer


class References(NamedTuple):
    """The lines of a file of references that belong to the predicted samples, in their order."""

    texts: list[str]
    tokens: list[str]  # separated by spaces


def read_references(
    paths: Sequence[str | Path], data: Corpus, codecs: Codecs, settings: Data, limit: int | None
) -> list[References]:
    """Read files that have a line for each sample of a corpus, plain or compressed.

    Args:
        limit: number of samples that are predicted, evenly spaced; None for all.

    Raises:
        UserError: A file cannot be read, or has another number of lines than the corpus has samples.
    """
    if not paths:
        return []
    total = len(Dataset.open(data, codecs, settings))
    samples = evenly_spaced(total, limit)
    return [_read_file(path, data, total, samples, codecs.target.tokenizer) for path in paths]


def _read_file(path: str | Path, data: Corpus, total: int, samples: np.ndarray, tokenizer: Tokenizer) -> References:
    lines = [line for _, line in numbered_lines(path, UserError)]
    if len(lines) != total:
        raise UserError(
            f"{path} has {_count(len(lines), 'line')}, but {data} has {_count(total, 'sample')}; write one reference "
            "per line, in the order of the samples"
        )
    texts = [lines[number] for number in samples]
    return References(texts, tokenizer.encode_lines(texts))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"


def score_predictions(predictions: Predictions, task: str, references: Sequence[References] = ()) -> CorpusScores:
    """The scores of a task, of all predictions.

    Args:
        references: further ones, besides the targets of the corpus.
    """
    kinds = SCORES[task]
    metrics = [kind.metric() for kind in kinds]
    statistics: list[list[npt.NDArray[np.int32]]] = [[] for _ in kinds]
    lengths: list[int] = []
    for number, block in enumerate(predictions.in_blocks()):
        lengths += [p.source_words for p in block]
        lines = slice(number * BLOCK, number * BLOCK + len(block))
        for kind, metric, blocks in zip(kinds, metrics, statistics, strict=True):
            hypotheses = [p.reply_tokens if kind.of_tokens else one_line(p.reply) for p in block]
            targets = [p.expected_tokens if kind.of_tokens else p.expected for p in block]
            others = [(each.tokens if kind.of_tokens else each.texts)[lines] for each in references]
            blocks.append(sample_statistics(metric, hypotheses, [targets, *others]))
    scores = map(Score, kinds, metrics, map(np.concatenate, statistics))
    return CorpusScores(list(scores), np.array(lengths, np.int32))


def writes_lower_case(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer converts text to lower case, so that replies have no capital letters."""
    return tokenizer.decode(tokenizer.encode("A")) == "a"


_BLOCK = 1 << 20  # training samples compared at once


class Leakage(NamedTuple):
    """Which samples of a corpus, and which of their targets alone, occur in the training corpus."""

    samples: npt.NDArray[np.bool_]  # [samples]
    targets: npt.NDArray[np.bool_]  # [samples]


def find_leakage(corpus: Dataset, indices: npt.NDArray[Any], training: Dataset) -> Leakage:
    """Look for samples of a corpus in a training corpus by the hashes of their tokens.

    A source of several turns is its last utterance. Memory grows with the samples that are looked for, not with the
    training corpus.

    Args:
        indices: The samples that are looked for.
        training: The training corpus, encoded with the same tokenizers.
    """
    wanted = sample_hashes(corpus, indices)
    found = Leakage(np.zeros(len(indices), bool), np.zeros(len(indices), bool))
    for start in range(0, len(training), _BLOCK):
        known = sample_hashes(training, slice(start, start + _BLOCK))
        columns = zip(found, wanted, known, strict=True)
        found = Leakage(*(found_before | np.isin(hashes, others) for found_before, hashes, others in columns))
    return found


def sample_hashes(corpus: Dataset, indices: npt.NDArray[Any] | slice) -> tuple[npt.NDArray[np.uint64], ...]:
    """Hashes of some samples and of their targets alone, [n] each."""
    sources, targets = corpus.hashes(indices)
    return sources * np.uint64(0x9E3779B97F4A7C15) + targets, targets  # an odd factor, so that the order matters
