"""The cache of encoded corpora: its location and validity, and arrays that are verified when they are read."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import threading
import time
import weakref
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.config import Data
from seq2seq_chat.data.corpus_file import Corpus, CorpusError, corpus_paths, ensure_published
from seq2seq_chat.data.encoding import copy_name
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
    """An encoded corpus: its arrays by name, and its files, decompressed."""

    arrays: Mapping[str, CheckedArray]
    texts: Sequence[TextFile]


class _Files(NamedTuple):
    """The open files of a cache, which stay readable after they are deleted."""

    folder: Path
    inode: int
    arrays: dict[str, StoredArray]
    copies: dict[str, TextFile]


def open_cache(
    corpus: Corpus, codecs: Codecs, settings: Data, cache_format: str, encode: Callable[[Path], object]
) -> Cache:
    """Open a valid cache; build one if there is none.

    The cache is stored beside the corpus or, if that folder is not writable, in the user's cache folder or, as a last
    resort, in a temporary folder for this process only. Only the owner can read it. Its arrays are compared with
    checksums when they are read: a cache that turns out to be damaged is built again, once.

    Args:
        settings: Pairing, direction and context.
        cache_format: SAMPLES or TEXT.
        encode: Writes the arrays (``NAME.npy``) and copies of compressed files (``copy_name``) into a folder.

    Raises:
        CorpusError: From ``encode``; or a file is missing, cannot be read, or changes meanwhile.
        UserError: No folder is writable.
    """
    key = _key(corpus, codecs, settings, cache_format)

    def ensure_unchanged() -> None:
        if _key(corpus, codecs, settings, cache_format) != key:
            raise CorpusError(f"{corpus} changed while it was being read. Start again once it is complete.")

    def build(folder: Path) -> None:
        encode(folder)
        ensure_unchanged()

    files = _open_or_build(corpus, key, build)
    lock, is_repaired = threading.Lock(), False

    def repair(name: str, damaged: StoredArray) -> StoredArray:
        nonlocal files, is_repaired
        with lock:
            if files.arrays[name] is damaged:  # otherwise another thread or array has noticed it before
                if is_repaired:
                    raise UserError(f"{files.folder} is damaged again after it was rebuilt. Check the disk.")
                _log.warning("%s is damaged; encoding the corpus again", files.folder)
                with suppress(OSError):
                    if files.folder.stat().st_ino == files.inode:  # no other process has replaced it
                        shutil.rmtree(files.folder)
                files, is_repaired = _open_or_build(corpus, key, build), True
            return files.arrays[name]

    texts = []
    for number, path in enumerate(corpus_paths(corpus)):
        try:
            texts.append(files.copies.get(copy_name(number)) or TextFile(path))
        except OSError as error:
            raise read_error(path, error, CorpusError) from error
    ensure_unchanged()
    return Cache({name: CheckedArray(stored, partial(repair, name)) for name, stored in files.arrays.items()}, texts)


def _key(corpus: Corpus, codecs: Codecs, settings: Data, cache_format: str) -> dict[str, Any]:
    """Everything that an encoded corpus depends on, as JSON; any change invalidates the cache.

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
    sizes, times = [state.st_size for state in states], [state.st_mtime_ns for state in states]
    tokenizers = [codec.tokenizer for codec in codecs]
    return {
        "corpus_size": sizes if len(sizes) > 1 else sizes[0],
        "corpus_mtime_ns": times if len(times) > 1 else times[0],
        "codecs": codecs.fingerprints(),
        "tokenizers": [[each.name, each.lowercase, *[True] * each.normalize_apostrophes] for each in tokenizers],
        "pairing": settings.pairing,
        "swapped": settings.swap_source_target,
        "turns": settings.context_turns,
        "format": cache_format,
        "version": _VERSION,
    }


def _name(key: Mapping[str, Any]) -> str:
    """The name of a cache's folder."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()[:16]


def _open_or_build(corpus: Corpus, key: dict[str, Any], build: Callable[[Path], object]) -> _Files:
    roots = _roots(corpus_paths(corpus))
    for root in roots:
        files = _load(root / _name(key), key)
        if files is not None:
            return files
    for root in roots:
        try:
            return _build(root, key, build)
        except OSError as error:
            _log.warning("could not cache %s in %s: %s", corpus, root, error.strerror or error)
    _log.warning("%s will be encoded at every start", corpus)
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            return _build(Path(folder), key, build)
    except OSError as error:
        raise UserError(
            f"Could not write the encoded form of {corpus}: {error}. "
            "Free some space beside it, or set TMPDIR to a folder with enough space."
        ) from error


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


def _load(folder: Path, key: dict[str, Any]) -> _Files | None:
    """Open the cache in ``folder``; None if it is incomplete or belongs to another key."""
    record = _read_record(folder)
    described, texts = record.pop("arrays", None), record.pop("copies", None)
    if record != key:
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


def _build(root: Path, key: dict[str, Any], build: Callable[[Path], object]) -> _Files:
    """Build the cache, or use the one of another process that finished first."""
    folder = root / _name(key)
    if folder.exists() and _load(folder, key) is None:
        shutil.rmtree(folder)
        _log.warning("%s was damaged; encoding the corpus again", folder)
    with suppress(FileExistsError), atomic_folder(folder) as building:
        building.chmod(0o700)
        build(building)
        record = {**key, "arrays": {}, "copies": {}}
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


def _delete_stale(root: Path, key: dict[str, Any]) -> None:
    """Delete caches of earlier versions of the corpus or of this program, and leftovers of interrupted builds.

    Keep caches of the current versions, whatever their vocabulary and settings, and all files of other programs.
    """
    for folder in root.iterdir():
        record = _read_record(folder)
        state = (record.get("corpus_size"), record.get("corpus_mtime_ns"))
        stale = bool(record) and (
            state != (key["corpus_size"], key["corpus_mtime_ns"]) or record.get("version") in range(_VERSION)
        )
        if stale or (folder.name.endswith(".tmp") and _age(folder) > _ABANDONED_SECONDS):
            shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    """Seconds since the last change; 0 if the folder has just been deleted."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


_PART_BYTES = 1 << 20  # of an array, with a checksum each; as many whole rows as fit, at least one


class StoredArray:
    """An array in an ``.npy`` file, memory-mapped read-only, which stays readable after the file is deleted.

    Attributes:
        array: The array.
        checksums: The CRC-32 of each of its parts; computed if None.

    Raises:
        OSError, EOFError, ValueError: The file cannot be read, or is no array.
    """

    def __init__(self, path: Path, checksums: list[int] | None = None) -> None:
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        self.array = np.asarray(mapped)  # a plain array: indexing a numpy.memmap is several times slower
        row_bytes = mapped[:1].nbytes or 1
        self.part_rows = max(1, _PART_BYTES // row_bytes)
        self._part_bytes, self._start = self.part_rows * row_bytes, mapped.offset
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)
        self.parts = -(-len(mapped) // self.part_rows)
        self.checksums = [self._checksum(part) for part in range(self.parts)] if checksums is None else checksums

    def is_intact(self, part: int) -> bool:
        """Whether a part has its checksum."""
        return self._checksum(part) == self.checksums[part]

    def _checksum(self, part: int) -> int:
        # Read rather than mapped, as mapped pages count as memory of the process.
        return zlib.crc32(os.pread(self._descriptor, self._part_bytes, self._start + part * self._part_bytes))


class CheckedArray:
    """A stored array. What is read of it is compared with its checksums first, once for each part.

    Args:
        stored: The array. Reading costs nothing more once all parts have been compared.
        repair: Called with the array if a part differs from its checksum; returns an intact one, or raises UserError.
    """

    def __init__(self, stored: StoredArray, repair: Callable[[StoredArray], StoredArray]) -> None:
        self._repair = repair
        self._use(stored)

    def _use(self, stored: StoredArray) -> None:
        self._stored, self._array = stored, stored.array
        self._pending = np.ones(stored.parts, bool)
        self._is_checked = not stored.parts

    def __len__(self) -> int:
        """Length of the first axis."""
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        """Like an array: an integer, a slice, or an array of integers or of bool, of the first axis.

        Raises:
            UserError: The array is damaged and cannot be repaired.
        """
        while not self._is_checked and (damaged := self._find_damage(index)) is not None:
            self._use(self._repair(damaged))
        return self._array[index]

    def _find_damage(self, index: Any) -> StoredArray | None:
        """Compare the parts that an index touches and that were not compared yet; the array if one is damaged."""
        stored, pending = self._stored, self._pending
        for part in np.flatnonzero(self._touched(index) & pending).tolist():
            if not stored.is_intact(part):
                return stored
            pending[part] = False
        self._is_checked = not pending.any()
        return None

    def _touched(self, index: Any) -> npt.NDArray[np.bool_]:
        """[parts] Whether an index touches each part."""
        touched = np.zeros(len(self._pending), bool)
        if not isinstance(index, slice | np.ndarray):
            index = slice(index, (int(index) + 1) or None)
        if isinstance(index, slice):
            rows = range(*index.indices(len(self._array)))
            if rows:
                first, last = sorted((rows[0], rows[-1]))
                touched[first // self._stored.part_rows : last // self._stored.part_rows + 1] = True
        elif index.dtype == np.bool_:
            touched[:] = True
        else:
            parts = index // self._stored.part_rows
            touched[parts[(parts >= 0) & (parts < len(touched))]] = True  # the array itself rejects the others
        return touched
