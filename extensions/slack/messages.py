"""From a message of Slack's, as its events and its history word it, to one for the door. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from nacre.extensions.slack.formatting import plain
from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound

CHANNEL = "slack"
EVENT_TYPE = "nacre_part"
"""What a message of the bot says of itself: its key, by which it is found again."""
_ID = re.compile(r"[A-Z0-9]{2,32}")
_TS = re.compile(r"\d{1,12}\.\d{6}")
_SAID = (None, "file_share", "thread_broadcast", "me_message")
"""The kinds of messages that people say; all others are told by Slack."""


class PassedOver(Exception):
    """An event that is no message of a person; the text says why, and no word of it."""


class RemoteFile(NamedTuple):
    """A file that lies on the server."""

    url: str
    name: str
    mime_type: str
    size_bytes: int


class Heard(Record):
    """A message, without its files yet."""

    inbound: Inbound
    files: tuple[RemoteFile, ...] = ()


def is_ts(value: object) -> bool:
    """Whether something is a moment as Slack writes it, which is also a message's id within its chat."""
    return isinstance(value, str) and _TS.fullmatch(value) is not None


def event_of(payload: object) -> Mapping[str, Any]:
    """The message of an envelope's payload.

    Raises:
        PassedOver: it has none.
    """
    event = payload.get("event") if isinstance(payload, Mapping) else None
    if not isinstance(event, Mapping):
        raise PassedOver("it has no event")
    if event.get("type") not in ("message", "app_mention"):
        raise PassedOver("it is no message")
    return event


def heard(event: object, me: str, account: str) -> Heard:
    """A message that somebody said. `me` is the bot's id.

    Raises:
        PassedOver: nobody did, or it is not whole.
    """
    if not isinstance(event, Mapping) or not is_ts(event.get("ts")):
        raise PassedOver("it has no time")
    subtype, chat, user = event.get("subtype"), event.get("channel"), event.get("user")
    if not isinstance(chat, str) or not _ID.fullmatch(chat):
        raise PassedOver("it stands in no chat")
    if subtype not in _SAID:
        raise PassedOver(f"messages of the kind {str(subtype)[:30]!r} are not said by anybody")
    if event.get("bot_id") or user == me:
        raise PassedOver("a bot said it")
    if not isinstance(user, str) or not _ID.fullmatch(user):
        raise PassedOver("it has no sender")
    said, thread = event.get("text") or "", event.get("thread_ts")
    if not isinstance(said, str):
        raise PassedOver("its text is no text")
    files = tuple(_files(event))
    sign = f"<@{me}>"
    text = plain(said.removeprefix(sign).lstrip() if said.startswith(sign) else said)
    if not (text.strip() or files):
        raise PassedOver("it has nothing that can be read")
    inbound = Inbound(
        text=text,
        # Only what Slack calls so is a private chat; its id tells nothing for sure.
        chat_kind="direct" if event.get("channel_type") == "im" else "group",
        channel=CHANNEL,
        account=account,
        chat_id=chat,
        thread_id=str(thread) if is_ts(thread) and thread != event["ts"] else "",
        sender_id=user,
        message_id=str(event["ts"]),
        is_mentioned=sign in said,
    )
    return Heard(inbound=inbound, files=files)


def key_of(message: object) -> str:
    """The key of a part that the bot sent, as a history gives it; empty for anything else."""
    metadata = message.get("metadata") if isinstance(message, Mapping) else None
    if not isinstance(metadata, Mapping) or metadata.get("event_type") != EVENT_TYPE:
        return ""
    payload = metadata.get("event_payload")
    key = payload.get("key") if isinstance(payload, Mapping) else None
    return key if isinstance(key, str) else ""


def _files(event: Mapping[str, Any]) -> Iterator[RemoteFile]:
    found = event.get("files")
    for file in found if isinstance(found, list) else ():
        if not isinstance(file, Mapping) or not isinstance(file.get("url_private"), str):
            continue
        size, kind, name = file.get("size"), file.get("mimetype"), file.get("name")
        yield RemoteFile(
            url=file["url_private"],
            name=name if isinstance(name, str) and name else "file",
            mime_type=kind if isinstance(kind, str) and kind else "application/octet-stream",
            size_bytes=size if type(size) is int else 0,
        )
