"""LINE and KakaoTalk: the texts that their apps export, and the CSV files of KakaoTalk on a Mac.

In most of them, a line with a date is followed by the messages of that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime

from seq2seq_chat.prepare.readers.chats.dates import (
    DATE_ORDERS,
    Clock,
    DateOrder,
    at,
    date_fields,
    from_english,
    from_iso,
    to_date,
)
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message, Names, join_lines

_FIRST_LINES = 20
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_PERSON = r"(?!(?:I|[Yy]ou|[Ww]e|[Hh]e|[Ss]he|[Tt]hey|[Ww]ho)\b)\S+(?: \S+)?"

_DAY = re.compile(
    r"([^\W\d_]\S{0,14} ?)?(\d{1,4}[./]\d{1,2}[./]\d{1,4})(?: ?[(（].{1,9}[)）]| [^\W\d_]\S{1,14})?"
    r"|(?:[A-Z][a-z]+, )?([A-Z][a-z]{2,8} \d{1,2}, \d{4})"
)
_MESSAGE = re.compile(
    r"((?:(?:上午|下午|午前|午後|오전|오후|[AP]M) ?)?\d{1,2}(?::\d{2}|\.\d{2}(?=\t)) ?(?:[AaPp][Mm]|น\.)?)([\t ])(.*)"
)
_TITLE = re.compile(
    r"\ufeff?\[LINE\] (?:Chat history with |[與与])?(.+?)(?:とのトーク履歴|的聊天[記记][錄录]|님과의 대화)?\s*$",
    re.MULTILINE,
)
_LINE_MEDIA = re.compile(
    r"\[[^\[\]\n]{1,20}\]|\((?:emoji|em)\)|(?:Photos?|Stickers?|Videos?|Voice messages?|写真|画像|スタンプ|動画"
    r"|ボイスメッセージ|圖片|照片|貼圖|影片|語音訊息|图片|贴图|사진|스티커|동영상|รูป|สติกเกอร์|วิดีโอ|null)"
    r"|\[(?:File|ファイル|檔案|Album|アルバム|相簿|Note|ノート|記事本|Location|位置情報|位置訊息)\].*",
    re.DOTALL,
)
_LINE_SYSTEM = re.compile(
    r"☎.*|.{0,80}(?:unsent a message|メッセージの送信を取り消しました|已收回訊息|收回了訊息|撤回了一条消息"
    r"|送信取消しました|ยกเลิก(?:การส่ง)?ข้อความ(?:แล้ว)?|메시지 전송을 취소했습니다)\.?"
    rf"|(?:{_PERSON} )?(?:joined|left) the (?:group|chat)\.?"
    r"|(?:invited|added|removed) .{1,80} (?:to|from) the (?:group|chat)\."
    r"|(?:通話時間|通话时间|Call time|통화 시간) ?\d+:.*|不在着信|Missed call|Cancell?ed (?:the )?call|未接來電"
    r"|부재중 통화|通話をキャンセルしました|通話に応答がありませんでした|"
    r".{1,80}(?:グループに(?:追加|招待|参加)|グループから退会|を招待|グループ名を.{0,40}変更)しました。?"
)


def _is_line(start: str) -> bool:
    lines = [line for line in start.lstrip("\ufeff").split("\n", _FIRST_LINES)[:_FIRST_LINES] if line.strip()]
    if len(lines) < 2:
        return False
    return lines[0].startswith("[LINE]") or bool(_DAY.fullmatch(lines[0].strip()) and _MESSAGE.match(lines[1]))


def _read_line(export: Export) -> Iterator[Message | str]:
    separator = "\t" if re.search(r"^.{0,6}\d[:.]\d\d.{0,4}\t", export.start(), re.MULTILINE) else " "
    title = _TITLE.match(export.start())
    partner = f"{title[1]} " if title else "\n"
    names, days = Names(separator), dict[str, str]()  # the day of the week by the date
    for line in export.lines(progress=False):
        if header := _DAY.fullmatch(line.strip()):
            days[header[2] or ""] = header[1] or ""
        elif (start := _MESSAGE.match(line)) and separator == " " and not start[3].startswith(partner):
            names.add(start[3])
    clock = Clock(filter(None, days), export.name, export.date_order or _order_of_weekdays(days))
    day, day_known = None, False

    def begin(line: str) -> Message | str | None:
        nonlocal day, day_known
        if header := _DAY.fullmatch(line.strip()):
            fields, named, day_known = date_fields(header[2] or ""), from_english(header[3] or ""), True
            day = to_date(fields, clock.order) if fields else named.date() if named else None
            return ""
        start = _MESSAGE.match(line) if day_known else None
        if start is None or start[2] != separator:
            return None
        author, found, text = names.split(start[3])
        if separator == " " and start[3].startswith(partner):  # the name may have spaces
            author, found, text = partner.strip(), " ", start[3][len(partner) :]
        return Message(author if found else "", _time_of_day(day, start[1]), text)

    return join_lines(export.lines(), begin, _finish_line)


def _order_of_weekdays(weekdays: dict[str, str]) -> DateOrder | None:
    """The order in which each date falls on its day of the week, in English; None unless there is exactly one."""
    fitting = [order for order in DATE_ORDERS if all(_is_weekday(*item, order) for item in weekdays.items())]
    return fitting[0] if len(fitting) == 1 else None


def _is_weekday(stamp: str, name: str, order: DateOrder) -> bool:
    fields = date_fields(stamp)
    day = to_date(fields, order) if fields else None
    return day is not None and name.startswith(_WEEKDAYS[day.weekday()])


def _time_of_day(day: date | None, stamp: str) -> datetime | None:
    return at(day, [int(number) for number in re.findall(r"\d+", stamp)], stamp) if day else None


def _finish_line(message: Message) -> Message | str:
    """Messages of several lines are in quotation marks."""
    text = re.sub(r"^\t{1,2}", "", message.text, flags=re.MULTILINE).strip()  # of continued lines
    if "\n" in message.text and text.startswith('"') and text.endswith('"'):
        text = text[1:-1].replace('""', '"')
    if not message.author or _LINE_SYSTEM.fullmatch(text):
        return "system"
    if not text or _LINE_MEDIA.fullmatch(text):
        return "media"
    return message._replace(text=text)


_HALF_DAY = r"(?:\s?[AaPp]\.?[Mm]\.?)?"
_WINDOWS_DAY = re.compile(r"-{5,} (.+) -{5,}")
_ON_DAY = re.compile(rf"\[(.+?)\] \[((?:오전|오후|午前|午後|[AP]M)? ?\d{{1,2}}:\d{{2}}{_HALF_DAY})\] ?(.*)")
_STAMPED = re.compile(  # phones
    r"(\d{4}(?:년|\.) ?\d{1,2}(?:월|\.) ?\d{1,2}(?:일|\.)? (?:오전|오후)? ?\d{1,2}:\d{2}"
    rf"|(?:[A-Z][a-z]{{2,8}} \d{{1,2}}|\d{{1,2}} [A-Z][a-z]{{2,8}}),? \d{{4}},? (?:at )?\d{{1,2}}:\d{{2}}{_HALF_DAY})"
    r"(?:[,:] (.*))?"
)
_PHONE_DAY = re.compile(r"\d{4}년 \d{1,2}월 \d{1,2}일 .요일|[A-Z][a-z]+day, [A-Z][a-z]+ \d{1,2}, \d{4}")
_TABLE = re.compile(r"\ufeff?\"?Date\"?,\"?User\"?,\"?Message")
_MEDIA = re.compile(
    r"(?:사진|동영상|\(?이모티콘\)?|음성메시지|写真|動画|Photos?|[Vv]ideos?|Emoticons?|Stickers?"
    r"|Voice (?:Note|message))(?: \d+장?)?|\d+ photos"
    r"|<.{2,6} 읽지 않음>|[0-9a-f]{32,}\.\w{3,4}|(?:파일|File|샵검색|지도|연락처|Contact): .+"
)
_DELETED = re.compile(r"삭제된 메시지입니다\.?|(?:This message was deleted|Deleted message)\.?")
_CALL = re.compile(
    r"(?:보이스톡|페이스톡|라이브톡|그룹콜|(?:Voice|Video) Call|Live Talk)"
    r" ?(?:해요|취소|부재중|종료|(?:\w+ed ?)?(?:\d+:)?\d+:\d+|\w+ed)"
    r"|(?:보이스톡|페이스톡)을 받지 않았습니다\.|(?:Missed|Canceled) (?:Voice|Video) Call"
)
_EVENT = re.compile(  # without an author
    r".+님[이을께] .*(?:들어왔|나갔|초대(?:했|하였)|내보냈|방장이 되었|넘겼)습니다\.?.*|채팅방 관리자가 .+"
    r"|메시지가 삭제되었습니다\.|The message has been deleted\."
    rf"|.+ (?:joined|left) this chatroom\.|{_PERSON} left\.|.+ invited .+\."
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
            if text.startswith(author) and _EVENT.fullmatch(text):
                author = ""
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
        return "system" if _EVENT.fullmatch(line) else "" if _PHONE_DAY.fullmatch(line) else None

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
