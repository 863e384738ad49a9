"""From a message of Discord's, as its gateway and its history word it, to one for the door. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from nacre.extensions.discord.snowflakes import is_snowflake
from nacre.record import Record
from nacre.runtime.contracts.inbound import ChatKind, Inbound, Quoted

CHANNEL = "discord"
_SAID = (0, 19)
"""A plain message, and one that answers another; all other types are told by Discord, not said."""
_PRIVATE, _NEWS, _THREADS = 1, 5, (10, 11, 12)
_LEAST_WORDS = 24
_FENCE_END = re.compile(r"\n[`~]{3,}\Z")


class PassedOver(Exception):
    """An event that is no message of a person; the text says why, and no word of it."""


class RemoteFile(NamedTuple):
    """A file that lies on the server."""

    url: str
    name: str
    mime_type: str
    size_bytes: int


class Chat(Record):
    """A channel of Discord's: the chat that it is, or the chat and the thread in it."""

    chat_id: str
    kind: ChatKind
    thread_id: str = ""
    name: str = ""


class Me(Record):
    """The bot: its id, and the roles that are its alone, which people mention as if they were it."""

    id: str
    roles: Collection[str] = ()


class Heard(Record):
    """A message, without its files yet."""

    inbound: Inbound
    files: tuple[RemoteFile, ...] = ()


def chat_of(raw: object) -> Chat:
    """What a channel is. Only what Discord calls a private chat is one.

    Raises:
        PassedOver: it has no id, or is a thread of nothing.
    """
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("id")):
        raise PassedOver("its channel has no id")
    name, kind = raw.get("name"), raw.get("type")
    title = name if isinstance(name, str) else ""
    if kind in _THREADS:
        if not is_snowflake(raw.get("parent_id")):
            raise PassedOver("its thread is in no channel")
        return Chat(chat_id=raw["parent_id"], kind="group", thread_id=raw["id"], name=title)
    if type(kind) is int and kind == _PRIVATE:
        return Chat(chat_id=raw["id"], kind="direct")
    return Chat(chat_id=raw["id"], kind="channel" if kind == _NEWS else "group", name=title)


def channel_id_of(raw: object) -> str:
    """The channel that a message stands in. Raises `PassedOver`."""
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("channel_id")):
        raise PassedOver("it stands in no channel")
    return str(raw["channel_id"])


def heard(raw: object, chat: Chat, me: Me, account: str) -> Heard:
    """A message that somebody said in a chat.

    Raises:
        PassedOver: nobody did, or it is not whole.
    """
    if not isinstance(raw, Mapping) or not is_snowflake(raw.get("id")):
        raise PassedOver("it has no id")
    author = raw.get("author")
    if not isinstance(author, Mapping) or not is_snowflake(author.get("id")):
        raise PassedOver("it has no sender")
    if author.get("bot") or author.get("system") or raw.get("webhook_id"):
        raise PassedOver("a bot said it")
    if type(raw.get("type")) is not int or raw["type"] not in _SAID:
        raise PassedOver(f"messages of the type {str(raw.get('type'))[:20]!r} are not said by anybody")
    mentions = list(_mappings(raw.get("mentions")))
    text = "\n".join((*_said(raw.get("content"), mentions, me), *_besides(raw)))
    quoted = tuple(_forwarded(raw))
    files = tuple(_files(raw))
    if not (text.strip() or quoted or files):
        raise PassedOver("it has nothing that can be read; is the Message Content Intent switched on?")
    inbound = Inbound(
        text=text,
        quoted=quoted,
        chat_kind=chat.kind,
        channel=CHANNEL,
        account=account,
        chat_id=chat.chat_id,
        thread_id=chat.thread_id,
        sender_id=str(author["id"]),
        message_id=str(raw["id"]),
        chat_name=chat.name,
        is_mentioned=_speaks_to(raw, mentions, me),
    )
    return Heard(inbound=inbound, files=files)


def roles_of(guild: object, me_id: str) -> Iterator[str]:
    """The roles of a server that are the bot's alone."""
    for role in _mappings(guild.get("roles") if isinstance(guild, Mapping) else None):
        tags = role.get("tags")
        if isinstance(tags, Mapping) and tags.get("bot_id") == me_id and is_snowflake(role.get("id")):
            yield str(role["id"])


def shows(raw: object, text: str, answers: str, me_id: str) -> bool:
    """Whether a message of the history is the part with this text that answers that message.

    It may also be the beginning of it, shown while the answer was being written.
    """
    if not isinstance(raw, Mapping) or not isinstance(raw.get("author"), Mapping):
        return False
    reference, content = raw.get("message_reference"), raw.get("content")
    answered = reference.get("message_id") if isinstance(reference, Mapping) else None
    if raw["author"].get("id") != me_id or (answered or "") != answers or not isinstance(content, str):
        return False
    shown, whole = content.strip(), text.strip()
    beginning = _FENCE_END.sub("", shown)
    return shown == whole or (len(beginning) >= _LEAST_WORDS and whole.startswith(beginning))


def _said(content: object, mentions: list[Mapping[str, Any]], me: Me) -> Iterator[str]:
    """The words, without the bot's name in front, and with names for the ids of others."""
    if content is None or content == "":
        return
    if not isinstance(content, str):
        raise PassedOver("its text is no text")
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


def _besides(raw: Mapping[str, Any]) -> Iterator[str]:
    """What else a message can be, in words."""
    for sticker in _mappings(raw.get("sticker_items")):
        yield f"[sticker {str(sticker.get('name'))!r}]"
    poll = raw.get("poll")
    if isinstance(poll, Mapping) and isinstance(poll.get("question"), Mapping):
        yield f"[poll {str(poll['question'].get('text'))!r}]"


def _forwarded(raw: Mapping[str, Any]) -> Iterator[Quoted]:
    """The words of forwarded messages; Discord does not say whose they are."""
    for snapshot in _mappings(raw.get("message_snapshots")):
        message = snapshot.get("message")
        content = message.get("content") if isinstance(message, Mapping) else None
        if isinstance(content, str) and content:
            yield Quoted(text=content, kind="forward")


def _speaks_to(raw: Mapping[str, Any], mentions: list[Mapping[str, Any]], me: Me) -> bool:
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
        size, kind, name = file.get("size"), file.get("content_type"), file.get("filename")
        if not isinstance(file.get("url"), str):
            continue
        yield RemoteFile(
            url=file["url"],
            name=name if isinstance(name, str) else "file",
            mime_type=kind.partition(";")[0] if isinstance(kind, str) else "application/octet-stream",
            size_bytes=size if type(size) is int else 0,
        )


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, Mapping))
