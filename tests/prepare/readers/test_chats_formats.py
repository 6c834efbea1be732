"""Each format of chats, on small made-up exports in several languages: who wrote what when, and what is left out."""

import json
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.data.corpus_file import CorpusError
from seq2seq_chat.prepare.readers.chats.exports import Export, combine_exports, expand_archive, parts_of
from seq2seq_chat.prepare.readers.chats.formats import ME, ChatFormat, Message, find_format
from seq2seq_chat.prepare.shards import Piece
from seq2seq_chat.system.compressed import DamagedFile

Read = Callable[..., tuple[list[Message], dict[str, int], ChatFormat]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """``read(text)``: the messages of an export, what is left out, and the format; the options are fields of Export."""

    def read_export(content: str | bytes, **options: Any) -> tuple[list[Message], dict[str, int], ChatFormat]:
        path = tmp_path / "export"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        (piece,) = combine_exports(None, expand_archive(path))
        return read_piece(piece, **options)

    return read_export


def read_piece(piece: Piece, **options: Any) -> tuple[list[Message], dict[str, int], ChatFormat]:
    export = Export("export", parts_of(piece), **options)
    chat_format = find_format(export.start())
    assert chat_format is not None
    return list(export.messages(chat_format)), export.left_out, chat_format


def said(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.author, message.text) for message in messages]


LRM = "\u200e"

# The stamp of 9:05 on 13 March 2023 and of 21:30 on 14 March (the order of a date alone must not be ambiguous).
WHATSAPP = {
    "android_en_us": ("3/13/23, 9:05\u202fAM - ", "3/14/23, 9:30\u202fPM - "),
    "android_en_gb": ("13/03/2023, 09:05 - ", "14/03/2023, 21:30 - "),
    "android_en_in": ("13/03/23, 9:05\u202fam - ", "14/03/23, 9:30\u202fpm - "),
    "android_de": ("13.03.23, 09:05 - ", "14.03.23, 21:30 - "),
    "android_pt": ("13/03/2023 09:05 - ", "14/03/2023 21:30 - "),
    "android_fr_old": ("13/03/2023 à 09:05 - ", "14/03/2023 à 21:30 - "),
    "android_nl": ("13-03-2023 09:05 - ", "14-03-2023 21:30 - "),
    "android_es": ("13/3/23, 9:05 a. m. - ", "14/3/23, 9:30 p. m. - "),
    "android_sv": ("2023-03-13 09:05 - ", "2023-03-14 21:30 - "),
    "android_id": ("13/03/23 09.05 - ", "14/03/23 21.30 - "),
    "android_tr": ("13.03.2023 09:05 - ", "14.03.2023 21:30 - "),
    "android_hu": ("2023. 03. 13. 9:05 - ", "2023. 03. 14. 21:30 - "),
    "android_bg": ("13.03.23 г., 9:05 ч. - ", "14.03.23 г., 21:30 ч. - "),
    "android_ja": ("2023/03/13 9:05 - ", "2023/03/14 21:30 - "),
    "android_zh": ("2023/3/13 上午9:05 - ", "2023/3/14 下午9:30 - "),
    "android_ko": ("2023. 3. 13. 오전 9:05 - ", "2023. 3. 14. 오후 9:30 - "),
    "android_ar": ("١٣\u200f/٣\u200f/٢٠٢٣، ٩:٠٥ ص - ", "١٤\u200f/٣\u200f/٢٠٢٣، ٩:٣٠ م - "),
    "android_he": ("13.3.2023, 9:05 - ", "14.3.2023, 21:30 - "),
    "android_th": ("13/3/2566 09:05 - ", "14/3/2566 21:30 - "),
    "android_vi": ("09:05, 13/03/2023 - ", "21:30, 14/03/2023 - "),
    "android_eu": ("23/3/13 (09:05) - ", "23/3/14 (21:30) - "),
    "android_eu_long": ("2023(e)ko mar. 13(a) (09:05) - ", "2023(e)ko mar. 14(a) (21:30) - "),
    "android_fr_ca": ("2023-03-13 09 h 05 - ", "2023-03-14 21 h 30 - "),
    "android_fr_named": ("13 mars 2023 à 09:05 - ", "14 mars 2023 à 21:30 - "),
    "android_en_named": ("Mar 13, 2023, 9:05\u202fAM - ", "Mar 14, 2023, 9:30\u202fPM - "),
    "android_es_named": ("13 de marzo de 2023, 9:05 - ", "14 de marzo de 2023, 21:30 - "),
    "android_sq": ("13.3.23, 9:05\u202fp.d. - ", "14.3.23, 9:30\u202fm.d. - "),
    "android_ta": ("13/3/23, முற்பகல் 9:05 - ", "14/3/23, பிற்பகல் 9:30 - "),
    "android_ta_short": ("13/3/23, மு.ப. 9:05 - ", "14/3/23, பி.ப. 9:30 - "),
    "android_pt_words": ("13/03/2023 9:05 da manhã - ", "14/03/2023 9:30 da noite - "),
    "android_lv": ("13/03/2023 9:05 priekšpusdienā - ", "14/03/2023 9:30 pēcpusdienā - "),
    "android_he_words": ("13.3.2023, 9:05 לפנה״צ - ", "14.3.2023, 9:30 אחה״צ - "),
    "android_fa": ("13/3/2023، 9:05 ق.ظ. - ", "14/3/2023، 9:30 ب.ظ. - "),
    "iphone_fr_ca": ("[2023-03-13 09 h 05 min 07 s] ", "[2023-03-14 21 h 30 min 00 s] "),
    "iphone_de_named": ("[13. März 2023, 09:05:07] ", "[14. März 2023, 21:30:00] "),
    "iphone_en_us": ("[3/13/23, 9:05:07\u202fAM] ", "[3/14/23, 9:30:00\u202fPM] "),
    "iphone_en_gb": ("[13/03/2023, 09:05:07] ", "[14/03/2023, 21:30:00] "),
    "iphone_de": ("[13.03.23, 09:05:07] ", "[14.03.23, 21:30:00] "),
    "iphone_fi": ("[13.3.2023 klo 9.05.07] ", "[14.3.2023 klo 21.30.00] "),
    "iphone_ko": ("[2023. 3. 13. 오전 9:05:07] ", "[2023. 3. 14. 오후 9:30:00] "),
    "iphone_es_mx": ("[13/03/23 9:05:07 a.m.] ", "[14/03/23 9:30:00 p.m.] "),
    "iphone_zh_tw": ("[2023/3/13 上午9:05:07] ", "[2023/3/14 下午9:30:00] "),
    "iphone_2015": ("13/03/2023, 09:05:07: ", "14/03/2023, 21:30:00: "),
}


@pytest.mark.parametrize("locale", WHATSAPP)
def test_whatsapp_dates(read: Read, locale: str, caplog: pytest.LogCaptureFixture) -> None:
    first, second = WHATSAPP[locale]
    text = f"{first}Ada: Hi: you\nthere\n\n3 - 4\n{second}‎Ben Ö. 😂: Bye\n"
    messages, left_out, chat_format = read(text.replace("\n", "\r\n"))
    assert said(messages) == [("Ada", "Hi: you\nthere\n\n3 - 4"), ("Ben Ö. 😂", "Bye")]
    times = [message.time and message.time.replace(second=0) for message in messages]
    assert times == [datetime(2023, 3, 13, 9, 5), datetime(2023, 3, 14, 21, 30)]
    assert (left_out, chat_format.name, caplog.messages) == ({}, "WhatsApp", [])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<Media omitted>", "media"),
        ("<Medien ausgeschlossen>", "media"),
        ("<Multimedia omitido>\nmenu.pdf", "media"),
        ("<Без медиафайлов>\nСмотри", "Смотри"),
        (f"{LRM}IMG-20230313-WA0001.jpg (Datei angehängt)\nlook at this", "look at this"),
        ("IMG-20230313-WA0001.jpg (archivo adjunto)", "media"),
        ("location: https://maps.google.com/?q=1.5,2.5", "media"),
        ("위치: https://maps.google.com/?q=1.5,2.5", "media"),
        ("IMG-20230313-WA0001.jpg（檔案已附加）", "media"),
        ("Live location shared", "media"),
        ("image omitted", "media"),
        ("画像は省略されました", "media"),
        ("foto pois", "foto pois"),
        ("null", "media"),
        ("This message was deleted", "deleted"),
        ("This message was deleted by admin Ben", "system"),
        ("Tin nhắn này đã bị xóa", "deleted"),
        ("Diese Nachricht wurde gelöscht.", "deleted"),
        ("Se eliminó este mensaje.", "deleted"),
        ("이 삭제된 메시지입니다", "이 삭제된 메시지입니다"),
        ("I think this message was deleted by mistake?", "I think this message was deleted by mistake?"),
        ("Missed voice call", "system"),
        ("Verpasster Sprachanruf", "system"),
        ("Zmeškaný hlasový hovor", "system"),
        ("Voice call, 5 min", "system"),
        ("Waiting for this message. This may take a while.", "system"),
        ("Messages and calls are end-to-end encrypted. Only people in this chat can read them.", "system"),
        ("Messages are fun", "Messages are fun"),
        ("POLL:\nPizza?\nOPTION: yes (1 vote)", "system"),
        ("SONDAGE :\nPizza ?\nOPTION : oui (1 vote)", "system"),
        ("hi @\u2068Ben C\u2069", "hi @Ben C"),
        ("hej <Denne besked blev redigeret>", "hej"),
        ("好 <此消息已编辑>", "好"),
        ("see you <This message was edited>", "see you"),
        ("bis dann <Diese Nachricht wurde bearbeitet.>", "bis dann"),
        (f"vale {LRM}<Se editó este mensaje.>", "vale"),
        ("a <b> c", "a <b> c"),
        ("<html>", "<html>"),
        ("[a.pdf](./media/a.pdf)", "media"),
        ("look ![a.jpg](./media/a.jpg)", "look"),
        ("[a](https://a.example)", "[a](https://a.example)"),
        ("see <https://a.example/edit>", "see <https://a.example/edit>"),
        ("Hotel St.Peter (next door)", "Hotel St.Peter (next door)"),
        ("Sprachanruf, 5 Min.", "system"),
        ("https://example.org/?x=1", "https://example.org/?x=1"),
    ],
)
@pytest.mark.parametrize("start", ["13.03.23, 09:05 - Ada: ", "[13.03.23, 09:05:07] Ada: "])
def test_whatsapp_left_out(read: Read, start: str, text: str, expected: str) -> None:
    messages, left_out, _ = read(f"{start}{text}\n{start}ok")
    kept = [message.text for message in messages]
    is_reason = expected in ("media", "deleted", "system")
    assert (kept, left_out) == ((["ok"], {expected: 1}) if is_reason else ([expected, "ok"], {}))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("image omitted", "media"),
        ("Bild weggelassen", "media"),
        ("<attached: 00000012-PHOTO-2023-03-13-09-05-07.jpg>", "media"),
        (f"{LRM}<attached: {LRM}PTT-20180129-WA0025.opus>", "media"),
        ("You deleted this message.", "deleted"),
        ("Messages and calls are end-to-end encrypted.", "system"),
        ("Missed voice call, Tap to call back", "system"),
        ("Ben added Eve", "system"),
    ],
)
def test_iphone_marks_what_whatsapp_wrote(read: Read, text: str, reason: str) -> None:
    messages, left_out, _ = read(
        f"[13.03.23, 09:05:07] Ada: {LRM}{text}\n{LRM}[13.03.23, 09:06:07] Ada: menu {LRM}<attached: 0001-a.jpg>\n"
        f"{LRM}[13.03.23, 09:06:08] Ada: a.pdf • {LRM}2 pages {LRM}document omitted\n"
    )
    assert [message.text for message in messages] == ["menu"]
    assert left_out == {reason: 1, "media": 2 if reason == "media" else 1}


def lines(*values: object) -> str:
    return "\n".join(json.dumps(value) for value in values)


def telegram(*messages: dict[str, Any], chat: int = 1) -> dict[str, Any]:
    fields = {"date": "2023-03-13T09:05:00", "from": "Ada", "from_id": "user1", "type": "message", "text": ""}
    numbered = [{"id": number, **fields, **message} for number, message in enumerate(messages)]
    return {"name": "Ada", "type": "personal_chat", "id": chat, "messages": numbered}


ENTITIES = ["look: ", {"type": "link", "text": "https://a.example"}, " 😂"]


def discord(content: str, **fields: Any) -> dict[str, Any]:
    author = {"id": "7", "name": "ada"}
    time = "2023-03-13T09:05:00.123+00:00"
    return {"type": "Default", "timestamp": time, "author": author, "content": content, **fields}


def messenger(content: str, **fields: Any) -> dict[str, Any]:
    """A message as Facebook exports it: the bytes of UTF-8 as characters."""
    mangled = content.encode().decode("latin-1")
    return {"sender_name": "Ada", "timestamp_ms": 1678698300000, "content": mangled, **fields}


MESSENGER_SYSTEM = [
    *("Ada sent an attachment.", "Reacted X to your message ", "Hat mit X auf deine Nachricht reagiert"),
    *("Curtiu uma mensagem", "Hai inviato un allegato.", "Ada님이 첨부 파일을 보냈습니다.", "Eve sent an attachment."),
    "Eve's poll has multiple updates.",
]

EXPORTS: dict[str, tuple[str, list[tuple[str, str]], dict[str, int]]] = {
    "telegram": (
        json.dumps(
            telegram(
                {"text": ENTITIES},
                {"type": "service", "action": "phone_call"},
                {"text": "", "media_type": "sticker"},
                {"text": "caption", "photo": "a.jpg", "from": None, "from_id": "user2"},
                {"text": "", "text_entities": [{"type": "plain", "text": "plain"}]},
                {"text": "News!", "forwarded_from": "A Channel"},
                {"text": "old news", "forwarded_from": None},
            )
        ),
        [("Ada", "look: https://a.example 😂"), ("Deleted Account", "caption"), ("Ada", "plain")],
        {"system": 1, "media": 1, "forwarded": 2},
    ),
    "telegram_account": (
        json.dumps(
            {
                "about": "Here is the data you requested. Telegram is great.",
                "contacts": {"list": []},
                "chats": {"list": [telegram({"text": "one"}), telegram({"text": "two"}, chat=2)]},
                "left_chats": {"list": [telegram({"text": "three"}, chat=3)]},
            },
            indent=1,
        ),
        [("Ada", "one"), ("Ada", "two"), ("Ada", "three")],
        {},
    ),
    "discord_json": (
        json.dumps(
            {
                "guild": {"id": "1", "name": "G"},
                "channel": {"id": "2", "name": "general"},
                "messages": [
                    discord("hi"),
                    discord("Pinned a message.", type="ChannelPinnedMessage"),
                    discord("beep", author={"id": "8", "name": "bot", "isBot": True}),
                    discord("", attachments=[{}]),
                    discord("yo", type="Reply", author={"id": "9", "name": "b", "nickname": "Ben"}),
                ],
            }
        ),
        [("ada", "hi"), ("Ben", "yo")],
        {"system": 1, "bots": 1, "media": 1},
    ),
    "discord_csv": (
        'AuthorID,Author,Date,Content,Attachments,Reactions\n"1","Ada","2023-03-13T09:05:00.0000000+00:00","a ""b""\n'
        'c","",""\n"2","Ben#1","2023-03-13T09:05:00.0000000+00:00","Joined the server.","",""\n',
        [("Ada", 'a "b"\nc')],
        {"system": 1},
    ),
    "discord_csv_old": (
        "AuthorID,Author,Date,Content\n1,Ada,13-Mar-23 09:05 AM,hi\n1,Ben,13-Mar-23 09:05 AM,\n",
        [("Ada", "hi")],
        {"media": 1},
    ),
    "discord_csv_semicolons": (
        *('AuthorID;Author;Date;Content\n1;Ada;13.03.2023 09:05;"hi; you"\n', [("Ada", "hi; you")], {}),
    ),
    "discord_csv_us": ("AuthorID,Author,Date,Content\n1,Ada,03/13/2023 9:05 AM,hi\n", [("Ada", "hi")], {}),
    "messenger": (
        json.dumps(
            {
                "participants": [{"name": "Ada"}, {"name": "J\u00c3\u00b6rg"}],
                "messages": [
                    messenger("second", timestamp_ms=1678698360000),
                    messenger("Käse 😂", sender_name="J\u00c3\u00b6rg"),
                    {"sender_name": "Ada", "timestamp_ms": 1678698300000, "photos": [{"uri": "a.jpg"}]},
                    messenger("x", is_unsent=True),
                    *map(messenger, MESSENGER_SYSTEM),
                    messenger("You left the door open."),
                ],
                "title": "J\u00c3\u00b6rg",
            }
        ),
        [("Ada", "You left the door open."), ("Jörg", "Käse 😂"), ("Ada", "second")],
        {"system": 8, "media": 1, "deleted": 1},
    ),
    "messenger_encrypted": (
        json.dumps(
            {
                "participants": ["Ada", "Ben"],
                "threadName": "Ben_1",
                "messages": [
                    {"senderName": "Ben", "messageText": "c", "timestamp": 1678698400000, "type": "text"},
                    {"senderName": "Ben", "text": "b", "timestamp": 1678698400000, "type": "text", "isUnsent": False},
                    {"senderName": "Ada", "text": "ä", "timestamp": 1678698300000, "type": "text", "isUnsent": False},
                ],
            }
        ),
        [("Ada", "ä"), ("Ben", "b"), ("Ben", "c")],
        {},
    ),
    "signal_export": (
        lines(
            {"date": "2023-03-13T09:05:00", "sender": "Me", "body": "hi  ", "quote": "\n\n> x\n\n", "attachments": []},
            {"date": "2023-03-13T09:05:00.5", "sender": "Ada", "body": "  ", "attachments": [{"name": "a"}]},
            {"date": "2023-03-13T09:05:00", "sender": "Ada", "body": "Missed voice call  "},
            {"date": "2023-03-13T09:05:00", "sender": "Ada", "body": "yo"},
        ),
        [(ME, "hi"), ("Ada", "yo")],
        {"media": 1, "system": 1},
    ),
    "signal_export_list": (
        json.dumps([{"date": "2023-03-13T09:05:00", "sender": "Me", "body": "hi", "reactions": [{}]}], indent=1),
        [(ME, "hi")],
        {},
    ),
    "signal": (
        lines(
            {"version": "1", "backupTimeMs": "1678698300000"},
            {"account": {"givenName": "Eve"}},
            {"recipient": {"id": "1", "self": {}}},
            {"recipient": {"id": "2", "contact": {"e164": "491", "profileGivenName": "Ada", "profileFamilyName": "L"}}},
            {"chat": {"id": "5", "recipientId": "2"}},
            *(
                {"chatItem": {"chatId": "5", "authorId": author, "dateSent": "1678698300000", **item}}
                for author, item in [
                    ("2", {"incoming": {}, "standardMessage": {"text": {"body": "hi"}}}),
                    ("1", {"outgoing": {}, "standardMessage": {"text": {"body": "yo"}}}),
                    ("2", {"incoming": {}, "remoteDeletedMessage": {}}),
                    ("2", {"incoming": {}, "stickerMessage": {}}),
                    ("2", {"directionless": {}, "updateMessage": {}}),
                ]
            ),
        ),
        [("Ada L", "hi"), (ME, "yo")],
        {"deleted": 1, "media": 1, "system": 1},
    ),
    "sms": (
        "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n<!--SMS Backup --><smses>"
        '<sms address="+49 1" date="1678698300000" type="1" body="caf&#233; &#55357;&#56834; &lt;&#10;b" '
        'contact_name="Ada" /><sms address="+491" date="1678698300000" type="2" body="yo" contact_name="Ada" />'
        '<sms address="+491" date="1678698300000" type="3" body="draft" /><mms msg_box="1" address="+491~+492" '
        'date="1678698300000" contact_name="Ada, Ben"><parts><part ct="image/png" text="null" data="AA" />'
        '<part ct="text/plain; charset=utf-8" text="all" /></parts>'
        '<addrs><addr address="+492" type="137" /></addrs></mms></smses>',
        [("Ada", "café 😂 <\nb"), (ME, "yo"), ("+492", "all")],
        {"drafts and unsent": 1},
    ),
    "line_tabs": (
        "[LINE] Chat history with Ada\n\n2023/03/13 Mon\n09:05\tAda\tone\n\t\ttwo\n09:05\tAda\tBen joined the group\n",
        [("Ada", "one\ntwo")],
        {"system": 1},
    ),
    "line_en": (
        "[LINE] Chat history with Ada\nSaved on: 3/14/2023, 11:00\n\nMon, 3/13/2023\n09:05AM\tAda L\thi\n"
        '09:05AM\tBen\t"one\n""two"""\n09:05AM\tBen\t[Sticker]\n09:05AM\tAda unsent a message.\n',
        [("Ada L", "hi"), ("Ben", 'one\n"two"')],
        {"media": 1, "system": 1},
    ),
    "line_ja": (
        "[LINE] 花子とのトーク履歴\n保存日時：2023/03/14 11:59\n\n2023/03/13(月)\n9:05\t花子\tこんにちは\n"
        "9:05\t太郎\t[写真]\n"
        "9:05\t太郎\t☎ 不在着信\n9:05\t\tメッセージの送信を取り消しました\n",
        [("花子", "こんにちは")],
        {"media": 1, "system": 2},
    ),
    "line_zh": (
        "[LINE] 與Ada的聊天記錄\n儲存日期： 2023/03/14 11:59\n\n2023/03/13（週一）\n"
        "上午09:05\tAda\t你好\n上午09:05\tBen\t[貼圖]\n",
        [("Ada", "你好")],
        {"media": 1},
    ),
    "line_desktop_ja": (
        "[LINE] Ada Lとのトーク履歴\n保存日時：2023/03/14 11:59\n\n2023.03.13 月曜日\n09:05 Ada L hi\n09:05 Ben 画像\n",
        [("Ada L", "hi")],
        {"media": 1},
    ),
    "line_th": (
        "[LINE] Chat history with Ada\nSaved on: 13/03/2023, 11:00\n\nพฤ. 13/03/2023\n09:05\tAda\thi\n09:05\tBen\tyo\n",
        [("Ada", "hi"), ("Ben", "yo")],
        {},
    ),
    "line_desktop": (
        "2023.03.13 Monday\n09:05 Ada Hello there\n09:05 Ben Stickers\n",
        [("Ada", "Hello there")],
        {"media": 1},
    ),
    "line_weekday": (
        "[LINE] Chat history with Ada\nSaved on: 4/3/2023, 11:00\n\nSun, 3/12/2023\n\nMon, 3/13/2023\n09:05\tAda\thi\n",
        [("Ada", "hi")],
        {},
    ),
    "line_desktop_th": (
        "2023.03.13 วันจันทร์\n09:05 Ada สวัสดี ดี\n09:05 Ben รูป\n09:05 Ben left the group.\n09:05 Ada 通話時間 1:23\n",
        [("Ada", "สวัสดี ดี")],
        {"media": 1, "system": 2},
    ),
    "line_desktop_names": (
        "[LINE] Ada L的聊天記錄\n儲存日期：2023/03/14 11:59\n\n2023.03.13 星期一\n"
        + "".join(f"09:05 Ada L is {word}\n09:05 Ben C {word} too\n" for word in ("one", "two", "six")),
        [pair for word in ("one", "two", "six") for pair in (("Ada L", f"is {word}"), ("Ben C", f"{word} too"))],
        {},
    ),
    "line_ko": (
        "[LINE] Ada님과의 대화\n저장한 날짜: 2023/03/14 11:59\n\n2023/03/13(월)\n"
        "오전 9:05\tAda\t안녕\n오전 9:05\tBen\t[스티커]\n",
        [("Ada", "안녕")],
        {"media": 1},
    ),
    "line_id": (
        "[LINE] Riwayat obrolan dengan Ada\n\nSen, 13/03/2023\n09.05\tAda\thalo\n\n"
        "Monday, March 13, 2023\n09.05\tBen\tya\n",
        [("Ada", "halo"), ("Ben", "ya")],
        {},
    ),
    "kakaotalk_windows": (
        "민수 님과 카카오톡 대화\n저장한 날짜 : 2023-03-14 11:00:00\n\n"
        "--------------- 2023년 3월 13일 월요일 ---------------\n"
        "[민수] [오전 9:05] 안녕\n잘 지내?\n[Ben [b]] [오전 9:05] 이모티콘\n[민수] [오전 9:05] 샵검색: #날씨\n"
        "민수님이 나갔습니다.\n[민수] [오전 9:05] 보이스톡을 받지 않았습니다.\n영희님이 철수님을 초대하였습니다.\n",
        [("민수", "안녕\n잘 지내?")],
        {"media": 2, "system": 3},
    ),
    "kakaotalk_windows_ja": (
        "--------------- 2023年3月13日月曜日 ---------------\n[花子] [午前 9:05] やあ\n[太郎] [午前 9:05] 写真\n",
        [("花子", "やあ")],
        {"media": 1},
    ),
    "kakaotalk_iphone": (
        "2023년 3월 13일 월요일\n2023. 3. 13. 오전 9:05, 민수 : 안녕\n\n2023년 3월 13일 월요일\n"
        "2023. 3. 13. 09:05: 철수님이 나갔습니다.\n2023. 3. 13. 09:05, 영희 : <사진 읽지 않음>\n"
        "2023. 3. 13. 09:05, 영희 : 지도: 서울역\n",
        [("민수", "안녕")],
        {"media": 2, "system": 1},
    ),
    "kakaotalk_windows_en": (
        "Chat with Ada\nDate Saved : 2023-03-14 11:00:00\n\n--------------- Monday, March 13, 2023 ---------------\n"
        "[Ada] [9:05 AM] hi\n[Ben] [9:05 AM] Photo\nEve left.\n[Ben] [AM 9:05] Live Talk ended 1:02:03\n",
        [("Ada", "hi")],
        {"media": 1, "system": 2},
    ),
    "kakaotalk_phone": (
        "민수 님과 카카오톡 대화\n저장한 날짜 : 2023년 3월 14일 오전 9:00\n\n2023년 3월 13일 오전 9:05\n"
        "2023년 3월 13일 오전 9:05, 민수 : 안녕 : 하세요\n잘\n2023년 3월 13일 오전 9:05, Ben : 사진 3장\n"
        "2023년 3월 13일 오전 9:05, Eve님이 들어왔습니다.\n",
        [("민수", "안녕 : 하세요\n잘")],
        {"media": 1, "system": 1},
    ),
    "kakaotalk_phone_colon": (
        "가족 님과 카카오톡 대화\n저장한 날짜 : 2023년 3월 14일 오전 11:00\n\n"
        + "2023년 3월 13일 오전 9:05, 엄마 : 사랑 : a : b\n" * 3
        + "2023년 3월 13일 오전 9:05, Lee, John : c : d\n2023년 3월 13일 오전 9:05, 엄마 : 사랑 : 사진\n",
        [("엄마 : 사랑", "a : b")] * 3 + [("Lee, John", "c : d")],
        {"media": 1},
    ),
    "kakaotalk_phone_en": (
        "KakaoTalk Chats with Ada\nDate Saved : Mar 14, 2023 at 9:00\u202fAM\n\nMar 13, 2023 at 9:05\u202fAM\n"
        "Mar 13, 2023 at 9:05\u202fAM, Ada : hi\nMar 13, 2023 at 9:05\u202fAM, Ben : This message was deleted.\n",
        [("Ada", "hi")],
        {"deleted": 1},
    ),
    "kakaotalk_mac": (
        'Date,User,Message\n2023-03-13 09:05:00,"Ada","hi, ""you"""\n2023-03-13 09:05:01,"Ben","Photo"\n'
        '2023-03-13 09:05:01,"민수","민수님이 나갔습니다."\n',
        [("Ada", 'hi, "you"')],
        {"media": 1, "system": 1},
    ),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_messages(read: Read, name: str) -> None:
    text, expected, expected_left_out = EXPORTS[name]
    messages, left_out, chat_format = read(text)
    assert (said(messages), left_out) == (expected, expected_left_out)
    assert chat_format.name.split()[0].rstrip(",").lower() == name.split("_", maxsplit=1)[0]
    if not name.startswith("messenger"):
        times = {message.time and message.time.replace(second=0, microsecond=0) for message in messages}
        assert times == {datetime(2023, 3, 13, 9, 5)}


@pytest.mark.parametrize("name", ["telegram", "discord_json", "messenger", "sms", "signal_export"])
def test_an_export_that_ends_early_is_damaged(read: Read, name: str) -> None:
    data = EXPORTS[name][0].encode()
    with pytest.raises(DamagedFile):
        read(data[: len(data) * 4 // 5])


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"AuthorID,Author,Date,Content\n1,Ada,03/13/2023 9:05 AM,hi\n1,Ada,{date},yo\n"
            for date in ("soon", "03/14/2023", "99999999999-1-1 9:05")
        ),
        *(
            json.dumps({"messages": [{"sender_name": "Ada", "timestamp_ms": time, "content": "yo"}]})
            for time in (None, "soon", 10**17, [1])
        ),
        EXPORTS["signal_export"][0] + '\n{"sender": "Ada", "body": "yo"}',
        f'<smses><sms address="1" date="{10**30}" type="1" body="yo" contact_name="Ada" /></smses>',
        EXPORTS["kakaotalk_windows_ja"][0] + "----- 9999999999 -----\n[Ada] [9:05 AM] yo\n",
    ],
)
def test_an_invalid_time_is_unknown(read: Read, text: str) -> None:
    last = read(text)[0][-1]
    assert (last.author, last.text, last.time) == ("Ada", "yo", None)


def test_damaged_utf_16(read: Read) -> None:
    """Half of an emoji, and half of a character at the end."""
    text = "13.03.23, 09:05 - Ada: a?b\n13.03.23, 09:05 - Ben: c\n"
    messages, _, _ = read(text.encode("utf-16").replace(b"?\0", b"\x3d\xd8") + b"\n")
    assert [message.text for message in messages] == ["a\ufffdb", "c\n\ufffd"]


def test_a_cue_after_millions_of_hours_is_no_cue(read: Read) -> None:
    messages, _, _ = read("00:00:01,000 --> 00:00:02,000\nHi.\n\n99999999:00:00,000 --> 1:00:00,000\n")
    assert messages[0].text == "Hi."


def test_many_blank_lines_are_no_format() -> None:
    assert find_format("\n" * (1 << 16)) is None  # in an instant


def test_people_of_one_name_and_mixed_chats(read: Read) -> None:
    messages, _, _ = read(json.dumps(telegram({"text": "a"}, {"text": "b", "from_id": "user2"})))
    assert messages[0].author == messages[1].author
    assert messages[0].author_id != messages[1].author_id


def slack_files() -> dict[str, str]:
    def message(ts: float, text: str, **fields: Any) -> dict[str, Any]:
        return {"type": "message", "user": "U1", "ts": f"{ts:.6f}", "text": text, **fields}

    first = 1678698300.0
    elements = [{"type": "text", "text": "to "}, {"type": "user", "user_id": "U1"}]
    files = {
        "users.json": [{"id": "U1", "name": "ada", "profile": {"display_name": "Ada", "real_name": "Ada L"}}],
        "general/2023-03-14.json": [message(first + 86400, "later &amp; <https://a.example|this>")],
        "general/2023-03-13.json": [
            message(first + 9, "re", thread_ts=f"{first:.6f}", user="U2"),
            message(first, "hi <@U1> in <#C1|random> <!here>", thread_ts=f"{first:.6f}"),
            message(first + 1, "<@U1> has joined", subtype="channel_join"),
            message(first + 2, "beep", subtype="bot_message"),
            message(first + 3, "", files=[{}]),
            message(first + 4, "", blocks=[{"elements": elements}]),
            message(first + 5, "beep", bot_id="B1", bot_profile={"name": "beep"}),
            message(first + 6, "<!channel|channel> <!subteam^S1|@team> <!date^1^{date}|Monday>"),
        ],
    }
    return {name: json.dumps(content) for name, content in files.items()}


@pytest.mark.parametrize("packed", [False, True])
def test_slack(tmp_path: Path, packed: bool) -> None:
    paths = []
    archive = tmp_path / "export.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for name, text in slack_files().items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
            file.writestr(f"workspace/{name}", text)
            paths.append(tmp_path / name)
    pieces = expand_archive(archive) if packed else [Piece(path, 1) for path in paths if path.parent != tmp_path]
    (piece,) = combine_exports(None, pieces)
    messages, left_out, _ = read_piece(piece)
    assert [(message.author, message.text, bool(message.chat)) for message in messages] == [
        ("Ada", "hi @Ada in #random @here", True),
        ("Ada", "to @Ada", False),
        ("Ada", "@channel @team Monday", False),
        ("U2", "re", True),
        ("Ada", "later & this", False),
    ]
    assert left_out == {"system": 1, "bots": 2, "media": 1}


def test_transcripts(read: Read) -> None:
    messages, _, _ = read("Ada: Hi: you\nthere\nBen (whispering): Yo\n\nAda: New\nBen: One\n---\nAda: Last\n")
    assert said(messages) == [("Ada", "Hi: you there"), ("Ben", "Yo"), ("Ada", "New"), ("Ben", "One"), ("Ada", "Last")]
    assert [message.chat for message in messages] == ["0", "0", "1", "1", "2"]
    messages, _, _ = read("Ada: a\n\nBen: b\n\nAda: c\n\n")  # blank lines that are only style
    assert {message.chat for message in messages} == {"0"}


TURNS = [
    *("{}：{}", "{} : {}", "{}:\t{}", "**{}:** {}", "**{}**: {}", "- {}: {}", "[09:05] {}: {}", "09:05:07 {}: {}"),
    "{} (aside): {}",
]


@pytest.mark.parametrize("turn", TURNS)
def test_ways_to_write_a_script(read: Read, turn: str) -> None:
    turns = [("Ada", "Hi: you"), ("Dr. Ö", "https://a.example"), ("Ada", "*no*")]
    text = "\n".join(turn.format(*words) for words in turns) + "\n(They leave.)\n[Music]\n"
    messages, left_out, _ = read(text)
    assert (said(messages), left_out) == (turns, {"stage directions": 2})


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
def test_subtitles(read: Read, encoding: str) -> None:
    text = (
        "1\n00:00:01,000 --> 00:00:02,000\n<i>Où est</i>\n\n2\n00:00:02,500 --> 00:00:03,000\nle café ?\n\n"
        "3\n00:00:04,000 --> 00:00:05,000\n- Là.\n- Merci.\n\n4\n00:00:06,000 --> 00:00:07,000\n[music]\n"
    )
    messages, left_out, _ = read(text.replace("\n", "\r\n").encode(encoding))
    assert [message.text for message in messages] == ["Où est", "le café ?", "Là.", "Merci."]
    speakers = [message.author_id for message in messages]
    assert speakers[0] == speakers[1] and len(set(speakers)) == 3
    assert left_out == {"sounds": 1}


@pytest.mark.parametrize(
    ("cue", "expected"),
    [
        ("–¿Qué?\n—Nada.", [("", "¿Qué?"), ("", "Nada.")]),
        (">> Hello.\n&gt;&gt; ADA: Hi &amp;&nbsp;bye.", [("", "Hello."), ("ADA", "Hi & bye.")]),
        ("JÖRG: Ja.", [("JÖRG", "Ja.")]),
        ("АННА: Да.", [("АННА", "Да.")]),
        ("花子：やあ。", [("花子", "やあ。")]),
        ("He said: no.", [("", "He said: no.")]),
        ("(sighs) Oh [door slams] no.", [("", "Oh no.")]),
        ("[laughs]\nNo.", [("", "No.")]),
        ("A.\n\nB.", [("", "A."), ("", "B.")]),
        ("A.\n2\n00:00:03,000-->00:00:04,000\nB.", [("", "A."), ("", "B.")]),
        ("（拍手）", []),
        ("【音楽】", []),
        ("♬～", []),
        ("[a door\nslams]", []),
        ("♪ la\nla ♪", []),
    ],
)
def test_subtitle_cues(read: Read, cue: str, expected: list[tuple[str, str]]) -> None:
    messages, left_out, _ = read(f"1\n00:00:01,000 --> 00:00:02,000\n{cue}\n")
    assert (said(messages), left_out) == (expected, {} if expected else {"sounds": 1})


def test_names_of_a_meeting(read: Read) -> None:
    turns = [("Ada van der Berg", "Hi: all."), ("ben", "Yo."), ("", "Bye.")]
    cues = (f"00:0{i}.000 --> 00:0{i}.900\n{f'{name}: ' if name else ''}{text}" for i, (name, text) in enumerate(turns))
    text = "\n\n".join(["WEBVTT", *cues]).replace("\n", "\r\n")
    assert said(read(text)[0]) == turns


def test_voices_of_webvtt(read: Read) -> None:
    text = "WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ada>Hi\nyou</v>\n\n00:02.000 --> 00:03.000\n<v Ben L>Yo</v>"
    assert said(read(text)[0]) == [("Ada", "Hi you"), ("Ben L", "Yo")]


def whatsapp(*dates: str) -> str:
    return "".join(f"{date}, 09:05 - Ada: {number}\n" for number, date in enumerate(dates))


@pytest.mark.parametrize(
    ("dates", "last"),
    [
        (["3/4/23", "13/4/23"], datetime(2023, 4, 13, 9, 5)),
        (["3/4/23", "4/13/23"], datetime(2023, 4, 13, 9, 5)),
        (["3/4/23", "10/4/23", "2/5/23"], datetime(2023, 5, 2, 9, 5)),  # else time would go back
        (["03.04.23", "05.04.23"], datetime(2023, 4, 5, 9, 5)),  # nobody writes months first with points
        (["۱۴۰۲/۱/۱", "۱۴۰۲/۲/۳۱"], datetime(2023, 5, 21, 9, 5)),
        (["3/4/23"], datetime(2023, 4, 3, 9, 5)),  # only one day: nothing depends on it
    ],
)
def test_the_whole_file_decides_the_order_of_dates(read: Read, dates: list[str], last: datetime) -> None:
    assert read(whatsapp(*dates))[0][-1].time == last


def test_midnight_as_24(read: Read) -> None:
    messages, _, _ = read("13.03.23, 24:05 - Ada: a\n13.03.23, 09:05 - Ada: b\n")
    assert [message.time for message in messages] == [datetime(2023, 3, 13, 0, 5), datetime(2023, 3, 13, 9, 5)]


def test_ambiguous_dates(read: Read) -> None:
    text = whatsapp("3/4/23", "3/5/23", "3/6/23")
    with pytest.raises(CorpusError, match="--date-order"):
        read(text)
    assert read(text, date_order="mdy")[0][-1].time == datetime(2023, 3, 6, 9, 5)


def test_unknown_words_for_the_halves_of_the_day_are_named(read: Read, caplog: pytest.LogCaptureFixture) -> None:
    assert len(read("13/3/2023 9:05 xq - Ada: a\n14/3/2023 9:05 yq - Ada: b\n")[0]) == 2
    assert "times such as “13/3/2023 9:05 xq” say whether it is before or after noon in unknown words" in caplog.text
    caplog.clear()
    assert len(read("13/3/2023 9:05 ч. - Ada: a\n14/3/2023 9:05 ч. - Ada: b\n")[0]) == 2
    assert caplog.messages == []


def test_names_with_colons_and_changed_subjects(read: Read) -> None:
    start = "13.03.23, 09:05 - "
    messages, left_out, _ = read(
        f'{start}You changed the subject to "A: B"\n'
        + f"{start}Ada: work: x: y\n" * 3
        + f"{start}Ben added Ada: work\n{start}Benがグループ名を「A: B」に変更しました\n"
        + f"{start}שרה{LRM}: a\n{start}Ben: b: c\n"
    )
    assert said(messages) == [*[("Ada: work", "x: y")] * 3, ("שרה", "a"), ("Ben", "b: c")]
    assert left_out == {"system": 3}
