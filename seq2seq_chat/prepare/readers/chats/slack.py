"""Slack: the export of a workspace, which has a folder for each channel with a JSON file for each day."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from seq2seq_chat.prepare.readers.chats.dates import from_milliseconds
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message

_START = re.compile(r'\s*\[\s*{(?=.*"ts":\s*"\d+\.\d+").*"(?:text|user|subtype)":', re.DOTALL)
_TEXT_SUBTYPES = {None, "thread_broadcast", "me_message", "file_share", "reply_broadcast"}
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")


def _read(export: Export) -> Iterator[Message]:
    people = _people(export)
    for piece in export.pieces:
        messages = [fields for _, fields in export.json_values(piece, "item")]
        for fields in sorted(messages, key=lambda fields: float(fields.get("ts") or 0)):
            message = _message(export, fields, people)
            if message is not None:
                yield message


def _people(export: Export) -> dict[str, str]:
    """The names of the people by their ids."""
    users = export.sibling("users.json")
    people: dict[str, str] = {}
    for _, user in users.json_values(users.pieces[0], "item") if users else ():
        people[user.get("id", "")] = _name(user.get("profile") or {}, user)
    return people


def _name(*profiles: dict[str, Any]) -> str:
    keys = ("display_name", "real_name", "name")
    return next((str(profile[key]) for profile in profiles for key in keys if profile.get(key)), "")


def _message(export: Export, fields: dict[str, Any], people: dict[str, str]) -> Message | None:
    subtype, user = fields.get("subtype"), fields.get("user") or ""
    text = _plain(fields.get("text") or "", people).strip()
    if subtype == "bot_message" or (fields.get("bot_id") and not user) or user == "USLACKBOT":
        export.leave_out("bots")
    elif subtype == "tombstone":
        export.leave_out("deleted")
    elif subtype not in _TEXT_SUBTYPES:
        export.leave_out("system")
    elif not text:
        export.leave_out("media" if fields.get("files") or fields.get("attachments") else "empty")
    else:
        name = people.get(user) or _name(fields.get("user_profile") or {}) or user
        time = from_milliseconds(1000 * float(fields["ts"])) if fields.get("ts") else None
        # A thread, with the message that began it, is a chat of its own.
        return Message(name, time, text, str(fields.get("thread_ts") or ""), user)
    return None


def _plain(text: str, people: dict[str, str]) -> str:
    """A text with names in place of ids, and without the marks of links."""

    def plain(match: re.Match[str]) -> str:
        kind, target, label = match.groups()
        if kind == "@":
            return f"@{label or people.get(target, target)}"
        if kind == "#":
            return f"#{label or target}"
        if kind == "!":
            return label or f"@{target}"
        return label or target.removeprefix("mailto:")

    return html.unescape(_REFERENCE.sub(plain, text) if "<" in text else text)


FORMATS = (ChatFormat("Slack", lambda start: bool(_START.match(start)), _read, in_folders=True),)
