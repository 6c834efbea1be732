"""Messenger and Instagram: the JSON files of Meta's download of one's data, and of Messenger's encrypted chats."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seq2seq_chat.prepare.readers.chats.dates import from_milliseconds
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message

_START = re.compile(r'\s*{\s*"participants":.*"sender_name":', re.DOTALL)
_ENCRYPTED = re.compile(r'\s*{\s*"participants":.*("senderName"|"threadName"):', re.DOTALL)
_NUMBER = re.compile(r"message_(\d+)")
_SYSTEM = re.compile(
    r"You (?:can now message and call each other|are now connected on|sent an attachment|missed a|started a|set "
    r"|changed|named the|added|removed|joined|left|created|called|waved at|unsent a message|sent a|turned|pinned).*"
    r"|Reacted .{1,12} to your message ?|Liked a message|The (?:video|audio) (?:chat|call) ended\."
    r"|.* missed your (?:call|video chat)\.|This (?:poll|message) is no longer available\.?",
    re.DOTALL,
)
_ACTIONS = re.compile(r" .*(?:[.。]|to the poll|\?)$", re.DOTALL)


def _read(export: Export) -> Iterator[Message]:
    """The files of a chat are numbered from the newest to the oldest."""
    numbered = {piece: _NUMBER.search(piece.member or piece.path.name) for piece in export.pieces}
    for piece in sorted(export.pieces, key=lambda piece: -int(match[1]) if (match := numbered[piece]) else 0):
        messages: list[Message] = []
        for _, fields in export.json_values(piece, "messages.item"):
            message = _message(export, fields)
            if message is not None:
                messages.append(message)
        times = [message.time for message in messages if message.time is not None]
        yield from reversed(messages) if times and times[0] > times[-1] else messages


def _message(export: Export, fields: dict[str, Any]) -> Message | None:
    author = _mended(fields.get("sender_name") or fields.get("senderName") or "")
    text = _mended(fields.get("content") or fields.get("text") or "")
    kind = fields.get("type", "Generic")
    if fields.get("is_unsent") or fields.get("isUnsent"):
        export.leave_out("deleted")
    elif kind in ("Call", "Subscribe", "Unsubscribe", "placeholder") or "call_duration" in fields:
        export.leave_out("system")
    elif not text.strip() or (kind == "media" and fields.get("media")):
        export.leave_out("media")
    elif _SYSTEM.fullmatch(text) or (text.startswith(author) and author and _ACTIONS.match(text, len(author))):
        export.leave_out("system")
    else:
        milliseconds = fields.get("timestamp_ms") or fields.get("timestamp")
        return Message(author, from_milliseconds(milliseconds) if milliseconds else None, text)
    return None


def _mended(text: str) -> str:
    """A text whose bytes of UTF-8 were exported as one character each."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


FORMATS = (
    ChatFormat("Messenger, Instagram", lambda start: bool(_START.match(start)), _read, in_folders=True),
    ChatFormat("Messenger, Instagram", lambda start: bool(_ENCRYPTED.match(start)), _read),
)
