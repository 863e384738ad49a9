"""One session after another under the same key: what the new line in the index keeps of the old. Pure.

What the owner chose for the conversation stays; what belongs to the session that ended goes: its
tokens and counts, the model a fallback chose, other programs' caches.
"""

from __future__ import annotations

from dataclasses import replace

from nacre.sessions.index.record import SessionRecord, record_from_json, record_to_json

MOST_PREVIOUS = 100
"""How many former sessions a line names, so that it does not grow for ever; older transcripts say
themselves to which key they belong."""

_CARRIED = frozenset(
    {
        *("chatType", "channel", "groupId", "subject", "groupChannel", "space", "displayName", "label"),
        *("origin", "deliveryContext", "lastChannel", "lastTo", "lastAccountId", "lastThreadId"),
        *("thinkingLevel", "verboseLevel", "reasoningLevel", "elevatedLevel", "ttsAuto", "responseUsage"),
        *("sendPolicy", "execHost", "execSecurity", "execAsk", "execNode", "spawnedBy", "pinned"),
        *("groupActivation", "groupActivationNeedsSystemIntro"),
        *("queueMode", "queueDebounceMs", "queueCap", "queueDrop"),
    }
)
_OVERRIDES = (
    ("modelOverrideSource", ("providerOverride", "modelOverride", "modelOverrideSource")),
    ("authProfileOverrideSource", ("authProfileOverride", "authProfileOverrideSource")),
)
"""Where a choice says who made it, and what belongs to it: one made by `auto` ends with its session."""


def next_session(record: SessionRecord, *, session_id: str, at_ms: int) -> SessionRecord:
    """The line of a fresh session of the same key; the old one becomes the newest of its previous ones."""
    fresh = _carried(record, session_id=session_id, at_ms=at_ms)
    previous = (*record.previous_session_ids, record.session_id)
    return replace(fresh, compaction_count=0, previous_session_ids=_each_once(previous, but=session_id))


def resumed_session(record: SessionRecord, earlier: SessionRecord, *, at_ms: int) -> SessionRecord:
    """The line of a key that goes on with an `earlier` session, whose id and file it takes.

    The session counts as begun now, so that no daily or idle reset ends it before a word is said. Its
    tokens and compactions are unknown here until its next turn, which reads them from the transcript.
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
        previous_session_ids=_each_once(previous, but=earlier.session_id),
    )


def _carried(record: SessionRecord, *, session_id: str, at_ms: int) -> SessionRecord:
    stored = record_to_json(record)
    names = set(_CARRIED)
    for source, chosen in _OVERRIDES:
        if stored.get(source) != "auto":
            names.update(chosen)
    kept = {name: value for name, value in stored.items() if name in names}
    carried = record_from_json({**kept, "sessionId": session_id, "updatedAt": at_ms})
    if carried is None:
        raise ValueError(f"{session_id!r} is no session id")
    return replace(carried, session_started_at_ms=at_ms)


def _each_once(ids: tuple[str, ...], *, but: str) -> tuple[str, ...]:
    """The ids in order, the newest `MOST_PREVIOUS` of them."""
    return tuple(dict.fromkeys(name for name in ids if name != but))[-MOST_PREVIOUS:]
