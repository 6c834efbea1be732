"""Reading what another program writes."""

from __future__ import annotations

import io
from collections.abc import Iterator

CHUNK = 2**16  # bytes


def available_lines(stream: io.BufferedIOBase, limit: int) -> Iterator[list[bytes]]:
    """The lines of a stream, without their ends, in blocks of those that can be read without waiting.

    Only waits for the first line of each block.

    Args:
        stream: a file, pipe or socket.
        limit: the most lines in a block.
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
