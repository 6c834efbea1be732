"""Conversations in the terminal, and replies through pipes."""

from __future__ import annotations

import contextlib
import logging
from typing import IO

from seq2seq_chat.config import Decoding
from seq2seq_chat.inference.chatbot import Chatbot, Reply
from seq2seq_chat.system.signals import Terminated

HELP = "/quit or Ctrl-D ends the conversation, /why explains the last reply, /reset clears the history"
END_WORDS = ("/quit", "quit", "exit", "bye")
UNREADABLE = "(I can only read the letters a to z, digits and . , ! ?)"

logger = logging.getLogger(__name__)


def converse(bot: Chatbot, decoding: Decoding, scores: bool) -> None:
    """Talk until the user ends the conversation."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  arrow keys and a history for input()
    print(f"You are talking to {bot.config.name}. {HELP}.\n")
    last: Reply | None = None
    history: list[str] = []
    while True:
        try:
            text = input("you: ").strip()
        except Terminated:
            raise
        except (EOFError, KeyboardInterrupt):
            print()
            return
        except UnicodeDecodeError:
            print(UNREADABLE)
            continue
        if text.lower().rstrip(" .!") in END_WORDS:
            return
        if text == "/why":
            print(explain(last) if last else "no reply yet")
        elif text == "/reset":
            history.clear()
            print("history cleared")
        elif text.startswith("/"):
            print(HELP)
        elif text:
            reply = bot.reply(text, decoding, history)
            if not reply.hypotheses:
                print(UNREADABLE)
                continue
            last = reply
            history += [text, reply.text]
            print("\n".join(f"bot: {line}" for line in _lines(reply, scores)))


def answer_lines(bot: Chatbot, decoding: Decoding, scores: bool, lines: IO[bytes], out: IO[str]) -> None:
    """Write a line with the reply to each line; with ``scores``, a line for each hypothesis, then an empty one.

    Invalid UTF-8 becomes unknown characters, with a warning for the first line that has any.
    """
    warned = False
    for number, line in enumerate(iter(lines.readline, b""), start=1):
        try:
            utterance = line.decode("utf-8")
        except UnicodeDecodeError:
            utterance = line.decode("utf-8", errors="replace")
            if not warned:
                warned = True
                logger.warning(
                    "line %d of stdin is not UTF-8, so some of its letters are lost; convert the input, for example "
                    "with: iconv -f latin1 -t utf-8",
                    number,
                )
        reply = bot.reply(utterance, decoding)
        for text in _lines(reply, scores):
            out.write(text + "\n")
        if scores:
            out.write("\n")
        out.flush()  # the other program may wait for the reply before it writes the next utterance


def explain(reply: Reply) -> str:
    """The words read, those that are unknown, all hypotheses, and what each word of the best one attends to most."""
    lines = [f"words read: {' '.join(reply.source_words)}"]
    if reply.unknown_words:
        lines.append(f"unknown words: {', '.join(reply.unknown_words)}")
    lines += [f"{hypothesis.score:8.2f}  {hypothesis.text}" for hypothesis in reply.hypotheses]
    best = reply.hypotheses[0] if reply.hypotheses else None
    if best and best.attention:
        attended = [reply.source_words[max(range(len(row)), key=row.__getitem__)] for row in best.attention]
        pairs = [f"{word} ← {source}" for word, source in zip(best.words, attended, strict=True)]
        lines.append("attention: " + ", ".join(pairs))
    return "\n".join(lines)


def _lines(reply: Reply, scores: bool) -> list[str]:
    if scores:
        return [f"{hypothesis.score:.4f}\t{hypothesis.text}" for hypothesis in reply.hypotheses]
    return [reply.text]
