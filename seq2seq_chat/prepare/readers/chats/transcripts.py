"""Texts with ``Name: text`` on each line, and subtitles (.srt, .vtt)."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

from seq2seq_chat.data.corpus_file import END_OF_CONVERSATION
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ChatFormat, Message, is_mail, join_lines

_LINE = re.compile(  # also with a time or a list marker before the name, or the name in bold, as Markdown writes it
    r"(?:[-•*] )?(?:[\[(]?\d{1,2}:\d{2}(?::\d{2})?[\])]?\s(?:- )?)?(?:\*\*)?([^\W\d_][^:：\n\t<>{}=/*]{0,39}?)"
    r"\s?(?:\([^()]{1,40}\))?(?:\*\*)?\s?[:：](?!//)(?:\*\*)?\s*(\S.*)"
)
_DIRECTION = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_RULE = re.compile(r"[-=*_]{3,}")
_MOSTLY = 0.5  # lines of a script, or subtitles, that have a name
_BLANK_SHARE = 0.8  # of the turns are followed by blank lines: then these do not divide conversations

_CUE = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{2})[,.](\d{1,3}) *--> *\d.*")
_TAGS = re.compile(r"<(?!v[. ])[^<>]*>|\{\\[^{}]*\}")
_VOICE = re.compile(r"<v(?:\.\S+)? ([^<>]+)>")
_LABEL = re.compile(r"([^\W\d_][^:：]{1,30})[:：] ?(.*)")
_LABELLED_CUE = re.compile(rf"-->.*\n{_LABEL.pattern}")
_LONGEST_CASELESS = 8  # characters of a label in a script without cases
_DASH = re.compile(r"[-–—‐]\s?|>>>?\s?")
_SOUND = re.compile(r"[♪♫♬#].*|[*＊].*[*＊]", re.DOTALL)
_NOTES = re.compile(  # of sounds
    r"\[[^\[\]]*\]|【[^【】]*】|^[(（][^()（）]*[)）]|[(（][^()（）]*[)）]$", re.MULTILINE
)
_END_OF_SENTENCE = re.compile(r"[.!?…。！？\"”»)]$")
_FIRST_DAY = datetime(1970, 1, 1)


def _is_script(start: str) -> bool:
    lines = [line.strip() for line in start.split("\n") if line.strip()]
    names = Counter(match[1] for line in lines if (match := _LINE.fullmatch(line)))
    talks = names.total() > _MOSTLY * len(lines) and names.total() > len(names) > 0
    return talks and not is_mail(start) and not re.match(r"\s*[<{]|\s*\[\s*[\[{\"]", start)


def _read_script(export: Export) -> Iterator[Message | str]:
    blanks = turns = 0
    previous = ""
    for line in export.lines(progress=False):
        turns += bool(_LINE.fullmatch(line.strip()))
        blanks += bool(previous) and not line.strip()
        previous = line.strip()
    blanks_divide = blanks < _BLANK_SHARE * turns
    conversation = 0

    def begin(line: str) -> Message | str | None:
        nonlocal conversation
        if line == END_OF_CONVERSATION or _RULE.fullmatch(line) or (not line and blanks_divide):
            conversation += 1
            return ""
        if _DIRECTION.fullmatch(line):
            return "stage directions"
        match = _LINE.fullmatch(line)
        return Message(match[1], None, match[2], str(conversation)) if match else None

    def finish(message: Message) -> Message:
        return message._replace(text=" ".join(filter(None, message.text.split("\n"))))

    return join_lines(map(str.strip, export.lines()), begin, finish, stray="lines without a name")


def _read_subtitles(export: Export) -> Iterator[Message | str]:
    time: datetime | None = None
    cue: list[str] = []
    number, unfinished = 0, False  # of the speaker, and whether the last cue ends within a sentence
    start = export.start().lstrip("\ufeff").replace("\r", "")
    is_vtt = start.startswith("WEBVTT")
    all_have_names = len(_LABELLED_CUE.findall(start)) > max(1, _MOSTLY * start.count("-->"))

    def finished() -> Iterator[Message | str]:
        nonlocal number, unfinished
        for text, author in _turns(cue, all_have_names):
            if not text:
                yield "sounds"
                continue
            number += not (unfinished and text[:1].islower())
            unfinished = not _END_OF_SENTENCE.search(text)
            yield Message(author, time, text, author_id=author or f"speaker {number}")
        cue.clear()

    for line in map(str.strip, export.lines()):
        if match := _CUE.fullmatch(line):
            if cue and cue[-1].isdecimal():  # the number of this subtitle, without a blank line before it
                cue.pop()
            yield from finished()
            hours, minutes, seconds, fraction = (int(part or 0) for part in match.groups())
            time = _FIRST_DAY + timedelta(hours=hours, minutes=minutes, seconds=seconds + fraction / 1000)
        elif not line:
            yield from finished()
            time = None if is_vtt else time  # in which notes and names of cues follow
        elif time is not None:
            cue.append(line)
    yield from finished()


def _turns(cue: list[str], all_have_names: bool) -> Iterator[tuple[str, str]]:
    """The texts of a subtitle with their speakers, if these are known; the text of a sound is empty.

    A dash begins the text of another person.

    Args:
        all_have_names: Whether every text has its speaker before it, as in transcripts of meetings.
    """
    turns: list[list[str]] = []
    for line in cue:
        voice, plain = _VOICE.match(line), html.unescape(_VOICE.sub("", _TAGS.sub("", line))).strip()
        dash = _DASH.match(plain)
        plain = plain[dash.end() :] if dash else plain
        label = _LABEL.fullmatch(plain)
        if voice:
            turns.append([voice[1].strip(), plain])
        elif label and (all_have_names or _is_name(label[1])):
            turns.append([label[1], label[2]])
        elif dash or not turns:
            turns.append(["", plain])
        else:
            turns[-1].append(plain)
    for author, *texts in turns:
        if text := "\n".join(filter(None, texts)):
            yield "" if _SOUND.fullmatch(text) else " ".join(_NOTES.sub(" ", text).split()), author


def _is_name(label: str) -> bool:
    """Whether what is before a colon is a name: in capitals, short in a script without them, or one or two words."""
    if label == label.upper():
        return label != label.lower() or len(label) <= _LONGEST_CASELESS
    return label.istitle() and label.count(" ") < 2


def _are_subtitles(start: str) -> bool:
    lines = start.lstrip("\ufeff").split("\n", 20)[:20]
    return lines[0].startswith("WEBVTT") or any(map(_CUE.fullmatch, map(str.strip, lines)))


FORMATS = (
    ChatFormat("subtitles", _are_subtitles, _read_subtitles, max_gap=10.0),
    ChatFormat("a text with names", _is_script, _read_script),
)
