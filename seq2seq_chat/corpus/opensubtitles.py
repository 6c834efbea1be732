"""OpenSubtitles: the XML files of OPUS, one for each subtitle file of a film.

A sentence ``<s>`` holds words ``<w>``; ``<time>`` elements tell when a block of the subtitles begins
(``id="T7S"``) and ends (``id="T7E"``). Blocks and sentences overlap freely: a sentence may go over
several blocks, and a block may hold several sentences, which then have one time or none.

Files as OPUS writes them are taken apart by regular expressions, many times faster than by a parser of
XML. They accept only what is well-formed beyond doubt; anything else goes to lxml, which gives
the same rows or tells what is broken.
"""

from __future__ import annotations

import hashlib
import re
import zipfile
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from lxml import etree

from seq2seq_chat.corpus.compressed import BrokenStream, read_whole
from seq2seq_chat.corpus.shards import Piece, ReadingSettings, Shard
from seq2seq_chat.corpus.text import clean_lines

MARKS_PER_FILM = 32
"""A film is sampled by the smallest hashes of so many of its distinct long sentences."""

_LONG_SENTENCE = 8  # words; a shorter one may well occur in many films

_ATTRIBUTES = rb'(?: [A-Za-z_:][\w:.-]*="[^"<&]*")*'
_NEXT_WORD = re.compile(rb"</w>\s*<w" + _ATTRIBUTES + rb" ?>")
_TIME = rb'\s*<time id="[^"<&]*([SE])" value="([^"<&]*)" ?/>'
_WORDS = rb"\s*<w" + _ATTRIBUTES + rb" ?>([^<]*)</w>"
_SENTENCE_START = re.compile(rb"\s*<s" + _ATTRIBUTES + rb" ?>")
_TIME_OR_WORDS = re.compile(rb"(?:" + _TIME + rb"|" + _WORDS + rb")")
_BLANK = re.compile(rb"\s*")
_NAMED_ENTITY = re.compile(rb"&(?:amp|lt|gt|quot|apos);")
# The same for what OPUS nearly always writes, in letters that are quick to compare.
_COMMON_SENTENCE = re.compile(
    rb'\s*<s id="\d+">\s*<time id="T\d+S" value="([\d:,]+)" />\s*<w id="[\d.]+">([^<]*)</w>\s*'
    rb'<time id="T\d+E" value="([\d:,]+)" />\s*'
)
_COMMON_NEXT_WORD = b'</w>\n    <w id="'
_COMMON_ID = re.compile(rb'\x00[\d.]+">')
_NO_CHARACTERS = (b"\xef\xbf\xbe", b"\xef\xbf\xbf")
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\r")
_COLON, _COMMA = b":,"
_CLOCK = re.compile(rb"(\d+):(\d+):(\d+)(?:[,.](\d*))?")

_Time = tuple[bool, bytes]
"""A ``<time>``: whether a block begins, and when."""


class Sentences:
    """The sentences of a film that have words, as columns.

    A sentence starts when the block starts whose ``<time>`` is the last one before its first word,
    and ends when the block ends whose ``<time>`` is the first one after its last word, in whatever
    sentence these lie; where there is another kind of ``<time>``, or none, it is not known.

    Attributes:
        texts: Words as written, joined by spaces.
        starts, ends: Times as written.
    """

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.starts: list[bytes | None] = []
        self.ends: list[bytes | None] = []
        self._latest: bytes | None = None  # the time of the latest <time>, if it was a start
        self._open = 0  # the first of the sentences that no <time> followed yet

    def timed(self, start: bytes, words: bytes, end: bytes) -> None:
        """Take over a sentence that is exactly a block."""
        if self._open < len(self.texts):
            self._follow(None)
        self.texts.append(words)
        self.starts.append(start)
        self.ends.append(end)
        self._open += 1
        self._latest = None

    def add(self, items: Sequence[bytes | _Time]) -> None:
        """Take over a sentence as its words and times in their order."""
        words = [number for number, item in enumerate(items) if isinstance(item, bytes)]
        first, last = (words[0], words[-1]) if words else (-1, -1)
        for number, item in enumerate(items):
            if isinstance(item, tuple):
                if not first < number < last:  # a time between words is no end of this sentence
                    self._follow(None if item[0] else item[1])
                self._latest = item[1] if item[0] else None
            if number == first:
                # Those before it that nothing followed are followed by a time within this sentence, if by any.
                inner = next((item for item in items[first:last] if isinstance(item, tuple)), None)
                if inner is not None:
                    self._follow(None if inner[0] else inner[1])
                self.starts.append(self._latest)
                self.ends.append(None)
                self.texts.append(b" ".join(item for item in items if isinstance(item, bytes)))

    def _follow(self, end: bytes | None) -> None:
        """A ``<time>`` follows all sentences that none followed yet."""
        for number in range(self._open, len(self.texts)):
            self.ends[number] = end
        self._open = len(self.texts)

    def decoded(self) -> list[str]:
        """The texts, each on a line."""
        lines = b"\n".join(self.texts).decode().split("\n")
        if len(lines) == len(self.texts):
            return lines
        return [text.decode().replace("\n", " ") for text in self.texts]


class BrokenFilm(Exception):
    """The XML is damaged; the message says where."""


def read_opensubtitles(piece: Piece, settings: ReadingSettings, shard: Shard) -> None:
    """Read one film into a shard of UTTERANCES, and its marks; a damaged file is left out as a whole.

    Raises:
        OSError: The file cannot be opened.
    """
    shard.piece.records += 1
    try:
        sentences = film_sentences(_content(piece))
    except (BrokenStream, BrokenFilm) as fault:
        shard.damage("", str(fault), incomplete=True)
        return
    finally:
        shard.read(piece.size)
    texts = clean_lines(sentences.decoded())
    kept = [number for number, text in enumerate(texts) if text]
    texts = [texts[number] for number in kept]
    if not texts:
        return
    shard.piece.threads = 1
    shard.add(
        file=piece.file,
        thread=0,
        position=range(len(texts)),
        text=texts,
        start=[seconds(sentences.starts[number]) for number in kept],
        end=[seconds(sentences.ends[number]) for number in kept],
    )
    exact, sample = film_marks(texts)
    shard.mark(True, [exact])
    shard.mark(False, sample)


def film_marks(texts: Sequence[str]) -> tuple[int, list[int]]:
    """A mark of all clean sentences of a film, and a sample of marks of its long ones.

    Two films have equal first marks just when their sentences are equal, and many marks of the
    sample in common when they have many sentences in common (bottom-k sketch, Broder 1997).
    """
    digest = hashlib.blake2b("\n".join(texts).encode(), digest_size=8).digest()
    long = {text for text in texts if text.count(" ") >= _LONG_SENTENCE - 1}
    hashes = {(zlib.crc32(text.encode()) * 0x9E3779B1) & 0xFFFFFFFF for text in long}
    return int.from_bytes(digest, "big") >> 1, sorted(hashes)[:MARKS_PER_FILM]


def seconds(value: bytes | None) -> float | None:
    """A time as written, such as 00:01:02,345 or 0:01:2.5; None if it cannot be read."""
    if value is None:
        return None
    if len(value) == 12 and value[2] == value[5] == _COLON and value[8] == _COMMA:
        digits = value.replace(b":", b"").replace(b",", b"")
        if len(digits) == 9 and digits.isdigit():
            clock = int(digits)
            full_minutes = clock // 10_000_000 * 60 + clock // 100_000 % 100
            return (full_minutes * 60_000 + clock % 100_000) / 1000
    match = _CLOCK.fullmatch(value.strip())
    if match is None:
        return None
    hours, minutes, whole, fraction = match.groups()
    milliseconds = int(((fraction or b"") + b"000")[:3])
    return ((int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1000 + milliseconds) / 1000


def film_sentences(content: bytes) -> Sentences:
    """The sentences that have words.

    Raises:
        BrokenFilm: The content is no well-formed XML, or has no ``<s>`` where it should have.
    """
    try:
        content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        if b"encoding" not in content[:100] or re.search(rb"encoding=[\"']utf-?8", content[:100], re.IGNORECASE):
            raise BrokenFilm(f"byte {fault.start} is not UTF-8") from fault
        return parse_sentences(content)
    sentences = scan_sentences(content)
    return parse_sentences(content) if sentences is None else sentences


def scan_sentences(content: bytes) -> Sentences | None:
    """The sentences of a file that has the form OPUS gives it, or None for any other."""
    start, end = content.find(b"<s "), content.rfind(b"</s>")
    if start < 0 or end < start or _is_unusual(content):
        return None
    head, body, tail = content[:start], content[start:end], content[end + 4 :]
    if not _is_frame(head, tail):
        return None
    if b"&" in body:
        # All of the five stand for characters that cleaning turns to spaces.
        body = _NAMED_ENTITY.sub(b" ", body)
        if b"&" in body:
            return None
    sentences = Sentences()
    for part in _with_words_joined(body).split(b"</s>"):
        match = _COMMON_SENTENCE.fullmatch(part)
        if match is not None:
            sentences.timed(*match.groups())
            continue
        items = _mixed_sentence(part)
        if items is None:
            return None
        sentences.add(items)
    return sentences


def _is_unusual(content: bytes) -> bool:
    """Whether a parser of XML may object to it, or read it otherwise than is done here."""
    return (
        b"<!" in content
        or b"]]>" in content
        or len(content.translate(None, _CONTROLS)) < len(content)
        or (not content.isascii() and any(character in content for character in _NO_CHARACTERS))
    )


def _with_words_joined(body: bytes) -> bytes:
    """The body with a space in the place of all that is between two words of a sentence."""
    joined = _COMMON_ID.sub(b" ", body.replace(_COMMON_NEXT_WORD, b"\x00"))
    if b"\x00" in joined:  # an identifier of another form
        joined = body
    return _NEXT_WORD.sub(b" ", joined)


def _is_frame(head: bytes, tail: bytes) -> bool:
    """Whether what surrounds the sentences is a sound document in UTF-8."""
    if re.search(rb"encoding=", head) and not re.search(rb"encoding=[\"']utf-?8[\"']", head, re.IGNORECASE):
        return False
    if b"<w" in tail or b"<time" in tail:
        return False
    try:
        document = etree.fromstring(head + tail, _parser())
    except (etree.XMLSyntaxError, ValueError):
        return False
    return document.tag == "document" and all(child.tag == "meta" for child in document)


def _mixed_sentence(part: bytes) -> list[bytes | _Time] | None:
    """The words and times of any sentence; None if it has anything else."""
    match = _SENTENCE_START.match(part)
    if match is None:
        return None
    place = match.end()
    items: list[bytes | _Time] = []
    while (found := _TIME_OR_WORDS.match(part, place)) is not None:
        place = found.end()
        kind, value, words = found.groups()
        items.append((kind == b"S", value) if words is None else words)
    return items if _BLANK.fullmatch(part, place) else None


def parse_sentences(content: bytes) -> Sentences:
    """The same as ``scan_sentences`` of any well-formed file, by a parser of XML.

    Raises:
        BrokenFilm: The content is no well-formed XML.
    """
    try:
        document = etree.fromstring(content, _parser())
    except (etree.XMLSyntaxError, ValueError) as fault:
        raise BrokenFilm(f"broken XML: {fault}") from fault
    sentences = Sentences()
    for sentence in document.iter("s"):
        items: list[bytes | _Time] = []
        for element in sentence.iter("w", "time"):
            if element.tag == "w":
                items.append("".join(element.itertext()).encode())
            else:
                items.append((element.get("id", "").endswith("S"), element.get("value", "").encode()))
        sentences.add(items)
    return sentences


def _parser() -> etree.XMLParser:
    # Nothing outside of the file is looked at, and entities that grow are refused.
    return etree.XMLParser(resolve_entities="internal", no_network=True, load_dtd=False, huge_tree=False)


def _content(piece: Piece) -> bytes:
    """The XML of a piece. Raises BrokenStream, OSError."""
    if piece.member is None:
        return read_whole(Path(piece.path))
    try:
        return _archive(piece.path).read(piece.member)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as fault:
        raise BrokenStream(f"it cannot be unpacked: {fault}") from fault


@lru_cache(maxsize=1)
def _archive(path: str) -> zipfile.ZipFile:
    return zipfile.ZipFile(path)
