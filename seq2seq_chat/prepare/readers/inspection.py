"""Whether a text has an utterance on each line, by how it begins."""

from __future__ import annotations

import csv
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Sequence

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError
from seq2seq_chat.prepare.readers.chats.exports import read_text_start
from seq2seq_chat.prepare.readers.chats.formats import find_format
from seq2seq_chat.prepare.shards import Piece
from seq2seq_chat.system.compressed import DamagedFile

BLANK_LINES = "blank"
"""The value of --separator for blank lines."""
MAX_FILES = 100  # whose beginnings are looked at
MIN_LINES = 10  # without blank ones; fewer do not show what a file is
MOSTLY = 0.8  # of the lines
SEPARATOR_SHARES = 0.03, 0.67  # of the lines with text, for lines that separate conversations
_JSON = r'[{\[] *(["{\[\d].*)?|[}\]]+,?|".*'
_RULE = re.compile(r"([-=*_#~+])\1{2,}")


def ensure_lines(files: Sequence[Piece], separator: str | None) -> None:
    """Check how some files begin.

    Raises:
        CorpusError: A file has another format, or other separators than markers and ``separator``. The message names
            the remedy.
    """
    for file in files[:MAX_FILES]:
        try:
            start = read_text_start(file)
        except (DamagedFile, OSError):
            continue  # reported when it is read
        if END_OF_CONVERSATION in start:
            continue
        if kind := other_format(start):
            raise CorpusError(f"{file} looks like {kind}. To read its lines as they are, use --as-is.")
        if separator is None and (found := find_separator(start)) is not None:
            name = "blank lines" if found == BLANK_LINES else f"lines of {found}"
            raise CorpusError(
                f"{file} seems to separate conversations by {name}. Use --separator {shlex.quote(found)}, or --as-is "
                "if they mean nothing."
            )


def other_format(start: str) -> str | None:
    """What a file is that begins with this text, and what to do with it; None for lines of text."""
    lines = [line.strip() for line in start.split("\n") if line.strip()]
    if found := find_format(start):
        return f"a chat ({found.name}), which `seq2seq-chat prepare chats` reads"
    if len(lines) < MIN_LINES:
        return None
    if start.lstrip()[:1] in ("{", "[") and _share(lines, _JSON) >= MOSTLY:
        return "JSON: extract the texts, one per line"
    if start.lstrip()[:1] == "<" and _share(lines, r"<.*") >= MOSTLY:
        return "XML or HTML: extract the texts, one per line"
    for delimiter, name, columns in (("\t", "tabs", 2), (";", "semicolons", 3), (",", "commas", 3)):
        widths = Counter(map(len, csv.reader(lines[:-1][:1000], delimiter=delimiter)))  # the last line may be cut
        width, count = widths.most_common(1)[0]
        if width >= columns and count >= MOSTLY * widths.total():
            return f"a table of {width} columns, separated by {name}: `seq2seq-chat prepare pairs` reads those of two"
    return None


def find_separator(start: str) -> str | None:
    """What separates the conversations of a text that begins like this: BLANK_LINES, a line, or None for nothing."""
    lines = [line.strip() for line in start.split("\n")[:-1]]
    texts = sum(bool(line) and not _RULE.fullmatch(line) for line in lines)
    if texts < MIN_LINES:
        return None
    low, high = (share * texts for share in SEPARATOR_SHARES)
    rules = Counter(line for line in lines if _RULE.fullmatch(line))
    if rules:
        rule, count = rules.most_common(1)[0]
        if max(2, low) <= count <= high:
            return rule
    blocks = sum(not has_text for has_text, _ in itertools.groupby(lines, bool))
    return BLANK_LINES if max(2, low) <= blocks <= high else None


def _share(lines: Sequence[str], pattern: str) -> float:
    return sum(bool(re.fullmatch(pattern, line)) for line in lines) / len(lines)
