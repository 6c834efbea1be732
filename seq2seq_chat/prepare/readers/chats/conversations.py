"""Messages to utterances: what one person writes in a row is one utterance, and a long silence ends a conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone

import numpy as np

from seq2seq_chat.prepare.readers.chats.formats import ME, Message
from seq2seq_chat.prepare.shards import Piece, Shard, floats, integers, strings
from seq2seq_chat.prepare.tokenizing import TokenizedTexts
from seq2seq_chat.system.lines import MAX_LINE_BYTES

_ROWS = 8192  # written together
_MAX_OPEN_CHATS = 10_000
_MAX_CHARACTERS = MAX_LINE_BYTES // 8  # of an utterance: longer ones are no replies

_WITHOUT_REPLY = "without a reply of yours"
_UNPROMPTED = "yours, without a message before"


@dataclass(slots=True)
class _Utterance:
    """Consecutive messages of one person or, with ``me``, of everybody else."""

    speaker: str
    start: datetime | None
    end: datetime | None
    size: int = 0  # characters
    texts: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)


@dataclass
class _Conversation:
    """A conversation that may go on."""

    number: int
    current: _Utterance
    source: _Utterance | None = None  # with ``me``, what the current utterance replies to


class ChatWriter:
    """Writes the utterances of a file, whose chats may be mixed, to a shard.

    Args:
        max_gap: Seconds without a message after which a new conversation begins.
        me: Names, in lower case. If given, conversations alternate between utterances of the others and replies of
            these people; what has no reply, or replies to nothing, is left out.
        separator: Between the tokens of two texts.
        left_out: Counts such messages.
    """

    def __init__(
        self, piece: Piece, shard: Shard, *, max_gap: float, me: frozenset[str], separator: str, left_out: Counter[str]
    ) -> None:
        self._piece, self._shard, self._max_gap, self._me = piece, shard, max_gap, me
        self._separator, self._left_out = separator, left_out
        self._open: dict[str, _Conversation] = {}
        self._rows: list[tuple[int, _Utterance]] = []
        self._position = 0
        self._unnamed = 0

    def add(self, messages: Sequence[Message], tokenized: TokenizedTexts) -> None:
        """Add messages, and their texts as corpus files hold them."""
        tokens = tokenized.tokens
        for index in tokenized.kept():
            self._add(messages[index], tokenized.texts[index], None if tokens is None else tokens[index])
        if len(self._rows) >= _ROWS:
            self._flush()

    def close(self) -> None:
        """Write what is left."""
        for conversation in self._open.values():
            self._finish(conversation)
        self._open = {}
        self._flush()
        self._shard.piece.single_conversation = self._shard.piece.conversations == 1

    def _add(self, message: Message, text: str, tokens: str | None) -> None:
        conversation, speaker, time = self._open.get(message.chat), self._speaker(message), message.time
        if conversation is None or self._is_over(conversation.current, time):
            if conversation is not None:
                self._finish(conversation)
            conversation = _Conversation(self._shard.piece.conversations, _Utterance(speaker, time, time))
            self._shard.piece.conversations += 1
            if len(self._open) >= _MAX_OPEN_CHATS:
                self.close()
            self._open[message.chat] = conversation
        elif conversation.current.speaker != speaker:
            self._next(conversation, _Utterance(speaker, time, time))
        utterance = conversation.current
        utterance.end = time or utterance.end
        utterance.size += len(text)
        utterance.texts.append(text)
        if tokens is not None:
            utterance.tokens.append(tokens)

    def _speaker(self, message: Message) -> str:
        if self._me:
            return ME if message.author == ME or message.author.casefold() in self._me else ""
        if message.author:
            return message.author_id or message.author
        self._unnamed += 1
        return message.author_id or f"\0{self._unnamed}"

    def _is_over(self, last: _Utterance, time: datetime | None) -> bool:
        """Whether a conversation ended before a message of this time; a clock that is set back far ends it, too."""
        if last.size > _MAX_CHARACTERS:
            return True
        return time is not None and last.end is not None and abs((time - last.end).total_seconds()) > self._max_gap

    def _next(self, conversation: _Conversation, utterance: _Utterance) -> None:
        """Let another person speak."""
        finished, conversation.current = conversation.current, utterance
        if not self._me:
            self._rows.append((conversation.number, finished))
        elif finished.speaker != ME:
            conversation.source = finished
        elif conversation.source is not None:
            self._rows += [(conversation.number, conversation.source), (conversation.number, finished)]
            conversation.source = None
        else:
            self._left_out[_UNPROMPTED] += len(finished.texts)

    def _finish(self, conversation: _Conversation) -> None:
        self._next(conversation, _Utterance("", None, None))
        if conversation.source is not None:
            self._left_out[_WITHOUT_REPLY] += len(conversation.source.texts)

    def _flush(self) -> None:
        rows, self._rows = self._rows, []
        tokens = [self._separator.join(utterance.tokens).encode() for _, utterance in rows if utterance.tokens]
        self._shard.add_rows(
            file=self._piece.file,
            conversation=integers([number for number, _ in rows]),
            position=integers(np.arange(self._position, self._position + len(rows))),
            text=strings([" ".join(utterance.texts).encode() for _, utterance in rows]),
            tokens=strings(tokens),
            start=_times([utterance.start for _, utterance in rows]),
            end=_times([utterance.end for _, utterance in rows]),
        )
        self._position += len(rows)


def _times(times: Sequence[datetime | None]) -> object:
    seconds = [np.nan if time is None else time.replace(tzinfo=timezone.utc).timestamp() for time in times]
    return floats(np.array(seconds, np.float64))
