"""From text files to batches of word ids.

Read the files in this order:

1. ``text``: cleaning and tokenising, the only implementation of both.
2. ``lines``, ``files``: the corpus file, one utterance a line, conversations between markers.
3. ``vocabulary``: words and their ids.
4. ``samples``: which utterance answers which.
5. ``npy``, ``encoding``, ``cache``, ``encoded``: a corpus as arrays of ids, cached and mapped
   into memory, and the batches cut from it.
6. ``compressed``, ``columns``, ``shards``, ``readers``, ``reddit``, ``opus``, ``opensubtitles``, ``inputs``,
   ``reading``: from raw files to Parquet shards of utterances, by several processes.
7. ``split``, ``tables``, ``engine``: the relational work, as Ibis expressions on DuckDB or Spark.
8. ``utterances``, ``statistics``, ``figures``, ``assembly``, ``preparation``: what is written; ``inspection``: looking
   at it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seq2seq_chat.corpus.encoded import Batch, EncodedCorpus, fit_source
from seq2seq_chat.corpus.files import (
    END_OF_CONVERSATION,
    CorpusError,
    read_utterances,
    write_conversation,
    write_conversations,
)
from seq2seq_chat.corpus.samples import Pairing, iterate_samples, read_tokens
from seq2seq_chat.corpus.split import SPLITS, Shares
from seq2seq_chat.corpus.statistics import SplitStatistics, corpus_statistics
from seq2seq_chat.corpus.text import Level, clean, detokenize, tokenize
from seq2seq_chat.corpus.vocabulary import EOS, GO, PAD, SPECIAL_WORDS, UNKNOWN, Vocabulary, VocabularyError

if TYPE_CHECKING:
    from seq2seq_chat.corpus.preparation import prepare

__all__ = [
    "END_OF_CONVERSATION",
    "EOS",
    "GO",
    "PAD",
    "SPECIAL_WORDS",
    "SPLITS",
    "UNKNOWN",
    "Batch",
    "CorpusError",
    "EncodedCorpus",
    "Level",
    "Pairing",
    "Shares",
    "SplitStatistics",
    "Vocabulary",
    "VocabularyError",
    "clean",
    "corpus_statistics",
    "detokenize",
    "fit_source",
    "iterate_samples",
    "prepare",
    "read_tokens",
    "read_utterances",
    "tokenize",
    "write_conversation",
    "write_conversations",
]


def __getattr__(name: str) -> Any:
    # Training, chatting and reading processes are not to wait for what prepares corpora.
    if name == "prepare":
        from seq2seq_chat.corpus.preparation import prepare

        return prepare
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
