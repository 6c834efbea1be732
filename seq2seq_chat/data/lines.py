"""Read a text file line by line, with errors that say where the fault is."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from seq2seq_chat.errors import UserError

_GZIP_MAGIC = b"\x1f\x8b"  # never the start of a UTF-8 text, so that no file name has to tell
_LINES_PER_UPDATE = 4096


def numbered_lines(path: str | Path, error: type[UserError], *, progress: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a UTF-8 file, plain or gzip.

    Lines end at ``\\n`` or ``\\r\\n`` and nowhere else; a byte order mark at the start is
    dropped. With ``progress`` a bar counts the bytes read, provided that stderr is a terminal
    and that it takes longer than two seconds.

    Raises:
        UserError: Of the class ``error``: the file cannot be read or is not UTF-8.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file:
            bar = tqdm(
                total=os.fstat(file.fileno()).st_size,
                desc=path.name,
                unit="B",
                unit_scale=True,
                delay=2,
                disable=None if progress else True,  # None: off unless stderr is a terminal
            )
            compressed = file.peek(2)[:2] == _GZIP_MAGIC
            stream: Iterable[bytes] = gzip.GzipFile(fileobj=file) if compressed else file
            offset = 0
            with bar:
                for number, line in enumerate(stream, start=1):
                    if number % _LINES_PER_UPDATE == 0:
                        bar.update(file.tell() - bar.n)
                    try:
                        text = line.decode("utf-8")
                    except UnicodeDecodeError as fault:
                        raise error(
                            f"{path}, line {number}: byte {offset + fault.start} of the text is "
                            "not UTF-8. Convert the file to UTF-8."
                        ) from fault
                    offset += len(line)
                    if number == 1:
                        text = text.removeprefix("\ufeff")
                    yield number, text.removesuffix("\n").removesuffix("\r")
                bar.update(file.tell() - bar.n)
    except (OSError, EOFError, zlib.error) as fault:
        raise unreadable(path, fault, error) from fault


def unreadable(path: Path, fault: Exception, error: type[UserError]) -> UserError:
    """What to tell people when opening or reading ``path`` failed with ``fault``."""
    if isinstance(fault, FileNotFoundError):
        return error(
            f"{path} does not exist. Paths are relative to the working directory ({Path.cwd()}); seq2seq-chat prepare "
            "makes corpora and vocabularies."
        )
    if isinstance(fault, IsADirectoryError):
        return error(f"{path} is a folder. Name a file in it.")
    if isinstance(fault, (EOFError, zlib.error, gzip.BadGzipFile)):
        return error(f"{path} is not a sound gzip file ({fault}). Fetch or make it again.")
    reason = getattr(fault, "strerror", None) or fault
    return error(f"{path} cannot be read: {reason}. Check its permissions and its disk.")
