"""Chats as phones and programs export them. Each format has a module, see ``formats``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers import RawCorpus
from seq2seq_chat.prepare.readers.chats.anonymize import Anonymizer
from seq2seq_chat.prepare.readers.chats.conversations import ChatWriter
from seq2seq_chat.prepare.readers.chats.dates import DateOrder
from seq2seq_chat.prepare.readers.chats.exports import (
    FILE_NAMES,
    Export,
    choose_chats,
    combine_exports,
    expand_archive,
    parts_of,
)
from seq2seq_chat.prepare.readers.chats.formats import ME, ChatFormat, Message, find_format
from seq2seq_chat.prepare.shards import BLANK, UTTERANCES, Piece, PieceReport, ReaderSettings, Shard
from seq2seq_chat.prepare.tokenizing import tokenize
from seq2seq_chat.system.compressed import DamagedFile

_BATCH_MESSAGES = 4096
_SHOWN_PEOPLE = 10


@dataclass(frozen=True)
class ChatSettings(ReaderSettings):
    """The options of this reader."""

    max_gap: float | None = None  # seconds without a message that end a conversation; None: what suits the format
    me: tuple[str, ...] = ()  # names of the person whose messages are the replies of all samples
    date_order: DateOrder | None = None  # None: as the dates of each file show
    anonymize: bool = False  # replace names, numbers, addresses and links


def read_chats(piece: Piece, settings: ChatSettings, shard: Shard) -> None:
    """Read the messages of an export into a shard of UTTERANCES.

    The report of the piece counts the messages of each person, and those that are left out by reason. An export that
    ends early is damaged.

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
            raise DamagedFile("the file is not a chat any more")
        max_gap = chat_format.max_gap if settings.max_gap is None else settings.max_gap
        separator = " <space> " if settings.tokenizer.name == "character" else " "
        me = frozenset(name.strip().casefold() for name in settings.me)
        unused: Counter[str] = Counter()  # messages of people
        writer = ChatWriter(piece, shard, max_gap=max_gap, me=me, separator=separator, left_out=unused)
        people: Counter[str] = Counter()
        clean = _anonymizer(piece, chat_format, settings) if settings.anonymize else str
        try:
            for messages in _batches(chat_format.read(export)):
                people.update(message.author for message in messages)
                raw = [clean(message.text.replace("\n", " ")) for message in messages]
                texts = tokenize(raw, settings.tokenizer, shard)
                unused[BLANK] += sum(not text.strip() for text in raw)
                writer.add(messages, texts)
        finally:
            report.records = people.total() + export.left_out.total()
            writer.close()
            report.people = {name: count for name, count in people.items() if name}
            report.left_out = dict(export.left_out + unused + Counter(report.left_out))
    except DamagedFile as error:
        shard.add_damage(f"after {report.records:,} messages", str(error), incomplete=True)
    shard.add_bytes(max(0, piece.size - progress["bytes"]))


def _anonymizer(piece: Piece, chat_format: ChatFormat, settings: ChatSettings) -> Anonymizer:
    """Read an export for the names in it, which may occur before their owners write. Raises DamagedFile, OSError."""
    export = Export(str(piece), parts_of(piece), settings.date_order)
    return Anonymizer({message.author for message in chat_format.read(export)})


def _batches(messages: Iterator[Message]) -> Iterator[list[Message]]:
    """Batches of messages. If reading fails, the last one has the messages before."""
    failure: list[DamagedFile] = []

    def undamaged() -> Iterator[Message]:
        try:
            yield from messages
        except DamagedFile as error:
            failure.append(error)

    readable = undamaged()
    while batch := list(islice(readable, _BATCH_MESSAGES)):
        yield batch
    if failure:
        raise failure[0]


def check_people(settings: ReaderSettings, report: PieceReport, files: Sequence[Piece]) -> None:
    """Raise CorpusError if ``me`` is nobody in the chats."""
    if not isinstance(settings, ChatSettings) or not settings.me or not report.people:
        return
    names = {name.casefold() for name in report.people}
    if ME not in names and not names & {name.strip().casefold() for name in settings.me}:
        common = sorted(report.people, key=lambda name: -report.people[name])[:_SHOWN_PEOPLE]
        raise CorpusError(
            f"Nobody in these chats is called {' or '.join(settings.me)}. The people who wrote most are "
            f"{', '.join(common)}; give --me one of these names."
        )


CORPUS = RawCorpus(
    read_chats,
    UTTERANCES,
    f"{FILE_NAMES[:-1]}|zip)",
    ".txt, .json, .csv, .xml, .srt, .vtt or .zip",
    unit="messages",
    settings=ChatSettings,
    recursive=True,
    expand=expand_archive,
    choose=choose_chats,
    combine=combine_exports,
    check=check_people,
)
