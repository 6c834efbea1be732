"""LINE and KakaoTalk: the texts that their apps export, and the CSV files of KakaoTalk on a Mac.

In most of them, a line with a date is followed by the messages of that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime

from seq2seq_chat.prepare.readers.chats.dates import Clock, at, date_fields, from_english, from_iso, to_date
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message, Names, join_lines

_FIRST_LINES = 20

_DAY = re.compile(r"(?:\w{2,9}\.?, ?|[ก-๙]{1,12}\. ?)?(\d{1,4}[./]\d{1,2}[./]\d{1,4})(?: ?[(（].{1,9}[)）]| \w+)?")
_MESSAGE = re.compile(r"((?:上午|下午|午前|午後|오전|오후|[AP]M )?\d{1,2}:\d{2} ?(?:[AaPp][Mm])?)([\t ])(.*)")
_TITLE = re.compile(r"\ufeff?\[LINE\] (?:Chat history with )?(.+?)(?:とのトーク履歴|的聊天記錄)?\s*$", re.MULTILINE)
_LINE_MEDIA = re.compile(
    r"\[[^\[\]\n]{1,20}\]|\((?:emoji|em)\)|(?:Photos?|Stickers?|Videos?|写真|画像|スタンプ|動画|圖片|貼圖|影片|null)"
    r"|\[(?:File|ファイル|檔案|Album|アルバム|相簿|Note|ノート|記事本|Location|位置情報|位置訊息)\].*",
    re.DOTALL,
)
_LINE_SYSTEM = re.compile(
    r"☎.*|.{0,80}(?:unsent a message|メッセージの送信を取り消しました|已收回訊息|收回了訊息|撤回了一条消息)\.?"
)


def _is_line(start: str) -> bool:
    lines = [line for line in start.lstrip("\ufeff").split("\n", _FIRST_LINES)[:_FIRST_LINES] if line.strip()]
    if len(lines) < 2:
        return False
    return lines[0].startswith("[LINE]") or bool(_DAY.fullmatch(lines[0].strip()) and _MESSAGE.match(lines[1]))


def _read_line(export: Export) -> Iterator[Message | str]:
    days = (match[1] for line in export.lines(progress=False) if (match := _DAY.fullmatch(line.strip())))
    clock = Clock(dict.fromkeys(days), export.name, export.date_order)
    separator = "\t" if re.search(r"^\S{0,8}?\d:\d\d ?\w*\t", export.start(), re.MULTILINE) else " "
    title = _TITLE.match(export.start())
    partner = title[1] if title else ""
    day, day_known = None, False

    def begin(line: str) -> Message | str | None:
        nonlocal day, day_known
        if header := _DAY.fullmatch(line.strip()):
            fields, day_known = date_fields(header[1]), True
            day = to_date(fields, clock.order) if fields else None
            return ""
        start = _MESSAGE.match(line) if day_known else None
        if start is None or start[2] != separator:
            return None
        author, found, text = start[3].partition(separator)
        if separator == " " and start[3].startswith(f"{partner} "):  # the name may have spaces
            author, text = partner, start[3][len(partner) + 1 :]
        return Message(author if found else "", _time_of_day(day, start[1]), text)

    return join_lines(export.lines(), begin, _finish_line)


def _time_of_day(day: date | None, stamp: str) -> datetime | None:
    return at(day, [int(number) for number in re.findall(r"\d+", stamp)], stamp) if day else None


def _finish_line(message: Message) -> Message | str:
    """Messages of several lines are in quotation marks."""
    text = message.text.strip()
    if "\n" in message.text and text.startswith('"') and text.endswith('"'):
        text = text[1:-1].replace('""', '"')
    if not message.author or _LINE_SYSTEM.fullmatch(text):
        return "system"
    if not text or _LINE_MEDIA.fullmatch(text):
        return "media"
    return message._replace(text=text)


_HALF_DAY = r"(?:\s?[AaPp]\.?[Mm]\.?)?"
_WINDOWS_DAY = re.compile(r"-{5,} (.+) -{5,}")
_ON_DAY = re.compile(rf"\[(.+?)\] \[((?:오전|오후)? ?\d{{1,2}}:\d{{2}}{_HALF_DAY})\] ?(.*)")
_STAMPED = re.compile(  # phones
    r"(\d{4}(?:년|\.) ?\d{1,2}(?:월|\.) ?\d{1,2}(?:일|\.)? (?:오전|오후)? ?\d{1,2}:\d{2}"
    rf"|(?:[A-Z][a-z]{{2,8}} \d{{1,2}}|\d{{1,2}} [A-Z][a-z]{{2,8}}),? \d{{4}},? (?:at )?\d{{1,2}}:\d{{2}}{_HALF_DAY})"
    r"(?:, (.*))?"
)
_TABLE = re.compile(r"\ufeff?\"?Date\"?,\"?User\"?,\"?Message")
_MEDIA = re.compile(
    r"(?:사진|동영상|\(?이모티콘\)?|음성메시지|Photos?|Videos?|Emoticons?|Stickers?|Voice Note)(?: \d+장?)?"
    r"|(?:파일|File|샵검색): .+"
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


def _is_kakaotalk(start: str) -> bool:
    lines = start.lstrip("\ufeff").split("\n", _FIRST_LINES)[:_FIRST_LINES]
    return bool(_TABLE.match(start)) or any(
        _ON_DAY.fullmatch(line) or ((match := _STAMPED.fullmatch(line)) and " : " in (match[2] or "")) for line in lines
    )


def _read_kakaotalk(export: Export) -> Iterator[Message | str]:
    if _TABLE.match(export.start()):
        for row in export.rows():
            date, author, text = list(row.values())[:3]
            yield _finish_kakaotalk(Message(author, from_iso(date), text))
        return
    day: datetime | None = None
    names = Names(" : ")
    for line in export.lines(progress=False):
        if (stamped := _STAMPED.fullmatch(line)) and stamped[2]:
            names.add(stamped[2])

    def begin(line: str) -> Message | str | None:
        nonlocal day
        if header := _WINDOWS_DAY.fullmatch(line):
            day = _kakaotalk_time(f"{header[1]} 00:00")
            return ""
        if on_day := _ON_DAY.fullmatch(line):
            return Message(on_day[1], _time_of_day(day, on_day[2]), on_day[3])
        if stamped := _STAMPED.fullmatch(line):
            author, colon, text = names.split(stamped[2] or "")
            return Message(author if colon else "", _kakaotalk_time(stamped[1]), text) if stamped[2] else ""
        return "system" if _EVENT.fullmatch(line) else None

    yield from join_lines(export.lines(), begin, _finish_kakaotalk)


def _kakaotalk_time(stamp: str) -> datetime | None:
    return _KOREAN.read(stamp) if re.match(r"\d{4}", stamp) else from_english(stamp)


def _finish_kakaotalk(message: Message) -> Message | str:
    text = message.text.strip()
    if not message.author or _CALL.fullmatch(text):
        return "system"
    if not text or _MEDIA.fullmatch(text):
        return "media"
    return "deleted" if _DELETED.fullmatch(text) else message._replace(text=text)


FORMATS = (ChatFormat("LINE", _is_line, _read_line), ChatFormat("KakaoTalk", _is_kakaotalk, _read_kakaotalk))
