"""Replies in the terminal: through pipes, and in conversations.

Commands of a conversation change settings, explain replies and save what was said.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import re
from codecs import BOM_UTF8
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import IO, Any, NamedTuple

from tqdm import tqdm

from seq2seq_chat.chat.chatbot import Chatbot
from seq2seq_chat.chat.replies import UNKNOWN_LANGUAGE, Hypothesis, Reply, notes, unknown_note, unread_note
from seq2seq_chat.config import OPTIONS_OF_METHOD, Decoding, override_decoding
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_atomically
from seq2seq_chat.system.signals import Terminated
from seq2seq_chat.system.tables import one_line, pluralize
from seq2seq_chat.text.codec import replace_surrogates

CHUNK = 2**16  # bytes that are read at once from a pipe
LINES_AT_ONCE = 256

logger = logging.getLogger(__name__)


def available_lines(stream: io.BufferedIOBase, limit: int) -> Iterator[list[bytes]]:
    """The lines of a stream, without line feeds, in blocks of those that can be read without waiting.

    Only waits for the first line of each block.

    Args:
        stream: a file, pipe or socket.
        limit: maximum number of lines in a block.
    """
    incomplete: list[bytes] = []
    while chunk := stream.read1(CHUNK):
        first, *others = chunk.split(b"\n")
        incomplete.append(first)
        if not others:
            continue
        lines = [b"".join(incomplete), *others]
        incomplete = [lines.pop()]
        for start in range(0, len(lines), limit):
            yield lines[start : start + limit]
    if any(incomplete):
        yield [b"".join(incomplete)]


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
    bot: Chatbot,
    decoding: Decoding,
    reply_format: ReplyFormat,
    stdin: BufferedIOBase,
    out: IO[str],
    prefix: str | None = None,
) -> None:
    """Write a line with the reply to each line; with ``scores``, a line for each hypothesis, then an empty one.

    Lines that can be read without waiting are answered together. They end as in a corpus file, and a byte order mark is
    dropped. Invalid UTF-8 becomes U+FFFD. The first line with invalid UTF-8 causes a warning, and so do the first one
    that is longer than the model reads, the first with nearly only unknown words, and the first that is not empty but
    has nothing that the model reads.

    Args:
        prefix: What replies start with; ``-``: lines are ``prefix<TAB>utterance``. Raises UserError for one that no
            reply can start with, after the replies to the lines before.
    """
    warned: set[str] = set()
    done = 0
    with tqdm(unit="line", delay=2, disable=out.isatty() or None, leave=False) as bar:
        for block in available_lines(stdin, LINES_AT_ONCE):
            if not done:
                block[0] = block[0].removeprefix(BOM_UTF8)
            lines = [line.removesuffix(b"\r") for line in block]
            prefixes, error = [prefix or ""] * len(lines), None
            if prefix == "-":
                lines, prefixes, error = _split_prefixes(bot, lines, done)
            texts = [line.decode("utf-8", errors="replace") for line in lines]
            replies = bot.replies(texts, decoding, prefixes=prefixes if any(prefixes) else ())
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
            if error is not None:
                raise error


def _split_prefixes(bot: Chatbot, lines: list[bytes], done: int) -> tuple[list[bytes], list[str], UserError | None]:
    """Utterances and prefixes of lines of ``prefix<TAB>utterance`` up to the first bad one, which the error names."""
    utterances: list[bytes] = []
    prefixes: list[str] = []
    for number, line in enumerate(lines, start=done + 1):
        prefix, tab, utterance = line.partition(b"\t")
        try:
            if not tab:
                raise UserError("write prefix<TAB>utterance")
            text = prefix.decode("utf-8", errors="replace")
            bot.prefix_tokens(text)
        except UserError as error:
            return utterances, prefixes, UserError(f"line {number} of stdin: {error}")
        utterances.append(utterance)
        prefixes.append(text)
    return utterances, prefixes, None


def _problems(bot: Chatbot, line: bytes, reply: Reply) -> Iterator[tuple[str, str]]:
    """What is wrong with a line: a name of the problem, and a sentence about the line."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
        remedy = "convert the input, for example with: iconv -f latin1 -t utf-8"
        yield "encoding", f"is not UTF-8, so some of its letters are lost; {remedy}"
    if reply.unread_words:
        yield "length", f"is too long: {unread_note(reply)}"
    if reply.unknown_share >= UNKNOWN_LANGUAGE:
        yield "language", f"has {unknown_note(reply)}"
    if text.strip() and not reply.hypotheses:
        reason = bot.unreadable[0].lower() + bot.unreadable[1:]
        yield "unreadable", f"gets an empty line instead of a {bot.config.labels.output}: {reason}"


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


HELP = {
    "conversation": "/quit or Ctrl-D ends the conversation, /why explains the last reply, /reset clears the history, "
    "/help lists all commands",
    "translation": "/quit or Ctrl-D ends, /why explains the last translation, /help lists all commands",
}
COMMANDS = {
    "/set": "show the decoding settings",
    "/set KEY VALUE": "change one, for example /set beam_width 5",
    "/why": "explain the last {output}: tokens read, hypotheses with scores, attention",
    "/save FILE": "write everything said so far to a file; as JSON if its name ends in .json",
    "/reset": "clear the history, which the model may read",
    "/quit": "end",
    "/help": "show this list",
}
END_WORDS = {"conversation": ("quit", "exit", "bye"), "translation": ()}
NOT_UTF8 = "(some of this is not UTF-8; please write it again)"
COMMAND = re.compile(r"(?:/|:(?=[a-z]{2,}(?:\s|$)))(\S*)\s*(.*)", re.DOTALL)  # ":)" and ":p" are no commands
METHOD_OF_OPTION = {name: method for method, names in OPTIONS_OF_METHOD.items() for name in names}
METHOD_OF_OPTION["beam_width"] = "beam"


class Turn(NamedTuple):
    """An utterance and its reply."""

    text: str
    reply: Reply
    decoding: Decoding


class Conversation:
    """The state of a conversation; :meth:`answer` and :meth:`command` return what to print."""

    def __init__(self, bot: Chatbot, decoding: Decoding, reply_format: ReplyFormat, prefix: str = "") -> None:
        self._bot, self._decoding, self._format, self._prefix = bot, decoding, reply_format, prefix
        self._turns: list[Turn] = []
        self._history: list[str] = []
        self._saved: set[Path] = set()

    @property
    def task(self) -> str:
        return self._bot.config.task

    def answer(self, text: str) -> str:
        """The reply to an utterance, with notes."""
        reply = self._bot.reply(text, self._decoding, self._history, self._prefix)
        if not reply.hypotheses:
            return f"({self._bot.unreadable})"
        self._turns.append(Turn(text, reply, self._decoding))
        if self.task == "conversation":
            self._history += [text, reply.text]
        lines = [f"{self._bot.config.labels.model}: {line}" for line in self._format.lines(reply)]
        return "\n".join([*lines, *(f"({note})" for note in notes(reply))])

    def command(self, name: str, argument: str) -> str:
        """The result of a command other than quit; a mistake of the user is a message."""
        try:
            if name == "why":
                return explain(self._turns[-1].reply) if self._turns else f"no {self._bot.config.labels.output} yet"
            if name == "set":
                return self._set(argument)
            if name == "save":
                return self._save(argument)
        except UserError as error:
            return f"({error})"
        if name == "reset" and self.task == "conversation":
            self._history.clear()
            return "history cleared"
        return self._help() if name == "help" else HELP[self.task]

    def _help(self) -> str:
        commands = [command for command in COMMANDS if command != "/reset" or self.task == "conversation"]
        width = max(map(len, commands))
        output = self._bot.config.labels.output
        return "\n".join(f"{command:{width}}  {COMMANDS[command].format(output=output)}" for command in commands)

    def _set(self, argument: str) -> str:
        """Change a setting; an option of another method also selects that method."""
        key, _, value = argument.replace("=", " ", 1).partition(" ")
        key, value = key.removeprefix("decoding."), value.strip()
        if value:
            changes: dict[str, Any] = {key: value}
            with contextlib.suppress(ValueError):
                changes = {key: json.loads(value)}
            if method := METHOD_OF_OPTION.get(key):
                changes["method"] = method
            decoding = override_decoding(self._decoding, **changes)
            self._bot.reader(decoding)  # a lexicon that cannot be read is reported now
            self._bot.engine.search(decoding)  # and so is a setting that the model does not support
            self._decoding = decoding
            self._format = self._format._replace(scores=decoding.n_best > 1) if key == "n_best" else self._format
        settings = self._decoding.model_dump(mode="json")
        if key and not value:
            return f"{key} {json.dumps(settings[key])}" if key in settings else f"(there is no setting {key})"
        shown = {name: setting for name, setting in settings.items() if self._applies(name)}
        return "decoding: " + ", ".join(f"{name} {json.dumps(setting)}" for name, setting in shown.items())

    def _applies(self, name: str) -> bool:
        """Whether a setting has been changed from its default, or belongs to the method."""
        is_changed = getattr(self._decoding, name) != Decoding.model_fields[name].default
        method = METHOD_OF_OPTION.get(name, self._decoding.method if is_changed or name == "method" else None)
        return method == self._decoding.method

    def _save(self, argument: str) -> str:
        if not argument:
            return "(write the name of the file after /save)"
        path = Path(os.path.expanduser(argument))  # noqa: PTH111  unlike Path's, it raises no errors
        if os.path.exists(path) and path not in self._saved:  # noqa: PTH110  likewise
            return f"({path} already exists; choose another name)"
        labels = self._bot.config.labels
        if path.suffix == ".json":
            turns = [
                {"text": turn.text, "reply": turn.reply.text, "decoding": turn.decoding.model_dump(mode="json")}
                for turn in self._turns
            ]
            content = json.dumps({"run": self._bot.config.name, "step": self._bot.step, "turns": turns}, indent=2)
        else:
            content = "\n".join(f"{labels.you}: {turn.text}\n{labels.model}: {turn.reply.text}" for turn in self._turns)
        write_atomically(path, replace_surrogates(content) + "\n")
        self._saved.add(path)
        return f"saved {pluralize(len(self._turns), 'turn')} to {path}"


def converse(bot: Chatbot, decoding: Decoding, reply_format: ReplyFormat, prefix: str = "") -> None:
    """Talk, or translate line by line, until the user ends it."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  arrow keys and a history for input()
    conversation = Conversation(bot, decoding, reply_format, prefix)
    task, labels = conversation.task, bot.config.labels
    opening = "You are talking to" if task == "conversation" else "This is the translation model"
    print(f"{opening} {bot.config.name}. {HELP[task]}.\n")
    while True:
        try:
            text = input(f"{labels.you}: ").strip()
        except Terminated:
            raise
        except (EOFError, KeyboardInterrupt):
            print()
            return
        except UnicodeDecodeError:
            print(NOT_UTF8)
            continue
        word = text.lower().rstrip(" .!")
        if word in (":quit", "/quit", *END_WORDS[task]):
            return
        if command := COMMAND.fullmatch(text):
            print(conversation.command(command[1].lower(), command[2]))
        elif text:
            try:
                print(conversation.answer(text))
            except UserError as error:  # of a setting that is only used now, such as decoding.backward_run
                print(f"({error})")
