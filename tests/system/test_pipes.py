from __future__ import annotations

import io
import os
import threading

from hypothesis import given
from hypothesis import strategies as st

from seq2seq_chat.cli.conversation import available_lines


class Chunks(io.BytesIO):
    """A stream of which each read returns one of these chunks."""

    def __init__(self, chunks: list[bytes]) -> None:
        super().__init__()
        self.chunks = chunks

    def read1(self, size: int | None = -1) -> bytes:
        return self.chunks.pop(0) if self.chunks else b""


@given(st.lists(st.binary(min_size=1)), st.integers(1, 5))
def test_lines_are_those_of_the_whole(chunks: list[bytes], limit: int) -> None:
    whole = b"".join(chunks)
    blocks = list(available_lines(Chunks(list(chunks)), limit))
    assert [line for block in blocks for line in block] == [line.removesuffix(b"\n") for line in io.BytesIO(whole)]
    assert all(1 <= len(block) <= limit for block in blocks)


def test_lines_of_one_read_are_a_block() -> None:
    chunks = [b"one\ntwo\nth", b"ree\n", b"a long ", b"line", b"\nlast"]
    assert list(available_lines(Chunks(chunks), 10)) == [[b"one", b"two"], [b"three"], [b"a long line"], [b"last"]]


def test_a_line_in_a_pipe_is_read_before_the_next_is_written() -> None:
    reading, writing = os.pipe()
    read: list[list[bytes]] = []
    with open(reading, "rb") as stream:
        is_read = threading.Semaphore(0)

        def read_all() -> None:
            for block in available_lines(stream, 10):
                read.append(block)
                is_read.release()

        thread = threading.Thread(target=read_all)
        thread.start()
        with open(writing, "wb", buffering=0) as pipe:
            for text in (b"one\n", b"two\nthree\n"):
                pipe.write(text)
                assert is_read.acquire(timeout=60)
        thread.join(60)
    assert read == [[b"one"], [b"two", b"three"]]
