"""OpenSubtitles: one XML file of OPUS for each subtitle file of a film, many of which are of the same film."""

from __future__ import annotations

import hashlib
import struct
import zipfile
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np

from seq2seq_chat.corpus.columns import floats, integers, lines
from seq2seq_chat.corpus.compressed import FAULTS, BrokenStream, read_whole
from seq2seq_chat.corpus.opus import BrokenFilm, film_sentences
from seq2seq_chat.corpus.shards import Piece, ReadingSettings, Shard
from seq2seq_chat.corpus.text import clean_block

MARKS_PER_FILM = 32
"""A film is sampled by the smallest hashes of so many of its distinct long sentences."""

ZIP_FAULTS = (zipfile.BadZipFile, *FAULTS, KeyError, NotImplementedError, RuntimeError, struct.error)
"""What reading a damaged archive, or one that was changed, raises."""

_LONG_SENTENCE = 8  # words; a shorter one may well occur in many films


def read_opensubtitles(piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
    """Read one film into a shard of SPOKEN, and its marks; a damaged file is left out as a whole.

    Raises:
        OSError: The file cannot be opened.
    """
    shard.piece.records += 1
    try:
        sentences = film_sentences(_content(piece))
    except (BrokenStream, BrokenFilm) as fault:
        shard.damage("", str(fault), incomplete=True)
        return
    finally:
        shard.read(piece.size)
    block = clean_block(sentences.lines)
    starts, ends = sentences.starts, sentences.ends
    if block.startswith(b"\n") or block.endswith(b"\n") or b"\n\n" in block:  # of some nothing is left
        texts = block.split(b"\n")
        kept = np.fromiter(map(bool, texts), bool, len(texts))
        block, starts, ends = b"\n".join(filter(None, texts)), starts[kept], ends[kept]
    if not block:
        return
    shard.piece.threads = 1
    shard.add(
        file=piece.file,
        thread=0,
        position=integers(np.arange(len(starts))),
        text=lines(block),
        start=floats(starts),
        end=floats(ends),
        before=floats(np.append(np.nan, np.where(np.isnan(ends), starts, ends)[:-1])),
    )
    exact, sample = film_marks(block)
    shard.mark(True, [exact])
    shard.mark(False, sample)


def film_marks(block: bytes) -> tuple[int, list[int]]:
    """A mark of all clean sentences of a film, a line for each, and a sample of marks of its long ones.

    Two films have equal first marks just when their sentences are equal, and many marks of the
    sample in common when they have many sentences in common (bottom-k sketch, Broder 1997).
    """
    digest = hashlib.blake2b(block, digest_size=8).digest()
    long = [text for text in block.split(b"\n") if text.count(b" ") >= _LONG_SENTENCE - 1]
    hashes = np.fromiter(map(zlib.crc32, long), np.uint32, len(long)) * np.uint32(0x9E3779B1)
    return int.from_bytes(digest, "big") >> 1, np.unique(hashes)[:MARKS_PER_FILM].tolist()


def _content(piece: Piece) -> bytes:
    """The XML of a piece. Raises BrokenStream, OSError."""
    path = Path(piece.path)
    if piece.member is None and path.suffix != ".zip":
        return read_whole(path)
    state = path.stat()
    try:
        archive = _archive(piece.path, state.st_size, state.st_mtime_ns)
        return archive.read(piece.member) if piece.member else b""
    except ZIP_FAULTS as fault:
        raise BrokenStream(f"it cannot be unpacked: {fault}") from fault


@lru_cache(maxsize=1)
def _archive(path: str, size: int, changed: int) -> zipfile.ZipFile:
    """An archive, which is another one once it was changed."""
    return zipfile.ZipFile(path)
