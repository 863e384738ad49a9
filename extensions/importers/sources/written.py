"""A conversation of another program as the lines of a transcript. Pure: the same one gives the same lines.

Ids are derived from the source's, so that what was brought over once is known again. The branch that the
source showed is written last, so that it is the session's branch here, and a conversation that went on there
begins with the same lines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from unicodedata import normalize

from nacre.extensions.importers.sources.contents import Conversation, Origin, Said
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
    """A line of a transcript, and the message of the source that it comes from; empty for none."""

    message: str
    data: bytes


def session_id(origin: Origin, conversation_id: str) -> str:
    """The id of the session that a conversation becomes, the same one each time."""
    name = f"nacre-import:{origin}:{conversation_id}".encode("utf-8", "surrogatepass")
    digest = sha256(name).hexdigest()
    # a UUID of version 8: its maker says what its bits are
    return f"{digest[:8]}-{digest[8:12]}-8{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}"


def session_key(origin: Origin, conversation: Conversation, agent_id: str) -> str:
    """The key under which it is found here: a chat of its own, a group's where others could read along."""
    words = "-".join(re.findall(r"[^\W_]+", normalize("NFC", conversation.title.lower())))
    mark = session_id(origin, conversation.id)[:6]
    name = "-".join(filter(None, (origin, words[:_MOST_NAME_CHARS].strip("-"), mark)))
    place = f"{origin}:group:{name}" if conversation.is_group else f"direct:{name}"
    return f"agent:{agent_id}:{place}"


def transcript_lines(origin: Origin, conversation: Conversation, agent_id: str) -> list[Line]:
    """`HEAD_LINES` lines of what it is, then what was said; a line each."""
    key = session_key(origin, conversation, agent_id)
    began = _text(conversation.began_ms)
    header = SessionHeader(id=session_id(origin, conversation.id), timestamp=began, cwd=conversation.cwd)
    kind = "group" if conversation.is_group else "direct"
    owner = SessionOwner(key=key, chat_kind=kind, is_private=conversation.is_private).to_record()
    name = RawBody(raw={"type": "session_info", "timestamp": began, "name": conversation.title})
    told = CustomRecord(custom_type=IMPORT_ENTRY, data={"source": origin, "id": conversation.id})
    ids = [_id(what, conversation.id) for what in ("owner", "name", "import")]
    lines = [
        Line("", to_line(header_to_json(header))),
        _line("", ids[0], None, began, owner),
        _line("", ids[1], ids[0], began, name),
        _line("", ids[2], ids[1], began, told),
    ]
    known = {said.id: _id("said", f"{conversation.id}:{said.id}") for said in conversation.said}
    leaf = _carried(conversation.leaf_id, conversation.parents, known)
    last = None
    for said, parent in _in_order(conversation, known, leaf):
        before = known[parent] if parent else ids[2]
        lines.append(_line(said.message, known[said.id], before, _text(said.at_ms), said.body))
        last = said.id
    if leaf is not None and leaf != last:
        # what the source showed goes on there, and was not shown
        end = CustomRecord(custom_type=IMPORT_ENTRY, data={"source": origin, "id": conversation.id})
        lines.append(_line("", _id("end", known[leaf]), known[leaf], began, end))
    return lines


def _in_order(
    conversation: Conversation, known: Mapping[str, str], leaf: str | None
) -> list[tuple[Said, str | None]]:
    """What was said with what it follows, parents first, and of several branches the shown one last."""
    parents = {said.id: _carried(said.parent_id, conversation.parents, known) for said in conversation.said}
    shown: set[str] = set()
    while leaf is not None and leaf not in shown:
        shown.add(leaf)
        leaf = parents.get(leaf)
    below: dict[str | None, list[Said]] = {}
    for said in conversation.said:
        below.setdefault(parents[said.id], []).append(said)
    ordered: list[tuple[Said, str | None]] = []
    waiting: list[tuple[Said, str | None]] = []

    def put(parent: str | None) -> None:
        children = sorted(below.get(parent, ()), key=lambda said: said.id in shown)
        waiting.extend((child, parent) for child in reversed(children))

    put(None)
    while waiting:
        said, parent = waiting.pop()
        ordered.append((said, parent))
        put(said.id)
    reached = {said.id for said, _ in ordered}
    # what leads in a circle is kept beside the rest
    return [*ordered, *((said, None) for said in conversation.said if said.id not in reached)]


def _carried(
    source_id: str | None, parents: Mapping[str, str | None], known: Mapping[str, str]
) -> str | None:
    """The message, or the nearest one before it, that has an entry."""
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
