"""One session's line in `sessions.json`, under OpenClaw's names. A contract: bytes on disk. Pure.

Keys that are unknown here, or whose values cannot be read, are kept as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from nacre.records.record import Record

_OTHERS_OF_CHAT = frozenset(
    {
        *("subject", "groupChannel", "space", "thinkingLevel", "verboseLevel", "reasoningLevel"),
        *("elevatedLevel", "ttsAuto", "responseUsage", "sendPolicy", "execHost", "execSecurity", "execAsk"),
        *("execNode", "spawnedBy", "pinned", "groupActivation", "groupActivationNeedsSystemIntro"),
        *("queueMode", "queueDebounceMs", "queueCap", "queueDrop"),
    }
)
"""Keys of other programs that belong to the conversation, and not to one session of it."""

_OVERRIDES = (
    ("modelOverrideSource", ("providerOverride", "modelOverride", "modelOverrideSource")),
    ("authProfileOverrideSource", ("authProfileOverride", "authProfileOverrideSource")),
)
"""Where a choice says who made it, and what belongs to it: one made by `auto` ends with its session."""


def _stored(name: str, kind: type, *, of_chat: bool = False, mirrored: bool = False) -> Any:
    """A field under its name in the file; one `of_chat` goes on with the key's next session.

    What is `mirrored` the transcript tells as well.
    """
    return field(
        default=None, metadata={"name": name, "kind": kind, "of_chat": of_chat, "mirrored": mirrored}
    )


class SessionRecord(Record):
    """What the index knows of a session; `None` is unknown. Times are milliseconds since the epoch.

    `total_tokens` is how full the window was after the last call; it counts only while
    `total_tokens_fresh`. `context_tokens` is the model's window. `previous_session_ids` are the
    sessions that this key named before, newest last. `origin` is where the latest message came from,
    `delivery_context` and `last_…` where a reply goes (`changes.py`). `extra` holds other programs' keys.
    What is marked `for others` is kept up for programs that read this file; Nacre itself asks the transcript.
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

    def of_chat(self) -> dict[str, Any]:
        """The fields that belong to the conversation and not to this session of it, `extra` among them."""
        own = {name: stored for name, stored in _STORED.items() if stored["of_chat"]}
        kept = _OTHERS_OF_CHAT.union(stored["name"] for stored in own.values())
        for source, chosen in _OVERRIDES:
            if self.extra.get(source) != "auto":
                kept = kept.union(chosen)
        extra = {key: value for key, value in self.extra.items() if key in kept}
        return {**{name: getattr(self, name) for name in own}, "extra": extra}


_STORED: Mapping[str, Mapping[str, Any]] = {
    each.name: each.metadata for each in fields(SessionRecord) if each.metadata
}
"""The fields that are stored as they are, in the order of the file."""

_STORED_NAMES = tuple((name, stored["name"]) for name, stored in _STORED.items())

MIRRORED = frozenset({"updatedAt", *(each["name"] for each in _STORED.values() if each["mirrored"])})
"""Fields of a line, as the file names them, that could be read from the session's transcript again."""

_FORMER_NAMES: Mapping[str, str] = {
    "provider": "channel",
    "lastProvider": "lastChannel",
    "room": "groupChannel",
}
"""Names that older OpenClaw versions wrote; the newer one wins where both stand."""


def record_to_json(record: SessionRecord) -> dict[str, Any]:
    """The record as OpenClaw stores it; unknown values are left out."""
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

    Former names are read, and written back under the names of today.
    """
    if not isinstance(raw, Mapping):
        return None
    session_id = _value(raw.get("sessionId"), str)
    if not session_id:
        return None
    raw = _under_present_names(raw)
    extra = dict(raw)
    known: dict[str, Any] = {}
    for name, stored in _STORED.items():
        value = _value(raw.get(stored["name"]), stored["kind"])
        if value is not None:
            known[name] = value
            del extra[stored["name"]]
    previous = raw.get("previousSessionIds")
    if isinstance(previous, list) and all(isinstance(item, str) for item in previous):
        known["previous_session_ids"] = tuple(previous)
        del extra["previousSessionIds"]
    extra.pop("sessionId")
    updated_at_ms = _value(extra.pop("updatedAt", None), int) or 0
    return SessionRecord(session_id=session_id, updated_at_ms=updated_at_ms, extra=extra, **known)


def _under_present_names(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    former = {old: new for old, new in _FORMER_NAMES.items() if old in raw}
    if not former:
        return raw
    present = {name: value for name, value in raw.items() if name not in former}
    return {**{new: raw[old] for old, new in former.items()}, **present}


def _value(value: object, kind: type) -> Any:
    """`value` if it is of the kind; whole floats, which JavaScript writers produce, count as numbers."""
    if kind is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, bool) and kind is not bool:
        return None
    return value if isinstance(value, kind) else None
