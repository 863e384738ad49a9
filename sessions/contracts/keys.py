"""Session keys, ended sessions and reset rules.

The key scheme is OpenClaw's. External parts (a chat, a sender, a thread) are escaped so that they never look
like part of the scheme: `:` and `%` are escaped, and so is a part that is a word of the scheme. Ids are
exact: `alice`, `Alice` and ` alice` are three different ids. Keys are lower case, so uppercase characters are
escaped too.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import field
from datetime import UTC, datetime, time, timedelta
from typing import Any, Literal, TypeAlias, get_args

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionKeyInvalid

KeyKind: TypeAlias = Literal[
    "main", "direct", "group", "thread", "subagent", "cron", "hook", "global", "other"
]
DmScope: TypeAlias = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
SessionScope: TypeAlias = Literal["per-sender", "global"]

GLOBAL_KEY = "global"
SYNTHETIC_KINDS: tuple[KeyKind, ...] = ("subagent", "cron", "hook")
"""Sessions that a program started, without a person."""

MAX_KEY_CHARS = 800
MAX_PART_CHARS = 128
"""A longer part keeps its first 64 characters, followed by a digest of the whole."""

_UNPREFIXED = (GLOBAL_KEY, "unknown")
RECOVERED = "recovered:"
"""The prefix of the key of a transcript without a key of its own."""
_DIRECT_WORDS = ("dm", "direct")
_GROUP_WORDS = ("group", "channel")
_THREAD_WORDS = ("thread", "topic")
_RESERVED = {*_DIRECT_WORDS, *_GROUP_WORDS, *_THREAD_WORDS, *SYNTHETIC_KINDS, "main", "agent"}


class SessionRoute(Record):
    """The values that determine a session key: where a message came from, and the owner's settings.

    `identity_links` maps a person's canonical name to their ids, written as `channel:id`. A bare id applies
    to the owner only, because on another channel anybody may be able to choose it. Any `chat_kind` except
    `direct` is a group. `ids_fold_case` means that `Anna` and ` anna` are the same id on this channel, as in
    email and IRC; otherwise ids are compared byte by byte.
    """

    agent_id: str
    chat_kind: str
    channel: str
    account: str
    chat_id: str
    thread_id: str
    sender_id: str
    is_owner: bool
    scope: str = "per-sender"
    dm_scope: str = "main"
    main_key: str = "main"
    ids_fold_case: bool = False
    identity_links: Mapping[str, Sequence[str]] = field(default_factory=dict)


def normalize_agent_id(text: str) -> str:
    """An agent id: at most 64 characters of `a-z 0-9 _ -`, a letter or digit first; `main` if empty."""
    lowered = re.sub(r"[^a-z0-9_-]+", "-", text.strip().lower())
    return lowered.strip("-").lstrip("_-")[:64].rstrip("-") or "main"


def route_key(route: SessionRoute) -> str:
    """Returns the key of the session that a message belongs to.

    The owner's direct chats share the main session unless `dm_scope` separates them. A direct chat with
    anybody else has its own key, by channel and peer unless `identity_links` names the person, so a stranger
    never reaches the owner's transcript. Groups and channels have one key each; a thread adds a suffix. With
    the scope `global`, everything the owner says in any chat is one session, which excludes what others say.

    Raises:
        SessionKeyInvalid: `main_key`, `dm_scope` or `scope` is invalid, or a direct chat that is not the
            owner's has no sender, so that all such people would share one session.
    """
    if route.scope not in ("per-sender", "global"):
        raise SessionKeyInvalid(f"session.scope is {route.scope!r}. Use per-sender or global.")
    if route.scope == "global" and route.is_owner:
        return GLOBAL_KEY
    agent = f"agent:{normalize_agent_id(route.agent_id)}"
    is_direct = route.chat_kind == "direct" and not any(map(_names_group, (route.chat_id, route.sender_id)))
    base = f"{agent}:{_direct_rest(route) if is_direct else _group_rest(route)}"
    return f"{base}:thread:{_id(route, route.thread_id)}" if route.thread_id.strip() else base


def canonical_key(text: str, *, agent_id: str, main_key: str = "main") -> str:
    """Returns the one spelling of a session's name: lower case, with its agent.

    `main`, the main key, and both of these with an agent prefix name the same session. `global`, `unknown`
    and `recovered:…` have no agent prefix.

    Raises:
        SessionKeyInvalid: `text` is empty, too long, contains control characters, or names no session.
    """
    key = unicodedata.normalize("NFC", text.strip().lower())
    if not key:
        raise SessionKeyInvalid("The session key is empty. Name a session such as 'main'.")
    if len(key) > MAX_KEY_CHARS:
        raise SessionKeyInvalid(
            f"The session key has {len(key)} characters; at most {MAX_KEY_CHARS} are allowed. Shorten it."
        )
    if not key.isprintable() and any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in key):
        raise SessionKeyInvalid(f"The session key {key!r} contains control characters. Remove them.")
    if key in _UNPREFIXED or key.startswith(RECOVERED):
        return key
    main = _main_key(main_key)
    agent, rest = normalize_agent_id(agent_id), key
    if key.startswith("agent:"):
        _, _, tail = key.partition(":")
        named, _, rest = tail.partition(":")
        if not named or not rest:
            raise SessionKeyInvalid(
                f"The session key {key!r} names no session. Write 'agent:<id>:<session>'."
            )
        agent = normalize_agent_id(named)
    return f"agent:{agent}:{main if rest in ('main', main) else rest}"


def owners_key(text: str, *, agent_id: str, main_key: str = "main") -> str:
    """The key of a session by its owner's name for it: a plain name is a private conversation.

    A name with `:`, the main session and `global` are keys as in `canonical_key`, with their audience.

    Raises:
        SessionKeyInvalid: as for `canonical_key`.
    """
    key = canonical_key(text, agent_id=agent_id, main_key=main_key)
    name = folded_id(text)
    if ":" in name or key in _UNPREFIXED or key.endswith(f":{_main_key(main_key)}"):
        return key
    return canonical_key(f"direct:{_part(name)}", agent_id=agent_id, main_key=main_key)


def key_agent(key: str) -> str:
    """The agent that a canonical key names, or an empty string if the key has no agent."""
    head, _, rest = key.partition(":")
    return rest.partition(":")[0] if head == "agent" else ""


def key_kind(key: str, *, main_key: str = "main") -> KeyKind:
    """The kind of conversation that a canonical key names; an unrecognized key is `other`, never `main`."""
    if key == GLOBAL_KEY:
        return "global"
    rest = _rest(key)
    parts = rest.split(":")
    for kind in SYNTHETIC_KINDS:
        # Checked first, because the rest is the program's own and may contain any word of the scheme.
        if len(parts) > 1 and parts[0] == kind and parts[1]:
            return kind
    if _thread_parent(rest) is not None:
        return "thread"
    if rest and rest == main_key.strip().lower():
        return "main"
    return _peer_kind(parts)


def is_private_key(key: str, *, main_key: str = "main") -> bool:
    """Whether a key names a conversation of two: the main session, a direct chat, or a thread of either.

    It does not say that the other participant is the owner. An unrecognized key is not private.
    """
    kind = key_kind(key, main_key=main_key)
    if kind != "thread":
        return kind in ("main", "direct")
    parent = _thread_parent(_rest(key))
    agent = ":".join(key.split(":")[:2])
    return key_kind(f"{agent}:{parent}", main_key=main_key) in ("main", "direct")


def _names_group(place: str) -> bool:
    """Whether an id identifies itself as a group's, as the ids of WhatsApp and some bridges do."""
    lowered = place.strip().lower()
    return lowered.endswith("@g.us") or any(f":{word}:" in lowered for word in _GROUP_WORDS)


def _direct_rest(route: SessionRoute) -> str:
    scope = route.dm_scope
    if scope not in ("main", "per-peer", "per-channel-peer", "per-account-channel-peer"):
        raise SessionKeyInvalid(
            f"session.dmScope is {scope!r}. Use main, per-peer, per-channel-peer or per-account-channel-peer."
        )
    main = _main_key(route.main_key)
    has_sender = bool(route.sender_id.strip())
    if route.is_owner and (scope == "main" or not has_sender):
        return main
    if not has_sender:
        raise SessionKeyInvalid(
            f"A direct message on channel {route.channel!r} that is not the owner's has no sender, so "
            "everybody without an id would share one session. Set sender_id in the bridge."
        )
    channel = _part(_name(route.channel))
    peer, is_linked = _peer(route)
    if scope == "per-account-channel-peer":
        return f"{channel}:{_part(_name(route.account or 'default'))}:dm:{peer}"
    if scope == "per-peer" and (route.is_owner or is_linked):
        return f"dm:{peer}"
    return f"{channel}:dm:{peer}"


def _group_rest(route: SessionRoute) -> str:
    word = "channel" if route.chat_kind == "channel" else "group"
    # Uses the sender's id only if it is the group's; a person's id would give each member a separate group.
    sender = route.sender_id if _names_group(route.sender_id) else ""
    chat = route.chat_id if route.chat_id.strip() else sender
    return f"{_part(_name(route.channel))}:{word}:{_id(route, chat)}"


def _peer(route: SessionRoute) -> tuple[str, bool]:
    for name, linked in route.identity_links.items():
        if name.strip() and any(_names(item.strip(), route) for item in linked):
            return _part(folded_id(name)), True
    peer = _id(route, route.sender_id)
    # A stranger may be able to choose an id; it must not look like somebody's canonical name.
    if peer in {_part(folded_id(name)) for name in route.identity_links}:
        return f"%{ord(peer[0]):02x}{peer[1:]}", False
    return peer, False


def _names(link: str, route: SessionRoute) -> bool:
    """Whether an item of `identityLinks` (`channel:id`, or a bare id for the owner) is this sender."""
    channel = f"{_name(route.channel)}:"
    ids = [link] if route.is_owner else []
    if link.lower().startswith(channel):
        ids.append(link[len(channel) :])
    return any(_id(route, one) == _id(route, route.sender_id) for one in ids if one)


def _id(route: SessionRoute, text: str) -> str:
    return _part(folded_id(text) if route.ids_fold_case else text)


def _name(text: str) -> str:
    """The name of a channel or an account without its case; a trailing space is part of the name."""
    return unicodedata.normalize("NFC", text.lower())


def folded_id(text: str) -> str:
    """An id as a case-insensitive channel reads it."""
    return unicodedata.normalize("NFC", text.strip().lower())


def _part(text: str) -> str:
    """Escapes and bounds one external part of a key; an empty text gives `unknown`.

    Different texts give different parts, and `canonical_key` leaves each part unchanged.
    """
    exact = text or "unknown"
    escaped = "".join(char if _is_plain(char) else _escaped(char) for char in exact)
    if unicodedata.normalize("NFC", escaped) != escaped:
        escaped = "".join(char if char.isascii() and _is_plain(char) else _escaped(char) for char in exact)
    if escaped in _RESERVED:
        escaped = f"%{ord(escaped[0]):02x}{escaped[1:]}"
    if len(escaped) > MAX_PART_CHARS:
        digest = hashlib.blake2s(exact.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()
        escaped = f"{escaped[:64]}%{digest}"
    return escaped


def _is_plain(char: str) -> bool:
    """Whether a character appears in a key as itself: printable, lower case and not part of the scheme."""
    return char.isprintable() and not char.isspace() and char.lower() == char and char not in ":%"


def _escaped(char: str) -> str:
    return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))


def _main_key(text: str) -> str:
    main = text.strip().lower() or "main"
    if not re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", main) or main in _RESERVED - {"main"}:
        raise SessionKeyInvalid(
            f"session.mainKey is {text!r}. Use letters, digits, '-' and '_', and none of the scheme's words."
        )
    return main


def _rest(key: str) -> str:
    head, _, tail = key.partition(":")
    _, _, rest = tail.partition(":")
    return rest if head == "agent" else key if head in SYNTHETIC_KINDS else ""


def _thread_parent(rest: str) -> str | None:
    parts = rest.split(":")
    for index in range(len(parts) - 1, 0, -1):
        if parts[index] in _THREAD_WORDS:
            return ":".join(parts[:index])
    return None


def _peer_kind(parts: Sequence[str]) -> KeyKind:
    """The first word of the scheme after the channel, or after channel and account, decides."""
    if any(part.endswith("@g.us") for part in parts):
        return "group"
    if len(parts) == 2 and parts[0] in _DIRECT_WORDS and parts[1]:
        return "direct"
    for index in (1, 2):
        if len(parts) > index and parts[index] in _GROUP_WORDS:
            return "group"
        if len(parts) > index + 1 and parts[index] in _DIRECT_WORDS and parts[index + 1]:
            return "direct"
    return "other"


EndReason: TypeAlias = Literal["new", "reset", "daily", "idle"]
"""`new` and `reset` are the owner's commands; `daily` and `idle` are settings."""


class EndedSession(Record):
    """A session that has ended.

    `transcript` is its name in the store. `channel` is the channel of the message that ended the session.
    `attempts` counts how often its hooks have failed.
    """

    key: str
    session_id: str
    transcript: str
    reason: EndReason
    ended_at_ms: int
    channel: str = ""
    attempts: int = 0


_ENDED_KEYS: Mapping[str, tuple[str, type]] = {
    "key": ("key", str),
    "session_id": ("sessionId", str),
    "transcript": ("transcript", str),
    "reason": ("reason", str),
    "ended_at_ms": ("endedAt", int),
    "channel": ("channel", str),
    "attempts": ("attempts", int),
}
"""Each field's name and type in the file, in order."""


def ended_to_json(ended: EndedSession) -> dict[str, Any]:
    """The stored form of an ended session."""
    return {"version": 1} | {stored: getattr(ended, name) for name, (stored, _) in _ENDED_KEYS.items()}


def ended_from_json(data: bytes) -> EndedSession | None:
    """Reads a stored ended session; `None` if the bytes are not one or have another version."""
    values = stored_values(data, _ENDED_KEYS)
    if values is None or values["reason"] not in get_args(EndReason):
        return None
    return EndedSession(**values) if values["session_id"] and "/" not in values["transcript"] else None


def stored_values(data: bytes, keys: Mapping[str, tuple[str, type]]) -> dict[str, Any] | None:
    """The values of a stored object by field; `None` if it has another version, or a value another type.

    `keys` has the name and the type of each field in the file.
    """
    try:
        raw = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict) or raw.get("version") != 1:
        return None
    if not all(type(raw.get(stored)) is kind for stored, kind in keys.values()):
        return None
    return {name: raw[stored] for name, (stored, _) in keys.items()}


ResetMode: TypeAlias = Literal["daily", "idle", "none"]
ResetCause: TypeAlias = Literal["daily", "idle"]
SessionType: TypeAlias = Literal["direct", "group", "thread"]

DEFAULT_AT_HOUR = 4
DEFAULT_IDLE_MINUTES = 60
"""Idle time of the mode `idle` when no setting specifies one."""
PAUSE_MINUTES = 30
"""A shorter silence is a pause, in which the daily reset does not end the session."""


class ResetRule(Record):
    """The owner's reset settings for one place; `None` means not set."""

    mode: ResetMode | None = None
    at_hour: int | None = None
    idle_minutes: int | None = None


class ResetPolicy(Record):
    """The reset rules of one session; whichever comes first applies. `None` means never."""

    at_hour: int | None
    idle_minutes: int | None


class NextReset(Record):
    """When a session will end if no message arrives, and by which rule."""

    at: datetime
    cause: ResetCause


def session_type(key_kind: str, *, is_direct: bool, has_thread: bool) -> SessionType | None:
    """The session type that reset settings refer to, or `None` for a program's session, which is never reset.

    `key_kind` is a result of the function `key_kind`. A thread of a group is a thread.
    """
    if key_kind in SYNTHETIC_KINDS:
        return None
    if has_thread or key_kind == "thread":
        return "thread"
    return "direct" if is_direct and key_kind != "group" else "group"


def reset_policy(
    *,
    kind: SessionType,
    channel: str,
    base: ResetRule | None = None,
    by_type: Mapping[SessionType, ResetRule] | None = None,
    by_channel: Mapping[str, ResetRule] | None = None,
    idle_minutes: int | None = None,
) -> ResetPolicy:
    """Returns the reset rules for a session of this kind on this channel.

    A rule of the channel applies alone. Otherwise the kind's rule takes precedence over `base`, field by
    field. `idle_minutes` is the older setting: alone, it means idle resets and no daily reset. Without any
    setting, the session is reset daily at 04:00.
    """
    of_channel = (by_channel or {}).get(channel.strip().lower())
    own = ResetRule() if of_channel else (by_type or {}).get(kind, ResetRule())
    shared = of_channel or base or ResetRule()
    legacy_idle = None if of_channel else idle_minutes
    nothing_newer = not (of_channel or base or by_type)
    usual: ResetMode = "idle" if nothing_newer and legacy_idle is not None else "daily"
    mode = own.mode or shared.mode or usual
    if mode == "none":
        return ResetPolicy(at_hour=None, idle_minutes=None)
    idle = _first(own.idle_minutes, shared.idle_minutes, legacy_idle)
    if mode == "idle":
        return ResetPolicy(at_hour=None, idle_minutes=DEFAULT_IDLE_MINUTES if idle is None else idle)
    return ResetPolicy(at_hour=_first(own.at_hour, shared.at_hour, DEFAULT_AT_HOUR), idle_minutes=idle)


def due_reset(
    policy: ResetPolicy, *, started_at: datetime, last_said_at: datetime, now: datetime
) -> ResetCause | None:
    """Why a session has ended at `now`, or `None` if it continues; of two reasons, the earlier one.

    All three datetimes are aware, and `now` carries the owner's time zone. `last_said_at` is the time of the
    newest message from a person or the assistant.
    """
    pause_minutes = PAUSE_MINUTES
    if policy.idle_minutes is not None:
        pause_minutes = min(PAUSE_MINUTES, policy.idle_minutes)
    if _utc(now) - _utc(last_said_at) < timedelta(minutes=pause_minutes):
        return None
    over = next_reset(policy, started_at=started_at, last_said_at=last_said_at, now=now)
    return over.cause if over is not None and _utc(over.at) <= _utc(now) else None


def next_reset(
    policy: ResetPolicy, *, started_at: datetime, last_said_at: datetime, now: datetime
) -> NextReset | None:
    """When the session will end without a message, in the zone of `now`; in the past if it has ended."""
    ends = []
    if policy.at_hour is not None:
        boundary = next_boundary(started_at.astimezone(now.tzinfo), policy.at_hour)
        pause_ends = _later(last_said_at, PAUSE_MINUTES, now)
        ends.append(NextReset(at=max(boundary, pause_ends, key=_utc), cause="daily"))
    if policy.idle_minutes is not None:
        # One millisecond more, so that a silence of exactly that length does not end the session.
        idle_ends = _later(last_said_at, policy.idle_minutes, now) + timedelta(milliseconds=1)
        ends.append(NextReset(at=idle_ends, cause="idle"))
    return min(ends, key=lambda end: _utc(end.at), default=None)


def next_boundary(now: datetime, at_hour: int) -> datetime:
    """The first moment after `now` at which a clock in its time zone reaches `at_hour`.

    If the zone skips that hour (daylight saving time begins), the result is the moment of the jump. If the
    hour occurs twice, the first occurrence counts.
    """
    # Some days are missing in some zones, and a clock can be set back across midnight.
    days = [now.date() + timedelta(days=offset) for offset in range(-3, 4)]
    moments = [datetime.combine(day, time(at_hour), tzinfo=now.tzinfo) for day in days]
    exact = (moment.astimezone(UTC).astimezone(now.tzinfo) for moment in moments)
    return min((moment for moment in exact if _utc(moment) > _utc(now)), key=_utc)


def _later(moment: datetime, minutes: int, now: datetime) -> datetime:
    try:
        return (_utc(moment) + timedelta(minutes=minutes)).astimezone(now.tzinfo)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def _utc(moment: datetime) -> datetime:
    # Datetimes in one zone compare by wall clock, which is wrong in the hour that occurs twice.
    return moment.astimezone(UTC)


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
