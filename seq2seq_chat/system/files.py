"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, cast

from seq2seq_chat.direct import DirectStream
from seq2seq_chat.errors import UserError

Mode = Literal["w", "wb", "direct"]


class Draft:
    """New contents of a file, in a temporary file beside it until they are published.

    Args:
        path: The file. The draft is in the same folder, so that the final rename cannot cross file systems.
        mode: Text, which is UTF-8 with ``\\n`` line ends, or bytes; ``direct`` are bytes written past the system's
            cache (:mod:`seq2seq_chat.direct`).

    Raises:
        UserError: It cannot be written there.
    """

    def __init__(self, path: str | Path, mode: Mode = "w") -> None:
        self.path, self.published = Path(path), False
        # Not tempfile: its files are readable by their owner only, these follow the umask.
        self._temporary = self.path.with_name(f".{self.path.name}.{secrets.token_hex(4)}.tmp")
        with told_as_user_error(self.path):
            self.stream = _open_new(self._temporary, mode)

    def publish(self) -> None:
        """Bring the contents to the disk and then to their place.

        Raises:
            UserError: They could not be written; the draft is removed.
        """
        try:
            with told_as_user_error(self.path):
                self.stream.flush()
                os.fsync(self.stream.fileno())
                self.stream.close()
                os.replace(self._temporary, self.path)
            self.published = True
        except BaseException:
            self.discard()
            raise

    def discard(self) -> None:
        """Remove the draft; the file stays as it was."""
        with suppress(OSError):  # what could not be written cannot be flushed either
            self.stream.close()
        self._temporary.unlink(missing_ok=True)


@contextmanager
def atomic_write(path: str | Path, mode: Mode = "w") -> Iterator[IO[Any]]:
    """A stream for the new contents of ``path``, which appear there only once complete.

    They are a :class:`Draft` until the block ends. When it fails, ``path`` stays as it was.

    Raises:
        UserError: The file could not be written.
    """
    draft = Draft(path, mode)
    try:
        with told_as_user_error(path):
            yield draft.stream
    except BaseException:
        draft.discard()
        raise
    draft.publish()


def copy_file(source: str | Path, path: str | Path, mode: Literal["wb", "direct"] = "wb") -> None:
    """Copy a file; the copy appears complete or not at all.

    Raises:
        UserError: One of them could not be read or written.
    """
    with atomic_write(path, mode) as stream, open(source, "rb") as old:
        shutil.copyfileobj(old, stream, 1 << 20)


@contextmanager
def told_as_user_error(path: str | Path) -> Iterator[None]:
    """OSError while ``path`` is written becomes a UserError that names it."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path} could not be written: {error.strerror or error}. "
            "Check that its folder exists, may be written to and has room left."
        ) from error


def _open_new(path: Path, mode: Mode) -> IO[Any]:
    if mode == "direct":
        return cast(IO[Any], DirectStream(path))
    if mode == "wb":
        return open(path, "xb")
    return open(path, "x", encoding="utf-8", newline="\n")
