"""Cornell Movie-Dialogs: a file of conversations, which lists the ids of lines in a second file.

ConvoKit distributes it as ``utterances.jsonl``, in which each utterance names the one that it replies to.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import orjson

from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus, single_file
from seq2seq_chat.prepare.readers.text import ConversationWriter, records
from seq2seq_chat.prepare.shards import UTTERANCES, Piece, ReaderSettings, Shard

_SEPARATOR = " +++$+++"  # followed by a space, unless the field is empty
_MARKUP = re.compile(r"</?[A-Za-z]+>")  # <u>, <i>, <b> and a few more for emphasis
_CONVOKIT = re.compile(rf"utterances\.jsonl{COMPRESSED}")
_LINE_ID = re.compile(r"L\d+")


def read_cornell(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read the file of conversations, with the file of lines next to it, or the utterances of ConvoKit.

    Raises:
        OSError: One of the two files cannot be opened.
    """
    if piece.companion is None:
        _read_convokit(piece, settings, shard)
        return
    lines_file = piece.companion
    texts = _read_texts(piece, lines_file, shard)
    conversations = ConversationWriter(piece, settings, shard)
    for number, line in records(piece, shard, legacy=True):
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
    name = "" if lines_file == piece.path else f"{lines_file.name}, "
    for number, line in records(Piece(lines_file, 0), shard, legacy=True):
        fields = line.split(_SEPARATOR, 4)
        if len(fields) < 5:
            shard.add_damage(f"{name}line {number}", "fewer than five fields")
        else:
            texts.setdefault(fields[0].strip(), _plain(fields[4]))
    return texts


def _read_convokit(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read utterances in any order. A conversation goes on with the first reply to each of its utterances."""
    texts: dict[str, str] = {}
    replies: dict[str | None, list[str]] = defaultdict(list)
    for number, line in records(piece, shard):
        try:
            utterance = orjson.loads(line)
            name, text = utterance["id"], _plain(utterance["text"])
            siblings = replies[utterance["reply-to" if "reply-to" in utterance else "reply_to"]]
            texts.setdefault(name, text)
            siblings.append(name)
        except (ValueError, KeyError, TypeError) as error:
            shard.add_damage(f"line {number}", f"not an utterance as ConvoKit writes them: {error!r}")
    conversations = ConversationWriter(piece, settings, shard)
    for number, first in enumerate(replies[None]):
        chain, name = [], first
        while name in texts:
            chain.append(texts.pop(name))
            name = next(iter(replies.get(name, ())), "")
        conversations.add(number, chain)
    conversations.flush()
    shard.leave_out("beside the first reply to an utterance", len(texts), texts.values())


def _plain(text: str) -> str:
    return _MARKUP.sub("", text).replace("\n", " ")


def lines_file_of(conversations_file: Path) -> Path:
    """The file of lines that belongs to a file of conversations, compressed or not."""
    name = conversations_file.name.replace("conversations", "lines")
    stem = name.split(".")[0]
    candidates = sorted(path for path in conversations_file.parent.glob(f"{stem}.*") if path.is_file())
    return next(iter(candidates), conversations_file.with_name(name))


def _conversation_files(path: Path) -> Iterable[Piece]:
    """The file itself, or of a file of lines the files of conversations that belong to it. Raises OSError."""
    conversations: list[Path] = []
    if "conversations" not in path.name and not _CONVOKIT.fullmatch(path.name):
        conversations = [file for file in sorted(path.parent.glob("*conversations*")) if lines_file_of(file) == path]
    return [file for name in conversations or [path] for file in single_file(name)]


CORPUS = RawCorpus(
    read_cornell,
    UTTERANCES,
    rf".*conversations.*\.txt{COMPRESSED}|{_CONVOKIT.pattern}",
    "movie_conversations.txt or utterances.jsonl",
    unit="utterances",
    expand=_conversation_files,
    companion=lambda path: None if _CONVOKIT.fullmatch(path.name) else lines_file_of(path),
)
