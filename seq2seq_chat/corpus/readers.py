"""Readers of text corpora turn a raw file into rows of a shard: conversations of clean utterances.

A line that cannot be used is noted as damage and left out; the rest of its file is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from seq2seq_chat.corpus.compressed import BrokenStream, LineBlocks
from seq2seq_chat.corpus.files import END_OF_CONVERSATION
from seq2seq_chat.corpus.shards import Piece, ReadingSettings, Shard
from seq2seq_chat.corpus.text import clean_lines

BLOCK_UTTERANCES = 100
"""Utterances a block when a file is a single conversation; even, to keep alternating pairs."""

_END_OF_TURN = "__eou__"
_CORNELL_FIELDS = " +++$+++ "
_CORNELL_MARKUP = re.compile(r"</?[A-Za-z]+>")  # <u>, <i>, <b> and a few more around what is stressed
_CORNELL_LINE_ID = re.compile(r"L\d+")


def read_dailydialog(piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
    """Read a DailyDialog text file: a dialogue a line, ``__eou__`` after each turn.

    Raises:
        OSError: The file cannot be opened.
    """
    conversations = _Conversations(piece, shard)
    for lines in _line_batches(piece, shard):
        for number, line in lines:
            if not line.strip():
                continue
            shard.piece.records += 1
            if _END_OF_TURN not in line:
                shard.damage(
                    f"line {number}",
                    f"no {_END_OF_TURN}, so this is no DailyDialog text; name the files with the dialogues, or another "
                    "corpus",
                )
                continue
            conversations.add(number, line.split(_END_OF_TURN))
        conversations.flush()


def read_lines(piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
    """Read a corpus file, or any text with an utterance a line.

    With ``odd-even`` turns, line 2 answers line 1, line 4 line 3 and so on, each pair a conversation
    of its own; a pair of which one line is damaged or empty is left out as a whole.

    Raises:
        OSError: The file cannot be opened.
    """
    if settings.turns == "odd-even":
        read_pairs(piece, settings, shard)
        return
    conversations = _Conversations(piece, shard)
    conversation = 0
    for lines in _line_batches(piece, shard):
        for _, line in lines:
            shard.piece.records += 1
            if line.strip() == END_OF_CONVERSATION:
                conversation += 1
            elif line.strip():
                conversations.add(conversation, [line])
        conversations.flush()
    shard.piece.single = shard.piece.threads == 1


def read_pairs(piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
    """Read a text of alternating lines, as collections of tweets come: odd ones ask, even ones answer.

    Lines count whether they can be used or not, so that no damage shifts the pairs after it; only
    markers between conversations do not.

    Raises:
        OSError: The file cannot be opened.
    """
    conversations = _Conversations(piece, shard, complete=2)
    asking: str | None = None
    count = 0
    for lines in _line_batches(piece, shard, keep_damaged=True):
        for _, line in lines:
            if line.strip() == END_OF_CONVERSATION:
                continue
            shard.piece.records += 1
            if count % 2 == 0:
                asking = line
            else:
                conversations.add(count // 2, [asking or "", line])
            count += 1
        conversations.flush()


def read_cornell(piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
    """Read the conversations of Cornell Movie-Dialogs, whose lines are in the file beside them.

    Raises:
        OSError: One of the two files cannot be opened.
    """
    conversations_file = Path(piece.path)
    lines_file = Path(piece.beside) if piece.beside else cornell_lines_file(conversations_file)
    texts: dict[str, str] = {}
    for lines in _line_batches(Piece(piece.file, str(lines_file), 0), shard, legacy=True):
        for number, line in lines:
            fields = line.split(_CORNELL_FIELDS.rstrip(), 4)
            if not line.strip():
                continue
            shard.piece.records += 1
            if len(fields) < 5:
                shard.damage(f"{lines_file.name}, line {number}", "not five fields, the last of them the text")
            else:
                texts.setdefault(fields[0].strip(), _CORNELL_MARKUP.sub("", fields[4]).replace("\n", " "))
    conversations = _Conversations(piece, shard)
    for lines in _line_batches(piece, shard, legacy=True):
        for number, line in lines:
            if not line.strip():
                continue
            shard.piece.records += 1
            ids = _CORNELL_LINE_ID.findall(line.rsplit("+++$+++", 1)[-1])
            missing = [name for name in ids if name not in texts]
            if not ids or missing:
                reason = f"its line {missing[0]} is not in {lines_file.name}" if missing else "it names no line"
                shard.damage(f"line {number}", reason)
            else:
                conversations.add(number, [texts[name] for name in ids])
        conversations.flush()


def cornell_lines_file(conversations_file: Path) -> Path:
    """The file of the lines that belong to a file of conversations, packed or not."""
    name = conversations_file.name.replace("conversations", "lines")
    stem = name.split(".")[0]
    beside = sorted(path for path in conversations_file.parent.glob(f"{stem}.*") if path.is_file())
    return next(iter(beside), conversations_file.with_name(name))


class _Conversations:
    """Numbers the conversations and utterances of a file of which cleaning leaves something."""

    def __init__(self, piece: Piece, shard: Shard, complete: int = 0) -> None:
        """With ``complete``, a conversation of fewer clean utterances is left out."""
        self._piece, self._shard, self._complete = piece, shard, complete
        self._raw: list[str] = []
        self._raw_conversations: list[int] = []
        self._last: int | None = None
        self._position = 0

    def add(self, conversation: int, utterances: Sequence[str]) -> None:
        """Take over utterances as written; another number is another conversation."""
        self._raw += utterances
        self._raw_conversations += [conversation] * len(utterances)

    def flush(self) -> None:
        """Hand over what was taken to the shard. Pairs must have been taken whole."""
        texts = clean_lines(self._raw)
        kept = [number for number, text in enumerate(texts) if text]
        if self._complete:
            size: dict[int, int] = {}
            for number in kept:
                conversation = self._raw_conversations[number]
                size[conversation] = size.get(conversation, 0) + 1
            kept = [number for number in kept if size[self._raw_conversations[number]] == self._complete]
        threads = []
        for number in kept:
            conversation = self._raw_conversations[number]
            if conversation != self._last:
                self._last = conversation
                self._shard.piece.threads += 1
            threads.append(self._shard.piece.threads - 1)
        nothing: list[float | None] = [None] * len(kept)
        self._shard.add(
            file=self._piece.file,
            thread=threads,
            position=range(self._position, self._position + len(kept)),
            text=[texts[number] for number in kept],
            start=nothing,
            end=nothing,
        )
        self._position += len(kept)
        self._raw, self._raw_conversations = [], []


def _line_batches(
    piece: Piece, shard: Shard, *, keep_damaged: bool = False, legacy: bool = False
) -> Iterator[Iterable[tuple[int, str]]]:
    """The lines of a text file with their numbers from 1, those of a block at a time, to be used up before the next.

    A line that is not UTF-8 is noted as damage, and left out or, with ``keep_damaged``, given as an
    empty one; with ``legacy`` it is taken for Windows-1252 instead. Lines end at a line feed with
    or without a carriage return; a byte order mark at the start is dropped.
    """
    number = 0

    def lines(block: bytes) -> Iterator[tuple[int, str]]:
        nonlocal number
        for raw in block.removesuffix(b"\n").split(b"\n"):
            number += 1
            try:
                line = raw.decode("utf-8")
            except UnicodeDecodeError as fault:
                if legacy:
                    line = raw.decode("cp1252", errors="replace")
                else:
                    shard.piece.records += not keep_damaged
                    shard.damage(f"line {number}", f"byte {fault.start} of the line is not UTF-8")
                    if not keep_damaged:
                        continue
                    line = ""
            yield number, (line.removeprefix("\ufeff") if number == 1 else line).removesuffix("\r")

    blocks = LineBlocks(Path(piece.path), progress=shard.read)
    try:
        for _, block in blocks:
            yield lines(bytes(block))
    except BrokenStream as fault:
        shard.damage(f"after line {number}", str(fault), incomplete=True)
    for start in blocks.too_long:
        shard.piece.records += 1
        shard.damage(f"byte {start}", "a line without end")
