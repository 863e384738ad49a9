"""One session's line in `sessions.json` under OpenClaw's names, and the patches that change it.

Unknown keys and unreadable values are kept unchanged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, replace
from typing import Any, TypeAlias

from nacre.record import Record
from nacre.sessions.contracts.messages import Usage
from nacre.sessions.disk.json_text import to_line

_OTHERS_OF_CHAT = frozenset(
    """
    subject groupChannel space thinkingLevel verboseLevel reasoningLevel elevatedLevel ttsAuto responseUsage
    sendPolicy execHost execSecurity execAsk execNode spawnedBy pinned groupActivation
    groupActivationNeedsSystemIntro queueMode queueDebounceMs queueCap queueDrop
    """.split()
)
"""Other programs' keys that belong to the conversation rather than to one session of it."""

_OVERRIDES = (
    ("modelOverrideSource", ("providerOverride", "modelOverride", "modelOverrideSource")),
    ("authProfileOverrideSource", ("authProfileOverride", "authProfileOverrideSource")),
)
"""The key for the author of a choice, and the choice's keys. A choice of `auto` ends with its session."""


def _stored(name: str, kind: type, *, of_chat: bool = False, mirrored: bool = False) -> Any:
    """A field with its name in the file. `of_chat` carries over to the key's next session; `mirrored` means
    that the transcript records the value too."""
    return field(
        default=None, metadata={"name": name, "kind": kind, "of_chat": of_chat, "mirrored": mirrored}
    )


class SessionRecord(Record):
    """A session in the index; `None` is unknown. Times are milliseconds since the epoch.

    `total_tokens` is the size of the context after the last call; it is valid only while `total_tokens_fresh`
    is true. `context_tokens` is the model's context window. `previous_session_ids` are the earlier sessions
    of this key, newest last. `origin` is the source of the latest message; `delivery_context` and `last_…`
    are the address of a reply. `extra` has other programs' keys. Fields marked `for others` are maintained
    for programs that read this file; Nacre reads the transcript instead.
    """

    session_id: str
    updated_at_ms: int
    session_file: str | None = _stored("sessionFile", str)
    chat_type: str | None = _stored("chatType", str, of_chat=True)
    channel: str | None = _stored("channel", str, of_chat=True)
    group_id: str | None = _stored("groupId", str, of_chat=True)
    display_name: str | None = _stored("displayName", str, of_chat=True)
    label: str | None = _stored("label", str, of_chat=True)
    origin: Mapping[str, Any] | None = _stored("origin", dict, of_chat=True)  # for others
    delivery_context: Mapping[str, Any] | None = _stored("deliveryContext", dict, of_chat=True)  # for others
    last_channel: str | None = _stored("lastChannel", str, of_chat=True)
    last_to: str | None = _stored("lastTo", str, of_chat=True)
    last_account_id: str | None = _stored("lastAccountId", str, of_chat=True)  # for others
    last_thread_id: str | None = _stored("lastThreadId", str, of_chat=True)  # for others
    system_sent: bool | None = _stored("systemSent", bool, mirrored=True)
    aborted_last_run: bool | None = _stored("abortedLastRun", bool, mirrored=True)  # for others
    input_tokens: int | None = _stored("inputTokens", int, mirrored=True)  # for others
    output_tokens: int | None = _stored("outputTokens", int, mirrored=True)  # for others
    cache_read_tokens: int | None = _stored("cacheRead", int, mirrored=True)  # for others
    cache_write_tokens: int | None = _stored("cacheWrite", int, mirrored=True)  # for others
    total_tokens: int | None = _stored("totalTokens", int, mirrored=True)
    total_tokens_fresh: bool | None = _stored("totalTokensFresh", bool, mirrored=True)
    context_tokens: int | None = _stored("contextTokens", int, mirrored=True)
    model_provider: str | None = _stored("modelProvider", str, mirrored=True)
    model: str | None = _stored("model", str, mirrored=True)
    compaction_count: int | None = _stored("compactionCount", int, mirrored=True)  # for others
    memory_flush_at_ms: int | None = _stored("memoryFlushAt", int, mirrored=True)  # for others
    memory_flush_compaction_count: int | None = _stored(
        "memoryFlushCompactionCount", int, mirrored=True
    )  # for others
    session_started_at_ms: int | None = _stored("sessionStartedAt", int)
    last_interaction_at_ms: int | None = _stored("lastInteractionAt", int, mirrored=True)
    previous_session_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def active_at_ms(self) -> int:
        """Milliseconds since the epoch of the last message, or otherwise of the last change."""
        return self.last_interaction_at_ms or self.updated_at_ms

    def of_chat(self) -> dict[str, Any]:
        """The fields of the conversation, which its next session keeps, including `extra`."""
        own = {name: stored for name, stored in _STORED.items() if stored["of_chat"]}
        kept = _OTHERS_OF_CHAT.union(stored["name"] for stored in own.values())
        for source, chosen in _OVERRIDES:
            if self.extra.get(source) != "auto":
                kept = kept.union(chosen)
        extra = {key: value for key, value in self.extra.items() if key in kept}
        return {**{name: getattr(self, name) for name in own}, "extra": extra}


RecordChange: TypeAlias = Callable[[SessionRecord], SessionRecord]


_STORED: Mapping[str, Mapping[str, Any]] = {
    each.name: each.metadata for each in fields(SessionRecord) if each.metadata
}
"""The fields that are stored unchanged, in the order of the file."""

_STORED_NAMES = tuple((name, stored["name"]) for name, stored in _STORED.items())
_BY_STORED_NAME = {stored["name"]: (name, stored["kind"]) for name, stored in _STORED.items()}

MIRRORED = frozenset({"updatedAt", *(each["name"] for each in _STORED.values() if each["mirrored"])})
"""A line's keys whose values the session's transcript records too."""

_FORMER_NAMES: Mapping[str, str] = {
    "provider": "channel",
    "lastProvider": "lastChannel",
    "room": "groupChannel",
}
"""Key names of older OpenClaw versions; the newer name wins if both are present."""


def record_to_json(record: SessionRecord) -> dict[str, Any]:
    """The record as OpenClaw stores it, without unknown values."""
    raw: dict[str, Any] = {
        **record.extra,
        "sessionId": record.session_id,
        "updatedAt": record.updated_at_ms,
    }
    values = vars(record)
    for name, stored_name in _STORED_NAMES:
        value = values[name]
        if value is not None:
            raw[stored_name] = value
    if record.previous_session_ids:
        raw["previousSessionIds"] = list(record.previous_session_ids)
    return raw


def record_from_json(raw: object) -> SessionRecord | None:
    """Reads a record; `None` without a session id. Values of the wrong type go to `extra`.

    Old key names are read and written back under their current names.
    """
    # A list reads thousands, and a check for `Mapping` takes long.
    if type(raw) is not dict and not isinstance(raw, Mapping):
        return None
    session_id = _value(raw.get("sessionId"), str)
    if not session_id:
        return None
    extra: dict[str, Any] = {}
    known: dict[str, Any] = {}
    for key, value in _under_present_names(raw).items():
        field_of = _BY_STORED_NAME.get(key)
        if field_of is not None and (read := _value(value, field_of[1])) is not None:
            known[field_of[0]] = read
        elif key not in ("sessionId", "updatedAt"):
            extra[key] = value
    previous = extra.get("previousSessionIds")
    if isinstance(previous, list) and all(isinstance(item, str) for item in previous):
        known["previous_session_ids"] = tuple(previous)
        del extra["previousSessionIds"]
    updated_at_ms = _value(raw.get("updatedAt"), int) or 0
    return SessionRecord(session_id=session_id, updated_at_ms=updated_at_ms, extra=extra, **known)


def _under_present_names(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    if raw.keys().isdisjoint(_FORMER_NAMES):
        return raw
    former = {old: new for old, new in _FORMER_NAMES.items() if old in raw}
    present = {name: value for name, value in raw.items() if name not in former}
    return {**{new: raw[old] for old, new in former.items()}, **present}


def _value(value: object, kind: type) -> Any:
    """The value if it has the type. Whole floats, which JavaScript programs write, count as integers."""
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) and kind is not bool:
        return None
    return value if isinstance(value, kind) else None


CHANGES_VERSION = 1

_SESSION = "sessionId"
_MISSING = object()


class Patch(Record):
    """The change of one key's line by an edit; `odd` is the previous line if it was not an object."""

    key: str
    was: Mapping[str, Any] | None
    now: Mapping[str, Any] | None
    odd: object = _MISSING

    @property
    def is_mirrored(self) -> bool:
        """Whether the session's transcript records all changed values too."""
        if self.was is None or self.now is None:
            return False
        was, now = self.was, self.now
        return MIRRORED.issuperset({*_differing(was, now), *_differing(now, was)})


def patch_of(key: str, lines: Mapping[str, Any], after: Mapping[str, Any] | None) -> Patch:
    """The change of a key's line in `lines` to `after`; `None` removes the line."""
    before = lines.get(key)
    if not isinstance(before, dict):
        return Patch(key=key, was=None, now=after, odd=before if key in lines else _MISSING)
    if after is None:
        return Patch(key=key, was=_session(before), now=None)
    return Patch(
        key=key,
        was=_session(before) | _differing(before, after),
        now=_session(after) | _differing(after, before),
    )


def apply_patch(lines: dict[str, Any], patch: Patch) -> None:
    """Applies a change to the fields that still have their old values. A changed line is a new object."""
    key, line = patch.key, lines.get(patch.key, _MISSING)
    if patch.was is None or not isinstance(line, dict):
        if patch.was is None and not isinstance(line, dict) and line == patch.odd:
            _put(lines, key, patch.now)
    elif _session(line) == _session(patch.was):
        _put(lines, key, None if patch.now is None else _merged(line, patch.was, patch.now))


def edit_line(patches: Iterable[Patch]) -> bytes:
    changes = [
        {"key": patch.key, "was": patch.was, "now": patch.now}
        | ({} if patch.odd is _MISSING else {"odd": patch.odd})
        for patch in patches
    ]
    return to_line({"type": "edit", "changes": changes})


def header_line(*, has_base: bool) -> bytes:
    """The first line of a change log; `has_base` means that it continues a `sessions.json`."""
    return to_line({"type": "header", "version": CHANGES_VERSION, "base": has_base})


def patches_of(raw: Mapping[str, Any]) -> list[Patch] | None:
    """The changes in an edit's line; `None` if it is not an edit."""
    changes = raw.get("changes")
    if raw.get("type") != "edit" or not isinstance(changes, list):
        return None
    patches: list[Patch] = []
    for change in changes:
        if not isinstance(change, dict) or not isinstance(change.get("key"), str):
            return None
        was, now = change.get("was"), change.get("now")
        if not isinstance(was, dict | None) or not isinstance(now, dict | None):
            return None
        patches.append(Patch(key=change["key"], was=was, now=now, odd=change.get("odd", _MISSING)))
    return patches


def _put(lines: dict[str, Any], key: str, line: Mapping[str, Any] | None) -> None:
    if line is None:
        lines.pop(key, None)
    else:
        lines[key] = dict(line)


def _merged(line: Mapping[str, Any], was: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    fitting = {
        name
        for name in {*was, *now}
        if (name in was and name in line and line[name] == was[name])
        or (name not in was and name not in line)
    }
    merged = {name: value for name, value in line.items() if name not in fitting or name in now}
    return merged | {name: value for name, value in now.items() if name in fitting}


def _differing(line: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in other or other[name] != value}


def _session(line: Mapping[str, Any]) -> dict[str, Any]:
    return {_SESSION: line[_SESSION]} if _SESSION in line else {}


MOST_PREVIOUS = 100
"""The most previous sessions in a line, which bounds its size. Older transcripts still record their key."""

_PROVIDER, _MODEL, _SOURCE = "providerOverride", "modelOverride", "modelOverrideSource"


class Origin(Record):
    """The source of one message; empty strings are unknown. The names are display names."""

    chat_kind: str
    channel: str
    account: str = ""
    chat_id: str = ""
    thread_id: str = ""
    sender_id: str = ""
    sender_name: str = ""
    chat_name: str = ""

    @property
    def reply_to(self) -> str:
        """The recipient of a reply: the chat or else the sender; empty for a terminal."""
        return self.chat_id.strip() or self.sender_id.strip()


def with_origin(record: SessionRecord, origin: Origin) -> SessionRecord:
    """Returns the record after a message from `origin`, with strings stripped and the channel in lower case.

    An origin that cannot receive messages, such as a terminal, does not replace one that can. Returns the
    same object if nothing changes, as for most messages.
    """
    kind, channel, chat_id = origin.chat_kind, origin.channel.strip().lower(), origin.chat_id.strip()
    sender, name = origin.sender_id.strip(), origin.chat_name.strip()
    to, account, thread = origin.reply_to, origin.account.strip(), origin.thread_id.strip()
    address = {"to": to, "accountId": account, "threadId": thread}
    latest = {"label": name, "provider": channel, "chatType": kind, **address, "from": sender}
    changed: dict[str, Any] = {"origin": _known(latest), "chat_type": record.chat_type or kind}
    if kind != "direct":
        changed["channel"] = channel or record.channel
        changed["group_id"] = chat_id or record.group_id
        changed["display_name"] = name or record.display_name
    if to or not record.last_to:
        changed["delivery_context"] = _known({"channel": channel, **address})
        changed["last_channel"] = channel or None
        changed["last_to"] = to or None
        changed["last_account_id"] = account or None
        changed["last_thread_id"] = thread or None
    return record if changed.items() <= vars(record).items() else replace(record, **changed)


def usage_fields(usage: Usage) -> dict[str, Any]:
    """The fields for the token counts of the last call, with cached tokens separate from new ones."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "total_tokens": usage.context_tokens,
        "total_tokens_fresh": True,
    }


def unknown_usage() -> dict[str, Any]:
    """The fields of `usage_fields` for outdated counts."""
    return {**dict.fromkeys(usage_fields(Usage())), "total_tokens_fresh": False}


def model_override(record: SessionRecord) -> str:
    """The chosen model as `provider/model` or `model`; empty if there is no choice."""
    provider, model = record.extra.get(_PROVIDER), record.extra.get(_MODEL)
    if not isinstance(model, str) or not model.strip():
        return ""
    return f"{provider.strip()}/{model.strip()}" if isinstance(provider, str) and provider else model.strip()


def with_model_override(record: SessionRecord, name: str) -> SessionRecord:
    """The record with the owner's model choice; an empty name removes it.

    The key profile of the previous choice is removed too.
    """
    gone = (_PROVIDER, _MODEL, _SOURCE, "authProfileOverride", "authProfileOverrideSource")
    extra = {key: value for key, value in record.extra.items() if key not in gone}
    if name:
        provider, _, model = name.partition("/")
        extra |= {_PROVIDER: provider, _MODEL: model, _SOURCE: "user"}
    return replace(record, extra=extra)


def next_session(record: SessionRecord, *, session_id: str, at_ms: int) -> SessionRecord:
    """The record of a new session of the same key; the old session is its newest previous one."""
    fresh = _carried(record, session_id=session_id, at_ms=at_ms)
    previous = (*record.previous_session_ids, record.session_id)
    return replace(fresh, compaction_count=0, previous_session_ids=_distinct(previous, but=session_id))


def resumed_session(record: SessionRecord, earlier: SessionRecord, *, at_ms: int) -> SessionRecord:
    """The record of a key that continues an `earlier` session, with the id and the file of that session.

    The session's start is set to now, so that no daily or idle reset ends it before the next message. Its
    tokens and compactions are unknown until its next turn, which reads them from the transcript.
    """
    if record.session_id == earlier.session_id:
        return record
    fresh = _carried(record, session_id=earlier.session_id, at_ms=at_ms)
    previous = (*record.previous_session_ids, *earlier.previous_session_ids, record.session_id)
    return replace(
        fresh,
        session_file=earlier.session_file,
        last_interaction_at_ms=at_ms,
        system_sent=True,
        previous_session_ids=_distinct(previous, but=earlier.session_id),
    )


def _carried(record: SessionRecord, *, session_id: str, at_ms: int) -> SessionRecord:
    return SessionRecord(
        session_id=session_id, updated_at_ms=at_ms, session_started_at_ms=at_ms, **record.of_chat()
    )


def _distinct(ids: tuple[str, ...], *, but: str) -> tuple[str, ...]:
    """The distinct ids in order, at most the newest `MOST_PREVIOUS`."""
    return tuple(dict.fromkeys(name for name in ids if name != but))[-MOST_PREVIOUS:]


def _known(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: text for name, text in texts.items() if text}
