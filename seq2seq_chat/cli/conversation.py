"""Conversations in the terminal, with commands that change settings, explain replies and save what was said."""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path
from typing import Any, NamedTuple

from seq2seq_chat.chat.chatbot import Chatbot, Reply
from seq2seq_chat.chat.notes import notes
from seq2seq_chat.cli.terminal import ReplyFormat, explain
from seq2seq_chat.config import OPTIONS_OF_METHOD, Decoding, override_decoding
from seq2seq_chat.data.codec import replace_surrogates
from seq2seq_chat.system.errors import UserError
from seq2seq_chat.system.files import write_atomically
from seq2seq_chat.system.signals import Terminated

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

    def __init__(self, bot: Chatbot, decoding: Decoding, reply_format: ReplyFormat) -> None:
        self._bot, self._decoding, self._format = bot, decoding, reply_format
        self._turns: list[Turn] = []
        self._history: list[str] = []
        self._saved: set[Path] = set()

    @property
    def task(self) -> str:
        """The task of the model."""
        return self._bot.config.task

    def answer(self, text: str) -> str:
        """The reply to an utterance, with notes."""
        reply = self._bot.reply(text, self._decoding, self._history)
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
            self._bot.search(decoding)  # and so is a setting that the model does not support
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
            return f"({path} exists already; choose another name)"
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
        return f"saved {len(self._turns)} {'turn' if len(self._turns) == 1 else 'turns'} to {path}"


def converse(bot: Chatbot, decoding: Decoding, reply_format: ReplyFormat) -> None:
    """Talk, or translate line by line, until the user ends it."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  arrow keys and a history for input()
    conversation = Conversation(bot, decoding, reply_format)
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
