"""Conversion of Discord messages, from the gateway and from the history, to `Inbound`; and Discord's ids.

Ids, called snowflakes, grow with time across all chats. The upper 42 of their 64 bits are milliseconds since
2015.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from nacre.bridges.channels.messages import Ignored, IncomingMessage, RemoteFile
from nacre.record import Record
from nacre.runtime.contracts.inbound import ChatKind, Inbound, Quoted

CHANNEL = "discord"
_MESSAGE_TYPES = (0, 19)  # a plain message and a reply; Discord itself writes all other types
_PRIVATE, _NEWS, _THREADS = 1, 5, (10, 11, 12)
_MIN_DRAFT_CHARS = 24
_FENCE_END = re.compile(r"\n[`~]{3,}\Z")

_EPOCH_MS = 1_420_070_400_000
_TIME_BIT = 22
MARGIN_SECONDS = 60
"""Messages of different chats may arrive out of order by this much."""


class Chat(Record):
    """A Discord channel as a chat, or as a thread of a chat."""

    chat_id: str
    kind: ChatKind
    thread_id: str = ""
    name: str = ""


class Identity(Record):
    """The bot: its id, and the roles that only it has. People also mention it by these roles."""

    id: str
    roles: Collection[str] = ()


def read_chat(raw: object) -> Chat:
    """The chat that a channel object describes. Only Discord's own type makes a chat private.

    Raises:
        Ignored: it has no id, or it is a thread without a channel.
    """
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("id")):
        raise Ignored("its channel has no id")
    name, kind = raw.get("name"), raw.get("type")
    title = name if isinstance(name, str) else ""
    if kind in _THREADS:
        if not is_snowflake(raw.get("parent_id")):
            raise Ignored("its thread is in no channel")
        return Chat(chat_id=raw["parent_id"], kind="group", thread_id=raw["id"], name=title)
    if type(kind) is int and kind == _PRIVATE:
        return Chat(chat_id=raw["id"], kind="direct")
    return Chat(chat_id=raw["id"], kind="channel" if kind == _NEWS else "group", name=title)


def channel_id_of(raw: object) -> str:
    """The id of a message's channel. Raises `Ignored` if there is none."""
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("channel_id")):
        raise Ignored("it has no channel")
    return str(raw["channel_id"])


def read_message(raw: object, chat: Chat, me: Identity, account: str) -> IncomingMessage:
    """The message that somebody wrote in a chat.

    Raises:
        Ignored: nobody wrote it, or it is malformed.
    """
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("id")):
        raise Ignored("it has no id")
    author = raw.get("author")
    if not isinstance(author, Mapping) or not is_snowflake(author.get("id")):
        raise Ignored("it has no sender")
    if author.get("bot") or author.get("system") or raw.get("webhook_id"):
        raise Ignored("a bot wrote it")
    if type(raw.get("type")) is not int or raw["type"] not in _MESSAGE_TYPES:
        raise Ignored(f"nobody wrote it: its type is {str(raw.get('type'))[:20]!r}")
    mentions = list(_mappings(raw.get("mentions")))
    text = "\n".join((*_text(raw.get("content"), mentions, me), *_extras(raw)))
    quoted = tuple(_forwarded(raw))
    files = tuple(_files(raw))
    if not (text.strip() or quoted or files):
        raise Ignored("it has no readable content; is the Message Content Intent switched on?")
    inbound = Inbound(
        text=text,
        quoted=quoted,
        chat_kind=chat.kind,
        channel=CHANNEL,
        account=account,
        chat_id=chat.chat_id,
        thread_id=chat.thread_id,
        sender_id=str(author["id"]),
        sender_name=str(author.get("global_name") or author.get("username") or ""),
        message_id=str(raw["id"]),
        chat_name=chat.name,
        is_mentioned=_is_mentioned(raw, mentions, me),
    )
    return IncomingMessage(inbound=inbound, files=files)


def own_roles(guild: object, me_id: str) -> Iterator[str]:
    """The roles of a server that only the bot has."""
    for role in _mappings(guild.get("roles") if isinstance(guild, Mapping) else None):
        tags = role.get("tags")
        if isinstance(tags, Mapping) and tags.get("bot_id") == me_id and is_snowflake(role.get("id")):
            yield str(role["id"])


def is_part(raw: object, text: str, answers: str, me_id: str) -> bool:
    """Whether a message of the history is the part with this text that answers this message.

    It may also be the beginning of the part, shown as a draft.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("author"), Mapping):
        return False
    reference, content = raw.get("message_reference"), raw.get("content")
    answered = reference.get("message_id") if isinstance(reference, Mapping) else None
    if raw["author"].get("id") != me_id or (answered or "") != answers or not isinstance(content, str):
        return False
    shown, whole = content.strip(), text.strip()
    beginning = _FENCE_END.sub("", shown)
    return shown == whole or (len(beginning) >= _MIN_DRAFT_CHARS and whole.startswith(beginning))


def _text(content: object, mentions: list[Mapping[str, Any]], me: Identity) -> Iterator[str]:
    """The text without a leading mention of the bot, and with names in place of other people's ids."""
    if content is None or content == "":
        return
    if not isinstance(content, str):
        raise Ignored("its text is not text")
    signs = [f"<@{me.id}>", f"<@!{me.id}>", *(f"<@&{role}>" for role in me.roles)]
    for sign in signs:
        if content.startswith(sign):
            content = content[len(sign) :].lstrip()
            break
    for user in mentions:
        name = user.get("global_name") or user.get("username")
        if is_snowflake(user.get("id")) and isinstance(name, str):
            content = re.sub(rf"<@!?{user['id']}>", lambda _, name=name: f"@{name}", content)  # type: ignore[misc]
    yield content


def _extras(raw: Mapping[str, Any]) -> Iterator[str]:
    """Text for what else a message may contain."""
    for sticker in _mappings(raw.get("sticker_items")):
        yield f"[sticker {str(sticker.get('name'))!r}]"
    poll = raw.get("poll")
    if isinstance(poll, Mapping) and isinstance(poll.get("question"), Mapping):
        yield f"[poll {str(poll['question'].get('text'))!r}]"


def _forwarded(raw: Mapping[str, Any]) -> Iterator[Quoted]:
    """The text of forwarded messages. Discord does not say who wrote it."""
    for snapshot in _mappings(raw.get("message_snapshots")):
        message = snapshot.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str) and content:
            yield Quoted(text=content, kind="forward")


def _is_mentioned(raw: Mapping[str, Any], mentions: list[Mapping[str, Any]], me: Identity) -> bool:
    answered = raw.get("referenced_message")
    author = answered.get("author") if isinstance(answered, Mapping) else None
    roles = raw.get("mention_roles")
    return (
        any(user.get("id") == me.id for user in mentions)
        or (isinstance(author, Mapping) and author.get("id") == me.id)
        or (isinstance(roles, list) and any(role in me.roles for role in roles if isinstance(role, str)))
    )


def _files(raw: Mapping[str, Any]) -> Iterator[RemoteFile]:
    for file in _mappings(raw.get("attachments")):
        kind = file.get("content_type")
        if isinstance(file.get("url"), str):
            yield RemoteFile.read(
                file["url"],
                name=file.get("filename"),
                mime_type=kind.partition(";")[0] if isinstance(kind, str) else None,
                size_bytes=file.get("size"),
            )


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))


def snowflake_at(at_ms: int) -> int:
    """The lowest id of a moment, given in milliseconds since 1970."""
    return max(0, at_ms - _EPOCH_MS) << _TIME_BIT


def with_margin(snowflake: int) -> int:
    """An id `MARGIN_SECONDS` earlier. Messages after it are read again."""
    return max(0, snowflake - (MARGIN_SECONDS * 1_000 << _TIME_BIT))


def is_snowflake(value: object) -> bool:
    """Whether a value is an id in Discord's format."""
    return isinstance(value, str) and value.isascii() and value.isdecimal() and 0 < int(value[:20]) < 2**63
