"""KakaoTalk: the texts that it exports on phones and on Windows, and the CSV files on a Mac."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from datetime import datetime

from seq2seq_chat.prepare.readers.chats.dates import Clock, at, from_english, from_iso
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message

_HALF_DAY = r"(?:\s?[AaPp]\.?[Mm]\.?)?"
_DAY = re.compile(r"-{5,} (.+) -{5,}")  # Windows
_ON_DAY = re.compile(rf"\[(.+?)\] \[((?:오전|오후)? ?\d{{1,2}}:\d{{2}}{_HALF_DAY})\] ?(.*)")
_STAMPED = re.compile(  # phones
    r"(\d{4}(?:년|\.) ?\d{1,2}(?:월|\.) ?\d{1,2}(?:일|\.)? (?:오전|오후)? ?\d{1,2}:\d{2}"
    rf"|(?:[A-Z][a-z]{{2,8}} \d{{1,2}}|\d{{1,2}} [A-Z][a-z]{{2,8}}),? \d{{4}},? (?:at )?\d{{1,2}}:\d{{2}}{_HALF_DAY})"
    r"(?:, (.*))?"
)
_TABLE = re.compile(r"\ufeff?\"?Date\"?,\"?User\"?,\"?Message")
_MEDIA = re.compile(
    r"(?:사진|동영상|이모티콘|음성메시지|Photos?|Videos?|Emoticons?|Stickers?|Voice Note)(?: \d+장?)?|(?:파일|File): .+"
)
_DELETED = re.compile(r"삭제된 메시지입니다\.?|(?:This message was deleted|Deleted message)\.?")
_CALL = re.compile(
    r"(?:보이스톡|페이스톡|라이브톡|그룹콜|Voice Call|Video Call) ?(?:해요|취소|부재중|종료|\d+:\d+|\w+ed)"
)
_EVENT = re.compile(  # without an author
    r".+님(?:이|을) .*(?:들어왔습니다|나갔습니다|초대했습니다|내보냈습니다)\.?.*|채팅방 관리자가 .+"
    r"|.+ (?:joined|left) this chatroom\.|.+ invited .+\."
)
_KOREAN = Clock((), "", "ymd")


def _matches(start: str) -> bool:
    lines = start.lstrip("\ufeff").split("\n", 20)[:20]
    return bool(_TABLE.match(start)) or any(
        _ON_DAY.fullmatch(line) or ((match := _STAMPED.fullmatch(line)) and " : " in (match[2] or "")) for line in lines
    )


def _read(export: Export) -> Iterator[Message]:
    if _TABLE.match(export.start()):
        csv.field_size_limit(1 << 30)
        for row in csv.DictReader((f"{line}\n" for line in export.lines()), restval=""):
            date, author, text = list(row.values())[:3]
            if text := _text(export, author, [text]):
                yield Message(author, from_iso(date), text)
        return
    day, time, author = None, None, ""
    lines: list[str] | None = None
    for line in export.lines():
        header, on_day, stamped = _DAY.fullmatch(line), _ON_DAY.fullmatch(line), _STAMPED.fullmatch(line)
        is_event = bool(_EVENT.fullmatch(line)) and not (on_day or stamped)
        if not (header or on_day or stamped or is_event):
            if lines is not None:
                lines.append(line)
            continue
        if lines is not None and (text := _text(export, author, lines)):
            yield Message(author, time, text)
        lines = None
        if header:
            day = _time(f"{header[1]} 00:00")
        elif is_event:
            export.leave_out("system")
        elif on_day:
            author, text = on_day[1], on_day[3]
            hour, minute = (int(number) for number in re.findall(r"\d+", on_day[2]))
            time, lines = at(day, [hour, minute], on_day[2]) if day else None, [text]
        elif stamped and stamped[2]:
            name, colon, text = stamped[2].partition(" : ")
            author, time, lines = name if colon else "", _time(stamped[1]), [text]
    if lines is not None and (text := _text(export, author, lines)):
        yield Message(author, time, text)


def _time(stamp: str) -> datetime | None:
    return _KOREAN.read(stamp) if re.match(r"\d{4}", stamp) else from_english(stamp)


def _text(export: Export, author: str, lines: list[str]) -> str:
    """The text of a message, empty if it is left out."""
    text = "\n".join(lines).strip()
    if not author or _CALL.fullmatch(text):
        export.leave_out("system")
    elif not text or _MEDIA.fullmatch(text):
        export.leave_out("media")
    elif _DELETED.fullmatch(text):
        export.leave_out("deleted")
    else:
        return text
    return ""


FORMATS = (ChatFormat("KakaoTalk", _matches, _read),)
