"""Signal: data.json of the program signal-export, and the JSON Lines that Signal Desktop exports.

In both, each line is an object: of signal-export a message, of Signal a person, a chat or a message.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson

from seq2seq_chat.prepare.readers.chats.dates import from_iso, from_milliseconds
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ME, ChatFormat, Message
from seq2seq_chat.system.compressed import DamagedFile

_SIGNAL_EXPORT = re.compile(r'{(?=[^\n]*"date": ?")(?=[^\n]*"sender": ?")[^\n]*"body": ?"')
_SIGNAL = re.compile(r'{"(?:version|account|recipient|chat|chatItem)":.*\n{"(?:account|recipient|chat|chatItem)":')
_CALL = re.compile(r"(?:Incoming|Outgoing|Missed) (?:voice |video |group )?call\b.*")


def _objects(export: Export) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(export.lines(), start=1):
        if line.strip():
            try:
                value = orjson.loads(line.encode(errors="replace"))
            except ValueError as error:
                raise DamagedFile(f"line {number} is not JSON: {error}") from error
            if isinstance(value, dict):
                yield value


def _read_signal_export(export: Export) -> Iterator[Message]:
    for fields in _objects(export):
        text, author = (fields.get("body") or "").strip(), fields.get("sender") or ""
        if fields.get("deleted"):
            export.leave_out("deleted")
        elif fields.get("call") or author == "No-Sender" or _CALL.fullmatch(text):
            export.leave_out("system")
        elif not text:
            export.leave_out("media" if fields.get("attachments") or fields.get("sticker") else "system")
        else:
            yield Message(ME if author == "Me" else author, from_iso(fields["date"]), text)


def _read_signal(export: Export) -> Iterator[Message]:
    people: dict[str, str] = {}
    for fields in _objects(export):
        if recipient := fields.get("recipient"):
            people[str(recipient.get("id"))] = _name(recipient)
        elif item := fields.get("chatItem"):
            message = item.get("standardMessage") or item.get("directStoryReplyMessage") or {}
            text = ((message.get("text") or message.get("textReply", {}).get("text") or {}).get("body") or "").strip()
            author = str(item.get("authorId"))
            if text:
                time = from_milliseconds(int(item.get("dateSent") or 0))
                name = ME if "outgoing" in item else people.get(author, f"person {author}")
                yield Message(name, time, text, str(item.get("chatId")), author)
            elif "remoteDeletedMessage" in item:
                export.leave_out("deleted")
            else:
                export.leave_out("system" if "updateMessage" in item else "media")


def _name(recipient: dict[str, Any]) -> str:
    """The name of a person: a nickname, what the address book says, or what the person chose."""
    if "self" in recipient:
        return ME
    contact = recipient.get("contact") or {}
    nickname = contact.get("nickname") or {}
    names = [
        (nickname.get("given"), nickname.get("family")),
        (contact.get("systemGivenName"), contact.get("systemFamilyName")),
        (contact.get("profileGivenName"), contact.get("profileFamilyName")),
        (contact.get("username"), None),
        (contact.get("e164"), None),
    ]
    found = (" ".join(str(part) for part in parts if part) for parts in names)
    return next(filter(None, found), f"person {recipient.get('id')}")


FORMATS = (
    ChatFormat("Signal", lambda start: bool(_SIGNAL_EXPORT.match(start)), _read_signal_export),
    ChatFormat("Signal", lambda start: bool(_SIGNAL.match(start)), _read_signal),
)
