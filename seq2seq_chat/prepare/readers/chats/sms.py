"""SMS and MMS: the XML file of the program SMS Backup & Restore, in which all chats are mixed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from seq2seq_chat.prepare.readers.chats.dates import from_milliseconds
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ME, ChatFormat, Message
from seq2seq_chat.prepare.readers.inputs import open_piece
from seq2seq_chat.prepare.readers.memories import iterate_elements
from seq2seq_chat.system.compressed import DamagedFile

_START = re.compile(r"(?:<\?xml[^>]*>|<!--.*?-->|\s)*<smses\b", re.DOTALL)
_SURROGATES = re.compile(rb"&#(5[5-7]\d{3});(?:&#(5[67]\d{3});)?")  # an emoji is written as its two UTF-16 units
_LONGEST = len("&#55357;&#56834;")  # bytes
_RECEIVED, _SENT, _FROM = "1", "2", "137"
_UNKNOWN = ("", "null", "(Unknown)")


class _WithoutSurrogates:
    """A file whose pairs of surrogates are characters, which XML demands."""

    def __init__(self, file: Any) -> None:
        self._file, self._held = file, b""
        self.end = b""  # the last bytes

    def read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        self.end = (self.end + chunk)[-1000:]
        data = self._held + chunk
        start = data.find(b"&", max(0, len(data) - _LONGEST)) if chunk else -1  # of a pair that may be incomplete
        self._held, data = (b"", data) if start < 0 else (data[start:], data[:start])
        return _SURROGATES.sub(_character, data) or (self.read(size) if chunk else b"")


def _character(match: re.Match[bytes]) -> bytes:
    units = [int(unit) for unit in match.groups() if unit]
    if not all(0xD800 <= unit < 0xE000 for unit in units):
        return match[0]
    return b"".join(unit.to_bytes(2, "little") for unit in units).decode("utf-16-le", "replace").encode()


def _read(export: Export) -> Iterator[Message | str]:
    with open_piece(export.pieces[0], export.on_progress) as stream:
        file = _WithoutSurrogates(stream)
        # Characters that XML does not allow are skipped.
        yield from map(_message, iterate_elements(file, "sms", "mms", recover=True, huge_tree=True))
    if b"</smses>" not in file.end:
        raise DamagedFile("the XML ends early")


def _message(element: Any) -> Message | str:
    is_mms, address = element.tag == "mms", element.get("address") or ""
    box = element.get("msg_box") if is_mms else element.get("type")
    if is_mms:
        parts = [
            part.get("text") or "" for part in element.iter("part") if (part.get("ct") or "").startswith("text/plain")
        ]
        text = " ".join(part for part in parts if part != "null")
    else:
        text = element.get("body") or ""
    if box not in (_RECEIVED, _SENT):
        return "drafts and unsent"
    if not text.strip() or text == "null":
        return "media"
    contact = element.get("contact_name") or ""
    name = address if contact in _UNKNOWN else contact
    if "~" in address:  # a group
        senders = [entry.get("address") for entry in element.iter("addr") if entry.get("type") == _FROM]
        name = next(filter(None, senders), name)
    chat = re.sub(r"[^\w~+@.]", "", address) or name
    return Message(ME if box == _SENT else name or "unknown", from_milliseconds(element.get("date")), text, chat)


FORMATS = (ChatFormat("SMS Backup & Restore", _START.match, _read),)
