"""The columns of the table `memories`, and rows as values. Pure.

The first six are those of the first description (seed 003), so that a table of OpenClaw's plugin is read,
and one of ours can be read by it. The others say whose a row is, where it came from, and how it is found.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from nacre.extensions.lancedb.records import (
    DEFAULT_IMPORTANCE,
    PRIVATE,
    Category,
    Memory,
    Origin,
    Scope,
    Speaker,
    Writer,
)
from nacre.memory.contracts.records import Chunk
from nacre.memory.text.lexical import lexical_fields, match_query

TABLE = "memories"
GIVEN = ("id", "text", "importance", "category", "createdAt")
"""Columns of the first description, beside `vector`."""
NOT_YET = ""
"""What stands in `embedder` while a row has no vector of the one in use, and in `words` of a foreign row."""

_TEXT_LIKE_OURS = {
    "sessionKey": "",
    "sessionId": "",
    "entryId": "",
    "channel": "",
    "saidBy": "unknown",
    "writtenBy": "import",
}
SHOWN = (*GIVEN, "agentId", "audience", *_TEXT_LIKE_OURS)
"""What a row is read by; vectors and words are large."""


def added_columns(agent_id: str) -> Mapping[str, str]:
    """Our columns and what a row of another program has in them: it is the owner's, of unknown origin."""
    return {
        "agentId": agent_id,
        "audience": PRIVATE,
        **_TEXT_LIKE_OURS,
        "embedder": NOT_YET,
        "words": NOT_YET,
    }


def to_row(memory: Memory, agent_id: str, vector: Sequence[float] | None, embedder: str) -> dict[str, Any]:
    """A memory as a row."""
    origin = memory.origin
    return {
        "id": memory.id,
        "text": memory.text,
        "vector": vector,
        "importance": memory.importance,
        "category": memory.category,
        "createdAt": memory.created_at_ms,
        "agentId": agent_id,
        "audience": memory.audience,
        "sessionKey": origin.session_key,
        "sessionId": origin.session_id,
        "entryId": origin.entry_id,
        "channel": origin.channel,
        "saidBy": origin.said_by,
        "writtenBy": origin.written_by,
        "embedder": NOT_YET if vector is None else embedder,
        "words": words_of(memory.text),
    }


def to_memory(row: Mapping[str, Any]) -> Memory:
    """A row as a memory; what another program left out or wrote otherwise becomes the usual value."""
    category, importance = row["category"], row["importance"]
    return Memory(
        id=row["id"],
        text=row["text"],
        importance=min(1.0, max(0.0, float(importance))) if importance is not None else DEFAULT_IMPORTANCE,
        category=category if category in get_args(Category) else "other",
        created_at_ms=int(row["createdAt"] or 0),
        audience=row["audience"],
        origin=Origin(
            session_key=row["sessionKey"],
            session_id=row["sessionId"],
            entry_id=row["entryId"] or "",
            channel=row["channel"],
            said_by=row["saidBy"] if row["saidBy"] in get_args(Speaker) else "unknown",
            written_by=row["writtenBy"] if row["writtenBy"] in get_args(Writer) else "import",
        ),
    )


def words_of(text: str) -> str:
    """What full-text search finds a text by, as the index of notes has it: words, parts of identifiers, and
    each character and pair of scripts without spaces. LanceDB's own tokenizers do without these."""
    chunk = Chunk(
        source="memory",
        path="",
        start_line=1,
        end_line=1,
        text=text,
        heading_path=(),
        date=None,
        content_hash="",
        ordinal=0,
    )
    fields = lexical_fields(chunk)
    return f"{fields.text} {fields.parts}"


def asked_words(question: str) -> tuple[str, tuple[str, ...]]:
    """What full-text search is asked for a question, any of the words being enough, and the words that tell
    what is asked; nothing where there are none."""
    query = match_query(question)
    if query is None:
        return "", ()
    words = dict.fromkeys(word for atom in query.atoms for word in atom.words.split())
    return " ".join(words), query.terms


def is_of(scope: Scope) -> str:
    """The rows of a scope, as LanceDB's filter says it."""
    mine = f"`agentId` = {literal(scope.agent_id)}"
    return mine if scope.audience is None else f"{mine} AND `audience` = {literal(scope.audience)}"


def literal(text: str) -> str:
    """A text inside a filter."""
    return "'" + text.replace("'", "''") + "'"


def vector_dimensions(schema: Any) -> int:
    """How long the vectors of a table are; 0 where another program dropped them and did not go on."""
    return int(schema.field("vector").type.list_size) if "vector" in schema.names else 0
