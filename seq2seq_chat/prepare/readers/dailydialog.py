"""DailyDialog: one dialogue per line, with ``__eou__`` after each turn."""

from __future__ import annotations

from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus
from seq2seq_chat.prepare.readers.text import ConversationWriter, line_batches
from seq2seq_chat.prepare.shards import UTTERANCES, Piece, ReaderSettings, Shard

_END_OF_TURN = "__eou__"


def read_dailydialog(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read a text file of DailyDialog.

    Raises:
        OSError: The file cannot be opened.
    """
    conversations = ConversationWriter(piece, settings, shard)
    for lines in line_batches(piece, shard):
        for number, line in lines:
            if not line.strip():
                continue
            shard.piece.records += 1
            if _END_OF_TURN in line:
                conversations.add(number, line.split(_END_OF_TURN))
            else:
                shard.add_damage(
                    f"line {number}", f"no {_END_OF_TURN}; name the files that contain the dialogues, or another corpus"
                )
        conversations.flush()


CORPUS = RawCorpus(
    read_dailydialog,
    UTTERANCES,
    rf"(?!dialogues_(text|topic|act|emotion)).*\.txt{COMPRESSED}",
    "dialogues_train.txt (or .txt.gz)",
    unit="utterances",
    recursive=True,
)
