"""OpenClaw's state folder: `openclaw.json`, `workspace/`, `agents/<id>/`. Reads only.

Its transcripts, index and Markdown have the formats that Nacre keeps. Since its version 2026.7.2 the lines of
transcripts are rows of `transcript_events` in an agent's database, those of the index of `session_entries`.
The agent `main` is carried, or the one agent that there is.
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

from nacre.extensions.importers.sources.contents import Files, Kept, Note, Piece, Setting, Skipped, Variable
from nacre.extensions.importers.sources.env import variables
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
"""Folders of OpenClaw that are no workspace, whatever the settings say: sessions and secrets lie there."""
OTHER_WORKSPACE = "a workspace that is not in this folder: --from-workspace DIR reads it"
_CHANNELS = "connect a channel by hand, once OpenClaw has let go of it"


def read_openclaw(files: Files) -> Iterator[Piece]:
    """Keys, settings, the files of the workspace, the sessions of one agent."""
    names = files.names()
    agents = sorted({match[1] for name in names if (match := _AGENTS.match(name))})
    chosen = "main" if "main" in agents or len(agents) != 1 else agents[0]
    index = _index(files, f"agents/{chosen}/sessions/sessions.json", names)
    by_file = {_file_of(record): (key, record) for key, record in index.items()}
    database = f"agents/{chosen}/{_DATABASE}"
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
        elif match and transcript and match[1] != chosen:
            reason = f"only the agent {chosen} is carried"
            yield Skipped(kind="sessions", name=name, reason=reason, file=name)
        elif match and transcript and transcript[1].removesuffix(".jsonl") in stored:
            reason = "it is in the database, which is read"
            yield Skipped(kind="sessions", name=name, reason=reason, file=name)
        elif match and transcript:
            key, record = by_file.get(match[2], ("", None))
            with files.opened(name) as file:
                yield from _session(file, name, transcript[1], key=key, raw_record=record)
        else:
            yield Skipped(kind="files", name=name, reason=_reason(name), file=name)


def named_workspace(files: Files) -> str:
    """The workspace that the settings name, as they write it; empty where they name none."""
    for name in set(SETTINGS_FILES).intersection(files.names()):
        with files.opened(name) as file:
            value = readings(file.read().decode("utf-8-sig", "replace"))[0]
        if isinstance(value, dict) and isinstance(named := at(value, _WORKSPACE), str):
            return named
    return ""


def chosen_workspace(root: Path, named: str, *, home: Path) -> str | None:
    """The folder below `root` that the settings name as the workspace; `None` if they name something else.

    Links and `..` are followed before that is decided; variables are not expanded.
    """
    path = home / named[2:] if named.startswith("~/") else root / named
    try:
        inside = path.resolve().relative_to(root.resolve())
    except (ValueError, OSError, RuntimeError):  # elsewhere; no path at all; links in a circle
        return None
    if not inside.parts or inside.parts[0] in _PRIVATE:
        return None
    is_there = (root / inside).is_dir() or inside.parts == ("workspace",)
    return inside.as_posix() if is_there else None


def _index(files: Files, name: str, names: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
    if name not in names:
        return {}
    with files.opened(name) as file:
        try:
            value = json.loads(file.read())
        except (ValueError, RecursionError):
            return {}
    found = value.items() if isinstance(value, dict) else ()
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
        reason = "a program keeps it there"
    elif path == "BOOTSTRAP.md":
        reason = "the first conversation was held there"
    elif path.startswith("hooks/"):
        reason = "hooks of OpenClaw are programs for another runtime"
    elif files.size_bytes(name) > MAX_NOTE_BYTES:
        reason = f"it is larger than {MAX_NOTE_BYTES >> 20} MB"
    if reason:
        return Skipped(kind="notes", name=path, reason=reason, file=name)
    with files.opened(name) as file:
        return Note(path=path, data=file.read(), file=name)


def _stored_sessions(path: Path | None) -> dict[str, tuple[str, dict[str, Any] | None]]:
    """The ids of the sessions in an agent's database, each with its key and its line in the index.

    Empty of one that has none, as before OpenClaw 2026.7.2, or that lies in an archive.
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
    """The transcripts of a database, whose rows are the lines that files had before."""
    path = files.path(name)
    assert path is not None, "only a database that can be opened was looked into"
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
        reason = f"the database cannot be read on from there: {error}"
        yield Skipped(kind="sessions", name=f"the rest of {name}", reason=reason, file=name)


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
    """A transcript as it is, without the lines that cannot be read."""
    good: list[bytes] = []
    skipped: list[Skipped] = []
    messages, first = 0, None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        raw = _object(line)
        if raw is None or not line.endswith(b"\n"):
            messages += 1
            where = f"{name} line {number}"
            reason = "it cannot be read" if line.endswith(b"\n") else "it was torn by a kill"
            skipped.append(Skipped(kind="messages", name=where, reason=reason, file=name))
            continue
        first = raw if first is None else first
        messages += raw.get("type") == "message"
        good.append(line)
    header = header_from_json(first or {})
    if header is None:
        reason = "its first line is no header of a session"
        yield Skipped(kind="sessions", name=name, reason=reason, file=name)
        if messages:
            yield Skipped(kind="messages", name=name, reason=reason, file=name, count=messages)
        return
    yield Kept(
        session_id=header.id,
        name=transcript,
        data=b"".join(good),
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
    with files.opened(name) as file:
        text = file.read().decode("utf-8-sig", "replace")
    value = readings(text)[0]
    if not isinstance(value, dict):
        yield Skipped(kind="settings", name=name, reason="the file is no JSON5 object", file=name)
        return
    for key, leaf in _leaves(value):
        written = ".".join(key)
        if reason := _not_carried(key):
            yield Skipped(kind="settings", name=written, reason=reason, file=name)
        elif key[0] == "env" and isinstance(leaf, str) and key[-1].endswith("_API_KEY"):
            yield Variable(name=key[-1], secret=leaf, file=name)
        else:
            yield Setting(key=key, value=leaf, file=name)


def _not_carried(key: tuple[str, ...]) -> str:
    if key in (_WORKSPACE, ("session", "store")):
        return "a place of OpenClaw's own"
    if key[:2] == ("agents", "list") or key[0] == "bindings":
        return f"only one agent is carried: name others under {'.'.join(key[:2])} by hand"
    if key[0] == "channels":
        return _CHANNELS
    if key[0] == "env" and not key[-1].endswith("_API_KEY"):
        return "it is no key of a provider"
    if key[0] in ("gateway", "plugins", "skills", "tools", "hooks", "meta", "wizard", "cron", "storage"):
        return "OpenClaw's own: Nacre works otherwise there"
    return ""


def _leaves(value: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values below, lists as a whole; a reference to the environment as `${NAME}`."""
    for name, each in value.items():
        if isinstance(each, dict) and each.get("source") == "env" and isinstance(each.get("id"), str):
            yield (*above, str(name)), f"${{{each['id']}}}"
        elif isinstance(each, dict) and each:
            yield from _leaves(each, (*above, str(name)))
        else:
            yield (*above, str(name)), each


def _reason(name: str) -> str:
    last = name.rpartition("/")[2]
    if last == "auth-profiles.json" or name.startswith(("credentials/", "identity/")):
        return "it holds secrets: give Nacre its own"
    if last.endswith(("-wal", "-shm")):
        return "it belongs to a database"
    if name.endswith(_DATABASE):
        return "no sessions can be read in it here"
    if last == "sessions.json" or last.endswith((".sqlite", ".sqlite-wal", ".sqlite-shm", ".db")):
        return "an index, which is made anew here"
    if ".jsonl.deleted." in last:
        return "the session was deleted there"
    return "OpenClaw's own"
