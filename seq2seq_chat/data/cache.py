"""The cache of encoded corpora: its location and validity."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.config import Data
from seq2seq_chat.data.array_files import CheckedArray, StoredArray
from seq2seq_chat.data.corpus_file import CorpusError, ensure_published
from seq2seq_chat.data.pairs import Corpus, corpus_paths
from seq2seq_chat.data.samples import Pairing
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import atomic_folder, part_checksums
from seq2seq_chat.system.lines import TextFile, read_error
from seq2seq_chat.text.codec import Codecs

SAMPLES, TEXT = "seq2seq-chat encoded corpus", "seq2seq-chat encoded text"
"""Formats of a cache: the samples of a corpus, or running text."""
_VERSION = 4  # increase it when cleaning, pairing or the layout of the arrays change
_RECORD = "cache.json"
_ABANDONED_SECONDS = 24 * 3600.0

_log = logging.getLogger(__name__)


class Cache(NamedTuple):
    """An encoded corpus.

    Attributes:
        arrays: By name.
        copies: The text of the compressed files of the corpus, decompressed, by the names of the copies.
    """

    arrays: Mapping[str, CheckedArray]
    copies: Mapping[str, TextFile]


class _Files(NamedTuple):
    """The open files of a cache, which stay readable after they are deleted."""

    folder: Path
    inode: int
    arrays: dict[str, StoredArray]
    copies: dict[str, TextFile]


@dataclass(frozen=True)
class CacheKey:
    """Everything that an encoded corpus depends on; any change invalidates the cache."""

    corpus_size: int  # of both files, if there are two
    corpus_mtime_ns: int  # the sum of both, if there are two
    codecs: dict[str, str]
    tokenizers: list[list[Any]]
    pairing: Pairing
    swapped: bool
    turns: int = 1
    format: str = SAMPLES
    version: int = _VERSION

    @classmethod
    def of(cls, corpus: Corpus, codecs: Codecs, settings: Data, cache_format: str = SAMPLES) -> CacheKey:
        """The key of a corpus in its current state.

        Raises:
            CorpusError: A file does not exist or is inaccessible, or is being replaced by a preparation.
        """
        states = []
        ensure_published(corpus_paths(corpus))
        for path in corpus_paths(corpus):
            try:
                states.append(path.stat())
            except OSError as error:
                raise read_error(path, error, CorpusError) from error
        return cls(
            sum(state.st_size for state in states),
            sum(state.st_mtime_ns for state in states),
            codecs.fingerprints(),
            [
                [codec.tokenizer.name, codec.tokenizer.lowercase, *[True] * codec.tokenizer.normalize_apostrophes]
                for codec in codecs
            ],
            settings.pairing,
            settings.swap_source_target,
            settings.context_turns,
            cache_format,
        )

    @property
    def name(self) -> str:
        """The name of the cache's folder."""
        record = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(record.encode()).hexdigest()[:16]


def load_or_build(corpus: Corpus, key: CacheKey, build: Callable[[Path], object]) -> Cache:
    """Open a valid cache; build one if there is none.

    The cache is stored beside the corpus or, if that folder is not writable, in the user's cache folder or, as a last
    resort, in a temporary folder for this process only. Only the owner can read it. Its arrays are compared with
    checksums when they are read: a cache that turns out to be damaged is built again, once.

    Args:
        build: Writes the arrays (``NAME.npy``) and copies of compressed files (``NAME.txt``) into a folder.

    Raises:
        CorpusError: From ``build``.
        UserError: No folder is writable.
    """
    files = _open_or_build(corpus, key, build)
    lock, is_repaired = threading.Lock(), False

    def repair(name: str, damaged: StoredArray) -> StoredArray:
        nonlocal files, is_repaired
        with lock:
            if files.arrays[name] is damaged:  # otherwise another thread or array has noticed it before
                if is_repaired:
                    raise UserError(f"{files.folder} is damaged again after it was rebuilt. Check the disk.")
                _log.warning("%s is damaged; encoding the corpus again", files.folder)
                _discard(files)
                files, is_repaired = _open_or_build(corpus, key, build), True
            return files.arrays[name]

    return Cache(
        {name: CheckedArray(stored, partial(repair, name)) for name, stored in files.arrays.items()}, files.copies
    )


def _open_or_build(corpus: Corpus, key: CacheKey, build: Callable[[Path], object]) -> _Files:
    roots = _roots(corpus_paths(corpus))
    for root in roots:
        files = _load(root / key.name, key)
        if files is not None:
            return files
    for root in roots:
        try:
            return _build(root, key, build)
        except OSError as error:
            _log.info("no cache in %s: %s", root, error)
    _log.warning("could not cache %s; it will be encoded at every start", corpus)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            return _build(Path(folder), key, build)
    except OSError as error:
        raise UserError(
            f"Could not write the encoded form of {corpus}: {error}. "
            "Free some space beside it, or set TMPDIR to a folder with enough space."
        ) from error


def _discard(files: _Files) -> None:
    """Delete a damaged cache unless another process has replaced it."""
    with suppress(OSError):
        if files.folder.stat().st_ino == files.inode:
            shutil.rmtree(files.folder)


def _roots(paths: Sequence[Path]) -> list[Path]:
    """The folders for the caches of one corpus, in order of preference."""
    corpus, *others = paths
    absolute = os.path.abspath(corpus)
    user = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not user.is_absolute():  # the XDG specification: ignore relative paths
        user = Path(os.path.expanduser("~/.cache"))  # noqa: PTH111  Path.expanduser fails for a user without a name
    path_hash = hashlib.sha256(os.fsencode(absolute)).hexdigest()[:16]
    # The cache of parallel files is beside the sources; its key does not have their names.
    for other in others:
        absolute += f".{hashlib.sha256(os.fsencode(os.path.abspath(other))).hexdigest()[:8]}"
    return [Path(f"{absolute}.cache"), user / "seq2seq-chat" / f"{corpus.name}-{path_hash}.cache"]


def _load(folder: Path, key: CacheKey) -> _Files | None:
    """Open the cache in ``folder``; None if it is incomplete or belongs to another key."""
    record = _read_record(folder)
    described, texts = record.pop("arrays", None), record.pop("copies", None)
    if record != asdict(key):
        return None
    try:
        arrays = {name: StoredArray(folder / f"{name}.npy", value["crc32"]) for name, value in described.items()}
        is_complete = all(len(stored.array) == described[name]["length"] for name, stored in arrays.items())
        is_complete &= all(stored.parts == len(stored.checksums) for stored in arrays.values())
        is_complete &= all((folder / name).stat().st_size == text["bytes"] for name, text in texts.items())
        copies = {name: TextFile(folder / name, text["crc32"]) for name, text in texts.items()}
        return _Files(folder, folder.stat().st_ino, arrays, copies) if is_complete else None
    except (OSError, EOFError, ValueError, TypeError, KeyError, AttributeError):
        return None  # missing, empty or truncated files, another record


def _read_record(folder: Path) -> dict[str, Any]:
    """The contents of ``cache.json``; empty if the folder is not one of our caches."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and record.get("format") in (SAMPLES, TEXT) else {}


def _build(root: Path, key: CacheKey, build: Callable[[Path], object]) -> _Files:
    """Build the cache, or use that of another process that finished first."""
    folder = root / key.name
    if folder.exists() and _load(folder, key) is None:
        shutil.rmtree(folder)
        _log.warning("%s was damaged; encoding the corpus again", folder)
    with suppress(FileExistsError), atomic_folder(folder) as building:
        building.chmod(0o700)
        build(building)
        record = {**asdict(key), "arrays": {}, "copies": {}}
        for path in building.iterdir():
            path.chmod(0o600)
            if path.suffix == ".npy":
                stored = StoredArray(path)
                record["arrays"][path.stem] = {"length": len(stored.array), "crc32": stored.checksums}
            else:
                record["copies"][path.name] = {"bytes": path.stat().st_size, "crc32": part_checksums(path)}
        (building / _RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")
        (building / _RECORD).chmod(0o600)
    files = _load(folder, key)
    if files is None:
        raise OSError(f"{folder} was not written correctly")
    _delete_stale(root, key)
    return files


def _delete_stale(root: Path, key: CacheKey) -> None:
    """Delete caches of earlier versions of the corpus or of this program, and leftovers of interrupted builds.

    Keep caches of the current versions, whatever their vocabulary and settings, and all files of other programs.
    """
    for folder in root.iterdir():
        record = _read_record(folder)
        state = (record.get("corpus_size"), record.get("corpus_mtime_ns"))
        stale = bool(record) and (
            state != (key.corpus_size, key.corpus_mtime_ns) or record.get("version") in range(_VERSION)
        )
        if stale or (folder.name.endswith(".tmp") and _age(folder) > _ABANDONED_SECONDS):
            shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    """Seconds since the last change; 0 if the folder has just been deleted."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0
