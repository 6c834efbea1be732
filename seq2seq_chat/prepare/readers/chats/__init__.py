"""Chats as phones and programs export them. Each format has a module, see ``formats``."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers import RawCorpus
from seq2seq_chat.prepare.readers.chats.conversations import ChatWriter
from seq2seq_chat.prepare.readers.chats.dates import DateOrder
from seq2seq_chat.prepare.readers.chats.exports import (
    SUFFIXES,
    Export,
    choose_chats,
    combine_exports,
    expand_archive,
    parts_of,
)
from seq2seq_chat.prepare.readers.chats.formats import ME, Message, find_format
from seq2seq_chat.prepare.shards import BLANK, UTTERANCES, Piece, PieceReport, ReaderSettings, Shard
from seq2seq_chat.prepare.tokenizing import tokenize
from seq2seq_chat.system.compressed import DamagedFile
from seq2seq_chat.system.tables import pluralize

_BATCH_MESSAGES = 4096
_SHOWN_PEOPLE = 10
_LINK = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_MENTION = re.compile(r"@[\w.]+")
_NUMBER = re.compile(r"\+?\d(?:[\d\s().:,/-]*\d)?")
_WORD = re.compile(r"[^\W\d_]+")
_NAMES = re.compile(r"NAME(?: NAME)+")


@dataclass(frozen=True)
class ChatSettings(ReaderSettings):
    """The options of this reader."""

    max_gap: float | None = None  # seconds without a message that end a conversation; None: what suits the format
    me: tuple[str, ...] = ()  # names of the person whose messages are the replies of all samples
    date_order: DateOrder | None = None  # None: as the dates of each file show
    anonymize: bool = False  # replace names, numbers, addresses and links


def read_chats(piece: Piece, settings: ChatSettings, shard: Shard) -> None:
    """Read the messages of an export into a shard of UTTERANCES.

    The report of the piece counts the messages of each person and of each chat, and those that are left out by reason.
    An export that ends early is damaged.

    Raises:
        CorpusError: The order of day and month is not clear.
        OSError: A file cannot be opened.
    """
    report, progress = shard.piece, Counter[str]()

    def on_progress(size: int) -> None:
        progress["bytes"] += size
        shard.add_bytes(size)

    try:
        export = Export(str(piece), parts_of(piece), settings.date_order, on_progress)
        chat_format = find_format(export.start())
        if chat_format is None:
            raise DamagedFile("the file is no longer a chat")
        max_gap = chat_format.max_gap if settings.max_gap is None else settings.max_gap
        separator = " <space> " if settings.tokenizer.name == "character" else " "
        me = frozenset(name.strip().casefold() for name in settings.me)
        unused: Counter[str] = Counter()  # messages of people
        writer = ChatWriter(piece, shard, max_gap=max_gap, me=me, separator=separator, left_out=unused)
        people, chats = Counter[str](), Counter[str]()
        clean: Callable[[str], str] = str
        if settings.anonymize:  # a name may occur before its owner writes
            everything = Export(str(piece), parts_of(piece), settings.date_order)
            clean = Anonymizer({message.author for message in everything.messages(chat_format)})
        try:
            for messages in _batches(export.messages(chat_format)):
                people.update(message.author for message in messages)
                chats.update(message.title for message in messages if message.title and not settings.anonymize)
                raw = [clean(message.text.replace("\n", " ")) for message in messages]
                texts = tokenize(raw, settings.tokenizer, shard)
                unused[BLANK] += sum(not text.strip() for text in raw)
                writer.add(messages, texts)
        finally:
            report.records = people.total() + export.left_out.total()
            writer.close()
            report.people = {name: count for name, count in people.items() if name}
            report.chats = dict(chats)
            report.left_out = dict(export.left_out + unused + Counter(report.left_out))
    except DamagedFile as error:
        shard.add_damage(f"after {pluralize(report.records, 'message')}", str(error), incomplete=True)
    shard.add_bytes(max(0, piece.size - progress["bytes"]))


def _batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    """Batches of messages. If reading fails, the last one has the messages before."""
    batch: list[Message] = []
    try:
        for message in messages:
            batch.append(message)
            if len(batch) == _BATCH_MESSAGES:
                yield batch
                batch = []
    except DamagedFile:
        yield batch
        raise
    yield batch


class Anonymizer:
    """Replaces links, e-mail addresses, numbers, and the names of the people of a chat in any case.

    Each word of a name counts as a name. In scripts without cases, most of which have no spaces between words, a name
    is also found within a word.

    Args:
        people: The names of all who wrote.
    """

    def __init__(self, people: Iterable[str]) -> None:
        words = {word for name in people for word in _WORD.findall(name) if len(word) > 1}
        self._names = {word.casefold() for word in words}
        caseless = sorted((word for word in words if word.upper() == word.lower()), key=len, reverse=True)
        self._within = re.compile("|".join(map(re.escape, caseless))) if caseless else None

    def __call__(self, text: str) -> str:
        text = _MENTION.sub("NAME", _EMAIL.sub("ADDRESS", _LINK.sub("LINK", text)))
        if self._within is not None:
            text = self._within.sub("NAME", text)
        text = _WORD.sub(lambda word: "NAME" if word[0].casefold() in self._names else word[0], text)
        return _NAMES.sub("NAME", _NUMBER.sub("NUMBER", text))


def check_people(settings: ChatSettings, report: PieceReport, files: Sequence[Piece]) -> None:
    """Raise CorpusError if ``me`` is nobody in the chats."""
    if not settings.me or not report.people:
        return
    names = {name.casefold() for name in report.people}
    if ME not in names and not names & {name.strip().casefold() for name in settings.me}:
        common = sorted(report.people, key=lambda name: -report.people[name])[:_SHOWN_PEOPLE]
        raise CorpusError(
            f"Nobody in these chats is called {' or '.join(settings.me)}. The people who wrote most are "
            f"{', '.join(common)}; use one of these names with --me."
        )


CORPUS = RawCorpus(
    read_chats,
    UTTERANCES,
    rf"(?i).*({SUFFIXES}|\.zip)",
    ".txt, .json, .csv, .xml, .srt, .vtt or .zip",
    unit="messages",
    settings=ChatSettings,
    recursive=True,
    expand=expand_archive,
    choose=choose_chats,
    select=combine_exports,
    check=check_people,
)
