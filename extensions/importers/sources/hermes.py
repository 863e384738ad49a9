"""Hermes Agent's folder `~/.hermes`: keys, settings, SOUL.md, memories, sessions.

The tables `sessions` and `messages` are those of schema 30; columns that an older schema lacks are treated as
empty. Content that is not plain text begins with a marker and is JSON. Source: `hermes_state.py` and its
schema in NousResearch/hermes-agent, and its documentation of `config.yaml`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from nacre.extensions.importers.sources.formats import assistant_message, leaves, unreadable_rest, variables
from nacre.extensions.importers.sources.pieces import (
    Conversation,
    ConversationEntry,
    Files,
    Note,
    Piece,
    Setting,
    Skipped,
    Variable,
)
from nacre.sessions.contracts.messages import Image, Text, Thinking, ToolCall, ToolResultMessage, UserMessage
from nacre.sessions.entries.entries import KnownBody

DATABASE = "state.db"
SETTINGS = "config.yaml"
_NOTES = {
    "SOUL.md": "SOUL.md",
    "MEMORY.md": "MEMORY.md",
    "USER.md": "USER.md",
    "memories/MEMORY.md": "MEMORY.md",
    "memories/USER.md": "USER.md",
}
_OWNER_SOURCES = ("cli", "tui", "desktop")
"""Sources of sessions in which only the owner takes part."""
_DIRECT = ("dm", "direct", "private")
_JSON_MARKS = ("\x00json:", "\x01json:")
_PROVIDERS = ("anthropic", "openai", "gemini", "deepseek", "mistral", "xai", "groq", "ollama", "openrouter")
"""Providers with the same name in both programs."""


def read_hermes(files: Files) -> Iterator[Piece]:
    """Yields keys, settings and notes, then the sessions."""
    keys: set[str] = set()
    for name in sorted(files.names(), key=lambda name: (name != ".env", name == DATABASE, name)):
        if name == DATABASE:
            yield from _database(files.path(name))
        elif name == ".env":
            for piece in variables(files, name):
                if isinstance(piece, Variable):
                    keys.add(piece.name)
                yield piece
        elif name == SETTINGS:
            yield from _settings(files, name, keys)
        elif name in _NOTES:
            with files.open_file(name) as file:
                yield Note(path=_NOTES[name], data=_as_list(file.read()), file=name)
        else:
            yield Skipped(kind="files", name=name, reason=_skip_reason(name), file=name)


def _as_list(data: bytes) -> bytes:
    """Hermes separates notes with lines of `§`; here each note becomes a list item."""
    notes = [note.strip() for note in data.decode("utf-8", "replace").split("\n§\n")]
    if len(notes) == 1:
        return data
    return "".join("- " + "\n  ".join(note.splitlines()) + "\n" for note in notes if note).encode()


def _skip_reason(name: str) -> str:
    if name.startswith("auth"):
        return "it contains secrets; set them in Nacre yourself"
    if name.startswith("skills/"):
        return "skills of Hermes are not imported"
    if name.startswith(f"{DATABASE}-"):
        return "it is read as part of the database"
    return "specific to Hermes"


def _settings(files: Files, name: str, keys: set[str]) -> Iterator[Piece]:
    """Yields the model and the time zone; the other settings have no counterpart."""
    import yaml

    with files.open_file(name) as file:
        try:
            value = yaml.safe_load(file.read())
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reason = f"it cannot be read: {' '.join(str(error).split())[:120]}"
            yield Skipped(kind="settings", name=name, reason=reason, file=name)
            return
    if not isinstance(value, dict) or not value:
        yield Skipped(kind="files", name=name, reason="it contains no settings", file=name)
        return
    for key, leaf in leaves(value):
        if key == ("timezone",) and leaf:
            yield Setting(key=("agents", "defaults", "userTimezone"), value=leaf, file=name)
        elif key in (("model",), ("model", "default")) and (model := _model(value["model"], keys)):
            yield Setting(key=("agents", "defaults", "model", "primary"), value=model, file=name)
        elif key == ("model", "base_url") and _is_custom(value["model"]):
            yield Setting(key=("models", "providers", "custom", "baseUrl"), value=leaf, file=name)
        elif key == ("model", "api_key") and _is_custom(value["model"]):
            yield Setting(key=("models", "providers", "custom", "apiKey"), value=leaf, file=name)
        else:
            reason = "its provider has another name here: choose a model with `nacre init`"
            if key[0] != "model":
                reason = "specific to Hermes: Nacre works differently"
            elif key[1:] == ("provider",) and _model(value["model"], keys):
                reason = "it is part of the model name here"
            yield Skipped(kind="settings", name=".".join(key), reason=reason, file=name)


def _is_custom(model: Any) -> bool:
    return isinstance(model, dict) and model.get("provider") == "custom" and bool(model.get("base_url"))


def _model(model: Any, keys: set[str]) -> str:
    """`provider/model` in litellm's form; empty if the provider is unknown.

    With `auto`, Hermes uses OpenRouter if there is a key for it.
    """
    choice = model if isinstance(model, dict) else {"default": model}
    name = str(choice.get("default") or "")
    provider = str(choice.get("provider") or "auto").lower()
    if provider == "auto" and "OPENROUTER_API_KEY" in keys:
        provider = "openrouter"
    if _is_custom(choice):
        return f"custom/{name}" if name else ""
    if not name or provider not in _PROVIDERS:
        return ""
    return name if name.startswith(f"{provider}/") else f"{provider}/{name}"


def _database(path: Path | None) -> Iterator[Piece]:
    if path is None:
        reason = "it is in an archive: unpack the archive first"
        yield Skipped(kind="files", name=DATABASE, reason=reason, file=DATABASE)
        return
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            for session in database.execute("SELECT * FROM sessions ORDER BY started_at, id"):
                rows = database.execute(
                    "SELECT * FROM messages WHERE session_id = ? ORDER BY id", (session["id"],)
                )
                yield _session(dict(session), [dict(row) for row in rows])
    except sqlite3.Error as error:
        yield unreadable_rest("database", DATABASE, error)


def _session(raw: Mapping[str, Any], rows: list[dict[str, Any]]) -> Conversation:
    name = str(raw.get("title") or raw["id"])
    entries: list[ConversationEntry] = []
    skipped: list[Skipped] = []
    previous_id: str | None = None
    for row in rows:
        at_ms = int(float(row.get("timestamp") or raw.get("started_at") or 0) * 1000)
        body = _body(row, str(raw.get("model") or ""), at_ms)
        if isinstance(body, str):
            skipped.append(Skipped(kind="messages", name=name, reason=body, file=DATABASE))
            continue
        identity = str(row["id"])
        entries.append(
            ConversationEntry(id=identity, parent_id=previous_id, at_ms=at_ms, body=body, message=identity)
        )
        previous_id = identity
    is_owners = str(raw.get("source") or "") in _OWNER_SOURCES
    return Conversation(
        id=str(raw["id"]),
        title=str(raw.get("title") or ""),
        started_at_ms=int(float(raw.get("started_at") or 0) * 1000),
        entries=entries,
        leaf_id=previous_id,
        messages=len(rows),
        file=DATABASE,
        skipped=skipped,
        is_private=is_owners,
        is_group=not is_owners and raw.get("chat_type") not in _DIRECT,
        cwd=str(raw.get("cwd") or ""),
    )


def _content(content: object) -> tuple[Text | Image, ...]:
    """Content as text and pictures: plain text, or OpenAI's parts as JSON after a marker."""
    text = str(content or "")
    mark = next((mark for mark in _JSON_MARKS if text.startswith(mark)), "")
    if not mark:
        return (Text(text=text),) if text.strip() else ()
    try:
        parts = json.loads(text[len(mark) :])
    except (ValueError, RecursionError):
        return (Text(text=text[len(mark) :]),)
    found: list[Text | Image] = []
    for part in parts if isinstance(parts, list) else [parts]:
        if not isinstance(part, dict):
            found.append(Text(text=str(part)))
        elif isinstance(part.get("text"), str):
            found.append(Text(text=part["text"]))
        else:
            url = part.get("image_url")
            address = str(url.get("url") if isinstance(url, dict) else url or "")
            head, _, data = address.partition(";base64,")
            is_image = head.startswith("data:image/") and data
            found.append(
                Image(data=data, mime_type=head.removeprefix("data:"))
                if is_image
                else Text(text="[an attachment that was not carried]")
            )
    return tuple(found)


def _body(row: Mapping[str, Any], model: str, at_ms: int) -> KnownBody | str:
    content_parts = _content(row.get("content"))
    if row.get("active") == 0 and row.get("compacted") != 1:
        return "it was undone there"
    if row.get("role") == "user":
        return (
            UserMessage(content=content_parts, timestamp_ms=at_ms) if content_parts else "it contains no text"
        )
    if row.get("role") == "tool":
        return ToolResultMessage(
            tool_call_id=str(row.get("tool_call_id") or ""),
            tool_name=str(row.get("tool_name") or "tool"),
            content=content_parts,
            is_error=False,
            timestamp_ms=at_ms,
        )
    if row.get("role") != "assistant":
        return "it was written by the program"
    thought = str(row.get("reasoning") or row.get("reasoning_content") or "")
    thinking = (Thinking(thinking=thought),) if thought.strip() else ()
    calls = _calls(row.get("tool_calls"))
    if not (content_parts or thinking or calls):
        return "it contains no text"
    content = (*thinking, *(each for each in content_parts if isinstance(each, Text)), *calls)
    return assistant_message(content, provider="hermes", model=model, when_ms=at_ms)


def _calls(stored: object) -> tuple[ToolCall, ...]:
    try:
        listed = json.loads(stored) if isinstance(stored, str) and stored else []
    except (ValueError, RecursionError):
        return ()
    found = []
    for each in listed if isinstance(listed, list) else ():
        function = each.get("function") if isinstance(each, dict) else None
        if not isinstance(function, dict):
            continue
        try:
            arguments = json.loads(str(function.get("arguments") or "{}"))
        except (ValueError, RecursionError):
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
