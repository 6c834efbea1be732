"""The XML files of OPUS: the sentences of a film, and when they are said.

A sentence ``<s>`` holds words ``<w>``; ``<time>`` elements tell when a block of the subtitles begins
(``id="T7S"``) and ends (``id="T7E"``). Blocks and sentences overlap freely: a sentence may go over
several blocks, and a block may hold several sentences, which then have one time or none.

Files as OPUS writes them are taken apart by operations on arrays, many times faster than by a parser of
XML: the places of all ``<`` and ``>`` tell the tags, and the eight bytes at such a place, read as a
number, tell what stands there. Only what is well-formed beyond doubt is accepted; anything else
goes to lxml, which gives the same sentences or tells what is broken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from lxml import etree

Array = Any
"""A NumPy array."""

_NAMED_ENTITY = re.compile(rb"&(?:amp|lt|gt|quot|apos);")
_IN_ATTRIBUTE = re.compile(rb'="[^"<>]*&')
_TAG = re.compile(rb'<[sw]((?: [A-Za-z_][\w.-]*="[^"<&]*")*) ?>')
_TIME_TAG = re.compile(rb'<time id="([^"<&]*)" value="([^"<&]*)" ?/>')
_NAME = re.compile(rb' ([\w.-]+)="[^"]*"')
_BLANK = re.compile(rb"[ \t\r\n]*")
_CLOCK = re.compile(rb"(\d+):(\d+):(\d+)(?:[,.](\d*))?")
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")

_OPENING, _CLOSING, _QUOTE, _SLASH, _EQUALS, _SPACE, _LINE_FEED, _START = b'<>"/= \nS'


def _code(text: bytes) -> int:
    """Up to eight bytes as they are read from an array."""
    return int.from_bytes(text, "little")


_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_GAPS = np.array([_code(b"\n       "[:size]) for size in range(9)], np.uint64)  # as they are between two lines

# The kinds of tags, and which may follow which.
_SENTENCE, _WORD, _TIME, _WORD_END, _SENTENCE_END = range(5)
_MAY_FOLLOW = np.zeros((5, 5), bool)
_MAY_FOLLOW[[_SENTENCE, _TIME, _WORD_END], :] = [False, True, True, False, True]
_MAY_FOLLOW[_WORD, _WORD_END] = _MAY_FOLLOW[_SENTENCE_END, _SENTENCE] = True


@dataclass(frozen=True)
class Sentences:
    """The sentences of a film that have words.

    A sentence starts when the block starts whose ``<time>`` is the last one before its first word,
    and ends when the block ends whose ``<time>`` is the first one after its last word, in whatever
    sentence these lie; where there is another kind of ``<time>``, or none, it is not known.

    Attributes:
        lines: A line for each sentence, its words as written and joined by spaces, in UTF-8; no
            line feed after the last.
        starts, ends: Seconds, ``[sentences]``; NaN where not known.
    """

    lines: bytes
    starts: Array
    ends: Array


class BrokenFilm(Exception):
    """The XML is damaged; the message says where."""


def film_sentences(content: bytes) -> Sentences:
    """The sentences that have words.

    Raises:
        BrokenFilm: The content is no well-formed XML.
    """
    if not content.isascii():
        try:
            content.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            if b"encoding" not in content[:100] or re.search(rb"encoding=[\"']utf-?8", content[:100], re.IGNORECASE):
                raise BrokenFilm(f"byte {fault.start} is not UTF-8") from fault
            return parse_sentences(content)
    sentences = scan_sentences(content)
    return parse_sentences(content) if sentences is None else sentences


def parse_sentences(content: bytes) -> Sentences:
    """The sentences of any well-formed file, by a parser of XML.

    Raises:
        BrokenFilm: The content is no well-formed XML.
    """
    try:
        document = etree.fromstring(content, _parser())
    except (etree.XMLSyntaxError, ValueError) as fault:
        raise BrokenFilm(f"broken XML: {fault}") from fault
    texts: list[bytes] = []
    first_words: list[int] = []
    last_words: list[int] = []
    times: list[tuple[int, float, bool]] = []  # place, seconds, whether a block begins
    place = 0
    for sentence in document.iter("s"):
        words: list[bytes] = []
        for element in sentence.iter("w", "time"):
            place += 1
            if element.tag == "time":
                clock = _seconds_or_nan(element.get("value", "").encode())
                times.append((place, clock, element.get("id", "").endswith("S")))
                continue
            if not words:
                first_words.append(place)
            words.append("".join(element.itertext()).encode().replace(b"\n", b" "))
            last_words[len(texts) :] = [place]
        if words:
            texts.append(b" ".join(words))
    places, values, begins = np.array(times, float).reshape(-1, 3).T
    starts, ends = _clocks(np.array(first_words, int), np.array(last_words, int), places, values, begins > 0)
    return Sentences(b"\n".join(texts), starts, ends)


def _parser() -> etree.XMLParser:
    # Nothing outside of the file is looked at, and entities that grow are refused.
    return etree.XMLParser(resolve_entities="internal", no_network=True, load_dtd=False, huge_tree=False)


def scan_sentences(content: bytes) -> Sentences | None:
    """The same as ``parse_sentences`` of a file in UTF-8 that has the form OPUS gives it, or None for any other."""
    body = _plain_body(content)
    if body is None:
        return None
    codes = np.frombuffer(body + bytes(16), np.uint8)  # so that eight bytes can be read anywhere
    written = codes[: len(body)]
    if np.count_nonzero(written < _SPACE) != sum(np.count_nonzero(written == blank) for blank in b"\n\r\t"):
        return None
    tags = _find_tags(body, codes, written)
    if tags is None:
        return None
    sentences = _joined(body, codes, tags)
    # No attribute holds a quotation mark if there are just those that delimit them, and those of the words.
    return sentences if body.count(b'"') == sentences.lines.count(b'"') + tags.quotes else None


def _plain_body(content: bytes) -> bytes | None:
    """What goes from the first sentence to the end of the last, without entities; None if anything is unusual."""
    start, end = content.find(b"<s"), content.rfind(b"</s>") + 4
    if start < 0 or end < start or not _is_frame(content[:start], content[end:]):
        return None
    body = content[start:end]
    if b"&" in body:
        if _IN_ATTRIBUTE.search(body):
            return None
        # All of the five stand for characters that cleaning turns to spaces.
        body = _NAMED_ENTITY.sub(b" ", body)
    if b"&" in body or (not body.isascii() and any(character in body for character in _NO_CHARACTERS)):
        return None
    return body


def _is_frame(head: bytes, tail: bytes) -> bool:
    """Whether what surrounds the sentences is a sound document in UTF-8."""
    if b"encoding" in head and not re.search(rb"encoding=[\"']utf-?8[\"']", head, re.IGNORECASE):
        return False
    if b"<!" in head or b"<!" in tail or b"<w" in tail or b"<time" in tail:
        return False
    try:
        document = etree.fromstring(head + b"<s/>" + tail, _parser())
    except (etree.XMLSyntaxError, ValueError):
        return False
    parts = [child.tag for child in document]
    return document.tag == "document" and parts.count("s") == 1 and set(parts) <= {"s", "meta"}


@dataclass(frozen=True)
class _Tags:
    """The tags of the sentences in their order.

    Attributes:
        kinds: ``[tags]``.
        opening, closing: The places of ``<`` and ``>``, ``[tags]``.
        quotes: How many quotation marks they have, if those with an identifier alone have two.
        begins: Whether a block begins, ``[times]``.
        values: Seconds, NaN where they cannot be read, ``[times]``.
    """

    kinds: Array
    opening: Array
    closing: Array
    quotes: int
    begins: Array
    values: Array


def _find_tags(body: bytes, codes: Array, written: Array) -> _Tags | None:
    """The tags of sound sentences; None if anything is in doubt."""
    marks = np.flatnonzero((written == _OPENING) | (written == _CLOSING))
    opening, closing = marks[0::2], marks[1::2]
    if len(marks) % 2 or (codes[opening] != _OPENING).any() or (codes[closing] != _CLOSING).any():
        return None
    eight: Array = np.ndarray(len(codes) - 8, np.uint64, codes, strides=(1,))
    heads, size = eight[opening], closing - opening + 1
    quoted = codes[closing - 1] == _QUOTE
    kinds = np.full(len(opening), -1, np.int8)
    four, seven = heads & _MASKS[4], heads & _MASKS[7]
    kinds[four == _code(b"</w>")] = _WORD_END
    kinds[four == _code(b"</s>")] = _SENTENCE_END
    kinds[(seven == _code(b'<w id="')) & quoted & (size > 8)] = _WORD
    kinds[(seven == _code(b'<s id="')) & quoted & (size > 8)] = _SENTENCE

    timed = np.flatnonzero(heads == _code(b"<time id"))
    start, end = opening[timed], closing[timed]
    end_of_value = end - 2 - (codes[end - 2] == _SPACE)
    value = end_of_value - _CLOCK_SIZE
    sound = (eight[value - 9] == _code(b'" value=')) & (codes[value - 1] == _QUOTE) & (codes[end_of_value] == _QUOTE)
    sound &= (codes[end - 1] == _SLASH) & (codes[start + 8] == _EQUALS) & (codes[start + 9] == _QUOTE)
    sound &= value - 9 > start + 9
    begins, values = codes[value - 10] == _START, _clock_values(body, codes, value, sound)
    for number in np.flatnonzero(~sound).tolist():
        found = _TIME_TAG.fullmatch(body, start[number], end[number] + 1)
        if found is None:
            return None
        begins[number], values[number] = found[1].endswith(b"S"), _seconds_or_nan(found[2])
    kinds[timed] = _TIME

    quotes = 2 * np.count_nonzero((kinds == _WORD) | (kinds == _SENTENCE)) + 4 * len(timed)
    for tag in np.flatnonzero(kinds < 0).tolist():
        text = body[opening[tag] : closing[tag] + 1]
        kinds[tag] = _unusual_tag(text)
        quotes += text.count(b'"')
    tags = _Tags(kinds, opening, closing, quotes, begins, values)
    return tags if _are_sound(body, eight, tags) else None


def _unusual_tag(tag: bytes) -> int:
    """The kind of a tag that has no attribute, or others than an identifier; -1 if it is in doubt."""
    found = _TAG.fullmatch(tag)
    names = _NAME.findall(found[1]) if found else []
    if found is None or len(set(names)) < len(names) or b"xmlns" in names:
        return -1
    return _WORD if tag.startswith(b"<w") else _SENTENCE


def _are_sound(body: bytes, eight: Array, tags: _Tags) -> bool:
    """Whether all tags are known and in an order they may have, and nothing but blanks is outside of words."""
    kinds, opening, closing = tags.kinds, tags.opening, tags.closing
    if (kinds < 0).any() or kinds[0] != _SENTENCE or kinds[-1] != _SENTENCE_END:
        return False
    if not _MAY_FOLLOW[kinds[:-1], kinds[1:]].all():
        return False
    gaps = np.flatnonzero(kinds[:-1] != _WORD)
    place, size = closing[gaps] + 1, opening[gaps + 1] - closing[gaps] - 1
    short = np.minimum(size, 8)
    usual = (eight[place] & _MASKS[short] == _GAPS[short]) & (size <= 8)
    return all(_BLANK.fullmatch(body, closing[gap] + 1, opening[gap + 1]) for gap in gaps[~usual].tolist())


def _joined(body: bytes, codes: Array, tags: _Tags) -> Sentences:
    words = np.flatnonzero(tags.kinds == _WORD)
    nothing = np.zeros(0)
    if not len(words):
        return Sentences(b"", nothing, nothing)
    sentence = np.cumsum(tags.kinds == _SENTENCE)[words]
    is_last = np.append(sentence[1:] != sentence[:-1], True)
    is_first = np.append(True, is_last[:-1])
    # Each word is taken with the < after it, in whose place then comes what separates it from the next.
    begin, size = tags.closing[words] + 1, tags.opening[words + 1] - tags.closing[words]
    after = np.cumsum(size)
    text = codes[np.repeat(begin - after + size, size) + np.arange(after[-1])]
    text[text == _LINE_FEED] = _SPACE
    text[after - 1] = np.where(is_last, _LINE_FEED, _SPACE)
    times = np.flatnonzero(tags.kinds == _TIME)
    starts, ends = _clocks(words[is_first], words[is_last], times, tags.values, tags.begins)
    return Sentences(text[:-1].tobytes(), starts, ends)


def _clocks(first_words: Array, last_words: Array, times: Array, values: Array, begins: Array) -> tuple[Array, Array]:
    """When sentences start and end, from the places of their first and last words and of all times."""
    before = np.searchsorted(times, first_words)  # 0 if there is none
    after = np.searchsorted(times, last_words)
    starting = np.append(np.nan, np.where(begins, values, np.nan))
    ending = np.append(np.where(begins, np.nan, values), np.nan)
    return starting[before], ending[after]


_CLOCK_SIZE = len("00:00:00,000")
_DIGITS = np.array([0, 1, 3, 4, 6, 7, 9, 10, 11])
_WEIGHTS = np.array([36_000_000, 3_600_000, 600_000, 60_000, 10_000, 1000, 100, 10, 1])


def _clock_values(body: bytes, codes: Array, places: Array, sound: Array) -> Array:
    """``seconds`` of the values of the usual size that begin there; NaN where it is None."""
    characters = codes[places[:, None] + np.arange(_CLOCK_SIZE)]
    digits = characters[:, _DIGITS] - np.uint8(ord("0"))
    usual = (digits <= 9).all(axis=1)
    for place, sign in ((2, ":"), (5, ":"), (8, ",")):
        usual &= characters[:, place] == ord(sign)
    values = np.where(usual, digits @ _WEIGHTS / 1000, np.nan)
    for number in np.flatnonzero(sound & ~usual).tolist():
        values[number] = _seconds_or_nan(body[places[number] : places[number] + _CLOCK_SIZE])
    return values


def _seconds_or_nan(value: bytes) -> float:
    clock = seconds(value)
    return np.nan if clock is None else clock


def seconds(value: bytes) -> float | None:
    """A time as written, such as 00:01:02,345 or 0:01:2.5; None if it cannot be read."""
    match = _CLOCK.fullmatch(value.strip())
    if match is None:
        return None
    hours, minutes, whole, fraction = match.groups()
    milliseconds = int(((fraction or b"") + b"000")[:3])
    return ((int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1000 + milliseconds) / 1000
