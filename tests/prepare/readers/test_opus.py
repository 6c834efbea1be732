"""Films that are not as OPUS writes them: what is sound is read, what is broken told."""

from __future__ import annotations

import math

import pytest

from seq2seq_chat.corpus.opus import BrokenFilm, film_sentences, scan_sentences, seconds

FILM = '<?xml version="1.0" encoding="utf-8"?><document id="1"><s id="1">{}</s></document>'


def sentences(content: bytes | str) -> list[str]:
    found = film_sentences(content.encode() if isinstance(content, str) else content)
    return found.lines.decode().split("\n")


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
def test_sound_but_unusual(inside: str, expected: list[str]) -> None:
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
def test_broken(inside: str) -> None:
    with pytest.raises(BrokenFilm):
        film_sentences(FILM.format(inside).encode())


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "iso-8859-1", "windows-1252"])
def test_other_encodings(encoding: str) -> None:
    text = FILM.format("<w>café</w>").replace("utf-8", encoding[:6] if encoding.startswith("utf") else encoding)
    assert sentences(text.encode(encoding)) == ["café"]


def test_bytes_that_are_no_utf8_are_told_with_their_place() -> None:
    content = FILM.format("<w>caf?</w>").encode().replace(b"?<", b"\xe9<")
    with pytest.raises(BrokenFilm, match=f"byte {content.index(0xE9)} is not UTF-8"):
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
def test_clocks(value: str, expected: float | None, identifier: str) -> None:
    assert seconds(value.encode()) == expected
    time = f'<time id="{identifier}" value="{value}" />'
    content = FILM.format(f"{time}<w>a</w>{time}").encode()
    found = scan_sentences(content)
    assert found is not None
    begins = identifier.endswith("S")
    known = [None if math.isnan(value) else value for value in (*found.starts.tolist(), *found.ends.tolist())]
    assert known == [expected if begins else None, None if begins else expected]
