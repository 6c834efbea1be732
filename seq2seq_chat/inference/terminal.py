"""A conversation in the terminal, and the same for programs that write and read lines."""

from __future__ import annotations

import contextlib
from typing import IO

from seq2seq_chat.chatbot import Chatbot, Reply
from seq2seq_chat.config import Decoding
from seq2seq_chat.termination import Terminated

HELP = (
    "/quit or Ctrl-D ends the conversation, /why shows how the last reply came about, "
    "/reset forgets what was said before"
)
UNREADABLE = "(I read letters a to z, digits and . , ! ? only)"


def converse(bot: Chatbot, decoding: Decoding, scores: bool) -> None:
    """Talk until the person has enough."""
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
        if text == "/quit":
            return
        if text == "/why":
            print(explain(last) if last else "there is no reply yet")
        elif text == "/reset":
            history.clear()
            print("what was said before is forgotten")
        elif text.startswith("/"):
            print(HELP)
        elif text:
            reply = bot.reply(text, decoding, history)
            history += [text, reply.text] if reply.hypotheses else []
            last = reply if reply.hypotheses else last
            print("\n".join(f"bot: {line}" for line in _lines(reply, scores)) if reply.hypotheses else UNREADABLE)


def answer_lines(bot: Chatbot, decoding: Decoding, scores: bool, lines: IO[bytes], out: IO[str]) -> None:
    """One utterance a line in, one reply a line out; bytes that are not UTF-8 are read as unknown characters."""
    for line in iter(lines.readline, b""):
        reply = bot.reply(line.decode("utf-8", errors="replace"), decoding)
        for text in _lines(reply, scores):
            out.write(text + "\n")
        if scores:
            out.write("\n")
        out.flush()  # whoever asked may wait for the answer before asking on


def explain(reply: Reply) -> str:
    """The words a reply was given to, those not known, the other hypotheses, and the most attended word of each."""
    lines = [f"I read: {' '.join(reply.source_words)}"]
    if reply.unknown_words:
        lines.append(f"I do not know: {', '.join(reply.unknown_words)}")
    lines += [f"{hypothesis.score:8.2f}  {hypothesis.text}" for hypothesis in reply.hypotheses]
    best = reply.hypotheses[0] if reply.hypotheses else None
    if best and best.attention:
        looked_at = [reply.source_words[max(range(len(row)), key=row.__getitem__)] for row in best.attention]
        pairs = [f"{word} ← {source}" for word, source in zip(best.words, looked_at, strict=True)]
        lines.append("looking at: " + ", ".join(pairs))
    return "\n".join(lines)


def _lines(reply: Reply, scores: bool) -> list[str]:
    if scores:
        return [f"{hypothesis.score:.4f}\t{hypothesis.text}" for hypothesis in reply.hypotheses]
    return [reply.text]
