"""What a person should know about how a model reads an utterance."""

from __future__ import annotations

from seq2seq_chat.chat.chatbot import Reply

UNKNOWN_LANGUAGE = 0.8
"""Share of unknown words from which on an utterance is taken for one in another language or script."""


def notes(reply: Reply) -> list[str]:
    """What a person should know about how the model reads an utterance."""
    unread = [unread_note(reply)] if reply.unread_words else []
    return [*unread, *([f"the text has {unknown_note(reply)}"] if reply.unknown_share >= UNKNOWN_LANGUAGE else [])]


def unknown_note(reply: Reply) -> str:
    """What an utterance has that is in another language or script than the model was trained on."""
    share = f"{100 * reply.unknown_share:.0f} %"
    return f"hardly any known words ({share} are not in the vocabulary); it may be in another language or script"


def unread_note(reply: Reply) -> str:
    """What a model does with an utterance that is longer than model.encoder_steps."""
    read = len(reply.source_words)
    return f"the model reads only the last {read} of {read + reply.unread_words} tokens"
