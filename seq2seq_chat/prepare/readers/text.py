"""Shared by the readers of text corpora: read text files line by line into conversations of tokenized utterances.

An invalid line is counted as damage and skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers.inputs import PieceLines
from seq2seq_chat.prepare.shards import INCOMPLETE_PAIR, Piece, ReaderSettings, Shard
from seq2seq_chat.prepare.tokenizing import tokenize
from seq2seq_chat.system.compressed import DamagedFile
from seq2seq_chat.system.lines import MAX_LINE_BYTES, TOO_LONG, why_not_text

BLOCK_UTTERANCES = 100
"""Utterances per block when a file is a single conversation; even, to keep alternating pairs."""
_BATCH_UTTERANCES = 4096  # tokenized together


class ConversationWriter:
    """Tokenizes utterances, and numbers the conversations and utterances of a file that are not empty afterwards.

    Args:
        complete_size: If given, drop conversations that do not have exactly this many non-empty utterances.
    """

    def __init__(self, piece: Piece, settings: ReaderSettings, shard: Shard, complete_size: int | None = None) -> None:
        self._piece, self._shard, self._complete_size = piece, shard, complete_size
        self._tokenizer = settings.tokenizer
        self._raw: list[str] = []
        self._raw_conversations: list[int] = []
        self._last_conversation: int | None = None
        self._position = 0

    def add(self, conversation: int, utterances: Sequence[str]) -> None:
        """Add raw utterances. A different number starts a new conversation."""
        if len(self._raw) >= _BATCH_UTTERANCES and (
            self._complete_size is None or conversation != self._raw_conversations[-1]
        ):
            self.flush()
        self._raw += utterances
        self._raw_conversations += [conversation] * len(utterances)

    def flush(self) -> None:
        """Write the added utterances to the shard; call it after the last one."""
        texts = tokenize(self._raw, self._tokenizer, self._shard)
        kept = texts.kept()
        if self._complete_size is not None:
            sizes = Counter(self._raw_conversations[index] for index in kept)
            complete = [index for index in kept if sizes[self._raw_conversations[index]] == self._complete_size]
            self._shard.leave_out(INCOMPLETE_PAIR, len(kept) - len(complete))
            kept = complete
        conversations = []
        for index in kept:
            if self._raw_conversations[index] != self._last_conversation:
                self._last_conversation = self._raw_conversations[index]
                self._shard.piece.conversations += 1
            conversations.append(self._shard.piece.conversations - 1)
        unknown: list[float | None] = [None] * len(kept)
        self._shard.add_rows(
            file=self._piece.file,
            conversation=conversations,
            position=range(self._position, self._position + len(kept)),
            **texts.columns(kept),
            start=unknown,
            end=unknown,
        )
        self._position += len(kept)
        self._raw, self._raw_conversations = [], []


def records(piece: Piece, shard: Shard, *, legacy: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines that are not blank, which are counted as records, see ``text_lines``."""
    for number, line in text_lines(piece, shard, legacy=legacy):
        if line.strip():
            shard.piece.records += 1
            yield number, line


def text_lines(piece: Piece, shard: Shard, *, legacy: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the lines of a piece of text, numbered from 1.

    Lines end at a line feed, with or without a carriage return, or at carriage returns alone; a byte order mark at the
    start is dropped. A line that is not UTF-8 or too long is skipped: it is a damaged record.

    Args:
        legacy: Decode a line that is not UTF-8 as Windows-1252; it is not damage.

    Raises:
        CorpusError: The file is UTF-16, or not text.
        OSError: The file cannot be opened.
    """
    number = 0
    try:
        for number, line, damage in decoded_lines(piece, shard.add_bytes, legacy=legacy):
            if damage:
                shard.piece.records += 1
                shard.add_damage(line_position(piece, number), damage)
            else:
                yield number, line
    except DamagedFile as error:
        shard.add_damage(f"after {line_position(piece, number)}", str(error), incomplete=True)


def decoded_lines(
    piece: Piece, on_progress: Callable[[int], object], *, legacy: bool = False
) -> Iterator[tuple[int, str, str | None]]:
    """Yield (number from 1, line, what is wrong with it, if anything) of a piece, see ``text_lines``.

    Raises:
        CorpusError: The file is UTF-16, or not text.
        DamagedFile: The rest of the file cannot be read.
        OSError: The file cannot be opened.
    """
    number = 0
    for _, block in PieceLines(piece, on_progress):
        content = bytes(block)
        if number == piece.start == 0:
            if reason := why_not_text(content):
                raise CorpusError(f"{piece} {reason}")
            content = content.removeprefix(b"\xef\xbb\xbf")
        for raw in content.removesuffix(b"\n").split(b"\n"):
            number += 1
            line, damage = _decode(raw, legacy)
            yield number, line.removesuffix("\r"), damage


def _decode(raw: bytes, legacy: bool) -> tuple[str, str | None]:
    """The text of a line, and what is wrong with it, if anything."""
    if len(raw) > MAX_LINE_BYTES:
        return "", TOO_LONG
    try:
        return raw.decode("utf-8"), None
    except UnicodeDecodeError as error:
        if legacy:
            return raw.decode("cp1252", errors="replace"), None
        return "", f"byte {error.start} of the line is not UTF-8"


def line_position(piece: Piece, number: int) -> str:
    """The position of a line in its file for people; ``number`` is its number in the piece."""
    return f"line {number}" + (f" after byte {piece.start}" if piece.start else "")
