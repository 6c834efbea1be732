"""The XML files of OPUS: the sentences of a film, and when they are said.

A sentence ``<s>`` holds words ``<w>``; ``<time>`` elements tell when a block of the subtitles begins
(``id="T7S"``) and ends (``id="T7E"``). Blocks and sentences overlap freely: a sentence may go over
several blocks, and a block may hold several sentences, which then have one time or none.

Files as OPUS writes them are many times faster to take apart than a parser of XML does it: one regular
expression, which an automaton evaluates in a single pass, accepts just the form that OPUS gives them, and
then the places of ``<`` and ``>`` tell where words are. Anything else goes to lxml, which gives the same
sentences or tells what is broken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import re2
from lxml import etree

Array = Any
"""A NumPy array."""

_CLOCK = re.compile(rb"(\d{1,9}):(\d{1,9}):(\d{1,9})(?:[,.](\d*))?")
_NAMED_ENTITY = re.compile(rb"&(?:amp|lt|gt|quot|apos);")
_TIME_TAG = re.compile(rb'<time id="([^"]*)" value="([^"]*)" ?/>')
_OTHER_ENCODING = re.compile(rb"encoding *= *[\"'](?!utf-?8[\"'])", re.IGNORECASE)
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")

_OPENING, _SPACE, _LINE_FEED, _START, _WORD, _TIME, _SENTENCE = b"< \nSwts"
_EITHER = np.uint8(0xFF ^ ord("<") ^ ord(">"))  # the bits that are the same in both


def _form() -> Any:
    """The sentences of a file as OPUS writes it, from the first to the end of the last."""
    blank, control = rb"[ \t\r\n]*", rb"\x00-\x08\x0b\x0c\x0e-\x1f"
    value = rb'="[^"<>&%s]*"' % control
    text = rb"(?:[^<>&%s]|&(?:amp|lt|gt|quot|apos);)*" % control
    attributes = rb"(?: alternative%s)?(?: emphasis%s)?(?: id%s)?" % (value, value, value)
    word = rb"<w%s>%s</w>" % (attributes, text)
    time = rb"<time id%s value%s ?/>" % (value, value)
    sentence = rb"<s%s>%s(?:(?:%s|%s)%s)*</s>" % (attributes, blank, word, time, blank)
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes; whether they are UTF-8 is seen elsewhere
    options.never_capture = True
    return re2.compile(rb"(?:%s%s)*%s" % (sentence, blank, sentence), options)


_FORM = _form()


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
        place = _no_utf8(content)
        if place is not None and not _OTHER_ENCODING.search(content[:100]):
            raise BrokenFilm(f"byte {place} is not UTF-8") from fault
        raise BrokenFilm(f"broken XML: {fault}") from fault
    texts: list[bytes] = []
    first_words: list[int] = []
    last_words: list[int] = []
    times: list[tuple[int, float, bool]] = []  # place, seconds, whether a block begins
    place = 0
    for sentence in document.iter("s"):
        if next(sentence.iterancestors("s"), None) is not None:
            continue  # a part of that one
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


def _no_utf8(content: bytes) -> int | None:
    """The place of the first byte that is not UTF-8."""
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError as fault:
            return fault.start
    return None


def scan_sentences(content: bytes) -> Sentences | None:
    """The same as ``parse_sentences`` of a file in UTF-8 that has the form OPUS gives it, or None for any other."""
    start, end = content.find(b"<s"), content.rfind(b"</s>") + len(b"</s>")
    body = content[start:end]
    if start < 0 or not _FORM.fullmatch(body) or not _is_frame(content[:start], content[end:]):
        return None
    if not content.isascii() and (
        _no_utf8(content) is not None or any(character in body for character in _NO_CHARACTERS)
    ):
        return None
    if b"&" in body:
        body = _NAMED_ENTITY.sub(b" ", body)  # all of the five stand for characters that cleaning turns to spaces
    return _located(body)


def _is_frame(head: bytes, tail: bytes) -> bool:
    """Whether what surrounds the sentences is a sound document in UTF-8."""
    if _OTHER_ENCODING.search(head) or b"<!" in head or b"<!" in tail or b"<w" in tail or b"<time" in tail:
        return False
    try:
        document = etree.fromstring(head + b"<s/>" + tail, _parser())
    except (etree.XMLSyntaxError, ValueError):
        return False
    parts = [child.tag for child in document]
    return document.tag == "document" and parts.count("s") == 1 and set(parts) <= {"s", "meta"}


def _located(body: bytes) -> Sentences:
    """The sentences of a text that has the form, without entities."""
    codes = np.frombuffer(body, np.uint8)
    marks = np.flatnonzero((codes & _EITHER) == _OPENING)
    opening, closing = marks[0::2], marks[1::2]
    kinds = codes[opening + 1]
    words, times = np.flatnonzero(kinds == _WORD), np.flatnonzero(kinds == _TIME)
    if not len(words):
        return Sentences(b"", np.zeros(0), np.zeros(0))
    sentence = np.cumsum(kinds == _SENTENCE)[words]
    is_last = np.append(sentence[1:] != sentence[:-1], True)
    is_first = np.append(True, is_last[:-1])
    # Each word is taken with the < after it, in whose place then comes what separates it from the next.
    begin, end = closing[words] + 1, opening[words + 1] + 1
    after = np.cumsum(end - begin)
    steps = np.ones(after[-1], np.int64)  # from each byte that is taken to the next
    steps[0] = begin[0]
    steps[after[:-1]] += begin[1:] - end[:-1]
    text = codes[np.cumsum(steps, out=steps)]
    text[text == _LINE_FEED] = _SPACE
    text[after - 1] = np.where(is_last, _LINE_FEED, _SPACE)
    begins, values = _times(body, codes, opening[times], closing[times])
    starts, ends = _clocks(words[is_first], words[is_last], times, values, begins)
    return Sentences(text[:-1].tobytes(), starts, ends)


def _clocks(first_words: Array, last_words: Array, times: Array, values: Array, begins: Array) -> tuple[Array, Array]:
    """When sentences start and end, from the places of their first and last words and of all times."""
    before = np.searchsorted(times, first_words)  # 0 if there is none
    after = np.searchsorted(times, last_words)
    starting = np.append(np.nan, np.where(begins, values, np.nan))
    ending = np.append(np.where(begins, np.nan, values), np.nan)
    return starting[before], ending[after]


_USUAL = np.frombuffer(b'"00:00:00,000', np.uint8)
_MOST = np.where(_USUAL == ord("0"), 9, 0).astype(np.uint8)  # by which each byte of a value may exceed that
_WEIGHTS = np.array([0, 36_000_000, 3_600_000, 0, 600_000, 60_000, 0, 10_000, 1000, 0, 100, 10, 1], np.float64)


def _times(body: bytes, codes: Array, opening: Array, closing: Array) -> tuple[Array, Array]:
    """Whether blocks begin, and the seconds, of the ``<time>`` that are there; NaN where they cannot be read."""
    size = len(_USUAL)
    places = closing - (codes[closing - 2] == _SPACE) - len('"/') - size
    begins = codes[places - len('S" value=')] == _START
    written: Array = np.ndarray((len(codes) - size, size), np.uint8, codes, strides=(1, 1))
    digits = written[places] - _USUAL
    usual = digits <= _MOST
    values = np.einsum("td,d->t", digits, _WEIGHTS) / 1000
    if not usual.all():
        for number in np.flatnonzero(~usual.all(axis=1)).tolist():
            identifier, value = _TIME_TAG.fullmatch(body, opening[number], closing[number] + 1).groups()  # type: ignore[union-attr]
            begins[number], values[number] = identifier.endswith(b"S"), _seconds_or_nan(value)
    return begins, values


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
