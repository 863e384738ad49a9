"""OpenClaw's state folder: `openclaw.json`, `workspace/`, `agents/<id>/sessions/`. Pure, given the files.

Its transcripts, index and Markdown have the formats that Nacre keeps. The agent `main` is carried, or the one
agent that there is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from nacre.cli.setup.moving.sources.contents import Files, Kept, Note, Piece, Setting, Skipped, Variable
from nacre.cli.setup.moving.sources.env import variables
from nacre.memory.contracts.notes import MAX_NOTE_BYTES
from nacre.runtime.settings.disk.json5_edits import readings
from nacre.runtime.settings.keys import at
from nacre.sessions.entries.entries import header_from_json

SETTINGS_FILES = ("openclaw.json", "clawdbot.json", "moltbot.json")
_SESSIONS = re.compile(r"^agents/([^/]+)/sessions/([^/]+)$")
_TRANSCRIPT = re.compile(r"(.+\.jsonl)(\.reset\..+)?$")
_WORKSPACE = ("agents", "defaults", "workspace")
_CHANNELS = "connect a channel by hand, once OpenClaw has let go of it"


def read_openclaw(files: Files) -> Iterator[Piece]:
    """Keys, settings, the files of the workspace, the sessions of one agent."""
    names = files.names()
    agents = sorted({match[1] for match in map(_SESSIONS.match, names) if match})
    chosen = "main" if "main" in agents or len(agents) != 1 else agents[0]
    index = _index(files, f"agents/{chosen}/sessions/sessions.json", names)
    by_file = {_file_of(record): (key, record) for key, record in index.items()}
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
        elif match and transcript and match[1] != chosen:
            reason = f"only the agent {chosen} is carried"
            yield Skipped(kind="sessions", name=name, reason=reason, file=name)
        elif match and transcript:
            key, record = by_file.get(match[2], ("", None))
            yield from _session(files, name, transcript[1], key=key, raw_record=record)
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


def _session(
    files: Files, name: str, transcript: str, *, key: str, raw_record: Mapping[str, Any] | None
) -> Iterator[Piece]:
    """A transcript as it is, without the lines that cannot be read."""
    good: list[bytes] = []
    skipped: list[Skipped] = []
    messages, first = 0, None
    with files.opened(name) as file:
        for number, line in enumerate(file, 1):
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
    if last == "sessions.json" or last.endswith((".sqlite", ".sqlite-wal", ".sqlite-shm", ".db")):
        return "an index, which is made anew here"
    if ".jsonl.deleted." in last:
        return "the session was deleted there"
    return "OpenClaw's own"
