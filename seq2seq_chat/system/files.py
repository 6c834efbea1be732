"""Write files and folders atomically: they appear complete or not at all."""

from __future__ import annotations

import errno
import fcntl
import glob
import json
import os
import re
import secrets
import shutil
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal

from seq2seq_chat.system.errors import UserError

Mode = Literal["w", "wb"]
MIN_ABANDONED_SECONDS = 60  # a newer file or folder may not be locked yet
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{10}\.tmp")  # locked while in use; earlier versions had 8 digits and no lock
CHECKED_BYTES = 1 << 20  # of a file, with a checksum each
_PACKAGE = Path(__file__).resolve().parents[1]
BUNDLED = _PACKAGE / "configs" if (_PACKAGE / "configs").is_dir() else _PACKAGE.parent / "configs"
"""The experiments that come with the program: in an installed package, or in a checkout."""
NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Draft:
    """New contents of a file, written to a temporary file beside it until they are published.

    In mode ``w``, the text is UTF-8 with ``\\n`` line ends. Surrogates become "?": they stand for the bytes of names of
    files that are not UTF-8.

    Raises:
        UserError: The temporary file could not be created.
    """

    def __init__(self, path: str | Path, mode: Mode = "w") -> None:
        self.path, self.published = Path(path), False
        self._temporary = _temporary_path(self.path)
        with as_user_error(self.path):
            remove_abandoned(self.path.parent, self.path.name)
            text: dict[str, Any] = {"encoding": "utf-8", "errors": "replace", "newline": "\n"} if mode == "w" else {}
            self.stream: IO[Any] = open(self._temporary, mode.replace("w", "x"), **text)  # noqa: SIM115
        _lock(self.stream.fileno())

    def publish(self) -> None:
        """Flush the contents to the disk and replace the file.

        Raises:
            UserError: The file could not be written; the draft is removed.
        """
        try:
            with as_user_error(self.path):
                self.stream.flush()
                os.fsync(self.stream.fileno())
                os.replace(self._temporary, self.path)
                self.stream.close()  # and with it the lock
            self.published = True
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Delete the temporary file; the file itself is unchanged."""
        with suppress(OSError):  # closing flushes, which fails again after a failed write
            self.stream.close()
        self._temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write(path: str | Path, mode: Mode = "w") -> Iterator[IO[Any]]:
    """Open a stream for the new contents of ``path``, which replace it when the block ends without an error.

    Raises:
        UserError: The file could not be written.
    """
    draft = Draft(path, mode)
    try:
        with as_user_error(path):
            yield draft.stream
    except BaseException:
        draft.discard()
        raise
    draft.publish()


def write_atomically(path: str | Path, contents: str | bytes) -> None:
    """Write a file atomically. Raises UserError if it could not be written."""
    with atomic_write(path, "w" if isinstance(contents, str) else "wb") as stream:
        stream.write(contents)


def write_json(path: str | Path, value: Any) -> None:
    """Write a value as indented JSON atomically. Raises UserError if it could not be written."""
    write_atomically(path, json.dumps(value, indent=2) + "\n")


def part_checksums(path: str | Path) -> list[int]:
    """The CRC-32 of each part of a file, of ``CHECKED_BYTES``. Raises OSError if it cannot be read."""
    with open(path, "rb") as file:
        return [zlib.crc32(part) for part in iter(lambda: file.read(CHECKED_BYTES), b"")]


def file_checksum(path: str | Path) -> str:
    """A short checksum of a file. Raises OSError if it cannot be read."""
    checksum = 0
    with open(path, "rb") as file:
        while part := file.read(CHECKED_BYTES):
            checksum = zlib.crc32(part, checksum)
    return f"{checksum:08x}"


def copy_file(source: str | Path, path: str | Path) -> None:
    """Copy a file atomically. Raises UserError if it could not be read or written."""
    try:
        source_file = open(source, "rb")  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{source} could not be read: {error.strerror}") from error
    with source_file, atomic_write(path, "wb") as stream:
        shutil.copyfileobj(source_file, stream, 1 << 20)


@contextmanager
def atomic_folder(path: str | Path) -> Iterator[Path]:
    """Create a temporary folder beside ``path``, which is renamed to ``path`` when the block ends.

    If the block fails, the folder is removed. An empty folder at ``path`` is replaced.

    Raises:
        FileExistsError: ``path`` exists when the block ends and is not an empty folder.
        OSError: The folder could not be created or renamed.
    """
    path = Path(path)
    remove_abandoned(path.parent)
    temporary = _temporary_path(path)
    create_parents(temporary)
    temporary.mkdir()
    lock = os.open(temporary, os.O_RDONLY)
    try:
        _lock(lock)
        yield temporary
        try:
            temporary.rename(path)
        except OSError as error:
            if path.exists():
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path)) from error
            raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        os.close(lock)


def create_parents(path: Path) -> None:
    """Create the folders above ``path``, unless one is a file or a broken link: creating ``path`` then fails for that.

    Raises:
        OSError: A folder could not be created.
    """
    with suppress(FileExistsError):
        path.parent.mkdir(parents=True, exist_ok=True)


def remove_folder(path: Path) -> None:
    """Delete a folder and what is in it; if the process is killed meanwhile, a hidden folder is left.

    Raises:
        OSError: The folder does not exist, or cannot be renamed.
    """
    temporary = _temporary_path(path)
    path.rename(temporary)
    shutil.rmtree(temporary, ignore_errors=True)


def remove_abandoned(folder: Path, name: str | None = None) -> None:
    """Delete the temporary files and folders of processes that were killed; those in use are locked.

    Args:
        folder: The folder that they are in.
        name: The file that was written; None for all temporary folders.
    """
    for path in folder.glob(".*.tmp" if name is None else f".{glob.escape(name)}.*.tmp"):
        if not TEMPORARY.fullmatch(path.name) or (name is None and not path.is_dir()):
            continue
        with suppress(OSError):  # in use, or deleted by another process
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if time.time() - os.fstat(descriptor).st_mtime > MIN_ABANDONED_SECONDS:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(path)
            finally:
                os.close(descriptor)


def remove_temporary(folder: Path) -> None:
    """Delete the temporary files and folders that a killed process left in a folder."""
    for path in folder.glob(".*.tmp"):
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _lock(descriptor: int) -> None:
    with suppress(OSError):  # on some network file systems, which keep what a killed process leaves
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def as_user_error(path: str | Path) -> Iterator[None]:
    """Turn an OSError while ``path`` is being written into a UserError that names it."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path} could not be written: {error.strerror or error}. "
            "Check that its folder exists, is writable and has free space."
        ) from error


def is_disk_full(error: BaseException | None) -> bool:
    """Whether the cause of an error is that there is no space for what is written, or that a quota is used up."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in NO_SPACE:
            return True
        error = error.__cause__
    return False


def _temporary_path(path: Path) -> Path:
    # Not tempfile: what it creates is accessible to the owner only; this follows the umask.
    return path.with_name(f".{path.name}.{secrets.token_hex(5)}.tmp")
