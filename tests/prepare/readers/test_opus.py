"""Subtitle files that are not in the exact format of OPUS: valid ones are read, damage is reported."""

import math

import pytest

from seq2seq_chat.prepare.readers.opus import DamagedXml, film_sentences, parse_time, scan_sentences

FILM = '<?xml version="1.0" encoding="utf-8"?><document id="1"><s id="1">{}</s></document>'


def sentences(content: bytes | str) -> list[str]:
    film = film_sentences(content.encode() if isinstance(content, str) else content)
    return film.lines.decode().split("\n")


@pytest.mark.parametrize(
    ("inside", "expected"),
    [
        ("<w>a</w>&amp;<w>b</w>", ["a b"]),
        ("<w>a</w>&#32;<w>b</w>", ["a b"]),
        ("<w>a&#10;b</w>", ["a b"]),
        ("<w><b>a</b>b</w>", ["ab"]),
        ("<w>a<!-- <w>c</w> -->b</w>", ["ab"]),
        ("<w><![CDATA[a]]></w>", ["a"]),
        ("<w>a</w><s><w>b</w></s><w>c</w>", ["a b c"]),
        ('<w id="1>2">a</w>', ["a"]),
        ("<w\tid='1'>a</w>", ["a"]),
        ("<w>a]b</w>", ["a]b"]),
    ],
)
def test_valid_but_unusual(inside: str, expected: list[str]) -> None:
    assert sentences(FILM.format(inside)) == expected


@pytest.mark.parametrize(
    "inside",
    [
        "<w&amp;>a</w>",
        '<w&#32;id="1">a</w>',
        '<w id="1" id="2">a</w>',
        "<w>a</w",
        "<w>a</s>",
        "<w>a & b</w>",
        "<w>a\x01</w>",
        "<w>a\ufffe</w>",
        "<w>a]]>b</w>",
        '<w id="&amp">a</w>',
        "<w>&unknown;</w>",
    ],
)
def test_malformed(inside: str) -> None:
    with pytest.raises(DamagedXml):
        film_sentences(FILM.format(inside).encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "windows-1252"])
def test_other_encodings(encoding: str) -> None:
    text = FILM.format("<w>café</w>").replace("utf-8", encoding[:6] if encoding.startswith("utf") else encoding)
    assert sentences(text.encode(encoding)) == ["café"]


def test_invalid_utf8_is_reported_with_its_offset() -> None:
    content = FILM.format("<w>caf?</w>").encode().replace(b"?<", b"\xe9<")
    with pytest.raises(DamagedXml, match=f"byte {content.index(0xE9)} is not UTF-8"):
        film_sentences(content)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("00:00:01,250", 1.25),
        ("1:2:3.5", 3723.5),
        ("01:00:00", 3600.0),
        ("00:00:01,2509", 1.25),
        ("00:00:-1,250", None),
        ("00:00", None),
        (f"{'9' * 400}:00:00,000", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("identifier", ["T1S", "T1E", "", "S"])
def test_times(value: str, expected: float | None, identifier: str) -> None:
    assert parse_time(value.encode()) == expected
    time = f'<time id="{identifier}" value="{value}" />'
    content = FILM.format(f"{time}<w>a</w>{time}").encode()
    film = scan_sentences(content)
    assert film is not None
    is_start = identifier.endswith("S")
    known = [None if math.isnan(value) else value for value in (*film.starts.tolist(), *film.ends.tolist())]
    assert known == [expected if is_start else None, None if is_start else expected]
