"""Corpus files, other texts with one utterance per line, and texts with alternating lines."""

from __future__ import annotations

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, is_mistyped_marker
from seq2seq_chat.prepare.readers.text import ConversationWriter, line_batches
from seq2seq_chat.prepare.settings import ReaderSettings
from seq2seq_chat.prepare.shards import Piece, Shard


def read_lines(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read a corpus file, or any text with one utterance per line.

    A mistyped marker ends a conversation, too, but it is damage. With ``odd-even`` turns the lines are pairs, see
    ``read_tweets``.

    Raises:
        OSError: The file cannot be opened.
    """
    if settings.turns == "odd-even":
        read_tweets(piece, settings, shard)
        return
    conversations = ConversationWriter(piece, settings, shard)
    conversation = 0
    for lines in line_batches(piece, shard):
        for number, line in lines:
            shard.piece.records += 1
            if line.strip() == END_OF_CONVERSATION:
                conversation += 1
            elif is_mistyped_marker(line):
                _add_mistyped_marker(shard, number, line)
                conversation += 1
            elif line.strip():
                conversations.add(conversation, [line])
        conversations.flush()
    shard.piece.single_conversation = shard.piece.conversations == 1


def read_tweets(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read a text in which each even line replies to the line before it, as in collections of tweets.

    Each pair is a conversation; a pair with a damaged or empty line is dropped. Damaged and empty lines are counted, so
    that they do not shift later pairs; only markers between conversations are not.

    Raises:
        OSError: The file cannot be opened.
    """
    conversations = ConversationWriter(piece, settings, shard, complete_size=2)
    first = ""
    count = 0
    for lines in line_batches(piece, shard, keep_damaged=True):
        for number, line in lines:
            if line.strip() == END_OF_CONVERSATION:
                continue
            shard.piece.records += 1
            if is_mistyped_marker(line):
                _add_mistyped_marker(shard, number, line)
                continue
            if count % 2 == 0:
                first = line
            else:
                conversations.add(count // 2, [first, line])
            count += 1
        conversations.flush()


def _add_mistyped_marker(shard: Shard, number: int, line: str) -> None:
    shard.add_damage(
        f"line {number}", f"{line.strip()} is not the line that ends a conversation, {END_OF_CONVERSATION}"
    )
