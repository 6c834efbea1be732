"""Formats of exported chats: what a format yields, and how the format of a file is found by how it begins."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from importlib.metadata import entry_points
from typing import Any, NamedTuple

ENTRY_POINTS = "seq2seq_chat.readers"
"""The group of entry points where other packages offer a ChatFormat."""

ME = "me"
"""The author of the messages of whoever exported a chat, in formats that do not name that person."""

_MODULES = (  # in the order in which they are tried: those that recognize a file by little are the last
    "telegram",
    "discord",
    "messenger",
    "signal",
    "slack",
    "sms",
    "line",
    "kakaotalk",
    "whatsapp",
    "transcripts",
)


class Message(NamedTuple):
    """A message as its author wrote it, without what the program added."""

    author: str  # the name; empty: unknown, and somebody else than the author of the message before
    time: datetime | None  # naive, in whatever zone the export uses
    text: str
    chat: str = ""  # distinguishes the chats of an export, whose messages may be mixed
    author_id: str = ""  # distinguishes people of the same name


@dataclass(frozen=True)
class ChatFormat:
    """A format of exported chats.

    Messages that are left out are counted by ``Export.leave_out``. In a file that ends early, ``read`` raises
    DamagedFile after the last complete message.
    """

    name: str  # of the program, for people
    matches: Callable[[str], bool]  # whether a file that begins with this text has the format
    read: Callable[[Any], Iterator[Message]]  # of an exports.Export: the messages of each chat in the order of time
    max_gap: float = 6 * 3600.0  # seconds without a message after which a new conversation begins, by default
    in_folders: bool = False  # whether the files in a folder are the parts of one chat


@functools.cache
def chat_formats() -> tuple[ChatFormat, ...]:
    """All formats, those of other packages first."""
    modules = [importlib.import_module(f"{__package__}.{name}") for name in _MODULES]
    others = [entry_point.load() for entry_point in entry_points(group=ENTRY_POINTS)]
    return (*others, *(chat_format for module in modules for chat_format in module.FORMATS))


def find_format(start: str) -> ChatFormat | None:
    """The format of a file that begins with this text, or None if it is none of them."""
    return next((chat_format for chat_format in chat_formats() if chat_format.matches(start)), None)
