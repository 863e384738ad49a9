"""One session's line in `sessions.json`, under OpenClaw's names. A contract: bytes on disk. Pure.

Keys that are unknown here, or whose values cannot be read, are kept as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from nacre.sessions.contracts.usage import Usage


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """What the index knows of a session; `None` is unknown. Times are milliseconds since the epoch.

    `total_tokens` is how full the window was after the last call; it counts only while
    `total_tokens_fresh`. `context_tokens` is the model's window. `previous_session_ids` are the
    sessions that this key named before, newest last. `origin` is where the latest message came from,
    `delivery_context` and `last_…` where a reply goes (`origin.py`). `extra` holds other programs' keys.
    """

    session_id: str
    updated_at_ms: int
    session_file: str | None = None
    chat_type: str | None = None
    channel: str | None = None
    group_id: str | None = None
    display_name: str | None = None
    label: str | None = None
    origin: Mapping[str, Any] | None = None
    delivery_context: Mapping[str, Any] | None = None
    last_channel: str | None = None
    last_to: str | None = None
    last_account_id: str | None = None
    last_thread_id: str | None = None
    system_sent: bool | None = None
    aborted_last_run: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    total_tokens: int | None = None
    total_tokens_fresh: bool | None = None
    context_tokens: int | None = None
    model_provider: str | None = None
    model: str | None = None
    compaction_count: int | None = None
    memory_flush_at_ms: int | None = None
    memory_flush_compaction_count: int | None = None
    session_started_at_ms: int | None = None
    last_interaction_at_ms: int | None = None
    previous_session_ids: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)


_NAMES: Mapping[str, tuple[str, type]] = {
    "session_file": ("sessionFile", str),
    "chat_type": ("chatType", str),
    "channel": ("channel", str),
    "group_id": ("groupId", str),
    "display_name": ("displayName", str),
    "label": ("label", str),
    "origin": ("origin", dict),
    "delivery_context": ("deliveryContext", dict),
    "last_channel": ("lastChannel", str),
    "last_to": ("lastTo", str),
    "last_account_id": ("lastAccountId", str),
    "last_thread_id": ("lastThreadId", str),
    "system_sent": ("systemSent", bool),
    "aborted_last_run": ("abortedLastRun", bool),
    "input_tokens": ("inputTokens", int),
    "output_tokens": ("outputTokens", int),
    "cache_read_tokens": ("cacheRead", int),
    "cache_write_tokens": ("cacheWrite", int),
    "total_tokens": ("totalTokens", int),
    "total_tokens_fresh": ("totalTokensFresh", bool),
    "context_tokens": ("contextTokens", int),
    "model_provider": ("modelProvider", str),
    "model": ("model", str),
    "compaction_count": ("compactionCount", int),
    "memory_flush_at_ms": ("memoryFlushAt", int),
    "memory_flush_compaction_count": ("memoryFlushCompactionCount", int),
    "session_started_at_ms": ("sessionStartedAt", int),
    "last_interaction_at_ms": ("lastInteractionAt", int),
}

_FORMER_NAMES: Mapping[str, str] = {
    "provider": "channel",
    "lastProvider": "lastChannel",
    "room": "groupChannel",
}
"""Names that older OpenClaw versions wrote; the newer one wins where both stand."""


def with_usage(record: SessionRecord, usage: Usage) -> SessionRecord:
    """The record with what the last call counted; what was cached stands apart from what was new."""
    return replace(
        record,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        total_tokens=usage.context_tokens,
        total_tokens_fresh=True,
    )


def without_usage(record: SessionRecord) -> SessionRecord:
    """The record without what the last call counted, once that speaks of another context."""
    return replace(
        record,
        input_tokens=None,
        output_tokens=None,
        cache_read_tokens=None,
        cache_write_tokens=None,
        total_tokens=None,
        total_tokens_fresh=False,
    )


def record_to_json(record: SessionRecord) -> dict[str, Any]:
    """The record as OpenClaw stores it; unknown values are left out."""
    raw: dict[str, Any] = {
        **record.extra,
        "sessionId": record.session_id,
        "updatedAt": record.updated_at_ms,
    }
    for name, (key, _) in _NAMES.items():
        value = getattr(record, name)
        if value is not None:
            raw[key] = value
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
    for name, (key, kind) in _NAMES.items():
        value = _value(raw.get(key), kind)
        if value is not None:
            known[name] = value
            del extra[key]
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
