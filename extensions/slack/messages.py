"""Conversion of Slack messages, from events and from the history, to `Inbound`; and of Markdown to Slack's
mrkdwn.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nacre.bridges.channels.messages import Ignored, IncomingMessage, RemoteFile
from nacre.runtime.contracts.inbound import Inbound

CHANNEL = "slack"
EVENT_TYPE = "nacre_part"
"""The type of the metadata that holds the key of a part in the bot's messages."""
_ID = re.compile(r"[A-Z0-9]{2,32}")
_TIMESTAMP = re.compile(r"\d{1,12}\.\d{6}")
_SUBTYPES = (None, "file_share", "thread_broadcast", "me_message")  # Slack itself writes all others

_CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_BOLD = re.compile(r"\*\*(?=\S)(.+?)(?<=\S)\*\*")
_STRUCK = re.compile(r"~~(?=\S)(.+?)(?<=\S)~~")
_LINK = re.compile(r"\[([^\]\n|]+)\]\((https?://[^\s()<>|]+|mailto:[^\s()<>|]+)\)")
_FENCE = re.compile(r"^```[A-Za-z0-9_+#.-]+ *$", re.MULTILINE)
_MARKED = re.compile(r"<(?P<address>[^<>|\s]+)(?:\|(?P<label>[^<>]*))?>")
# Slack also reads `>`, but only after a `<`. Leaving it alone keeps texts short.
_ESCAPES = (("&", "&amp;"), ("<", "&lt;"))


def is_timestamp(value: object) -> bool:
    """Whether a value is a Slack timestamp, which also is a message's id within its chat."""
    return isinstance(value, str) and _TIMESTAMP.fullmatch(value) is not None


def message_event(payload: object) -> Mapping[str, Any]:
    """The message event in an envelope's payload.

    Raises:
        Ignored: there is none.
    """
    event = payload.get("event") if isinstance(payload, Mapping) else None
    if not isinstance(event, Mapping):
        raise Ignored("it has no event")
    if event.get("type") not in ("message", "app_mention"):
        raise Ignored("it is not a message")
    return event


def read_message(event: object, me: str, account: str) -> IncomingMessage:
    """The message that somebody wrote. `me` is the bot's user id.

    Raises:
        Ignored: nobody wrote it, or it is malformed.
    """
    if not isinstance(event, Mapping) or not is_timestamp(event.get("ts")):
        raise Ignored("it has no timestamp")
    subtype, chat, user = event.get("subtype"), event.get("channel"), event.get("user")
    if not isinstance(chat, str) or not _ID.fullmatch(chat):
        raise Ignored("it has no chat")
    if subtype not in _SUBTYPES:
        raise Ignored(f"nobody wrote it: its subtype is {str(subtype)[:30]!r}")
    if event.get("bot_id") or user == me:
        raise Ignored("a bot wrote it")
    if not isinstance(user, str) or not _ID.fullmatch(user):
        raise Ignored("it has no sender")
    marked, thread = event.get("text") or "", event.get("thread_ts")
    if not isinstance(marked, str):
        raise Ignored("its text is not text")
    files = tuple(_files(event))
    mention = f"<@{me}>"
    text = plain(marked.removeprefix(mention).lstrip() if marked.startswith(mention) else marked)
    if not (text.strip() or files):
        raise Ignored("it has no readable content")
    inbound = Inbound(
        text=text,
        # Only the channel type says for certain that a chat is private; its id does not.
        chat_kind="direct" if event.get("channel_type") == "im" else "group",
        channel=CHANNEL,
        account=account,
        chat_id=chat,
        thread_id=str(thread) if is_timestamp(thread) and thread != event["ts"] else "",
        sender_id=user,
        sender_name=_display_name(event),
        message_id=str(event["ts"]),
        is_mentioned=mention in marked,
    )
    return IncomingMessage(inbound=inbound, files=files)


def _display_name(event: Mapping[str, Any]) -> str:
    profile = event.get("user_profile")
    names = (
        [profile.get(key) for key in ("display_name", "real_name")] if isinstance(profile, Mapping) else []
    )
    return next((name for name in names if isinstance(name, str) and name), "")


def key_of(message: object) -> str:
    """The key of a part that the bot sent, as the history has it; empty for any other message."""
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
        yield RemoteFile.read(
            file["url_private"],
            name=file.get("name"),
            mime_type=file.get("mimetype"),
            size_bytes=file.get("size"),
        )


def mrkdwn(markdown: str) -> str:
    """Markdown as mrkdwn. Nothing in it notifies anybody, and code stays as it is."""
    pieces = _CODE.split(markdown)
    return "".join(_code(piece) if number % 2 else _words(piece) for number, piece in enumerate(pieces))


def plain(mrkdwn: str) -> str:
    """A person's text as people see it: links with their labels, and no escapes."""

    def shown(found: re.Match[str]) -> str:
        address, label = found["address"], found["label"]
        if address[0] in "@#!":
            return f"{address[0]}{label}" if label else f"<{address}>"
        return address if not label or label in address else f"{label} ({address})"

    text = _MARKED.sub(shown, mrkdwn)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")


def _escaped(text: str) -> str:
    for character, escape in _ESCAPES:
        text = text.replace(character, escape)
    return text


def _code(text: str) -> str:
    return _escaped(_FENCE.sub("```", text, count=1))


def _words(text: str) -> str:
    text = _HEADING.sub(r"**\1**", _escaped(text))
    text = _STRUCK.sub(r"~\1~", _BOLD.sub(r"*\1*", text))
    return _LINK.sub(r"<\2|\1>", text)
