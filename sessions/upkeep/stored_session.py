"""Stored sessions, and how to find one by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from nacre.record import Record
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key, key_agent, owners_key
from nacre.sessions.contracts.messages import UserMessage, message_text
from nacre.sessions.entries.entries import entry_from_json
from nacre.sessions.index.record import SessionRecord

LEAST_ID_CHARS = 4

_SHOWN_MATCHES = 5


class StoredSession(Record):
    """A session in a store.

    If `is_current`, its key refers to it and `record` is its record in the index; otherwise `record` comes
    from its transcript. `transcript` is the store's name for it, or empty if the record's is invalid. `place`
    is a description for people. `size_bytes` is `None` if there is no transcript.
    """

    key: str
    record: SessionRecord
    is_current: bool
    transcript: str
    place: str
    size_bytes: int | None

    @property
    def session_id(self) -> str:
        return self.record.session_id

    @property
    def active_at_ms(self) -> int:
        return self.record.active_at_ms


class TranscriptFacts(Record):
    """A transcript in a store: its name, its size as JSON lines, and when it last grew."""

    name: str
    size_bytes: int
    lines: int
    modified_ns: int


def find_session(
    sessions: Sequence[StoredSession], name: str, *, agent_id: str, main_key: str = "main"
) -> StoredSession:
    """Finds a session by its key, its id, or the first characters of its id.

    Raises:
        SessionNotFound: there is none, or there are several.
    """
    wanted, key = name.strip().lower(), ""
    with suppress(SessionKeyInvalid):
        key = canonical_key(wanted, agent_id=agent_id, main_key=main_key)
        if ":" not in wanted and not any(item.key == key for item in sessions):
            key = owners_key(wanted, agent_id=agent_id, main_key=main_key)
    by_key = [item for item in sessions if item.is_current and item.key == key]
    by_id = [item for item in sessions if item.session_id.lower() == wanted]
    by_start = [
        item
        for item in sessions
        if len(wanted) >= LEAST_ID_CHARS and item.session_id.lower().startswith(wanted)
    ]
    ended = [item for item in sessions if item.key == key and not by_key]
    for matches in (by_key, by_id, by_start, ended):
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(item.session_id for item in matches[:_SHOWN_MATCHES])
            more = ", …" if len(matches) > _SHOWN_MATCHES else ""
            raise SessionNotFound(f"{name!r} matches {ids}{more}. Give more characters of the id.")
    if (named := key_agent(key)) not in ("", agent_id):
        raise SessionNotFound(
            f"{name!r} is a session of agent {named!r}, but these are the sessions of agent {agent_id!r}. "
            f"Select the agent with --agent {named}."
        )
    raise SessionNotFound(
        f"There is no session {name!r}. `nacre sessions list --all` shows keys and ids; "
        f"the first {LEAST_ID_CHARS} characters of an id are enough."
    )


def last_message_text(values: Iterable[Mapping[str, Any]]) -> str:
    """The last message of a person on the branch that ends with these entries, newest first.

    If the branch begins before the entries, the last message on any branch; empty if there is none.
    """
    off_branch, next_id = "", None
    for value in values:
        entry_id, words = str(value.get("id") or ""), _said(value)
        next_id = entry_id if next_id is None else next_id
        if entry_id != next_id:
            off_branch = off_branch or words
        elif words:
            return words
        else:
            parent = value.get("parentId")
            next_id = parent if isinstance(parent, str) else ""
    return off_branch


def _said(value: Mapping[str, Any]) -> str:
    message = value.get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return ""
    body = entry_from_json(value).body
    return message_text(body) if isinstance(body, UserMessage) else ""
