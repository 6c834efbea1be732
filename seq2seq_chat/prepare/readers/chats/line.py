"""LINE: the text that its apps export; a line with a date is followed by the messages of that day."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from seq2seq_chat.prepare.readers.chats.dates import Clock, at, date_fields, to_date
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message

_DAY = re.compile(r"(?:\w{2,9}\.?, ?)?(\d{1,4}[./]\d{1,2}[./]\d{1,4})(?: ?[(（].{1,9}[)）]| \w+)?")
_MESSAGE = re.compile(r"((?:上午|下午|午前|午後|오전|오후|[AP]M )?\d{1,2}:\d{2} ?(?:[AaPp][Mm])?)([\t ])(.*)")
_MEDIA = re.compile(
    r"\[[^\[\]\n]{1,20}\]|\((?:emoji|em)\)|(?:Photos?|Stickers?|Videos?|写真|スタンプ|動画|圖片|貼圖|影片|null)"
    r"|\[(?:File|ファイル|檔案|Album|アルバム|相簿|Note|ノート|記事本|Location|位置情報|位置訊息)\].*",
    re.DOTALL,
)
_SYSTEM = re.compile(
    r"☎.*|.{0,80}(?:unsent a message|メッセージの送信を取り消しました|已收回訊息|收回了訊息|撤回了一条消息)\.?"
)


def _matches(start: str) -> bool:
    lines = [line for line in start.lstrip("\ufeff").split("\n", 20)[:20] if line.strip()]
    if len(lines) < 2:
        return False
    return lines[0].startswith("[LINE]") or bool(_DAY.fullmatch(lines[0].strip()) and _MESSAGE.match(lines[1]))


def _read(export: Export) -> Iterator[Message]:
    days = (match[1] for line in export.lines(progress=False) if (match := _DAY.fullmatch(line.strip())))
    clock = Clock(dict.fromkeys(days), export.name, export.date_order)
    separator = "\t" if re.search(r"^\S{0,8}?\d:\d\d ?\w*\t", export.start(), re.MULTILINE) else " "
    day = author = ""
    time: datetime | None = None
    lines: list[str] | None = None  # of the current message
    for line in export.lines():
        header = _DAY.fullmatch(line.strip())
        start = _MESSAGE.match(line) if day else None
        if header is None and (start is None or start[2] != separator):
            if lines is not None:
                lines.append(line)
            continue
        if lines is not None and (text := _text(export, author, lines)):
            yield Message(author, time, text)
        lines = None
        if header is not None:
            day = header[1]
        elif start is not None:
            author, found, text = start[3].partition(separator)
            author = author if found else ""
            time, lines = _time(clock, day, start[1]), [text]
    if lines is not None and (text := _text(export, author, lines)):
        yield Message(author, time, text)


def _time(clock: Clock, day: str, stamp: str) -> datetime | None:
    fields = date_fields(day)
    date = to_date(fields, clock.order) if fields else None
    hour, minute = (int(number) for number in re.findall(r"\d+", stamp))
    return at(date, [hour, minute], stamp) if date else None


def _text(export: Export, author: str, lines: list[str]) -> str:
    """The text of a message, empty if it is left out. Messages of several lines are in quotation marks."""
    text = "\n".join(lines).strip()
    if len(lines) > 1 and text.startswith('"') and text.endswith('"'):
        text = text[1:-1].replace('""', '"')
    if not author or _SYSTEM.fullmatch(text):
        export.leave_out("system")
    elif not text or _MEDIA.fullmatch(text):
        export.leave_out("media")
    else:
        return text
    return ""


FORMATS = (ChatFormat("LINE", _matches, _read),)
