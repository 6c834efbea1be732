"""Discord: the JSON and CSV files that DiscordChatExporter writes, one for each channel."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any

from seq2seq_chat.prepare.readers.chats.dates import Clock, date_fields, from_english, from_iso
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message

_START_OF_JSON = re.compile(r'\s*{\s*"guild":.*"channel":', re.DOTALL)
_START_OF_CSV = re.compile(r'"?(?:MessageID"?,"?)?AuthorID"?,"?Author"?,"?Date"?,"?Content')
_TEXT_TYPES = {"Default", "Reply", "0", "19"}  # also in versions that wrote numbers
_SYSTEM = re.compile(  # in CSV files
    r"(?:Joined the server|Pinned a message|Started a call that lasted \S+ minutes?|Started a thread"
    r"|Changed the channel icon|(?:Added|Removed) .{1,80} (?:to|from) the group|Left the group)\."
    r"|Changed the channel name: .*"
)


def _read_json(export: Export) -> Iterator[Message]:
    chat = ""
    for prefix, value in export.json_values(export.pieces[0], "channel.id", "channel.name", "messages.item"):
        if prefix != "messages.item":
            chat = str(value)
        elif (message := _message(export, value, chat)) is not None:
            yield message


def _message(export: Export, fields: dict[str, Any], chat: str) -> Message | None:
    author, text = fields.get("author") or {}, fields.get("content") or ""
    if fields.get("type") not in _TEXT_TYPES:
        export.leave_out("system")
    elif author.get("isBot"):
        export.leave_out("bots")
    elif not text.strip():
        export.leave_out("media")
    else:
        name = author.get("name") or author.get("nickname") or "Deleted User"
        time = from_iso(str(fields.get("timestamp", "")))
        return Message(author.get("nickname") or name, time, text, chat, str(author.get("id") or name))
    return None


def _read_csv(export: Export) -> Iterator[Message]:
    csv.field_size_limit(1 << 30)
    dates = _rows(export, progress=False)
    stamps = {fields: row["Date"] for row in dates if (fields := date_fields(row["Date"])) is not None}
    is_iso = all(from_iso(stamp) for stamp in stamps.values())
    clock = None if is_iso or not stamps else Clock(stamps.values(), export.name, export.date_order)
    for row in _rows(export):
        text = row["Content"] or ""
        if _SYSTEM.fullmatch(text):
            export.leave_out("system")
        elif not text.strip():
            export.leave_out("media")
        else:
            stamp = row["Date"]
            time = from_iso(stamp) or (from_english(stamp) if re.search("[A-Za-z]{3}", stamp) else None)
            yield Message(row["Author"], time or (clock.read(stamp) if clock else None), text)


def _rows(export: Export, *, progress: bool = True) -> Iterator[dict[str, str]]:
    reader = csv.DictReader((f"{line}\n" for line in export.lines(progress=progress)), restval="")
    for row in reader:
        if row["Date"]:
            yield row
        elif progress:
            export.leave_out("damaged rows")


FORMATS = (
    ChatFormat("Discord", lambda start: bool(_START_OF_JSON.match(start)), _read_json),
    ChatFormat("Discord", lambda start: bool(_START_OF_CSV.match(start)), _read_csv),
)
