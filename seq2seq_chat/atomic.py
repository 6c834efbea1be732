"""Write a file whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal

from seq2seq_chat.errors import UserError


@contextmanager
def atomic_write(path: str | Path, mode: Literal["w", "wb"] = "w") -> Iterator[IO[Any]]:
    """A stream for the new contents of ``path``, which appear there only once complete.

    They go to a temporary file in the same folder (so that the final rename cannot cross file
    systems), reach the disk and then replace ``path``. When the block fails, the temporary file
    is removed and ``path`` stays as it was. Text is UTF-8 with ``\\n`` line ends.

    Raises:
        UserError: The file could not be written.
    """
    path = Path(path)
    # Not tempfile: its files are readable by their owner only, these follow the umask.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    text = mode == "w"
    try:
        try:
            with open(
                temporary,
                "x" if text else "xb",
                encoding="utf-8" if text else None,
                newline="\n" if text else None,
            ) as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UserError(
            f"{path} could not be written: {error}. Check that its folder exists, may be written to and has room left."
        ) from error
