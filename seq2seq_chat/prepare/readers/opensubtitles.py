"""OpenSubtitles: one OPUS XML file per subtitle file. Many subtitle files belong to the same film."""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import compress
from pathlib import Path, PurePosixPath

import numpy as np

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers import COMPRESSED, ZIP_ERRORS, RawCorpus, archive_members, open_archive, single_file
from seq2seq_chat.prepare.readers.opus import film_sentences
from seq2seq_chat.prepare.shards import SUBTITLES, Piece, ReaderSettings, Shard, floats, integers, lines
from seq2seq_chat.prepare.tokenizing import tokenize_block
from seq2seq_chat.system.compressed import DamagedFile, decompressed, read_decompressed

SKETCH_SIZE = 32
"""Fingerprints in the sketch of a film: the smallest hashes of its distinct long sentences."""

WITHOUT_WORDS = "without <w>"
"""Why sentences are left out: they are not tokenized."""
_SENTENCE = re.compile(rb"<s[ >].*?</s>", re.DOTALL)

_LONG_SENTENCE = 8  # words; shorter sentences occur in many films


def read_opensubtitles(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read one film into a shard of SUBTITLES, with its fingerprints. A damaged file is skipped entirely.

    Raises:
        OSError: The file cannot be opened.
    """
    shard.piece.records += 1
    try:
        content = _content(piece)
        shard.piece.unpacked_bytes += len(content)
        shard.piece.lines += content.count(b"<s>") + content.count(b"<s ")
        sentences = film_sentences(content)
    except DamagedFile as error:
        shard.add_damage("", str(error), incomplete=True)
        return
    finally:
        shard.add_bytes(piece.size)
    if not sentences.lines and not len(sentences.starts):
        found = _SENTENCE.findall(content)
        examples = (re.sub("<.*?>", "", sentence.decode(errors="replace")) for sentence in found)
        shard.leave_out(WITHOUT_WORDS, len(found), examples)
        return
    block, tokens = tokenize_block(sentences.lines, settings.tokenizer, shard)
    starts, ends = sentences.starts, sentences.ends
    if block.startswith(b"\n") or block.endswith(b"\n") or b"\n\n" in block:  # nothing is left of some sentences
        texts = block.split(b"\n")
        kept = np.fromiter(map(bool, texts), bool, len(texts))
        block, starts, ends = b"\n".join(filter(None, texts)), starts[kept], ends[kept]
        tokens = None if tokens is None else b"\n".join(compress(tokens.split(b"\n"), texts))
    if not block:
        return
    shard.piece.conversations = 1
    shard.add_rows(
        file=piece.file,
        conversation=0,
        position=integers(np.arange(len(starts))),
        text=lines(block),
        tokens=None if tokens is None else lines(tokens),
        start=floats(starts),
        end=floats(ends),
        previous_end=floats(np.append(np.nan, np.where(np.isnan(ends), starts, ends)[:-1])),
    )
    exact, sketch = film_fingerprints(block)
    shard.add_fingerprints(True, [exact])
    shard.add_fingerprints(False, sketch)


def film_fingerprints(block: bytes) -> tuple[int, list[int]]:
    """A fingerprint of all sentences of a film, and a sketch of its long sentences.

    The first fingerprints of two films are equal if and only if their sentences are equal. Their sketches have many
    fingerprints in common if the films have many sentences in common (bottom-k sketch, Broder 1997).
    """
    digest = hashlib.blake2b(block, digest_size=8).digest()
    long_sentences = [text for text in block.split(b"\n") if text.count(b" ") >= _LONG_SENTENCE - 1]
    hashes = np.fromiter(map(zlib.crc32, long_sentences), np.uint32, len(long_sentences)) * np.uint32(0x9E3779B1)
    return int.from_bytes(digest, "big") >> 1, np.unique(hashes)[:SKETCH_SIZE].tolist()


def _content(piece: Piece) -> bytes:
    """The XML of a piece. Raises DamagedFile, OSError."""
    if piece.member is None and piece.path.suffix != ".zip":
        return read_decompressed(piece.path)
    try:
        archive = open_archive(piece.path)
        return decompressed(archive.read(piece.member)) if piece.member else b""
    except ZIP_ERRORS as error:
        raise DamagedFile(f"could not be decompressed: {error}") from error


def _films(path: Path) -> Iterator[Piece]:
    """The films of an XML file, of an archive, or of a list of them in a .txt. Raises CorpusError, OSError."""
    for file in _read_file_list(path) if path.suffix == ".txt" else [path]:
        yield from _members(file) if file.suffix == ".zip" else single_file(file)


def _read_file_list(path: Path) -> Iterator[Path]:
    """The files in a list, one per line, relative to the working directory."""
    try:
        names = path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError as error:
        raise CorpusError(f"{path} is not UTF-8. A list of files must have one path per line.") from error
    if any("\0" in name for name in names):
        raise CorpusError(f"{path} has a NUL character. A list of files must have one path per line.")
    yield from map(Path, filter(None, map(str.strip, names)))


def _members(path: Path) -> Iterable[Piece]:
    try:
        if members := archive_members(path, r"(?s).*\.xml(\.gz)?"):
            return members
    except ZIP_ERRORS:
        return single_file(path)  # reported as damage when it is read
    raise CorpusError(f"{path} contains no .xml file. Use the archive of monolingual XML files.")


def film_name(piece: Piece) -> str:
    """Year, film and subtitle file in the folders of OPUS, for example ``2018/7008412/7008412``."""
    parts = (PurePosixPath(piece.member) if piece.member else piece.path.absolute()).parts[-3:]
    name = re.sub(rf"\.xml{COMPRESSED}$", "", "/".join(parts))
    return name.encode(errors="backslashreplace").decode()


CORPUS = RawCorpus(
    read_opensubtitles,
    SUBTITLES,
    rf".*(\.xml{COMPRESSED}|\.zip)",
    ".xml, .xml.gz or .zip",
    unit="sentences",
    threads="films",
    recursive=True,
    file_is_film=True,
    expand=_films,
)
