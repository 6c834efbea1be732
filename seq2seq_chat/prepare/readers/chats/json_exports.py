"""Chats as JSON: what Telegram, DiscordChatExporter (also as CSV), Messenger, Instagram, Slack and Signal write.

For each message there is a function from its fields to a Message, or to the reason why it is left out.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import orjson

from seq2seq_chat.prepare.readers.chats.dates import Clock, date_fields, from_english, from_iso, from_milliseconds
from seq2seq_chat.prepare.readers.chats.exports import Export
from seq2seq_chat.prepare.readers.chats.formats import ME, ChatFormat, Message
from seq2seq_chat.system.compressed import DamagedFile

Fields = dict[str, Any]


def _read(
    message: Callable[[Fields, str], Message | str], prefixes: list[str], export: Export
) -> Iterator[Message | str]:
    """Read messages, which are items of lists; the other values are ids of the chats that follow, after their names."""
    chat = name = title = ""
    for prefix, value in export.json_values(export.pieces[0], *prefixes):
        if prefix.endswith("item"):
            found = message(value, chat)
            yield found if isinstance(found, str) else found._replace(title=title)
        elif prefix.endswith("name"):
            name = str(value or "")
        else:
            chat, title, name = str(value), name or "(no name)", ""


# Telegram: result.json, which Telegram Desktop exports, of one chat or of a whole account

_TELEGRAM_TYPES = (
    "personal_chat|bot_chat|saved_messages|replies|verification_codes|(?:private|public)_(?:super)?(?:group|channel)"
)
_TELEGRAM = re.compile(
    rf'\s*{{.*("type":\s*"(?:{_TELEGRAM_TYPES})"|"(?:personal_information|frequent_contacts|left_chats)":)'
    r'|\s*{\s*"about":\s*"[^"]*Telegram',
    re.DOTALL,
)
_TELEGRAM_LISTS = [
    f"{chats}{name}"
    for chats in ("", "chats.list.item.", "left_chats.list.item.")
    for name in ("name", "id", "messages.item")
]
_TELEGRAM_MEDIA = {
    *("photo", "file", "media_type", "sticker_emoji", "location_information", "contact_information", "poll"),
    *("place_name", "game_title", "invoice_information", "live_location_period_seconds", "paid_stars_amount"),
}


def _telegram(fields: Fields, chat: str) -> Message | str:
    if fields.get("type") != "message":
        return "system"
    parts = fields.get("text") or fields.get("text_entities") or ""
    parts = parts if isinstance(parts, list) else [parts]  # parts with a link or a style are objects
    text = "".join(part if isinstance(part, str) else str(part.get("text", "")) for part in parts)
    if not text.strip():
        return "media" if _TELEGRAM_MEDIA & fields.keys() else "empty"
    if "forwarded_from" in fields:  # null: of an account that was deleted
        return "forwarded"
    author = fields.get("from") or "Deleted Account"
    return Message(str(author), from_iso(str(fields.get("date", ""))), text, chat, str(fields.get("from_id") or author))


# Discord: the JSON and CSV files that DiscordChatExporter writes, one for each channel

_DISCORD = re.compile(r'\s*{\s*"guild":.*"channel":', re.DOTALL)
_DISCORD_TABLE = re.compile(r'"?(?:MessageID"?[,;]"?)?AuthorID"?[,;]"?Author"?[,;]"?Date"?[,;]"?Content')
_DISCORD_TYPES = {"Default", "Reply", "0", "19"}  # also in versions that wrote numbers
_DISCORD_SYSTEM = re.compile(  # in CSV files
    r"(?:Joined the server|Pinned a message|Started a call that lasted \S+ minutes?|Started a thread"
    r"|Changed the channel icon|(?:Added|Removed) .{1,80} (?:to|from) the group|Left the group)\."
    r"|Changed the channel name: .*"
)


def _discord(fields: Fields, chat: str) -> Message | str:
    author, text = fields.get("author") or {}, fields.get("content") or ""
    if fields.get("type") not in _DISCORD_TYPES:
        return "system"
    if author.get("isBot"):
        return "bots"
    if not text.strip():
        return "media"
    name = author.get("name") or author.get("nickname") or "Deleted User"
    time = from_iso(str(fields.get("timestamp", "")))
    return Message(author.get("nickname") or name, time, text, chat, str(author.get("id") or name))


def _read_discord_table(export: Export) -> Iterator[Message | str]:
    dates = (row["Date"] for row in export.rows(progress=False))
    stamps = {fields: date for date in dates if (fields := date_fields(date)) is not None}
    is_iso = all(from_iso(stamp) for stamp in stamps.values())
    clock = None if is_iso or not stamps else Clock(stamps.values(), export.name, export.date_order)
    for row in export.rows():
        stamp, text = row["Date"], row["Content"] or ""
        if not stamp:
            yield "damaged rows"
        elif _DISCORD_SYSTEM.fullmatch(text):
            yield "system"
        elif not text.strip():
            yield "media"
        else:
            time = from_iso(stamp) or (from_english(stamp) if re.search("[A-Za-z]{3}", stamp) else None)
            yield Message(row["Author"], time or (clock.read(stamp) if clock else None), text)


# Messenger and Instagram: Meta's download of one's data, and Messenger's encrypted chats

_MESSENGER = re.compile(r'\s*{\s*"(?:participants|messages|title)":.*"sender_name":', re.DOTALL)
_ENCRYPTED = re.compile(r'\s*{\s*"(?:participants|threadName|messages)":.*"(?:senderName|threadName)":', re.DOTALL)
_NUMBER = re.compile(r"message_(\d+)")
_MESSENGER_SYSTEM = re.compile(
    r"You (?:can now message and call each other.*|are now connected on .*|waved at .*|unsent a message"
    r"|turned (?:on|off) .*|(?:set|changed|named|created) (?:the|a|your) .*\.|pinned a message\."
    r"|called (?!me\b)[^?]{1,40}\."
    r"|sent an? (?:attachment|photo|video|link|GIF|sticker|voice message|(?:live )?location)\."
    r"|(?:missed|started) an? (?:audio |video |voice )?(?:call|chat|poll|plan)\b.*"
    r"|(?:joined|left) the (?:call|group|chat)\.|(?:added|removed) .{1,80} (?:to|from) the group\.)"
    r"|Say hi to your new Facebook friend.*|(?:The v|V|The a|A)(?:ideo|udio) (?:chat|call) ended\.?"
    r"|(?:Started|Missed) (?:an? )?(?:audio|video) (?:call|chat)|Mentioned you in their story"
    r"|.{1,60} sent an attachment\.|.{1,60}'s poll has .*"
    r"|.* missed your (?:call|video chat)\.|This (?:poll|message) is no longer available\.?"
    # reactions
    r"|Reacted .{1,12} to your message ?|Hat mit .{1,12} auf deine Nachricht reagiert ?"
    r"|(?:A réagi|Reaccionó|Ha reaccionado|Reagiu|Ha reagito)(?: avec| con| com)? .{1,12} (?:à votre|a tu|à sua|al tuo)"
    r" (?:message|mensaje|mensagem|messaggio) ?|Heeft met .{1,12} gereageerd op je bericht ?"
    r"|Zareagował\S* .{1,12} na Twoją wiadomość ?|Отреагировал\S* .{1,12} на ваше сообщение ?"
    # likes
    r"|Liked a message|Gefällt eine Nachricht|Hat eine Nachricht mit „Gefällt mir“ markiert|A aimé un message"
    r"|(?:Indicó que )?[Ll]e (?:gusta|gustó|ha gustado) un mensaje|(?:Curtiu|Gostou de) uma mensagem"
    r"|Ha messo \W?Mi piace\W? a un messaggio|Vindt een bericht leuk|(?:Polubi\S+|Lubi) wiadomość|Нравится сообщение"
    r"|Bir mesajı beğendi|Mesajına .{1,12} ifadesini bıraktı ?|Gillade ett meddelande|Likte en melding"
    # of whoever exported
    r"|(?:Du hast einen Anhang gesendet|Vous avez envoyé une pièce jointe|(?:Has? enviado|Enviaste) un archivo adjunto"
    r"|(?:Você enviou|Enviaste) um anexo|Hai inviato un allegato|Je hebt een bijlage (?:verzonden|verstuurd)"
    r"|Wysłano załącznik|Вы отправили вложение|Bir ek gönderdin(?:iz)?|Du skickade en bilaga|Du sendte et vedlegg)\.",
    re.DOTALL,
)
_ACTIONS = re.compile(
    r"(?: |님이 |さんが)(?:.*(?:[.。]|to the poll|\?)|unsent a message|replied to your story"
    r"|(?:started|missed) an? (?:audio|video) .*)$",
    re.DOTALL,
)


def _read_messenger(export: Export) -> Iterator[Message | str]:
    """The files of a chat are numbered from the newest to the oldest."""
    numbered = {piece: _NUMBER.search(piece.member or piece.path.name) for piece in export.pieces}
    for piece in sorted(export.pieces, key=lambda piece: -int(match[1]) if (match := numbered[piece]) else 0):
        messages = [_messenger(fields) for _, fields in export.json_values(piece, "messages.item")]
        times = [message.time for message in messages if isinstance(message, Message) and message.time]
        yield from reversed(messages) if times and times[0] >= times[-1] else messages


def _messenger(fields: Fields) -> Message | str:
    author = _mended(fields.get("sender_name") or fields.get("senderName") or "")
    text = _mended(fields.get("content") or fields.get("text") or fields.get("messageText") or "")
    kind = fields.get("type", "Generic")
    if fields.get("is_unsent") or fields.get("isUnsent"):
        return "deleted"
    if kind in ("Call", "Subscribe", "Unsubscribe", "placeholder") or {"call_duration", "users"} & fields.keys():
        return "system"
    if not text.strip() or (kind == "media" and text in str(fields.get("media"))):
        return "media"
    if _MESSENGER_SYSTEM.fullmatch(text) or (text.startswith(author) and author and _ACTIONS.match(text, len(author))):
        return "system"
    return Message(author, from_milliseconds(fields.get("timestamp_ms") or fields.get("timestamp")), text)


def _mended(text: str) -> str:
    """A text whose bytes of UTF-8 were exported as one character each."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


# Slack: the export of a workspace, which has a folder for each channel with a file for each day

_SLACK = re.compile(r'\s*\[\s*{(?=.*"ts":\s*"\d+\.\d+").*"(?:text|user|subtype)":', re.DOTALL)
_SLACK_TEXTS = {None, "thread_broadcast", "me_message", "file_share", "reply_broadcast"}
_REFERENCE = re.compile(r"<([@#!]?)([^<>|]*)(?:\|([^<>]*))?>")


def _read_slack(export: Export) -> Iterator[Message | str]:
    users, people = export.sibling("users.json"), dict[str, str]()
    for _, user in users.json_values(users.pieces[0], "item") if users else ():
        people[user.get("id", "")] = _slack_name(user.get("profile") or {}, user)
    for piece in export.pieces:
        messages = [fields for _, fields in export.json_values(piece, "item")]
        for fields in sorted(messages, key=lambda fields: float(fields.get("ts") or 0)):
            yield _slack(fields, people)


def _slack_name(*profiles: Fields) -> str:
    keys = ("display_name", "real_name", "name")
    return next((str(profile[key]) for profile in profiles for key in keys if profile.get(key)), "")


def _slack(fields: Fields, people: dict[str, str]) -> Message | str:
    """A message, given the names of the people by their ids."""

    def plain(match: re.Match[str]) -> str:
        kind, target, label = match.groups()
        if kind == "@":
            return f"@{label or people.get(target, target)}"
        if kind == "#":
            return f"#{label or target}"
        if kind and not target.startswith("date^"):
            return f"@{(label or target).lstrip('@')}"
        return label or target.removeprefix("mailto:")

    subtype, user = fields.get("subtype"), fields.get("user") or ""
    text = fields.get("text") or _slack_blocks(fields.get("blocks"))
    text = html.unescape(_REFERENCE.sub(plain, text)).strip()
    if (
        subtype == "bot_message"
        or (fields.get("bot_id") and not user)
        or fields.get("bot_profile")
        or user == "USLACKBOT"
    ):
        return "bots"
    if subtype not in _SLACK_TEXTS:
        return "deleted" if subtype == "tombstone" else "system"
    if not text:
        return "media" if fields.get("files") or fields.get("attachments") else "empty"
    name = people.get(user) or _slack_name(fields.get("user_profile") or {}) or user
    time = from_milliseconds(1000 * float(fields["ts"])) if fields.get("ts") else None
    # A thread, with the message that began it, is a chat of its own.
    return Message(name, time, text, str(fields.get("thread_ts") or ""), user)


def _slack_blocks(value: Any) -> str:
    """The text in the blocks that lay out a message."""
    if isinstance(value, list):
        return "".join(map(_slack_blocks, value))
    if not isinstance(value, dict):
        return value if isinstance(value, str) else ""
    if value.get("type") == "user":
        return f"<@{value.get('user_id')}>"
    return _slack_blocks(value.get("text") or value.get("url") or value.get("elements"))


# Signal: data.json of the program signal-export, whose lines are messages, and the JSON Lines that Signal Desktop
# exports, whose lines are people, chats and messages

_SIGNAL_EXPORT = re.compile(r'{(?=[^\n]*"date": ?")(?=[^\n]*"sender": ?")[^\n]*"body": ?"')
_SIGNAL_LIST = re.compile(r'\s*\[\s*{(?=[^{}]*"date":)(?=[^{}]*"sender":)[^{}]*"body":')
_SIGNAL = re.compile(r'{"(?:version|account|recipient|chat|chatItem)":.*\n{"(?:account|recipient|chat|chatItem)":')
_CALL = re.compile(r"(?:Incoming|Outgoing|Missed) (?:voice |video |group )?call\b.*")


def _json_lines(export: Export) -> Iterator[Fields]:
    for number, line in enumerate(export.lines(), start=1):
        if line.strip():
            try:
                value = orjson.loads(line.encode(errors="replace"))
            except ValueError as error:
                raise DamagedFile(f"line {number} is not JSON: {error}") from error
            if isinstance(value, dict):
                yield value


def _signal_export(fields: Fields) -> Message | str:
    text, author = (fields.get("body") or "").strip(), fields.get("sender") or ""
    if fields.get("deleted"):
        return "deleted"
    if fields.get("call") or author == "No-Sender" or _CALL.fullmatch(text):
        return "system"
    if not text:
        return "media" if fields.get("attachments") or fields.get("sticker") else "system"
    return Message(ME if author == "Me" else author, from_iso(str(fields.get("date"))), text)


def _read_signal(export: Export) -> Iterator[Message | str]:
    people: dict[str, str] = {}
    for fields in _json_lines(export):
        if recipient := fields.get("recipient"):
            people[str(recipient.get("id"))] = _signal_name(recipient)
        elif item := fields.get("chatItem"):
            yield _signal(item, people)


def _signal(item: Fields, people: dict[str, str]) -> Message | str:
    message = item.get("standardMessage") or item.get("directStoryReplyMessage") or {}
    text = ((message.get("text") or message.get("textReply", {}).get("text") or {}).get("body") or "").strip()
    if not text:
        return "deleted" if "remoteDeletedMessage" in item else "system" if "updateMessage" in item else "media"
    author, time = str(item.get("authorId")), from_milliseconds(item.get("dateSent"))
    name = ME if "outgoing" in item else people.get(author, f"person {author}")
    return Message(name, time, text, str(item.get("chatId")), author)


def _signal_name(recipient: Fields) -> str:
    """The name of a person: a nickname, what the address book says, or what the person chose."""
    if "self" in recipient:
        return ME
    contact = recipient.get("contact") or {}
    nickname = contact.get("nickname") or {}
    names = [
        (nickname.get("given"), nickname.get("family")),
        (contact.get("systemGivenName"), contact.get("systemFamilyName")),
        (contact.get("profileGivenName"), contact.get("profileFamilyName")),
        (contact.get("username"), None),
        (contact.get("e164"), None),
    ]
    found = (" ".join(str(part) for part in parts if part) for parts in names)
    return next(filter(None, found), f"person {recipient.get('id')}")


FORMATS = (
    ChatFormat("Telegram", _TELEGRAM.match, partial(_read, _telegram, _TELEGRAM_LISTS)),
    ChatFormat("Discord", _DISCORD.match, partial(_read, _discord, ["channel.id", "messages.item"])),
    ChatFormat("Discord", _DISCORD_TABLE.match, _read_discord_table),
    ChatFormat("Messenger, Instagram", _MESSENGER.match, _read_messenger, in_folders=True),
    ChatFormat("Messenger, Instagram", _ENCRYPTED.match, _read_messenger),
    ChatFormat("Signal", _SIGNAL_LIST.match, partial(_read, lambda fields, _: _signal_export(fields), ["item"])),
    ChatFormat("Signal", _SIGNAL_EXPORT.match, lambda export: map(_signal_export, _json_lines(export))),
    ChatFormat("Signal", _SIGNAL.match, _read_signal),
    ChatFormat("Slack", _SLACK.match, _read_slack, in_folders=True),
)
