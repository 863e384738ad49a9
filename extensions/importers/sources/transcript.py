"""Converts a conversation to the lines of a transcript.

The same conversation always yields the same lines, with IDs derived from the source's, so that an imported
conversation is recognized later. The branch that the source showed is written last, which makes it the
session's current branch. If the conversation continues in the source, its new lines follow the same
beginning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from unicodedata import normalize

from nacre.extensions.importers.sources.pieces import Conversation, ConversationEntry, Origin
from nacre.runtime.tools.session_sources import IMPORT_ENTRY
from nacre.sessions.disk.json_text import timestamp_text, to_line
from nacre.sessions.entries.entries import (
    Body,
    CustomRecord,
    Entry,
    RawBody,
    SessionHeader,
    SessionOwner,
    entry_to_json,
    header_to_json,
)

HEAD_LINES = 4
"""The lines before the first message: header, owner, name, origin."""
_MOST_NAME_CHARS = 32


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a transcript, and the ID of the source's message that it comes from; empty if none."""

    message: str
    data: bytes


def session_id(origin: Origin, conversation_id: str) -> str:
    name = f"nacre-import:{origin}:{conversation_id}".encode("utf-8", "surrogatepass")
    digest = sha256(name).hexdigest()
    # a UUID of version 8, whose bits are application-defined
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def session_key(origin: Origin, conversation: Conversation, agent_id: str) -> str:
    """The key of the session: a chat of its own, or a group if others could read along."""
    words = "-".join(re.findall(r"[^\W_]+", normalize("NFC", conversation.title.lower())))
    digest = session_id(origin, conversation.id)[:6]
    name = "-".join(filter(None, (origin, words[:_MOST_NAME_CHARS].strip("-"), digest)))
    place = f"{origin}:group:{name}" if conversation.is_group else f"direct:{name}"
    return f"agent:{agent_id}:{place}"


def transcript_lines(origin: Origin, conversation: Conversation, agent_id: str) -> list[Line]:
    """`HEAD_LINES` lines of metadata, then one line per entry."""
    key = session_key(origin, conversation, agent_id)
    started = _text(conversation.started_at_ms)
    header = SessionHeader(id=session_id(origin, conversation.id), timestamp=started, cwd=conversation.cwd)
    kind = "group" if conversation.is_group else "direct"
    owner = SessionOwner(key=key, chat_kind=kind, is_private=conversation.is_private).to_record()
    name = RawBody(raw={"type": "session_info", "timestamp": started, "name": conversation.title})
    origin_record = CustomRecord(custom_type=IMPORT_ENTRY, data={"source": origin, "id": conversation.id})
    ids = [_id(what, conversation.id) for what in ("owner", "name", "import")]
    lines = [
        Line("", to_line(header_to_json(header))),
        _line("", ids[0], None, started, owner),
        _line("", ids[1], ids[0], started, name),
        _line("", ids[2], ids[1], started, origin_record),
    ]
    known = {entry.id: _id("said", f"{conversation.id}:{entry.id}") for entry in conversation.entries}
    leaf = _nearest_imported(conversation.leaf_id, conversation.parents, known)
    last = None
    for entry, parent in _in_order(conversation, known, leaf):
        before = known[parent] if parent else ids[2]
        lines.append(_line(entry.message, known[entry.id], before, _text(entry.at_ms), entry.body))
        last = entry.id
    if leaf is not None and leaf != last:
        # the current branch must end at the leaf that the source showed
        end = CustomRecord(custom_type=IMPORT_ENTRY, data={"source": origin, "id": conversation.id})
        lines.append(_line("", _id("end", known[leaf]), known[leaf], started, end))
    return lines


def _in_order(
    conversation: Conversation, known: Mapping[str, str], leaf: str | None
) -> list[tuple[ConversationEntry, str | None]]:
    """The entries with their parents: parents first, and the shown branch last."""
    parents = {
        entry.id: _nearest_imported(entry.parent_id, conversation.parents, known)
        for entry in conversation.entries
    }
    shown_ids: set[str] = set()
    while leaf is not None and leaf not in shown_ids:
        shown_ids.add(leaf)
        leaf = parents.get(leaf)
    below: dict[str | None, list[ConversationEntry]] = {}
    for entry in conversation.entries:
        below.setdefault(parents[entry.id], []).append(entry)
    ordered: list[tuple[ConversationEntry, str | None]] = []
    pending: list[tuple[ConversationEntry, str | None]] = []

    def push_children(parent: str | None) -> None:
        children = sorted(below.get(parent, ()), key=lambda entry: entry.id in shown_ids)
        pending.extend((child, parent) for child in reversed(children))

    push_children(None)
    while pending:
        entry, parent = pending.pop()
        ordered.append((entry, parent))
        push_children(entry.id)
    reached = {entry.id for entry, _ in ordered}
    # entries in a cycle become roots
    return [*ordered, *((entry, None) for entry in conversation.entries if entry.id not in reached)]


def _nearest_imported(
    source_id: str | None, parents: Mapping[str, str | None], known: Mapping[str, str]
) -> str | None:
    seen: set[str] = set()
    while source_id is not None and source_id not in known:
        if source_id in seen:
            return None
        seen.add(source_id)
        source_id = parents.get(source_id)
    return source_id


def _line(message: str, entry_id: str, parent_id: str | None, timestamp: str, body: Body) -> Line:
    entry = Entry(id=entry_id, parent_id=parent_id, timestamp=timestamp, body=body)
    return Line(message, to_line(entry_to_json(entry)))


def _id(what: str, name: str) -> str:
    return sha256(f"{what}:{name}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _text(at_ms: int) -> str:
    return timestamp_text(datetime.fromtimestamp(at_ms / 1000, UTC))
