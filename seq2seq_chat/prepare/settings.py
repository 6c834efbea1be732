"""The settings of `prepare`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.prepare.engine import EngineName, memory_bytes
from seq2seq_chat.prepare.readers import find_corpus
from seq2seq_chat.prepare.shards import ReaderSettings
from seq2seq_chat.prepare.split import Shares, check_shares
from seq2seq_chat.system.hardware import available_cores
from seq2seq_chat.text.tokenizers import TokenizerError, TokenizerSettings
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, TARGET_PREFIX, Vocabulary

DEFAULT_VOCABULARY_SIZE = 50_000
"""Also the default of ``data.vocabulary_size``."""

_BYTES_AND_SPECIAL_WORDS = 256 + len(SPECIAL_WORDS)


class TextSide(NamedTuple):
    """A vocabulary with its tokenizer: of both sides of the samples, or of one of them."""

    prefix: str  # of its files
    sides: tuple[str, ...]  # of "source" and "target"
    tokenizer: TokenizerSettings
    vocabulary_size: int


@dataclass(frozen=True)
class PrepareSettings:
    """The settings of `prepare`.

    Raises:
        UserError: The shares or the memory are invalid.
        VocabularyError, TokenizerError: ``vocabulary_size`` is too small.
    """

    corpus: str  # the name of a module of readers
    reader: ReaderSettings | None = None  # with the options of the reader, if it has any; None: its defaults
    max_gap: float | None = 10.0  # opensubtitles only: seconds of silence that end a conversation; None joins all films
    keep_copies: bool = False  # opensubtitles only: keep files that are copies of the same film
    # Dialogues, films and submissions are never divided. None: the split that the names of the files show (see
    # official_splits), of which train provides what is missing, else DEFAULT_SHARES.
    split: Shares | None = None
    seed: int = 1  # of the split; an official split ignores it
    vocabulary_size: int = DEFAULT_VOCABULARY_SIZE  # maximum, including the four special words; only train is counted
    tokenizer: TokenizerSettings = field(default_factory=TokenizerSettings)
    target_tokenizer: TokenizerSettings | None = None  # pairs only; None: the same
    shared_vocabulary: bool = False  # pairs only: one tokenizer and vocabulary for both sides
    target_vocabulary_size: int | None = None  # pairs only; None: the same
    max_words: int | None = None  # pairs only: maximum length of a side in tokens
    max_ratio: float | None = None  # pairs only: maximum of the longer side's length divided by the shorter one's
    drop_duplicates: bool = False  # pairs only: keep only the first of identical pairs
    pairing: Pairing = "sliding"  # how the statistics count samples
    drop_leaked: bool = False  # drop the samples of train that occur in validation or test
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
        for side in self.text_sides:
            Vocabulary.from_counts({}, side.vocabulary_size)
            if side.tokenizer.name == "subword" and side.vocabulary_size <= _BYTES_AND_SPECIAL_WORDS:
                raise TokenizerError(
                    f"A vocabulary of size {side.vocabulary_size} is too small for the subword tokenizer: the special "
                    f"tokens and all bytes are {_BYTES_AND_SPECIAL_WORDS} tokens already. Choose a larger size, "
                    "such as 8000."
                )
        if self.has_pairs and self.pairing != "alternating":
            raise ValueError("pairs are alternating utterances")
        memory_bytes(self.memory)

    @property
    def shard_settings(self) -> ReaderSettings:
        """The settings of readers with the tokenizer, as far as readers use it."""
        source, target = (
            TokenizerSettings("subword") if tokenizer.name == "subword" else tokenizer for tokenizer in self.tokenizers
        )
        reader = self.reader or find_corpus(self.corpus).settings()
        return replace(reader, tokenizer=source, target_tokenizer=target)

    @property
    def has_pairs(self) -> bool:
        """Whether the corpus consists of pairs rather than conversations."""
        return self.corpus == "pairs"

    @property
    def tokenizers(self) -> tuple[TokenizerSettings, TokenizerSettings]:
        """The tokenizers of source and target."""
        return self.tokenizer, self.target_tokenizer or self.tokenizer

    @property
    def text_sides(self) -> list[TextSide]:
        """What has a vocabulary of its own."""
        if not self.has_pairs or self.shared_vocabulary:
            return [TextSide("", ("source", "target"), self.tokenizer, self.vocabulary_size)]
        source, target = self.tokenizers
        target_size = self.target_vocabulary_size
        return [
            TextSide("", ("source",), source, self.vocabulary_size),
            TextSide(TARGET_PREFIX, ("target",), target, self.vocabulary_size if target_size is None else target_size),
        ]
