"""Formats of chats, on small made-up exports in several languages: who wrote what and when, what is left out."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from seq2seq_chat.prepare.readers.chats.exports import Export, combine_exports, expand_archive, parts_of
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message, find_format


def read(path: Path, **options: Any) -> tuple[list[Message], dict[str, int], ChatFormat]:
    """The messages of all exports in a file or archive, what is left out, and the format of the last one."""
    messages: list[Message] = []
    left_out: dict[str, int] = {}
    for piece in combine_exports(list(expand_archive(path))):
        export = Export(path.name, parts_of(piece), **options)
        chat_format = find_format(export.start())
        assert chat_format is not None
        messages += chat_format.read(export)
        left_out |= export.left_out
    return messages, left_out, chat_format


LRM, RLM, NNBSP = "\u200e", "\u200f", "\u202f"

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
def test_whatsapp_dates(tmp_path: Path, locale: str) -> None:
    path = tmp_path / "chat.txt"
    first, second = WHATSAPP[locale]
    path.write_text(f"{first}Ada: Hi: you\nthere\n\n3 - 4\n{second}\u200eBen Ö. 😂: Bye\n", newline="\r\n")
    messages, left_out, chat_format = read(path)
    assert [(message.author, message.text) for message in messages] == [
        ("Ada", "Hi: you\nthere\n\n3 - 4"),
        ("Ben Ö. 😂", "Bye"),
    ]
    assert [message.time and message.time.replace(second=0) for message in messages] == [
        datetime(2023, 3, 13, 9, 5),
        datetime(2023, 3, 14, 21, 30),
    ]
    assert not left_out
    assert chat_format.name == "WhatsApp"


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
        ("null", "media"),
        ("This message was deleted", "deleted"),
        ("Diese Nachricht wurde gelöscht.", "deleted"),
        ("Se eliminó este mensaje.", "deleted"),
        ("이 삭제된 메시지입니다", "이 삭제된 메시지입니다"),
        ("I think this message was deleted by mistake?", "I think this message was deleted by mistake?"),
        ("Missed voice call", "system"),
        ("Verpasster Sprachanruf", "system"),
        ("POLL:\nPizza?\nOPTION: yes (1 vote)", "system"),
        ("see you <This message was edited>", "see you"),
        ("bis dann <Diese Nachricht wurde bearbeitet.>", "bis dann"),
        (f"vale {LRM}<Se editó este mensaje.>", "vale"),
        ("a <b> c", "a <b> c"),
        ("https://example.org/?x=1", "https://example.org/?x=1"),
    ],
)
@pytest.mark.parametrize("start", ["13.03.23, 09:05 - Ada: ", "[13.03.23, 09:05:07] Ada: "])
def test_whatsapp_left_out(tmp_path: Path, start: str, text: str, expected: str) -> None:
    path = tmp_path / "chat.txt"
    path.write_text(f"{start}{text}\n{start}ok")
    messages, left_out, _ = read(path)
    kept = [message.text for message in messages]
    assert (kept, left_out) == (
        (["ok"], {expected: 1}) if " " not in expected and expected.isascii() and left_out else ([expected, "ok"], {})
    )


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
def test_iphone_marks_what_whatsapp_wrote(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "_chat.txt"
    path.write_text(
        f"[13.03.23, 09:05:07] Ada: {LRM}{text}\n{LRM}[13.03.23, 09:06:07] Ada: menu {LRM}<attached: 0001-a.jpg>\n"
        f"{LRM}[13.03.23, 09:06:08] Ada: a.pdf • {LRM}2 pages {LRM}document omitted\n"
    )
    messages, left_out, _ = read(path)
    assert [message.text for message in messages] == ["menu"]
    assert left_out == {reason: 1, "media": 2 if reason == "media" else 1}
