"""Assemble the prepared corpus from the shards."""

from __future__ import annotations

import logging
import os
import shutil
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError
from seq2seq_chat.prepare import queries
from seq2seq_chat.prepare.engine import QueryEngine, fetch_rows
from seq2seq_chat.prepare.read_result import ReadResult
from seq2seq_chat.prepare.readers import find_corpus
from seq2seq_chat.prepare.readers.opensubtitles import SKETCH_SIZE, WITHOUT_WORDS, film_name
from seq2seq_chat.prepare.readers.pairs import WITHOUT_TOKENS
from seq2seq_chat.prepare.readers.reddit import MAX_FILE_BYTES
from seq2seq_chat.prepare.readers.text import BLOCK_UTTERANCES
from seq2seq_chat.prepare.settings import PrepareSettings, TextSide
from seq2seq_chat.prepare.shards import (
    COMMENTS,
    NOTHING_KEPT,
    UNPAIRED,
    UTTERANCES,
    PieceReport,
    booleans,
    integers,
    strings,
)
from seq2seq_chat.prepare.split import (
    DEFAULT_SHARES,
    SPLITS,
    all_splits_filled,
    apportion,
    describe_split,
    fill_empty_splits,
    fit_shares,
    hold_out,
    missing_shares,
    split_of,
)
from seq2seq_chat.prepare.statistics import leakage, split_statistics, word_statistics
from seq2seq_chat.prepare.subwords import tokenize_prepared
from seq2seq_chat.prepare.tokenizing import is_ready
from seq2seq_chat.prepare.utterances import UTTERANCES_FILE, write_prepared
from seq2seq_chat.text.tokenizers import Tokenizer
from seq2seq_chat.text.vocabulary import SPECIAL_WORDS, VOCABULARY_FILE, Vocabulary

logger = logging.getLogger(__name__)

_FITTED = ("chats", "lines", "pairs")
"""The corpora of which a small one is split by other shares than a large one."""
_FEW_CHATS = 10  # conversations of chats that are too few to be split by the shares
_FEW_BLOCKS, _SHORT_BLOCK = 10, 10
_PARTS_OF_TIME = 60
_SUBTITLES_END = 86_400.0 * 365  # seconds; chats count from 1970, subtitles from the start of their film


class Assembly:
    """Assembles the conversations of a corpus; the engine's intermediate tables are also in ``folder``."""

    def __init__(
        self,
        settings: PrepareSettings,
        result: ReadResult,
        official: Sequence[str] | None,
        engine: QueryEngine,
        folder: Path,
    ) -> None:
        """``official`` has the split of each file, see ``split.official_splits``."""
        self._settings, self._result, self._engine, self._folder = settings, result, engine, folder
        self._corpus = find_corpus(settings.corpus)
        self._shares = settings.split or DEFAULT_SHARES
        self._official = official
        if official is not None:
            self._shares = missing_shares(official, self._shares)
        elif settings.split is None and settings.corpus in _FITTED:
            self._shares = fit_shares(result.total.rows)
        self._is_fitted = official is None and settings.split is None and self._shares != DEFAULT_SHARES
        self._split_note = describe_split(official, self._shares)
        if self._is_fitted:
            self._split_note += "; of a small corpus, 1 % and 2 % would measure little (--split decides otherwise)"
        self._block = BLOCK_UTTERANCES  # the size of the blocks of a file that is divided

    @property
    def _has_small_blocks(self) -> bool:
        return self._block < BLOCK_UTTERANCES

    def run(self) -> dict[str, Any]:
        """Write the corpus files, the table of utterances, vocabularies and tokenizers; return the statistics.

        Raises:
            CorpusError: No samples are left after cleaning and filtering.
            UserError: The engine has too little memory or disk space.
        """
        settings = self._settings
        copies = self._copies() if self._corpus.file_is_film and not settings.keep_copies else set()
        self._write_splits(self._replies() if self._corpus.schema is COMMENTS else self._conversations(copies))
        dropped = self._drop_leaked() if settings.drop_leaked else 0
        (side,) = settings.text_sides
        (tokenizer,) = [None] if is_ready(side.tokenizer) else tokenize_prepared(settings, self._folder)
        prepared = self._engine.table(self._folder / UTTERANCES_FILE)
        counts = self._engine.materialize(queries.word_counts(prepared), "counts")
        vocabulary = self._write_vocabulary(side, tokenizer, counts)
        words = word_statistics(self._engine, counts, vocabulary, self._folder)
        splits = split_statistics(self._engine, prepared, words, settings)
        samples = {name: split["samples"] for name, split in splits.items()}
        if not samples["total"]:
            left_out = self._result.describe_left_out()
            raise CorpusError(
                "The inputs contain no two consecutive utterances of a conversation. "
                f"Put each utterance on a separate line{f'; left out: {left_out}' if left_out else ''}."
            )
        return {"tokenizer": settings.tokenizer.name, **splits, **self._end(prepared, samples, dropped, len(copies))}

    def _end(self, prepared: ir.Table, samples: Mapping[str, int], dropped: int, copies: int = 0) -> dict[str, Any]:
        """The end of the statistics. Warn of splits without samples."""
        self._warn_of_empty_splits(samples)
        reading = self._result.statistics(copies) | {"corpus": self._settings.corpus}
        if self._result.total.people:
            (span,) = fetch_rows(self._engine, prepared.agg(first=prepared.start.min(), last=prepared.end.max()))
            if span["first"] is not None and span["first"] > _SUBTITLES_END:
                times = {key: datetime.fromtimestamp(time, timezone.utc) for key, time in span.items()}
                reading |= {key: f"{time:%Y-%m-%dT%H:%M:%S}" for key, time in times.items()}
                rows = fetch_rows(self._engine, queries.over_time(prepared, **span, parts=_PARTS_OF_TIME))
                counts = {row["part"]: row["utterances"] for row in rows}
                reading["over_time"] = [counts.get(part, 0) for part in range(_PARTS_OF_TIME)]
        return {
            "leakage": leakage(self._engine, prepared, self._settings.pairing, samples, dropped),
            "split": self._split_note,
            "reading": reading,
        }

    def _nothing_left(self) -> str:
        """The message for an empty corpus."""
        total, unit, tokenizer = self._result.total, self._result.unit, self._settings.tokenizer.name
        if not total.records:
            files = self._result.files
            return f"{files[0].path} is empty." if len(files) == 1 else f"All {len(files):,} input files are empty."
        left_out = self._result.describe_left_out()
        if not left_out:
            return f"No {unit} are left of {total.records:,} records. Name other files, or another corpus."
        reason = max(total.left_out, key=lambda name: total.left_out[name])
        remedy = "Use other filters, or other files"
        if reason == WITHOUT_WORDS:
            remedy = "This is the `raw` archive of OPUS; take the `xml` archive"
        elif reason in (NOTHING_KEPT, WITHOUT_TOKENS):
            remedy = f"Use a tokenizer other than {tokenizer}, such as unicode or whitespace"
            if tokenizer == "english":
                remedy = (
                    "Cleaning keeps only the letters a to z, with or without accents, digits and . , ! ?; "
                    "--tokenizer unicode keeps the others"
                )
        return f"No {unit} are left after cleaning and filtering; left out: {left_out}. {remedy}."

    def _count(self, rows: ir.Table) -> int:
        (row,) = fetch_rows(self._engine, rows.agg(number=rows.count()))
        return int(row["number"])

    def _leave_out(self, reason: str, count: int) -> None:
        """Count what is left out after reading."""
        if count:
            self._result.total.left_out[reason] = count

    def _shard_table(self, name: str) -> ir.Table:
        """The tables with this name of all shards, linked into one folder that any engine can read."""
        collected = self._folder / f"{name}.all"
        collected.mkdir()
        for shard in self._result.shards:
            table, link = shard / f"{name}.parquet", collected / f"{shard.name}.parquet"
            try:
                os.link(table, link)
            except OSError:  # not every file system supports links
                shutil.copyfile(table, link)
        return self._engine.table(collected)

    def _copies(self) -> set[int]:
        """The numbers of the files that are copies of an earlier file."""
        copies: set[int] = set()
        for row in fetch_rows(self._engine, queries.find_copies(self._shard_table("fingerprints"), SKETCH_SIZE)):
            if row["earlier"] not in copies:
                copies.add(row["later"])
        return copies

    def _replies(self) -> ir.Table:
        """A conversation of two utterances for each comment and each of its replies."""
        comments = self._shard_table("rows")
        pairs = queries.reply_pairs(comments)
        if self._official is not None:
            pairs = queries.within_splits(pairs, self._file_table(), MAX_FILE_BYTES)
        pairs = self._engine.materialize(pairs, "replies")
        paired = pairs.select(ordinal="key_1").union(pairs.select(ordinal="key_2"), distinct=True)
        self._leave_out(UNPAIRED, self._result.total.rows - self._count(paired))
        return queries.reply_conversations(pairs, comments)

    def _conversations(self, copies: set[int]) -> ir.Table:
        """The conversations of all files except the copies."""
        files = self._file_table(copies)
        utterances = queries.conversations(self._shard_table("rows"), files, self._block)
        if not self._corpus.file_is_film:
            return utterances
        max_gap = self._settings.max_gap
        return queries.join_all(utterances) if max_gap is None else queries.cut_at_silences(utterances, max_gap)

    def _file_table(self, copies: Container[int] = ()) -> ir.Table:
        """The files except the copies, as ``queries.conversations`` needs them; sets the size of a block."""
        files, reports = self._result.files, self._result.file_reports
        films = list(map(film_name, files)) if self._corpus.file_is_film else None
        is_divided = any(self._shares[1:])
        splits = [""] * len(files)  # by a hash of the conversation
        if self._official is not None:
            splits = ["" if name == "train" and is_divided else name for name in self._official]
        if films is not None:
            # There are few files: hash their names once here rather than for each utterance.
            seed = self._settings.seed
            splits = [name or split_of(film, self._shares, seed) for name, film in zip(splits, films, strict=True)]
        train = [report for report, name in zip(reports, splits, strict=True) if not name]
        all_divided = False
        if self._corpus.schema is UTTERANCES:
            self._block, all_divided = self._block_size(train)
        singles, offsets = [], [0]
        for report, name in zip(reports, splits, strict=True):
            single = report.single_conversation or (all_divided and not name)
            singles.append(single)
            offsets.append(offsets[-1] + (-(-report.rows // self._block) if single else report.conversations))
        columns = {
            "file": integers(range(len(files)), np.int32),
            "name": pa.nulls(len(files), pa.string()) if films is None else strings([film.encode() for film in films]),
            "offset": integers(offsets[:-1]),
            "single": booleans(np.array(singles, bool)),
            "split": strings([name.encode() for name in splits]),
        }
        kept = booleans(np.array([number not in copies for number in range(len(files))]))
        path = self._folder / "files.parquet"
        pq.write_table(pa.table(columns).filter(kept), path)
        return self._engine.table(path)

    def _block_size(self, files: Sequence[PieceReport]) -> tuple[int, bool]:
        """The utterances of a block, and whether to divide all files: a small corpus has smaller blocks.

        Else a few conversations could not be split by the shares, or not at all. A few utterances are not divided, as
        each block loses its context.
        """
        singles = [file for file in files if file.single_conversation]
        rows, conversations = sum(file.rows for file in files), sum(file.conversations for file in files)
        has_others = conversations > len(singles)
        few = _FEW_CHATS if self._settings.corpus == "chats" else len(SPLITS)
        threads = conversations - len(singles) + sum(file.rows for file in singles) // BLOCK_UTTERANCES
        if rows < len(SPLITS) * _SHORT_BLOCK or (has_others and threads >= few):
            return BLOCK_UTTERANCES, False
        block = 2 * -(-rows // (2 * _FEW_BLOCKS))  # even, to keep alternating pairs
        return min(BLOCK_UTTERANCES, max(_SHORT_BLOCK, block)), has_others

    def _write_splits(self, utterances: ir.Table) -> None:
        """Write the prepared utterances. Raises CorpusError if there are none."""
        seed, shares = self._settings.seed, self._shares
        moved: dict[str, str] = {}
        if self._has_small_blocks or self._is_fitted:
            own = utterances.filter(utterances.file_split.isnull())
            rows = fetch_rows(self._engine, own.group_by("thread").agg(utterances=own.count()))
            sizes = {row["thread"]: row["utterances"] for row in rows}
            moved = (apportion if self._has_small_blocks else hold_out)(sizes, shares, seed)
            if moved and self._has_small_blocks:
                utterances = queries.join_blocks(utterances, moved)
        if not self._write(queries.assign_splits(utterances, shares, seed, moved)):
            raise CorpusError(self._nothing_left())
        if self._has_small_blocks or self._is_fitted or (self._official is not None and not any(shares[1:])):
            return
        divided = [name for name, share in zip(SPLITS, shares, strict=True) if share]
        prepared = self._engine.table(self._folder / UTTERANCES_FILE)
        threads = prepared.filter(prepared.split.isin(divided)).select("split", "thread").distinct()
        rows = fetch_rows(self._engine, threads.group_by("split").agg(threads=threads.count()))
        if not all_splits_filled(Counter({row["split"]: row["threads"] for row in rows}), shares):
            # A corpus this small is quickly written again.
            moved = fill_empty_splits((row["thread"] for row in fetch_rows(self._engine, threads)), shares, seed)
            self._write(queries.assign_splits(utterances, shares, seed, moved))

    def _warn_of_empty_splits(self, samples: Mapping[str, int]) -> None:
        """Warn of splits that should have samples, but have none; ``samples`` are their numbers."""
        named = self._official or ()
        wanted = [name for name, share in zip(SPLITS, self._shares, strict=True) if share or name in named]
        empty = [name for name in wanted if not samples[name]]
        if not empty:
            return
        reason = f"there are too few {self._corpus.threads}"
        reason += "" if self._has_small_blocks else ", which are never divided between splits"
        if set(empty) <= set(named):
            reason = "there are none in the files of this name"
        marked = f", mark where conversations end by {END_OF_CONVERSATION}" if self._settings.corpus == "lines" else ""
        logger.warning(
            "%s no samples: %s. Prepare more text%s, or train without validation (data.validation: null)",
            f"{' and '.join(empty)} {'has' if len(empty) == 1 else 'have'}",
            reason,
            marked,
        )

    def _write(self, utterances: ir.Table) -> Counter[str]:
        with tqdm(desc="writing", unit=" utterances", unit_scale=True, delay=2, disable=None) as bar:
            rows = self._engine.rows(queries.corpus_order(utterances))
            return write_prepared(
                rows,
                self._folder,
                bar.update,
                has_tokens="tokens" in utterances.columns,
                as_pairs=self._settings.has_pairs,
            )

    def _set_aside(self, name: str) -> ir.Table:
        """Move the table of utterances, so that another one can be made of it, which takes its place."""
        moved = self._folder / f"{name}_{UTTERANCES_FILE}"
        os.replace(self._folder / UTTERANCES_FILE, moved)
        return self._engine.table(moved)

    def _drop_leaked(self) -> int:
        """Write the utterances again without the samples of train that occur in other splits; return their number.

        Raises:
            CorpusError: No sample of train is left.
        """
        path, pairing = self._folder / UTTERANCES_FILE, self._settings.pairing
        samples = self._engine.materialize(queries.leaked_samples(self._engine.table(path), pairing), "dropped")
        number = self._count(samples)
        if number:
            self._write(queries.drop_samples(self._set_aside("complete"), samples, pairing))
            written = self._engine.table(path)
            left = queries.samples(written.filter(written.split == "train"), pairing)
            if not fetch_rows(self._engine, left.limit(1)):
                raise CorpusError(
                    "All samples of train occur in validation or test. Prepare more text, or leave out --drop-leaked."
                )
        return number

    def _write_vocabulary(self, side: TextSide, tokenizer: Tokenizer | None, counts: ir.Table) -> Vocabulary:
        """Write the vocabulary of a side: the tokens of a trained tokenizer, or else the most frequent words of train.

        Words are ranked like ``Vocabulary.from_counts``.
        """
        if tokenizer is not None and tokenizer.tokens is not None:
            vocabulary = Vocabulary([*SPECIAL_WORDS, *tokenizer.tokens])
        else:
            train = counts.filter(counts.split == "train")
            ranked = queries.vocabulary_words(train, side.vocabulary_size)
            vocabulary = Vocabulary([*SPECIAL_WORDS, *(row["word"] for row in fetch_rows(self._engine, ranked))])
        vocabulary.save(self._folder / f"{side.prefix}{VOCABULARY_FILE}")
        return vocabulary
