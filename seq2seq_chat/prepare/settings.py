"""The settings of `prepare`."""

from __future__ import annotations

from dataclasses import dataclass, field

from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.data.tokenizers import Level
from seq2seq_chat.data.vocabulary import Vocabulary
from seq2seq_chat.prepare.engine import EngineName, memory_bytes
from seq2seq_chat.prepare.split import Shares, check_shares
from seq2seq_chat.system.hardware import available_cores

DEFAULT_MAX_GAP = 10.0
"""Seconds of silence in a film after which a new conversation starts."""


@dataclass(frozen=True)
class ReaderSettings:
    """The settings of readers. Changing one invalidates existing shards."""

    turns: str = "running"  # lines only: running conversations, or odd-even pairs of lines
    subreddits: tuple[str, ...] = ()  # reddit only: the subreddits to read; empty: all
    max_words: int | None = None  # reddit only: skip longer comments
    min_score: int | None = None  # reddit only: skip comments with a lower score


@dataclass(frozen=True)
class PrepareSettings:
    """The settings of `prepare`.

    Raises:
        UserError: The shares or the memory are invalid.
        VocabularyError: ``vocabulary_size`` is too small.
    """

    corpus: str  # a key of inputs.CORPORA
    reader: ReaderSettings = ReaderSettings()
    max_gap: float | None = DEFAULT_MAX_GAP  # opensubtitles only; None joins all films into a single conversation
    keep_copies: bool = False  # opensubtitles only: keep files that are copies of the same film
    # Dialogues, films and submissions are never divided. None: the official split if the file names show one (see
    # official_splits), else DEFAULT_SHARES.
    split: Shares | None = None
    seed: int = 1  # of the split; an official split ignores it
    vocabulary_size: int = 50_000  # maximum, including the four special words; only train is counted
    level: Level = "word"  # of the vocabulary and the statistics
    pairing: Pairing = "sliding"  # how the statistics count samples
    encoder_steps: int = 30  # for the statistics: maximum source length in words
    decoder_steps: int = 30  # for the statistics: maximum target length in words, including EOS
    max_bad: float = 1.0  # maximum percentage of damaged records (lines, comments), and of incomplete files
    engine: EngineName = "duckdb"
    spark_master: str = "local[*]"  # or the address of a Spark cluster
    memory: str = "2GB"  # limit of the engine, which spills to disk beyond it
    jobs: int = field(default_factory=available_cores)  # reader processes, and threads of DuckDB

    def __post_init__(self) -> None:
        """Fail now rather than after hours of reading."""
        if self.split is not None:
            check_shares(self.split)
        Vocabulary.from_counts({}, self.vocabulary_size)
        memory_bytes(self.memory)
