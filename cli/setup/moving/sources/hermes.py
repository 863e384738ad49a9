"""Hermes Agent's folder `~/.hermes`: SOUL.md, `memories/`, and the sessions in its database. Reads only.

Tables `sessions` and `messages` as of its schema 30; columns that an older one lacks are taken as empty.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from nacre.cli.setup.moving.sources.contents import Conversation, Files, Found, Note, Piece, Said, Skipped
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from nacre.sessions.entries.entries import KnownBody

DATABASE = "state.db"
_NOTES = {"SOUL.md": "SOUL.md", "memories/MEMORY.md": "MEMORY.md", "memories/USER.md": "USER.md"}
_OWNERS = ("cli", "tui", "desktop")
"""Sources at which nobody but the owner sits."""


def read_hermes(files: Files) -> Iterator[Piece]:
    """The notes, then the sessions."""
    for name in files.names():
        if name == DATABASE:
            yield from _database(files.path(name))
        elif name in _NOTES:
            yield Found(kind="notes")
            with files.opened(name) as file:
                yield Note(path=_NOTES[name], data=_as_list(file.read()), is_by_model=name != "SOUL.md")
        else:
            yield Found(kind="files")
            yield Skipped(kind="files", name=name, reason=_reason(name))


def _as_list(data: bytes) -> bytes:
    """Hermes parts its notes by lines with `§`; here each becomes an item of a list."""
    text = data.decode("utf-8", "replace")
    notes = [note.strip() for note in text.split("\n§\n")]
    if len(notes) == 1:
        return data
    return "".join(map(_item, notes)).encode()


def _item(note: str) -> str:
    return "- " + "\n  ".join(note.splitlines()) + "\n" if note else ""


def _reason(name: str) -> str:
    if name.startswith((".env", "auth")):
        return "it holds secrets: set them here by hand"
    if name == "config.yaml":
        return "Hermes has other settings: nacre config set chooses the model"
    if name.startswith("skills/"):
        return "Hermes's skills stay there"
    return "Hermes's own"


def _database(path: Path | None) -> Iterator[Piece]:
    if path is None:
        yield Found(kind="files")
        yield Skipped(kind="files", name=DATABASE, reason="it is in an archive: unpack it first")
        return
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            for session in database.execute("SELECT * FROM sessions ORDER BY started_at, id"):
                rows = database.execute(
                    "SELECT * FROM messages WHERE session_id = ? ORDER BY id", (session["id"],)
                )
                yield from _session(dict(session), [dict(row) for row in rows])
    except sqlite3.Error as error:
        yield Found(kind="files")
        yield Skipped(kind="files", name=DATABASE, reason=f"it cannot be read on: {error}")


def _session(raw: Mapping[str, Any], rows: list[dict[str, Any]]) -> Iterator[Piece]:
    yield Found(kind="conversations")
    yield Found(kind="messages", count=len(rows))
    name = str(raw.get("title") or raw["id"])
    said: list[Said] = []
    skipped: list[Skipped] = []
    before: str | None = None
    for row in rows:
        at_ms = int(float(row.get("timestamp") or raw.get("started_at") or 0) * 1000)
        body = _body(row, str(raw.get("model") or ""), at_ms)
        if isinstance(body, str):
            skipped.append(Skipped(kind="messages", name=name, reason=body))
            continue
        said.append(Said(id=str(row["id"]), parent_id=before, at_ms=at_ms, body=body))
        before = str(row["id"])
    source = str(raw.get("source") or "")
    yield Conversation(
        id=str(raw["id"]),
        name=name,
        title=str(raw.get("title") or ""),
        began_ms=int(float(raw.get("started_at") or 0) * 1000),
        said=tuple(said),
        leaf_id=before,
        messages=len(rows),
        skipped=tuple(skipped),
        is_private=source in _OWNERS,
        is_group=source not in _OWNERS and raw.get("chat_type") not in ("dm", "direct", "private"),
        model=str(raw.get("model") or ""),
        cwd=str(raw.get("cwd") or ""),
    )


def _body(row: Mapping[str, Any], model: str, at_ms: int) -> KnownBody | str:
    words = str(row.get("content") or "")
    shown = (Text(text=words),) if words.strip() else ()
    if row.get("active") == 0 and row.get("compacted") != 1:
        return "it was taken back there"
    if row.get("role") == "user":
        return UserMessage(content=shown, timestamp_ms=at_ms) if shown else "it has no words"
    if row.get("role") == "tool":
        return ToolResultMessage(
            tool_call_id=str(row.get("tool_call_id") or ""),
            tool_name=str(row.get("tool_name") or "tool"),
            content=shown,
            is_error=False,
            timestamp_ms=at_ms,
        )
    if row.get("role") != "assistant":
        return "the program wrote it"
    thought = str(row.get("reasoning") or row.get("reasoning_content") or "")
    thinking = (Thinking(thinking=thought),) if thought.strip() else ()
    calls = _calls(row.get("tool_calls"))
    if not (shown or thinking or calls):
        return "it has no words"
    return AssistantMessage(
        content=(*thinking, *shown, *calls),
        api="import",
        provider="hermes",
        model=model,
        usage=None,
        stop_reason="toolUse" if calls else "stop",
        timestamp_ms=at_ms,
    )


def _calls(stored: object) -> tuple[ToolCall, ...]:
    """Calls as OpenAI's messages have them, in JSON."""
    try:
        listed = json.loads(stored) if isinstance(stored, str) and stored else []
    except ValueError:
        return ()
    found = []
    for each in listed if isinstance(listed, list) else ():
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict):
            continue
        try:
            arguments = json.loads(str(function.get("arguments") or "{}"))
        except ValueError:
            arguments = None
        found.append(
            ToolCall(
                id=str(each.get("id") or each.get("call_id") or ""),
                name=str(function.get("name") or ""),
                arguments=arguments if isinstance(arguments, dict) else {},
                invalid_arguments=None if isinstance(arguments, dict) else str(function.get("arguments")),
            )
        )
    return tuple(found)
