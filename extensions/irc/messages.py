"""Conversion of IRC lines to `Inbound`, and of answers to lines."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

from ircstates import Server
from irctokens import Line

from nacre.bridges.channels.messages import Ignored, strip_mention
from nacre.record import Record
from nacre.runtime.contracts.inbound import Inbound

CHANNEL = "irc"
LINE_BYTES = 320
"""A line has 512 bytes. The server may use 190 of them for the sender's mask, the target and separators."""
_FORMATS = re.compile("\x03(?:\\d{1,2}(?:,\\d{1,2})?)?|\x04[0-9A-Fa-f]{0,6}|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_CONTROLS = re.compile("[\0\r]")


class IrcMessage(Record):
    """A message, the nick of its sender, and its time if the server tells it."""

    inbound: Inbound
    nick: str
    at: datetime | None = None


def read_message(
    line: Line, server: Server, account: str, *, knows_accounts: bool, own_nick: str = ""
) -> IrcMessage:
    """The message in a PRIVMSG. `own_nick` is as in `is_own`, for lines of the history.

    Its id is empty if the server sends neither an id nor a time.

    Raises:
        Ignored: it is not a message to answer.
    """
    if line.source is None or len(line.params) != 2:
        raise Ignored("it has no sender or no text")
    if not (line.hostmask.nickname and line.hostmask.username and line.hostmask.hostname):
        raise Ignored("it comes from a server")
    if line.hostmask.nickname.startswith("*"):
        raise Ignored("it comes from a bouncer")
    if is_own(line.hostmask.nickname, server, own_nick):
        raise Ignored("it is the assistant's own")
    tags = line.tags or {}
    if "bot" in tags:
        raise Ignored("a bot wrote it")
    target, text = line.params
    text = _plain(text)
    if not text.strip():
        raise Ignored("it has no readable content")
    is_private = is_own(target, server, own_nick)
    if not (is_private or server.is_channel(target)):
        raise Ignored(f"it was sent to {target!r}, which is neither the assistant nor a channel")
    bare, is_mentioned = _strip_mention(text, server)
    sender_id = verified_sender(line, server, knows_accounts=knows_accounts)
    room = "" if is_private else server.casefold(target)
    inbound = Inbound(
        text=bare,
        chat_kind="direct" if is_private else "group",
        channel=CHANNEL,
        account=account,
        chat_id=room or sender_id,
        sender_id=sender_id,
        sender_name=line.hostmask.nickname,
        message_id=message_id(line, server),
        chat_name=room,
        # IRC folds the case of ASCII letters only.
        ids_fold_case=sender_id.isascii(),
        is_mentioned=is_mentioned,
    )
    return IrcMessage(inbound=inbound, nick=line.hostmask.nickname, at=parse_time(tags.get("time", "")))


def is_own(nick: str, server: Server, own_nick: str) -> bool:
    """Whether a nick is the assistant's. For lines of the history give `own_nick`: `_` may have been appended
    to it then.
    """
    bare = server.casefold(own_nick).rstrip("_")
    return bool(server.is_me(nick) or (bare and server.casefold(nick).rstrip("_") == bare))


def message_id(line: Line, server: Server) -> str:
    """The id of a message, the same when the history repeats it; empty if the server sends no time."""
    tags = line.tags or {}
    at = parse_time(tags.get("time", ""))
    if tags.get("msgid") or at is None:
        return str(tags.get("msgid", ""))
    names = (server.casefold(word) for word in (line.source or "", *line.params[:1]))
    content = "\0".join((format_time(at), *names, *line.params[1:]))
    return f"~{hashlib.sha256(content.encode('utf-8', 'replace')).hexdigest()[:32]}"


def parse_time(text: str) -> datetime | None:
    """The time in a `time` tag, or `None` if it is invalid."""
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def format_time(at: datetime) -> str:
    """A time in the format of the `time` tag: UTC with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def verified_sender(line: Line, server: Server, *, knows_accounts: bool) -> str:
    """Who sent a line: the account if the server tells accounts, else `nick!user@host`.

    Nobody can imitate an account: its name contains no `!`.
    """
    account = (line.tags or {}).get("account", "") if knows_accounts else ""
    if account and account != "*" and "!" not in account:
        return str(server.casefold(account))
    return mask(server, line.hostmask.nickname, line.hostmask.username or "", line.hostmask.hostname or "")


def mask(server: Server, nick: str, user: str, host: str) -> str:
    """`nick!user@host`, with letters folded as the server compares them."""
    return f"{server.casefold(nick)}!{user}@{host.lower()}"


def _strip_mention(text: str, server: Server) -> tuple[str, bool]:
    # The server decides which characters are the same letter. Folding keeps the length.
    bare, is_mentioned = strip_mention(server.casefold(text), server.nickname_lower)
    return text[len(text) - len(bare) :], is_mentioned


def message_lines(text: str) -> tuple[str, ...]:
    """A text as lines of at most `LINE_BYTES` bytes, none of them empty."""
    lines = (line.rstrip() for line in _CONTROLS.sub("", text).split("\n"))
    return tuple(piece for line in lines if line for piece in _pieces(line))


def _pieces(line: str) -> list[str]:
    raw, pieces = line.encode("utf-8", "replace"), []
    while len(raw) > LINE_BYTES:
        end = LINE_BYTES
        while raw[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        pieces.append(raw[:end].decode())
        raw = raw[end:]
    return [*pieces, raw.decode()]


def _plain(text: str) -> str:
    """The text without color codes. `/me waves` becomes `*waves*`; other CTCP requests become empty."""
    if text.startswith("\x01"):
        words = text.strip("\x01")
        text = f"*{words.removeprefix('ACTION ')}*" if words.startswith("ACTION ") else ""
    return _FORMATS.sub("", text)
