"""The XML files of OPUS: the sentences of a film and their times.

A sentence ``<s>`` contains words ``<w>``; ``<time>`` elements mark the start (``id="T7S"``) and the end (``id="T7E"``)
of a subtitle block. Blocks and sentences overlap freely: a sentence may extend over several blocks, and a block may
contain several sentences, some of which then have no times.

Files in the exact format that OPUS writes are scanned, many times faster than an XML parser: one regular expression,
which an automaton evaluates in a single pass, checks the format, and the positions of ``<`` and ``>`` then delimit the
words. All other files are parsed with lxml, which gives the same sentences or an error.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import re2
from lxml import etree

from seq2seq_chat.system.compressed import DamagedFile

Array = Any
"""A NumPy array."""

_TIME_VALUE = re.compile(rb"(\d{1,9}):(\d{1,9}):(\d{1,9})(?:[,.](\d*))?")
_ENTITIES = ((b"&lt;", b"<"), (b"&gt;", b">"), (b"&quot;", b'"'), (b"&apos;", b"'"), (b"&amp;", b"&"))  # & is the last
_TIME_TAG = re.compile(rb'<time id="([^"]*)" value="([^"]*)" ?/>')
_OTHER_ENCODING = re.compile(rb"encoding *= *[\"'](?!utf-?8[\"'])", re.IGNORECASE)
_NONCHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")

_OPENING, _SPACE, _LINE_FEED, _START, _WORD, _TIME, _SENTENCE = b"< \nSwts"
_BRACKET_MASK = np.uint8(0xFF ^ ord("<") ^ ord(">"))  # the bits that both have in common


def _compile_format() -> Any:
    """The sentences of a file in the format of OPUS, from the start of the first to the end of the last."""
    blank, control = rb"[ \t\r\n]*", rb"\x00-\x08\x0b\x0c\x0e-\x1f"
    value = rb'="[^"<>&%s]*"' % control
    text = rb"(?:[^<>&%s]|&(?:amp|lt|gt|quot|apos);)*" % control
    attributes = rb"(?: alternative%s)?(?: emphasis%s)?(?: id%s)?" % (value, value, value)
    word = rb"<w%s>%s</w>" % (attributes, text)
    time = rb"<time id%s value%s ?/>" % (value, value)
    sentence = rb"<s%s>%s(?:(?:%s|%s)%s)*</s>" % (attributes, blank, word, time, blank)
    options = re2.Options()
    options.encoding = re2.Options.Encoding.LATIN1  # bytes; UTF-8 is checked elsewhere
    options.never_capture = True
    return re2.compile(rb"(?:%s%s)*%s" % (sentence, blank, sentence), options)


_FORMAT = _compile_format()


@dataclass(frozen=True)
class Sentences:
    """The sentences of a film that have words.

    The start of a sentence is given by the last ``<time>`` before its first word if that is the start of a block; its
    end by the first ``<time>`` after its last word if that is the end of a block. These may be in other sentences.

    Attributes:
        lines: One UTF-8 line per sentence, its words joined by spaces; no line feed after the last.
        starts: Seconds, ``[sentences]``; NaN if unknown.
        ends: Seconds, ``[sentences]``; NaN if unknown.
    """

    lines: bytes
    starts: Array
    ends: Array


def film_sentences(content: bytes) -> Sentences:
    """The sentences that have words. Raises DamagedFile if the XML is malformed."""
    sentences = scan_sentences(content)
    return parse_sentences(content) if sentences is None else sentences


def parse_sentences(content: bytes) -> Sentences:
    """The sentences of any well-formed file, with an XML parser. Raises DamagedFile if the XML is malformed."""
    try:
        document = etree.fromstring(content, _parser())
    except (etree.XMLSyntaxError, ValueError) as error:
        offset = _invalid_utf8(content)
        if offset is not None and not _OTHER_ENCODING.search(content[:100]):
            raise DamagedFile(f"byte {offset} is not UTF-8") from error
        raise DamagedFile(f"invalid XML: {error}") from error
    texts: list[bytes] = []
    first_words: list[int] = []
    last_words: list[int] = []
    times: list[tuple[int, float, bool]] = []  # index, seconds, whether it is the start of a block
    index = 0
    for sentence in document.iter("s"):
        if next(sentence.iterancestors("s"), None) is not None:
            continue  # nested in that one
        words: list[bytes] = []
        for element in sentence.iter("w", "time"):
            index += 1
            if element.tag == "time":
                seconds = parse_time(element.get("value", "").encode())
                times.append((index, seconds, element.get("id", "").endswith("S")))
                continue
            if not words:
                first_words.append(index)
            words.append("".join(element.itertext()).encode().replace(b"\n", b" "))
            last_words[len(texts) :] = [index]
        if words:
            texts.append(b" ".join(words))
    indices, values, is_start = np.array(times, float).reshape(-1, 3).T
    starts, ends = _sentence_times(np.array(first_words, int), np.array(last_words, int), indices, values, is_start > 0)
    return Sentences(b"\n".join(texts), starts, ends)


def _parser() -> etree.XMLParser:
    # Load nothing from outside the file, and reject entity expansion attacks.
    return etree.XMLParser(resolve_entities="internal", no_network=True, load_dtd=False, huge_tree=False)


def _invalid_utf8(content: bytes) -> int | None:
    """The offset of the first byte that is not UTF-8, or None."""
    if not content.isascii():
        try:
            content.decode()
        except UnicodeDecodeError as error:
            return error.start
    return None


def scan_sentences(content: bytes) -> Sentences | None:
    """The same as ``parse_sentences`` if the file is UTF-8 in the exact format of OPUS, otherwise None."""
    start, end = content.find(b"<s"), content.rfind(b"</s>") + len(b"</s>")
    body = content[start:end]
    if start < 0 or not _FORMAT.fullmatch(body) or not _is_frame(content[:start], content[end:]):
        return None
    if _invalid_utf8(content) is not None or any(character in body for character in _NONCHARACTERS):
        return None
    sentences = _split_words(body)
    if b"&" not in sentences.lines:
        return sentences
    lines = sentences.lines
    for entity, character in _ENTITIES:
        lines = lines.replace(entity, character)
    return replace(sentences, lines=lines)


def _is_frame(head: bytes, tail: bytes) -> bool:
    """Whether the text around the sentences is well-formed XML in UTF-8, with the elements of OPUS."""
    if _OTHER_ENCODING.search(head) or b"<!" in head or b"<!" in tail or b"<w" in tail or b"<time" in tail:
        return False
    try:
        document = etree.fromstring(head + b"<s/>" + tail, _parser())
    except (etree.XMLSyntaxError, ValueError):
        return False
    tags = [child.tag for child in document]
    return document.tag == "document" and tags.count("s") == 1 and set(tags) <= {"s", "meta"}


def _split_words(body: bytes) -> Sentences:
    """The sentences of a text in the format of OPUS, with their entities."""
    codes = np.frombuffer(body, np.uint8)
    brackets = np.flatnonzero((codes & _BRACKET_MASK) == _OPENING)
    opening, closing = brackets[0::2], brackets[1::2]
    kinds = codes[opening + 1]
    words, times = np.flatnonzero(kinds == _WORD), np.flatnonzero(kinds == _TIME)
    if not len(words):
        return Sentences(b"", np.zeros(0), np.zeros(0))
    sentence = np.cumsum(kinds == _SENTENCE)[words]
    is_last = np.append(sentence[1:] != sentence[:-1], True)
    is_first = np.append(True, is_last[:-1])
    # Take each word with the < after it, which is then replaced by the separator.
    begin, end = closing[words] + 1, opening[words + 1] + 1
    after = np.cumsum(end - begin)
    steps = np.ones(after[-1], np.int64)  # from each taken byte to the next
    steps[0] = begin[0]
    steps[after[:-1]] += begin[1:] - end[:-1]
    text = codes[np.cumsum(steps, out=steps)]
    text[text == _LINE_FEED] = _SPACE
    text[after - 1] = np.where(is_last, _LINE_FEED, _SPACE)
    is_start, values = _parse_times(body, codes, opening[times], closing[times])
    starts, ends = _sentence_times(words[is_first], words[is_last], times, values, is_start)
    return Sentences(text[:-1].tobytes(), starts, ends)


def _sentence_times(
    first_words: Array, last_words: Array, times: Array, values: Array, is_start: Array
) -> tuple[Array, Array]:
    """The start and end times of sentences, from the indices of their first and last words and of all times."""
    before = np.searchsorted(times, first_words)  # 0 if there is none
    after = np.searchsorted(times, last_words)
    starts = np.append(np.nan, np.where(is_start, values, np.nan))
    ends = np.append(np.where(is_start, np.nan, values), np.nan)
    return starts[before], ends[after]


_ZERO_TIME = np.frombuffer(b'"00:00:00,000', np.uint8)
_MAX_DIGITS = np.where(_ZERO_TIME == ord("0"), 9, 0).astype(np.uint8)  # by how much each byte may exceed _ZERO_TIME
_WEIGHTS = np.array([0, 36_000_000, 3_600_000, 0, 600_000, 60_000, 0, 10_000, 1000, 0, 100, 10, 1], np.float64)


def _parse_times(body: bytes, codes: Array, opening: Array, closing: Array) -> tuple[Array, Array]:
    """Of each ``<time>``, whether it is the start of a block, and its seconds; NaN if invalid."""
    size = len(_ZERO_TIME)
    offsets = closing - (codes[closing - 2] == _SPACE) - len('"/') - size
    is_start = codes[offsets - len('S" value=')] == _START
    windows: Array = np.ndarray((len(codes) - size, size), np.uint8, codes, strides=(1, 1))
    digits = windows[offsets] - _ZERO_TIME
    is_usual = digits <= _MAX_DIGITS
    values = np.einsum("td,d->t", digits, _WEIGHTS) / 1000
    if not is_usual.all():
        for index in np.flatnonzero(~is_usual.all(axis=1)).tolist():
            identifier, value = _TIME_TAG.fullmatch(body, opening[index], closing[index] + 1).groups()  # type: ignore[union-attr]
            is_start[index], values[index] = identifier.endswith(b"S"), parse_time(value)
    return is_start, values


def parse_time(value: bytes) -> float:
    """The seconds of a time such as 00:01:02,345 or 0:01:2.5; NaN if it is invalid."""
    match = _TIME_VALUE.fullmatch(value.strip())
    if match is None:
        return math.nan
    hours, minutes, seconds, fraction = match.groups()
    milliseconds = int(((fraction or b"") + b"000")[:3])
    return ((int(hours) * 3600 + int(minutes) * 60 + int(seconds)) * 1000 + milliseconds) / 1000
