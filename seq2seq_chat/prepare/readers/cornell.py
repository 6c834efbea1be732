"""Cornell Movie-Dialogs: a file of conversations, which lists the ids of lines in a second file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus, single_file
from seq2seq_chat.prepare.readers.text import ConversationWriter, line_batches
from seq2seq_chat.prepare.shards import UTTERANCES, Piece, ReaderSettings, Shard

_SEPARATOR = " +++$+++"  # followed by a space, unless the field is empty
_MARKUP = re.compile(r"</?[A-Za-z]+>")  # <u>, <i>, <b> and a few more for emphasis
_LINE_ID = re.compile(r"L\d+")


def read_cornell(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read the file of conversations, with the file of lines next to it.

    Raises:
        OSError: One of the two files cannot be opened.
    """
    lines_file = piece.companion or lines_file_of(piece.path)
    texts = _read_texts(piece, lines_file, shard)
    conversations = ConversationWriter(piece, settings, shard)
    for lines in line_batches(piece, shard, legacy=True):
        for number, line in lines:
            if not line.strip():
                continue
            shard.piece.records += 1
            ids = _LINE_ID.findall(line.rsplit(_SEPARATOR.strip(), 1)[-1])
            missing = [name for name in ids if name not in texts]
            if missing:
                shard.add_damage(f"line {number}", f"line {missing[0]} is not in {lines_file.name}")
            elif not ids:
                shard.add_damage(f"line {number}", "no line ids")
            else:
                conversations.add(number, [texts[name] for name in ids])
        conversations.flush()


def _read_texts(piece: Piece, lines_file: Path, shard: Shard) -> dict[str, str]:
    """The texts of the lines by their ids."""
    texts: dict[str, str] = {}
    for lines in line_batches(Piece(lines_file, 0), shard, legacy=True):
        for number, line in lines:
            if not line.strip():
                continue
            shard.piece.records += 1
            fields = line.split(_SEPARATOR, 4)
            if len(fields) < 5:
                shard.add_damage(f"{lines_file.name}, line {number}", "fewer than five fields")
            else:
                texts.setdefault(fields[0].strip(), _MARKUP.sub("", fields[4]).replace("\n", " "))
    return texts


def lines_file_of(conversations_file: Path) -> Path:
    """The file of lines that belongs to a file of conversations, compressed or not."""
    name = conversations_file.name.replace("conversations", "lines")
    stem = name.split(".")[0]
    candidates = sorted(path for path in conversations_file.parent.glob(f"{stem}.*") if path.is_file())
    return next(iter(candidates), conversations_file.with_name(name))


def _conversation_files(path: Path) -> Iterable[Piece]:
    """The file itself, or of a file of lines the files of conversations that belong to it. Raises OSError."""
    conversations: list[Path] = []
    if "conversations" not in path.name:
        conversations = [file for file in sorted(path.parent.glob("*conversations*")) if lines_file_of(file) == path]
    return [file for name in conversations or [path] for file in single_file(name)]


CORPUS = RawCorpus(
    read_cornell,
    UTTERANCES,
    rf".*conversations.*\.txt{COMPRESSED}",
    "movie_conversations.txt",
    unit="utterances",
    expand=_conversation_files,
    companion=lines_file_of,
)
