"""Generate small raw corpora."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import zstandard

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    **{"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress},
    ".zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
"""How files with these endings are compressed."""


def comment(number: int, parent: int | None, thread: int = 0) -> str:
    """A comment as a line of a dump."""
    fields = {"id": f"c{number}", "link_id": f"t3_{thread}", "parent_id": f"t1_c{parent}" if parent else f"t3_{thread}"}
    return json.dumps(fields | {"subreddit": "movies", "body": f"comment {number}", "score": 1, "created_utc": number})


def dump(path: Path, numbers: range) -> Path:
    """Write a dump with a chain of comments in each of 50 submissions."""
    path.write_text("".join(comment(n, n - 50 if n > 50 else None, n % 50) + "\n" for n in numbers))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    """The contents of the files in a folder by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def film(words: str) -> bytes:
    """A subtitle file of sentences separated by slashes."""
    sentences = "".join(f"<s>{''.join(f'<w>{w}</w>' for w in line.split())}</s>" for line in words.split("/"))
    return f"<document>{sentences}</document>".encode()
