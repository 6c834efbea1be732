"""Telegram: result.json, which Telegram Desktop exports, of one chat or of a whole account."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seq2seq_chat.prepare.readers.chats.dates import from_iso
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message

_TYPES = (
    "personal_chat|bot_chat|saved_messages|replies|verification_codes|(?:private|public)_(?:super)?(?:group|channel)"
)
_START = re.compile(
    rf'\s*{{.*("type":\s*"(?:{_TYPES})"|"(?:personal_information|frequent_contacts|left_chats)":)', re.S
)
_ACCOUNT = re.compile(r'\s*{\s*"about":\s*"[^"]*Telegram')
_LISTS = ("", "chats.list.item.", "left_chats.list.item.")
_MEDIA = {
    *("photo", "file", "media_type", "sticker_emoji", "location_information", "contact_information", "poll"),
    *("place_name", "game_title", "invoice_information", "live_location_period_seconds", "paid_stars_amount"),
}


def _read(export: Export) -> Iterator[Message]:
    chat = ""
    for piece in export.pieces:
        prefixes = [f"{chats}{name}" for chats in _LISTS for name in ("id", "messages.item")]
        for prefix, value in export.json_values(piece, *prefixes):
            if not prefix.endswith("messages.item"):
                chat = str(value)
            elif (message := _message(export, value, chat)) is not None:
                yield message


def _message(export: Export, fields: dict[str, Any], chat: str) -> Message | None:
    if fields.get("type") != "message":
        export.leave_out("system")
        return None
    parts = fields.get("text") or ""
    parts = parts if isinstance(parts, list) else [parts]  # parts with a link or a style are objects
    text = "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in parts)
    if not text.strip():
        export.leave_out("media" if _MEDIA & fields.keys() else "empty")
        return None
    author = fields.get("from") or "Deleted Account"
    return Message(str(author), from_iso(str(fields.get("date", ""))), text, chat, str(fields.get("from_id") or author))


FORMATS = (ChatFormat("Telegram", lambda start: bool(_START.match(start) or _ACCOUNT.match(start)), _read),)
