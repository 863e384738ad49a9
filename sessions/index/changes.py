"""What happens to a session's line in the index: messages, usage, a chosen model, the next session. Pure.

The names are OpenClaw's: `origin` is the latest message, `deliveryContext` and the `last…` fields are
where a reply or a message without being asked would go. What the owner chose for a conversation stays when
one session follows another under the same key; what belongs to the session that ended goes: its tokens and
counts, the model a fallback chose, other programs' caches.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nacre.records.record import Record
from nacre.sessions.contracts.usage import Usage
from nacre.sessions.index.record import SessionRecord

MOST_PREVIOUS = 100
"""How many former sessions a line names, so that it does not grow for ever; older transcripts say
themselves to which key they belong."""

_PROVIDER, _MODEL, _SOURCE = "providerOverride", "modelOverride", "modelOverrideSource"


class Origin(Record):
    """One message's place; empty texts are unknown. `chat_name` is what people call the chat."""

    chat_kind: str
    channel: str
    account: str = ""
    chat_id: str = ""
    thread_id: str = ""
    sender_id: str = ""
    chat_name: str = ""

    @property
    def reply_to(self) -> str:
        """Whom a reply is addressed to: the chat, else the sender, else nobody (a terminal)."""
        return self.chat_id.strip() or self.sender_id.strip()


def with_origin(record: SessionRecord, origin: Origin) -> SessionRecord:
    """The record after a message from `origin`, texts trimmed, the channel in lower case.

    A place to which nothing can be sent later, such as a terminal, does not displace one to which it can.
    The same object where that changes nothing, as in most messages.
    """
    kind, channel, chat_id = origin.chat_kind, origin.channel.strip().lower(), origin.chat_id.strip()
    sender, name = origin.sender_id.strip(), origin.chat_name.strip()
    to, account, thread = origin.reply_to, origin.account.strip(), origin.thread_id.strip()
    address = {"to": to, "accountId": account, "threadId": thread}
    latest = {"label": name, "provider": channel, "chatType": kind, **address, "from": sender}
    told: dict[str, Any] = {"origin": _known(latest), "chat_type": record.chat_type or kind}
    if kind != "direct":
        told["channel"] = channel or record.channel
        told["group_id"] = chat_id or record.group_id
        told["display_name"] = name or record.display_name
    if to or not record.last_to:
        told["delivery_context"] = _known({"channel": channel, **address})
        told["last_channel"] = channel or None
        told["last_to"] = to or None
        told["last_account_id"] = account or None
        told["last_thread_id"] = thread or None
    return record if told.items() <= vars(record).items() else replace(record, **told)


def usage_fields(usage: Usage) -> dict[str, Any]:
    """The fields with what the last call counted; what was cached stands apart from what was new."""
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "total_tokens": usage.context_tokens,
        "total_tokens_fresh": True,
    }


def unknown_usage() -> dict[str, Any]:
    """The same fields once what the last call counted speaks of another context."""
    return {**dict.fromkeys(usage_fields(Usage())), "total_tokens_fresh": False}


def model_override(record: SessionRecord) -> str:
    """`provider/model`, or the model alone where no provider stands with it; empty without a choice."""
    provider, model = record.extra.get(_PROVIDER), record.extra.get(_MODEL)
    if not isinstance(model, str) or not model.strip():
        return ""
    return f"{provider.strip()}/{model.strip()}" if isinstance(provider, str) and provider else model.strip()


def with_model_override(record: SessionRecord, name: str) -> SessionRecord:
    """The record with the owner's choice; an empty name takes it back.

    The profile of keys that went with the earlier model goes too.
    """
    gone = (_PROVIDER, _MODEL, _SOURCE, "authProfileOverride", "authProfileOverrideSource")
    extra = {key: value for key, value in record.extra.items() if key not in gone}
    if name:
        provider, _, model = name.partition("/")
        extra |= {_PROVIDER: provider, _MODEL: model, _SOURCE: "user"}
    return replace(record, extra=extra)


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
    return SessionRecord(
        session_id=session_id, updated_at_ms=at_ms, session_started_at_ms=at_ms, **record.of_chat()
    )


def _each_once(ids: tuple[str, ...], *, but: str) -> tuple[str, ...]:
    """The ids in order, the newest `MOST_PREVIOUS` of them."""
    return tuple(dict.fromkeys(name for name in ids if name != but))[-MOST_PREVIOUS:]


def _known(texts: Mapping[str, str]) -> dict[str, Any]:
    return {name: text for name, text in texts.items() if text}
