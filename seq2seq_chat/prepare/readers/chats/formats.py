"""Formats of exported chats: what a format yields, and how the format of a file is found by how it begins."""

from __future__ import annotations

import functools
import importlib
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any, NamedTuple

ENTRY_POINTS = "seq2seq_chat.readers"
"""The group of entry points where other packages offer a ChatFormat."""

ME = "me"
"""The author of the messages of whoever exported a chat, in formats that do not name that person."""

_SURE_AFTER = 20_000  # messages, which show how names are written
_MODULES = ("json_exports", "sms", "line_kakaotalk", "whatsapp", "transcripts")
"""In the order in which their formats are tried: those that recognize a file by little are the last."""


class Message(NamedTuple):
    """A message as its author wrote it, without what the program added."""

    author: str  # the name; empty: unknown, and somebody else than the author of the message before
    time: datetime | None  # naive, in whatever zone the export uses
    text: str
    chat: str = ""  # distinguishes the chats of an export, whose messages may be mixed
    author_id: str = ""  # distinguishes people of the same name
    title: str = ""  # the name of its chat, in exports of several


@dataclass(frozen=True)
class ChatFormat:
    """A format of exported chats.

    For a message that is left out, ``read`` yields the reason. In a file that ends early, it raises DamagedFile after
    the last complete message.
    """

    name: str  # of the program, for people
    matches: Callable[[str], object]  # true if a file that begins like this has the format
    read: Callable[[Any], Iterator[Message | str]]  # of an exports.Export; each chat in the order of time
    max_gap: float = 6 * 3600.0  # seconds without a message after which a new conversation begins, by default
    in_folders: bool = False  # whether the files in a folder are the parts of one chat


def join_lines(
    lines: Iterable[str],
    begin: Callable[[str], Message | str | None],
    finish: Callable[[Message], Message | str],
    stray: str = "",
) -> Iterator[Message | str]:
    """Yield the messages of a text in which a message may have several lines, and the reasons why some are left out.

    Args:
        begin: The message that begins on a line; None if the line goes on with the message before; else the line is
            between messages: the reason why it is left out, or nothing.
        finish: A message, given all of its lines, or the reason why it is left out.
        stray: Why lines are left out that go on with no message; nothing if they are not counted.
    """
    message: Message | None = None
    texts: list[str] = []
    for line in itertools.chain(lines, [None]):
        begun = "" if line is None else begin(line)
        if begun is None and message is not None:
            texts.append(line or "")
        elif begun is None:
            if stray and line and line.strip():
                yield stray
        else:
            if message is not None:
                yield finish(message._replace(text="\n".join(texts)))
            message = begun if isinstance(begun, Message) else None
            texts = [begun.text] if isinstance(begun, Message) else []
            if isinstance(begun, str) and begun:
                yield begun


class Names:
    """Splits first lines of messages into name and text, also where a name has the separator in it.

    Such a name is learned from the lines that are added: nearly all that begin with a part of it go on with the rest.
    """

    def __init__(self, separator: str) -> None:
        self._separator = separator
        self._continued: dict[str, Counter[str]] = {}  # up to the next separator, by the part before the first one
        self._added = 0

    def add(self, line: str) -> None:
        """Learn from a line, unless there were many."""
        self._added += 1
        name, separator, rest = line.partition(self._separator)
        if separator and self._added <= _SURE_AFTER:
            longer = rest.partition(self._separator)
            self._continued.setdefault(name, Counter())[longer[0] if longer[1] else ""] += 1

    @functools.cached_property
    def _longer(self) -> dict[str, str]:
        """The names with a separator in them, by the part before it."""
        names = {}
        for name, counts in self._continued.items():
            part, count = counts.most_common(1)[0]
            if part and count > 2 and count >= 0.8 * counts.total():  # the others are lines about this person
                names[name] = name + self._separator + part
        return names

    def split(self, line: str) -> tuple[str, str, str]:
        """Name, separator and text, like ``str.partition``; without a name if the line is about a person."""
        name = line.partition(self._separator)[0]
        for start, full in self._longer.items():
            if line.startswith(full + self._separator):
                return full, self._separator, line[len(full) + len(self._separator) :]
            if name.endswith(start) and line.startswith(full, len(name) - len(start)):
                return "", "", line
        return line.partition(self._separator)


@functools.cache
def chat_formats() -> tuple[ChatFormat, ...]:
    """All formats, other packages' first."""
    modules = [importlib.import_module(f"{__package__}.{name}") for name in _MODULES]
    others = [entry_point.load() for entry_point in entry_points(group=ENTRY_POINTS)]
    return (*others, *(chat_format for module in modules for chat_format in module.FORMATS))


def is_mail(start: str) -> bool:
    """Whether a file that begins with this text has e-mails, as .mbox and .eml have them."""
    return all(re.search(rf"(?im)^{header}: ", start) for header in ("from", "date", "subject"))


def find_format(start: str) -> ChatFormat | None:
    """The format of a file that begins with this text, or None if it is none of them."""
    return next((chat_format for chat_format in chat_formats() if chat_format.matches(start)), None)
