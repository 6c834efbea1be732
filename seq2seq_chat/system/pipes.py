"""Reading lines as soon as another program has written them."""

from __future__ import annotations

import io
from collections.abc import Iterator

CHUNK = 2**16  # bytes


def available_lines(stream: io.BufferedIOBase, limit: int) -> Iterator[list[bytes]]:
    """The lines of a stream, without line feeds, in blocks of those that can be read without waiting.

    Only waits for the first line of each block.

    Args:
        stream: a file, pipe or socket.
        limit: maximum number of lines in a block.
    """
    incomplete: list[bytes] = []
    while chunk := stream.read1(CHUNK):
        first, *others = chunk.split(b"\n")
        incomplete.append(first)
        if not others:
            continue
        lines = [b"".join(incomplete), *others]
        incomplete = [lines.pop()]
        for start in range(0, len(lines), limit):
            yield lines[start : start + limit]
    if any(incomplete):
        yield [b"".join(incomplete)]
