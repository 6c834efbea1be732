"""Corpus files, and other texts with one utterance per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, is_mistyped_marker
from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus
from seq2seq_chat.prepare.readers.inspection import BLANK_LINES, ensure_lines
from seq2seq_chat.prepare.readers.text import ConversationWriter, add_mistyped_marker, line_batches
from seq2seq_chat.prepare.readers.tweets import read_tweets
from seq2seq_chat.prepare.shards import BLANK, MARKERS, UTTERANCES, Piece, ReaderSettings, Shard


@dataclass(frozen=True)
class LinesSettings(ReaderSettings):
    """The options of this reader."""

    turns: Literal["running", "odd-even"] = "running"  # running conversations, or odd-even pairs of lines
    separator: str | None = None  # a line between conversations besides the marker; BLANK_LINES: blank ones
    as_is: bool = False  # whether to read the lines of files that look like something else


def read_lines(piece: Piece, settings: LinesSettings, shard: Shard) -> None:
    """Read a corpus file, or any text with one utterance per line.

    The separator of the settings ends a conversation, too, and so does a mistyped marker, which is damage. With
    ``odd-even`` turns the lines are pairs, see ``tweets.read_tweets``.

    Raises:
        OSError: The file cannot be opened.
    """
    if settings.turns == "odd-even":
        read_tweets(piece, settings, shard)
        return
    conversations = ConversationWriter(piece, settings, shard)
    conversation = markers = blank = 0
    for lines in line_batches(piece, shard):
        for number, line in lines:
            shard.piece.records += 1
            if line.strip() == END_OF_CONVERSATION:
                conversation += 1
                markers += 1
            elif is_mistyped_marker(line):
                add_mistyped_marker(shard, number, line)
                conversation += 1
            elif line.strip() == (settings.separator if settings.separator != BLANK_LINES else ""):
                conversation += 1
                markers += 1
            elif line.strip():
                conversations.add(conversation, [line])
            else:
                blank += 1
        conversations.flush()
    shard.leave_out(MARKERS, markers)
    shard.leave_out(BLANK, blank)
    shard.piece.single_conversation = shard.piece.conversations == 1


def _inspect(settings: LinesSettings, files: Sequence[Piece]) -> None:
    if not settings.as_is and settings.turns == "running":
        ensure_lines(files, settings.separator)


CORPUS = RawCorpus(
    read_lines, UTTERANCES, rf".*\.txt{COMPRESSED}", ".txt or .txt.gz", settings=LinesSettings, inspect=_inspect
)
