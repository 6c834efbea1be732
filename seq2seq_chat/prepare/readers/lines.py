"""Texts of lines: corpus files and other texts of an utterance per line, alternating lines, and DailyDialog.

DailyDialog has a dialogue per line, with ``__eou__`` after each turn.
"""

from __future__ import annotations

import csv
import html
import itertools
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION, CorpusError, is_mistyped_marker
from seq2seq_chat.prepare.readers import COMPRESSED, RawCorpus
from seq2seq_chat.prepare.readers.chats.formats import find_format, is_mail
from seq2seq_chat.prepare.readers.inputs import read_text_start
from seq2seq_chat.prepare.readers.text import ConversationWriter, records, text_lines
from seq2seq_chat.prepare.shards import BLANK, MARKERS, UTTERANCES, Piece, ReaderSettings, Shard
from seq2seq_chat.system.compressed import DamagedFile

BLANK_LINES = "blank"
"""The value of --separator for blank lines."""
MAX_FILES = 100  # whose beginnings are looked at
MIN_LINES = 10  # without blank ones; fewer do not show what a file is
MOSTLY = 0.8  # of the lines
SEPARATOR_SHARES = 0.03, 0.67  # of the lines with text, for lines that separate conversations
_END_OF_TURN = "__eou__"
_JSON = r'[{\[] *(["{\[\d].*)?|[}\]]+,?|".*'
_RULE = re.compile(r"([-=*_#~+])\1{2,}")


@dataclass(frozen=True)
class LinesSettings(ReaderSettings):
    """The options of this reader."""

    turns: Literal["running", "odd-even"] = "running"  # running conversations, or odd-even pairs of lines
    separator: str | None = None  # a line between conversations besides the marker; BLANK_LINES: blank ones
    as_is: bool = False  # whether to read the lines of files that look like something else


def read_lines(piece: Piece, settings: LinesSettings, shard: Shard) -> None:
    """Read a corpus file, or any text with one utterance per line.

    The separator of the settings ends a conversation, too, and so does a mistyped marker, which is damage. With
    ``odd-even`` turns the lines are pairs, see ``read_tweets``.

    Raises:
        OSError: The file cannot be opened.
    """
    if settings.turns == "odd-even":
        read_tweets(piece, settings, shard)
        return
    separator = "" if settings.separator == BLANK_LINES else settings.separator
    conversations = ConversationWriter(piece, settings, shard)
    conversation = markers = blank = 0
    for number, line in text_lines(piece, shard):
        shard.piece.records += 1
        text = line.strip()
        if text in (END_OF_CONVERSATION, separator):
            conversation += 1
            markers += 1
        elif is_mistyped_marker(line):
            _add_mistyped_marker(shard, number, text)
            conversation += 1
        elif text:
            conversations.add(conversation, [line])
        else:
            blank += 1
    conversations.flush()
    shard.leave_out(MARKERS, markers)
    shard.leave_out(BLANK, blank)
    shard.piece.single_conversation = shard.piece.conversations == 1


def read_tweets(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read a text in which each even line replies to the line before it, as in collections of tweets.

    Each pair is a conversation; a pair with a damaged or empty line is dropped. Damaged and empty lines are counted, so
    that they do not shift later pairs; only markers between conversations are not.

    Raises:
        OSError: The file cannot be opened.
    """
    conversations = ConversationWriter(piece, settings, shard, complete_size=2)
    markers = blank = 0
    for number, line in text_lines(piece, shard):
        if line.strip() == END_OF_CONVERSATION:
            markers += 1
            continue
        shard.piece.records += 1
        if is_mistyped_marker(line):
            _add_mistyped_marker(shard, number, line.strip())
            markers += 1
        else:
            blank += not line.strip()
            conversations.add((number - 1 - markers) // 2, [html.unescape(line)])
    conversations.flush()
    shard.leave_out(BLANK, blank)


def _add_mistyped_marker(shard: Shard, number: int, text: str) -> None:
    shard.add_damage(f"line {number}", f"{text} is not the line that ends a conversation, {END_OF_CONVERSATION}")


def read_dailydialog(piece: Piece, settings: ReaderSettings, shard: Shard) -> None:
    """Read a text file of DailyDialog. Raises OSError if it cannot be opened."""
    conversations = ConversationWriter(piece, settings, shard)
    for number, line in records(piece, shard):
        if _END_OF_TURN in line:
            conversations.add(number, line.split(_END_OF_TURN))
        else:
            shard.add_damage(
                f"line {number}", f"no {_END_OF_TURN}; name the files that contain the dialogues, or another corpus"
            )
    conversations.flush()


def ensure_lines(settings: LinesSettings, files: list[Piece]) -> list[Piece]:
    """The files themselves, of which some are checked by how they begin.

    Raises:
        CorpusError: A file has another format, or other separators than markers and the one of the settings. The
            message names the remedy.
    """
    for file in [] if settings.as_is or settings.turns == "odd-even" else files[:MAX_FILES]:
        try:
            start = read_text_start(file)
        except (DamagedFile, OSError):
            continue  # reported when it is read
        if END_OF_CONVERSATION in start:
            continue
        if kind := other_format(start):
            raise CorpusError(f"{file} looks like {kind}. To read its lines as they are, use --as-is.")
        if settings.separator is None and (found := find_separator(start)) is not None:
            name = "blank lines" if found == BLANK_LINES else f"lines of {found}"
            raise CorpusError(
                f"{file} seems to separate conversations by {name}. Use --separator {shlex.quote(found)}, or --as-is "
                "if they mean nothing."
            )
    return files


def other_format(start: str) -> str | None:
    """What a file is that begins with this text, and what to do with it; None for lines of text."""
    lines = [line.strip() for line in start.split("\n") if line.strip()]
    if found := find_format(start):
        return f"a chat ({found.name}), which `seq2seq-chat prepare chats` reads"
    if len(lines) < MIN_LINES:
        return None
    kinds = {
        "e-mail": is_mail(start),
        "JSON": start.lstrip()[:1] in ("{", "[") and _share(lines, _JSON) >= MOSTLY,
        "XML or HTML": start.lstrip()[:1] == "<" and _share(lines, r"<.*") >= MOSTLY,
    }
    if kind := next((kind for kind, is_kind in kinds.items() if is_kind), None):
        return f"{kind}: extract the texts, one per line"
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


CORPUS = RawCorpus(
    read_lines, UTTERANCES, rf".*\.txt{COMPRESSED}", ".txt or .txt.gz", settings=LinesSettings, select=ensure_lines
)
TEXT = replace(CORPUS, file_names=rf"(?i).*\.(txt|text|tokens|raw){COMPRESSED}", description=".txt", recursive=True)
"""Running text, of which `prepare_text` reads the files."""
TWEETS = RawCorpus(read_tweets, UTTERANCES, rf".*\.txt{COMPRESSED}", ".txt or .txt.gz")
DAILYDIALOG = RawCorpus(
    read_dailydialog,
    UTTERANCES,
    rf"(?!dialogues_(text|topic|act|emotion)).*\.txt{COMPRESSED}",
    "dialogues_train.txt (or .txt.gz)",
    unit="utterances",
    recursive=True,
)
