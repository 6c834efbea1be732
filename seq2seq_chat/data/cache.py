"""Where an encoded corpus is kept between runs, and when it may be used again."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from seq2seq_chat.corpus.files import CorpusError
from seq2seq_chat.corpus.lines import unreadable
from seq2seq_chat.corpus.samples import Pairing
from seq2seq_chat.corpus.text import Level
from seq2seq_chat.corpus.vocabulary import Vocabulary
from seq2seq_chat.errors import UserError

_FORMAT = "seq2seq-chat encoded corpus"
_VERSION = 1  # raise it whenever cleaning, pairing or the arrays change their meaning
_RECORD = "cache.json"
_ABANDONED_SECONDS = 24 * 3600.0

_log = logging.getLogger(__name__)


class EncodedArrays(NamedTuple):
    """The arrays of an encoded corpus, mapped read-only; see ``encoding.encode``."""

    tokens: npt.NDArray[Any]
    offsets: npt.NDArray[np.int64]
    samples: npt.NDArray[np.int64]


@dataclass(frozen=True)
class CacheKey:
    """All that an encoded corpus depends on. A change of any of it asks for a new cache."""

    corpus_size: int
    corpus_mtime_ns: int
    vocabulary: str
    level: Level
    pairing: Pairing
    turns: int = 1
    format: str = _FORMAT
    version: int = _VERSION

    @classmethod
    def of(cls, corpus: Path, vocabulary: Vocabulary, level: Level, pairing: Pairing, turns: int = 1) -> CacheKey:
        """The key of a corpus file as it is now.

        Raises:
            CorpusError: The file does not exist or cannot be looked at.
        """
        try:
            state = corpus.stat()
        except OSError as fault:
            raise unreadable(corpus, fault, CorpusError) from fault
        return cls(state.st_size, state.st_mtime_ns, vocabulary.fingerprint, level, pairing, turns)

    @property
    def name(self) -> str:
        """The name of the cache's folder."""
        record = json.dumps(asdict(self), sort_keys=True)
        return hashlib.sha256(record.encode()).hexdigest()[:16]


def load_or_build(corpus: Path, key: CacheKey, build: Callable[[Path], dict[str, int]]) -> EncodedArrays:
    """Map the arrays of a complete cache, or have them built into a new one.

    The cache lies beside the corpus; where that folder cannot be written, in the user's cache
    folder; and failing that, in a temporary folder, for this run only.

    Args:
        build: Writes the arrays into the folder given and returns the length of each.

    Raises:
        CorpusError: From ``build``.
        UserError: There is no folder to write to.
    """
    roots = _roots(corpus)
    for root in roots:
        arrays = _load(root / key.name, key)
        if arrays is not None:
            return arrays
    for root in roots:
        try:
            return _build(root, key, build)
        except OSError as fault:
            _log.info("no cache in %s: %s", root, fault)
    _log.warning("no cache of %s can be kept: it is encoded at every start", corpus)
    try:
        # The mapped arrays outlive their files' names, so that nothing stays behind.
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            return _build(Path(folder), key, build)
    except OSError as fault:
        raise UserError(
            f"No folder can hold the encoded form of {corpus}: {fault}. "
            "Make room beside it, or name a roomy folder in TMPDIR."
        ) from fault


def _roots(corpus: Path) -> list[Path]:
    """The folders that may hold the caches of one corpus file, the best first."""
    absolute = os.path.abspath(corpus)
    user = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not user.is_absolute():  # the XDG specification has relative values ignored
        user = Path(os.path.expanduser("~/.cache"))  # noqa: PTH111  Path's own fails for a user without a name
    place = hashlib.sha256(os.fsencode(absolute)).hexdigest()[:16]
    return [
        Path(f"{absolute}.cache"),
        user / "seq2seq-chat" / f"{corpus.name}-{place}.cache",
    ]


def _load(folder: Path, key: CacheKey) -> EncodedArrays | None:
    """Map the arrays in ``folder``, or None unless they are the key's and complete."""
    record = _read_record(folder)
    lengths = record.pop("lengths", None)
    if record != asdict(key):
        return None
    try:
        arrays = EncodedArrays(*(_map(folder / f"{name}.npy") for name in EncodedArrays._fields))
    except (OSError, EOFError, ValueError):  # the last two: empty, or shorter than it says
        return None
    found = {name: len(array) for name, array in arrays._asdict().items()}
    return arrays if found == lengths else None


def _map(path: Path) -> npt.NDArray[Any]:
    # A plain array over the mapped file: indexing a numpy.memmap costs several times as much.
    return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))


def _read_record(folder: Path) -> dict[str, Any]:
    """The contents of ``cache.json``; empty if this is no cache of ours."""
    try:
        record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    ours = isinstance(record, dict) and record.get("format") == _FORMAT
    return record if ours else {}


def _build(root: Path, key: CacheKey, build: Callable[[Path], dict[str, int]]) -> EncodedArrays:
    """Build the cache in a folder beside its place and rename it: it is there whole or not."""
    root.mkdir(parents=True, exist_ok=True)
    building = root / f"{key.name}.building-{secrets.token_hex(4)}"
    building.mkdir()
    try:
        record = {**asdict(key), "lengths": build(building)}
        (building / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        arrays = _install(building, root / key.name, key)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    _delete_stale(root, key)
    return arrays


def _install(building: Path, folder: Path, key: CacheKey) -> EncodedArrays:
    try:
        os.rename(building, folder)
    except OSError:
        arrays = _load(folder, key)
        if arrays is not None:
            return arrays  # another process was faster
        # A damaged cache is in the way.
        shutil.rmtree(folder)
        os.rename(building, folder)
    arrays = _load(folder, key)
    if arrays is None:
        raise OSError(f"{folder} was not written as it should have been")
    return arrays


def _delete_stale(root: Path, key: CacheKey) -> None:
    """Delete caches of earlier states of the corpus, and what interrupted builds left behind.

    Caches of the present state stay, whatever their vocabulary and settings, and so does
    everything that is not ours.
    """
    for folder in root.iterdir():
        record = _read_record(folder)
        state = (record.get("corpus_size"), record.get("corpus_mtime_ns"))
        stale = bool(record) and state != (key.corpus_size, key.corpus_mtime_ns)
        if stale or (".building-" in folder.name and _age(folder) > _ABANDONED_SECONDS):
            shutil.rmtree(folder, ignore_errors=True)


def _age(folder: Path) -> float:
    """Seconds since the last change; 0 for a folder that has just gone."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0
