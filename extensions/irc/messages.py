"""What an IRC line says, and an answer as IRC lines. Pure."""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime

from ircstates import Server
from irctokens import Line

from nacre.bridges.channels.mentions import addressed
from nacre.bridges.channels.spoken import Spoken

LINE_BYTES = 320
"""A line has 512 bytes. Of these the server spends up to 190 on the sender's mask, the target and marks."""
_FORMATS = re.compile("\x03(?:\\d{1,2}(?:,\\d{1,2})?)?|\x04[0-9A-Fa-f]{0,6}|[\x02\x0f\x11\x16\x1d\x1e\x1f]")
_CONTROLS = re.compile("[\0\r]")


class Heard(Spoken):
    """A message, the nick of who said it, and when; `None` where the server does not tell."""

    nick: str
    at: datetime | None = None


def heard(line: Line, server: Server, *, knows_accounts: bool, own_nick: str = "") -> Heard | str:
    """What a PRIVMSG says, or why it is not answered. `own_nick`: as `is_own`, for what is history."""
    if line.source is None or len(line.params) != 2:
        return "it has no sender or no text"
    if not (line.hostmask.nickname and line.hostmask.username and line.hostmask.hostname):
        return "it comes from a server"
    if line.hostmask.nickname.startswith("*"):
        return "it comes from a bouncer"
    if is_own(line.hostmask.nickname, server, own_nick):
        return "it is the assistant's own"
    tags = line.tags or {}
    if "bot" in tags:
        return "a bot said it"
    target, text = line.params
    text = _spoken(text)
    if not text.strip():
        return "it says nothing"
    is_private = is_own(target, server, own_nick)
    if not (is_private or server.is_channel(target)):
        return f"it went to {target!r}, which is neither the assistant nor a channel"
    bare, is_mentioned = _addressed(text, server)
    sender_id = vouched(line, server, knows_accounts=knows_accounts)
    return Heard(
        kind="direct" if is_private else "group",
        chat_id=sender_id if is_private else server.casefold(target),
        sender_id=sender_id,
        nick=line.hostmask.nickname,
        text=bare,
        is_mentioned=is_mentioned,
        message_id=message_id(line, server),
        at=moment(tags.get("time", "")),
    )


def is_own(nick: str, server: Server, own_nick: str) -> bool:
    """Whether a nick is the assistant's. In history it may have had a tail: give `own_nick` there."""
    tail_less = server.casefold(own_nick).rstrip("_")
    return bool(server.is_me(nick) or (tail_less and server.casefold(nick).rstrip("_") == tail_less))


def message_id(line: Line, server: Server) -> str:
    """The id of a message, the same when the history repeats it; empty where the server tells no time."""
    tags = line.tags or {}
    at = moment(tags.get("time", ""))
    if tags.get("msgid") or at is None:
        return str(tags.get("msgid", ""))
    names = (server.casefold(word) for word in (line.source or "", *line.params[:1]))
    said = "\0".join((stamp(at), *names, *line.params[1:]))
    return f"~{hashlib.sha256(said.encode('utf-8', 'replace')).hexdigest()[:32]}"


def moment(text: str) -> datetime | None:
    """A moment as the tag `time` tells it; `None` for what is none."""
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def stamp(at: datetime) -> str:
    """A moment as the tag `time` tells it: UTC, with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def vouched(line: Line, server: Server, *, knows_accounts: bool) -> str:
    """Who sent a line: the account where the server tells accounts, else `nick!user@host`.

    Nobody can look like an account: its name has no `!`.
    """
    account = (line.tags or {}).get("account", "") if knows_accounts else ""
    if account and account != "*" and "!" not in account:
        return str(server.casefold(account))
    return mask(server, line.hostmask.nickname, line.hostmask.username or "", line.hostmask.hostname or "")


def mask(server: Server, nick: str, user: str, host: str) -> str:
    """`nick!user@host`, with the letters that the server takes for the same made the same."""
    return f"{server.casefold(nick)}!{user}@{host.lower()}"


def _addressed(text: str, server: Server) -> tuple[str, bool]:
    """As `addressed`, with the letters that the server takes for the same; folding keeps the length."""
    bare, is_mentioned = addressed(server.casefold(text), server.nickname_lower)
    return text[len(text) - len(bare) :], is_mentioned


def message_lines(text: str, most_bytes: int = LINE_BYTES) -> tuple[str, ...]:
    """A text as the lines of IRC messages: no line is empty, and none is longer than `most_bytes`."""
    lines = (line.rstrip() for line in _CONTROLS.sub("", text).split("\n"))
    return tuple(piece for line in lines if line for piece in _pieces(line, most_bytes))


def _pieces(line: str, most_bytes: int) -> list[str]:
    raw, pieces = line.encode("utf-8", "replace"), []
    while len(raw) > most_bytes:
        end = most_bytes
        while raw[end] & 0xC0 == 0x80:  # inside a character
            end -= 1
        pieces.append(raw[:end].decode())
        raw = raw[end:]
    return [*pieces, raw.decode()]


def _spoken(text: str) -> str:
    """The words without colours; `/me waves` is `*waves*`, other requests between programs are nothing."""
    if text.startswith("\x01"):
        words = text.strip("\x01")
        text = f"*{words.removeprefix('ACTION ')}*" if words.startswith("ACTION ") else ""
    return _FORMATS.sub("", text)
