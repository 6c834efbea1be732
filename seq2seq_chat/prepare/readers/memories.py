"""Translation memories: TMX, and XLIFF 1.2 and 2.0, as programs for translators exchange them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from lxml import etree

from seq2seq_chat.prepare.readers.inputs import find_encoding, open_piece
from seq2seq_chat.prepare.readers.tables import Columns, choose_columns, start_of
from seq2seq_chat.prepare.shards import Piece, Shard
from seq2seq_chat.system.compressed import DamagedFile

FILE_NAMES = "tmx|xlf|xliff"
_START = re.compile(r"(?:\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>)*<(?:\w+:)?(?:tmx|xliff)\b", re.DOTALL)
_LANGUAGE = ("{http://www.w3.org/XML/1998/namespace}lang", "lang")
_LANGUAGES = {"source": ("source-language", "srcLang"), "target": ("target-language", "trgLang")}
_CODES = {"ph", "bpt", "ept", "it", "ut", "x", "bx", "ex", "sc", "ec", "cp"}  # whose content is no text
_FIRST_UNITS = 100  # their languages are taken for the languages of the file
Sides = dict[str, str]
"""The texts of a unit, by language in lower case."""


def is_memory(piece: Piece) -> bool:
    """Whether a file begins like a translation memory. Raises CorpusError if it cannot be read."""
    start = start_of(piece)
    return bool(_START.match(start.decode(find_encoding(start), "replace").removeprefix("\ufeff")))


def find_languages(piece: Piece, columns: Columns | None) -> tuple[str, str]:
    """The languages of source and target, by the first units of a translation memory.

    Raises:
        CorpusError: The languages must be chosen or do not exist.
        OSError: The file cannot be opened.
    """
    names: list[str] = []
    with suppress(etree.XMLSyntaxError, DamagedFile):  # reported when it is read
        for sides in islice(_units(piece), _FIRST_UNITS):
            names += [language for language in sides if language not in names]
    if not names:
        return "", ""

    def find_name(column: str) -> str:  # en stands for en-us
        name = column.lower()
        return name if name in names else next((each for each in names if each.startswith(f"{name}-")), name)

    given = columns and (find_name(columns[0]), find_name(columns[1]))
    first, second = choose_columns(piece, names, range(len(names)), given)
    return names[first], names[second]


def read_units(piece: Piece, shard: Shard) -> Iterator[tuple[int, Sides]]:
    """Yield (number from 1, texts) of each unit; a file that is damaged or ends early is damage."""
    number = 0
    try:
        for number, sides in enumerate(_units(piece, shard), start=1):
            yield number, sides
    except (etree.XMLSyntaxError, DamagedFile) as error:
        shard.add_damage(f"after unit {number}", str(error), incomplete=True)


def iterate_elements(file: Any, *tags: str, **options: Any) -> Iterator[Any]:
    """Yield the elements with one of the tags in bounded memory; attacks by entities are not expanded.

    Raises:
        etree.XMLSyntaxError: The XML is malformed, unless it is to ``recover``.
    """
    for _, element in etree.iterparse(file, tag=tags, resolve_entities=False, no_network=True, **options):
        yield element
        element.clear()
        for each in (element, *element.iterancestors()):
            while each.getparent() is not None and each.getprevious() is not None:
                del each.getparent()[0]


def _units(piece: Piece, shard: Shard | None = None) -> Iterator[Sides]:
    with open_piece(piece, shard.add_bytes if shard else lambda size: None) as file:
        yield from map(_sides, iterate_elements(file, "{*}tu", "{*}trans-unit", "{*}segment"))


def _sides(unit: Any) -> Sides:
    if etree.QName(unit).localname == "tu":
        variants = ((variant, variant.find("{*}seg")) for variant in unit.iterchildren("{*}tuv"))
        languages = ((next(filter(None, map(variant.get, _LANGUAGE)), ""), text) for variant, text in variants)
        return {language.lower(): _text(text) for language, text in languages if text is not None}
    sides = {}
    for side, names in _LANGUAGES.items():
        given = (parent.get(name) for parent in unit.iterancestors() for name in names)
        text = unit.find(f"{{*}}{side}")
        sides[next(filter(None, given), side).lower()] = "" if text is None else _text(text)
    return sides


def _text(element: Any) -> str:
    """The text of an element without the codes in it, with single spaces."""
    return " ".join("".join(_parts(element)).split())


def _parts(element: Any) -> Iterator[str]:
    yield element.text or ""
    for child in element:
        if isinstance(child.tag, str) and etree.QName(child).localname not in _CODES:  # else a comment, or a code
            yield from _parts(child)
        yield child.tail or ""
