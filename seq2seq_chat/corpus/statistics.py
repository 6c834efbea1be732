"""What a corpus holds, and how well vocabulary and model fit it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from seq2seq_chat.corpus.samples import Pairing, iterate_samples, read_tokens
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.vocabulary import Vocabulary


class SplitStatistics(TypedDict):
    """Figures of one split. Utterances of which cleaning leaves nothing are not counted.

    At character level words are characters. ``coverage_percent`` is the share of word
    occurrences that the vocabulary knows; ``too_long_percent`` the share of samples that are cut
    to fit: a source longer than the source steps, or a target that with its EOS is longer than
    the target steps.
    """

    conversations: int
    utterances: int
    samples: int
    words: int
    distinct_words: int
    coverage_percent: float
    too_long_percent: float


class ReadingStatistics(TypedDict):
    """What a preparation read: files and their bytes, records (lines, comments or subtitle files), files left out as
    copies of another, damaged records, files that could not be read to their ends, and the first of the
    damages, such files before all."""

    files: int
    bytes: int
    records: int
    copies: int
    damaged: int
    incomplete_files: int
    damages: list[str]


class CorpusStatistics(TypedDict):
    """What ``statistics.json`` holds."""

    train: SplitStatistics
    validation: SplitStatistics
    test: SplitStatistics
    total: SplitStatistics
    reading: ReadingStatistics


@dataclass
class _Tally:
    """Sums over one split; tallies of several splits can be added up."""

    conversations: int = 0
    utterances: int = 0
    samples: int = 0
    too_long: int = 0
    words: Counter[str] = field(default_factory=Counter)

    def add(self, other: _Tally) -> None:
        self.conversations += other.conversations
        self.utterances += other.utterances
        self.samples += other.samples
        self.too_long += other.too_long
        self.words.update(other.words)

    def figures(self, vocabulary: Vocabulary) -> SplitStatistics:
        total = self.words.total()
        known = sum(count for word, count in self.words.items() if word in vocabulary)
        return {
            "conversations": self.conversations,
            "utterances": self.utterances,
            "samples": self.samples,
            "words": total,
            "distinct_words": len(self.words),
            "coverage_percent": percent(known, total),
            "too_long_percent": percent(self.too_long, self.samples),
        }


def corpus_statistics(
    paths: Mapping[str, Path],
    vocabulary: Vocabulary,
    level: Level,
    pairing: Pairing,
    source_steps: int,
    target_steps: int,
) -> dict[str, SplitStatistics]:
    """The figures of each split, given as corpus files by name, and of all together (``total``).

    Each file is read once. A file of no bytes at all is a split without conversations, as a
    corpus too small to be split has them.

    Raises:
        CorpusError: A file cannot be read, is not UTF-8 or has no utterance.
    """
    statistics: dict[str, SplitStatistics] = {}
    total = _Tally()
    for name, path in paths.items():
        tally = _tally(Path(path), level, pairing, source_steps, target_steps)
        statistics[name] = tally.figures(vocabulary)
        total.add(tally)
    statistics["total"] = total.figures(vocabulary)
    return statistics


def _tally(path: Path, level: Level, pairing: Pairing, source_steps: int, target_steps: int) -> _Tally:
    tally = _Tally()
    if path.is_file() and path.stat().st_size == 0:
        return tally

    def lengths() -> Iterator[tuple[int, int]]:
        """Count each utterance; yield (conversation index, words)."""
        last = -1
        for conversation, tokens in read_tokens(path, level, progress=True):
            tally.conversations += conversation != last
            last = conversation
            tally.utterances += 1
            tally.words.update(tokens)
            yield conversation, len(tokens)

    for source, target in iterate_samples(lengths(), pairing):
        tally.samples += 1
        tally.too_long += source > source_steps or target + 1 > target_steps
    return tally


def percent(part: int, whole: int) -> float:
    """100 part / whole with two decimals; 0 of nothing."""
    return round(100 * part / whole, 2) if whole else 0.0
