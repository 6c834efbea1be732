"""Texts of alternating lines: utterances on odd lines, the replies to them on even ones."""

from __future__ import annotations

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, is_mistyped_marker
from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus
from seq2seq_chat.prepare.readers.text import ConversationWriter, add_mistyped_marker, line_batches
from seq2seq_chat.prepare.shards import BLANK, INCOMPLETE_PAIR, UTTERANCES, Piece, ReaderSettings, Shard


def read_tweets(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read a text in which each even line replies to the line before it, as in collections of tweets.

    Each pair is a conversation; a pair with a damaged or empty line is dropped. Damaged and empty lines are counted, so
    that they do not shift later pairs; only markers between conversations are not.

    Raises:
        OSError: The file cannot be opened.
    """
    conversations = ConversationWriter(piece, settings, shard, complete_size=2)
    first = ""
    count = blank = 0
    for lines in line_batches(piece, shard, keep_damaged=True):
        damaged = shard.piece.damaged
        for number, line in lines:
            if line.strip() == END_OF_CONVERSATION:
                continue
            shard.piece.records += 1
            if is_mistyped_marker(line):
                add_mistyped_marker(shard, number, line)
                damaged += 1
                continue
            blank += not line.strip()
            if count % 2 == 0:
                first = line
            else:
                conversations.add(count // 2, [first, line])
            count += 1
        blank -= shard.piece.damaged - damaged  # lines that are yielded as empty ones
        conversations.flush()
    shard.leave_out(BLANK, blank)
    shard.leave_out(INCOMPLETE_PAIR, count % 2 if first.strip() else 0)


CORPUS = RawCorpus(read_tweets, UTTERANCES, rf".*\.txt{COMPRESSED}", ".txt or .txt.gz")
