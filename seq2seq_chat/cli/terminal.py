"""What is printed of replies, and replies through pipes. Conversations are in :mod:`.conversation`."""

from __future__ import annotations

import logging
from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BufferedIOBase
from typing import IO, NamedTuple

from tqdm import tqdm

from seq2seq_chat.chat.chatbot import Chatbot, Hypothesis, Reply
from seq2seq_chat.chat.notes import UNKNOWN_LANGUAGE, unknown_note, unread_note
from seq2seq_chat.config import Decoding
from seq2seq_chat.system.pipes import available_lines
from seq2seq_chat.system.tables import one_line

LINES_AT_ONCE = 256

logger = logging.getLogger(__name__)


class ReplyFormat(NamedTuple):
    """What is printed of a reply."""

    scores: bool = False  # all hypotheses with their scores, rather than the best one
    tokens: bool = False  # tokens separated by spaces, rather than text

    def lines(self, reply: Reply) -> list[str]:
        """A line for each hypothesis."""
        if self.scores:
            return [f"{hypothesis.score:.4f}\t{self._line(hypothesis)}" for hypothesis in reply.hypotheses]
        return [self._line(hypothesis) for hypothesis in reply.hypotheses[:1]] or [""]

    def _line(self, hypothesis: Hypothesis) -> str:
        return " ".join(hypothesis.words) if self.tokens else one_line(hypothesis.text)


def answer_lines(
    bot: Chatbot, decoding: Decoding, reply_format: ReplyFormat, stdin: BufferedIOBase, out: IO[str]
) -> None:
    """Write a line with the reply to each line; with ``scores``, a line for each hypothesis, then an empty one.

    Lines that can be read without waiting are answered together. They end as in a corpus file, and a byte order mark is
    dropped. Invalid UTF-8 becomes U+FFFD. The first line with invalid UTF-8 causes a warning, and so do the first one
    that is longer than the model reads, the first with nearly only unknown words, and the first that is not empty but
    has nothing that the model reads.
    """
    warned: set[str] = set()
    done = 0
    with tqdm(unit="line", delay=2, disable=out.isatty() or None, leave=False) as bar:
        for block in available_lines(stdin, LINES_AT_ONCE):
            if not done:
                block[0] = block[0].removeprefix(BOM_UTF8)
            lines = [line.removesuffix(b"\r") for line in block]
            replies = bot.replies([line.decode("utf-8", errors="replace") for line in lines], decoding)
            for line, reply in zip(lines, replies, strict=True):
                done += 1
                for cause, message in _problems(bot, line, reply):
                    if cause not in warned:
                        warned.add(cause)
                        logger.warning("line %d of stdin %s", done, message)
                for text in reply_format.lines(reply):
                    out.write(text + "\n")
                if reply_format.scores:
                    out.write("\n")
            out.flush()  # the other program may wait for the reply before it writes the next utterance
            bar.update(len(lines))


def _problems(bot: Chatbot, line: bytes, reply: Reply) -> Iterator[tuple[str, str]]:
    """What is wrong with a line: a name of the problem, and a sentence about the line."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
        yield (
            "encoding",
            (
                "is not UTF-8, so some of its letters are lost; convert the input, for example with: iconv -f latin1 "
                "-t utf-8"
            ),
        )
    if reply.unread_words:
        yield "length", f"is too long: {unread_note(reply)}"
    if reply.unknown_share >= UNKNOWN_LANGUAGE:
        yield "language", f"has {unknown_note(reply)}"
    if text.strip() and not reply.hypotheses:
        reason = bot.unreadable[0].lower() + bot.unreadable[1:]
        yield "unreadable", f"has no {bot.config.labels.output}, only an empty line: {reason}"


def explain(reply: Reply) -> str:
    """The tokens read, those that are unknown, all hypotheses, and what each token of the best one attends to most."""
    lines = [f"tokens read: {' '.join(reply.source_words)}"]
    if reply.unknown_words:
        lines.append(f"not in the vocabulary: {' '.join(reply.unknown_words)}")
    lines += [f"{hypothesis.score:8.2f}  {one_line(hypothesis.text)}" for hypothesis in reply.hypotheses]
    best = reply.hypotheses[0] if reply.hypotheses else None
    if best and best.attention:
        attended = [reply.source_words[max(range(len(row)), key=row.__getitem__)] for row in best.attention]
        pairs = [f"{word} ← {source}" for word, source in zip(best.words, attended, strict=True)]
        lines.append("attention: " + "   ".join(pairs))
    return "\n".join(lines)
