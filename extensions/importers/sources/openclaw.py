"""OpenClaw's state folder: `openclaw.json`, `workspace/`, `agents/<id>/`.

Its transcripts, index and Markdown have the formats of Nacre. Since version 2026.7.2 the lines of transcripts
are rows of `transcript_events` in an agent's database, and the records of the index are rows of
`session_entries`. The agent `main` is imported, or the only agent.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from nacre.extensions.importers.sources.formats import leaves, unreadable_rest, variables
from nacre.extensions.importers.sources.pieces import (
    Files,
    Note,
    Piece,
    Setting,
    Skipped,
    StoredTranscript,
    Variable,
)
from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.runtime.settings.disk.json5_edits import readings
from nacre.runtime.settings.keys import at
from nacre.sessions.disk.json_text import timestamp_text, to_line
from nacre.sessions.entries.entries import SessionHeader, header_from_json, header_to_json

SETTINGS_FILES = ("openclaw.json", "clawdbot.json", "moltbot.json")
_DATABASE = "agent/openclaw-agent.sqlite"
_AGENTS = re.compile(rf"^agents/([^/]+)/(?:sessions/|{_DATABASE}$)")
_SESSIONS = re.compile(r"^agents/([^/]+)/sessions/([^/]+)$")
_TRANSCRIPT = re.compile(r"(.+\.jsonl)(\.reset\..+)?$")
_WORKSPACE = ("agents", "defaults", "workspace")
_PRIVATE = frozenset({"agents", "credentials", "identity"})
"""Folders that are never a workspace, whatever the settings say: they contain sessions and secrets."""
OTHER_WORKSPACE = "the workspace is outside this folder: import it with --from-workspace DIR"
_CHANNELS = "connect the channel by hand after you have stopped OpenClaw"


def read_openclaw(files: Files) -> Iterator[Piece]:
    """Yields keys, settings, the files of the workspace, and the sessions of one agent."""
    names = files.names()
    agents = sorted({match[1] for name in names if (match := _AGENTS.match(name))})
    agent = "main" if "main" in agents or len(agents) != 1 else agents[0]
    index = _index(files, f"agents/{agent}/sessions/sessions.json", names)
    by_file = {_file_of(record): (key, record) for key, record in index.items()}
    database = f"agents/{agent}/{_DATABASE}"
    stored = _stored_sessions(files.path(database)) if database in names else {}
    # keys first: settings may name them
    for name in sorted(names, key=lambda name: (name != ".env", name)):
        match = _SESSIONS.match(name)
        transcript = _TRANSCRIPT.fullmatch(match[2]) if match else None
        if name == ".env":
            yield from variables(files, name)
        elif name in SETTINGS_FILES:
            yield from _settings(files, name)
        elif name.startswith("workspace/"):
            yield _note(files, name)
        elif name == database and stored:
            yield from _from_database(files, name, stored)
        elif match and transcript and match[1] != agent:
            reason = f"only the agent {agent} is imported"
            yield Skipped(kind="sessions", name=name, reason=reason, file=name)
        elif match and transcript and transcript[1].removesuffix(".jsonl") in stored:
            reason = "it is in the database, which is imported instead"
            yield Skipped(kind="sessions", name=name, reason=reason, file=name)
        elif match and transcript:
            key, record = by_file.get(match[2], ("", None))
            with files.open_file(name) as file:
                yield from _session(file, name, transcript[1], key=key, raw_record=record)
        else:
            yield Skipped(kind="files", name=name, reason=_skip_reason(name), file=name)


def named_workspace(files: Files) -> str:
    """The workspace that the settings name, as written there; empty if they name none."""
    for name in set(SETTINGS_FILES).intersection(files.names()):
        with files.open_file(name) as file:
            value = readings(file.read().decode("utf-8-sig", "replace"))[0]
        if isinstance(value, dict) and isinstance(named := at(value, _WORKSPACE), str):
            return named
    return ""


def chosen_workspace(root: Path, named: str, *, home: Path) -> str | None:
    """The folder below `root` that the settings name as the workspace; `None` if it is not inside `root`.

    Links and `..` are resolved first; variables are not expanded.
    """
    path = home / named[2:] if named.startswith("~/") else root / named
    try:
        inside = path.resolve().relative_to(root.resolve())
    except (ValueError, OSError, RuntimeError):  # outside; not a path; circular links
        return None
    if not inside.parts or inside.parts[0] in _PRIVATE:
        return None
    is_there = (root / inside).is_dir() or inside.parts == ("workspace",)
    return inside.as_posix() if is_there else None


def _index(files: Files, name: str, names: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    if name not in names:
        return {}
    with files.open_file(name) as file:
        found = (_object(file.read()) or {}).items()
    return {key: record for key, record in found if isinstance(record, dict) and record.get("sessionId")}


def _file_of(record: Mapping[str, Any]) -> str:
    named = record.get("sessionFile")
    if isinstance(named, str):
        return named.replace("\\", "/").rpartition("/")[2]
    return f"{record['sessionId']}.jsonl"


def _note(files: Files, name: str) -> Piece:
    path = name.removeprefix("workspace/")
    reason = ""
    if any(part.startswith(".") for part in path.split("/")):
        reason = "it is a program's own file"
    elif path == "BOOTSTRAP.md":
        reason = "the first conversation has already taken place"
    elif path.startswith("hooks/"):
        reason = "hooks of OpenClaw run in another runtime only"
    elif files.size_bytes(name) > MAX_NOTE_BYTES:
        reason = f"it is larger than {MAX_NOTE_BYTES >> 20} MB"
    if reason:
        return Skipped(kind="notes", name=path, reason=reason, file=name)
    with files.open_file(name) as file:
        # A log may quote other people and web pages, and nothing marks those lines.
        return Note(path=path, data=file.read(), file=name, is_owners=not path.startswith("memory/"))


def _stored_sessions(path: Path | None) -> dict[str, tuple[str, dict[str, Any] | None]]:
    """The IDs of the sessions in an agent's database, each with its key and its record.

    Empty if the database has no sessions, as before OpenClaw 2026.7.2, or is in an archive.
    """
    if path is None:
        return {}
    try:
        with closing(_read_only(path)) as database:
            ids = database.execute("SELECT DISTINCT session_id FROM transcript_events").fetchall()
            lines = database.execute("SELECT session_id, session_key, entry_json FROM session_entries")
            found: dict[str, tuple[str, dict[str, Any] | None]] = {each: ("", None) for (each,) in ids}
            for identity, key, entry in lines:
                if identity in found:
                    record = _object(str(entry).encode("utf-8", "surrogatepass")) or {}
                    found[identity] = (str(key), {**record, "sessionId": identity})
    except sqlite3.Error:
        return {}
    return found


def _from_database(
    files: Files, name: str, stored: Mapping[str, tuple[str, dict[str, Any] | None]]
) -> Iterator[Piece]:
    path = files.path(name)
    assert path is not None, "only databases with a path contain stored sessions"
    try:
        with closing(_read_only(path)) as database:
            for identity, (key, record) in sorted(stored.items()):
                rows = database.execute(
                    "SELECT event_json, created_at FROM transcript_events WHERE session_id = ? ORDER BY seq",
                    (identity,),
                ).fetchall()
                lines = [f"{event}\n".encode("utf-8", "surrogatepass") for event, _ in rows]
                if header_from_json(_object(lines[0]) or {}) is None:
                    began = timestamp_text(datetime.fromtimestamp(rows[0][1] / 1000, UTC))
                    header = SessionHeader(id=identity, timestamp=began, cwd="")
                    lines.insert(0, to_line(header_to_json(header)))
                yield from _session(lines, name, f"{identity}.jsonl", key=key, raw_record=record)
    except sqlite3.Error as error:
        yield unreadable_rest("database", name, error)


def _read_only(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _session(
    lines: Iterable[bytes],
    name: str,
    transcript: str,
    *,
    key: str,
    raw_record: Mapping[str, Any] | None,
) -> Iterator[Piece]:
    """A transcript without its unreadable lines."""
    valid_lines: list[bytes] = []
    skipped: list[Skipped] = []
    messages, first = 0, None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        raw = _object(line)
        if raw is None or not line.endswith(b"\n"):
            messages += 1
            where = f"{name} line {number}"
            reason = "it cannot be read" if line.endswith(b"\n") else "the line is incomplete"
            skipped.append(Skipped(kind="messages", name=where, reason=reason, file=name))
            continue
        first = raw if first is None else first
        messages += raw.get("type") == "message"
        valid_lines.append(line)
    header = header_from_json(first or {})
    if header is None:
        reason = "its first line is not a session header"
        yield Skipped(kind="sessions", name=name, reason=reason, file=name)
        if messages:
            yield Skipped(kind="messages", name=name, reason=reason, file=name, count=messages)
        return
    yield StoredTranscript(
        session_id=header.id,
        name=transcript,
        data=b"".join(valid_lines),
        messages=messages,
        file=name,
        skipped=skipped,
        key=key,
        raw_record=raw_record,
    )


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _settings(files: Files, name: str) -> Iterator[Piece]:
    with files.open_file(name) as file:
        text = file.read().decode("utf-8-sig", "replace")
    value = readings(text)[0]
    if not isinstance(value, dict):
        yield Skipped(kind="settings", name=name, reason="the file is not a JSON5 object", file=name)
        return
    if not value:
        yield Skipped(kind="files", name=name, reason="it contains no settings", file=name)
    for key, leaf in leaves(value, _is_environment_reference):
        leaf = f"${{{leaf['id']}}}" if _is_environment_reference(leaf) else leaf
        written = ".".join(key)
        if reason := _not_imported_reason(key):
            yield Skipped(kind="settings", name=written, reason=reason, file=name)
        elif key[0] == "env" and isinstance(leaf, str) and key[-1].endswith("_API_KEY"):
            yield Variable(name=key[-1], secret=leaf, file=name)
        else:
            yield Setting(key=key, value=leaf, file=name)


def _not_imported_reason(key: tuple[str, ...]) -> str:
    if key in (_WORKSPACE, ("session", "store")):
        return "it is a path of OpenClaw"
    if key[:2] == ("agents", "list") or key[0] == "bindings":
        return f"only one agent is imported: add others by hand under {'.'.join(key[:2])}"
    if key[0] == "channels":
        return _CHANNELS
    if key[0] == "env" and not key[-1].endswith("_API_KEY"):
        return "it is not a provider key"
    return ""


def _is_environment_reference(value: object) -> bool:
    return isinstance(value, dict) and value.get("source") == "env" and isinstance(value.get("id"), str)


def _skip_reason(name: str) -> str:
    last = name.rpartition("/")[2]
    if last == "auth-profiles.json" or name.startswith(("credentials/", "identity/")):
        return "it contains secrets; set them in Nacre yourself"
    if last.endswith(("-wal", "-shm")):
        return "it belongs to a database"
    if name.endswith(_DATABASE):
        return "it contains no readable sessions"
    if last == "sessions.json" or last.endswith((".sqlite", ".sqlite-wal", ".sqlite-shm", ".db")):
        return "an index, which is rebuilt here"
    if ".jsonl.deleted." in last:
        return "the session was deleted there"
    return "specific to OpenClaw"
