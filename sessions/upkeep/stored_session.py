"""A session as listings show it, and which one a person means. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from nacre.records.record import Record
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.keys import canonical_key, key_agent, owners_key
from nacre.sessions.index.record import SessionRecord

LEAST_ID_CHARS = 4
_SHOWN_MATCHES = 5


class StoredSession(Record):
    """A session that a store keeps.

    `is_current`: its key names it now, and `record` is its line in the index; else `record` is what its
    transcript tells. `transcript` is the name under which its store keeps what was said, empty when the index
    names something that cannot be that; `place` tells people where it lies. `size_bytes` is `None` when
    nothing is there.
    """

    key: str
    record: SessionRecord
    is_current: bool
    transcript: str
    place: str
    size_bytes: int | None

    @property
    def session_id(self) -> str:
        """The id that names the transcript."""
        return self.record.session_id

    @property
    def active_at_ms(self) -> int:
        """When somebody last spoke, or else when anything last changed, in milliseconds since the epoch."""
        return self.record.last_interaction_at_ms or self.record.updated_at_ms


class TranscriptFacts(Record):
    """A transcript in a store: its name, how long it is as JSON lines, and when it last grew."""

    name: str
    size_bytes: int
    lines: int
    modified_ns: int


def find_session(
    sessions: Sequence[StoredSession], name: str, *, agent_id: str, main_key: str = "main"
) -> StoredSession:
    """The session that a person means: by its key, its id, or the first characters of its id.

    Raises:
        SessionNotFound: there is none, or there are several.
    """
    wanted = name.strip().lower()
    key = _key(wanted, agent_id, main_key)
    if ":" not in wanted and not any(item.key == key for item in sessions):
        key = _owners_key(wanted, agent_id, main_key)
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
            raise SessionNotFound(f"{name!r} could be any of {ids}{more}. Write more of the id.")
    if (named := key_agent(key)) not in ("", agent_id):
        raise SessionNotFound(
            f"{name!r} is a session of agent {named!r}, and these are the sessions of agent {agent_id!r}. "
            f"Ask for it with --agent {named}."
        )
    raise SessionNotFound(
        f"There is no session {name!r}. `nacre sessions list --all` shows keys and ids; "
        f"of an id, the first {LEAST_ID_CHARS} characters are enough."
    )


def _key(text: str, agent_id: str, main_key: str) -> str:
    with suppress(SessionKeyInvalid):
        return canonical_key(text, agent_id=agent_id, main_key=main_key)
    return ""


def _owners_key(text: str, agent_id: str, main_key: str) -> str:
    with suppress(SessionKeyInvalid):
        return owners_key(text, agent_id=agent_id, main_key=main_key)
    return ""
