"""Hermes Agent's folder `~/.hermes`: keys, settings, SOUL.md, memories, sessions. Reads only.

Tables `sessions` and `messages` as of its schema 30; columns that an older one lacks are taken as empty. A
content that is no plain text begins with a mark and is JSON. Source: `hermes_state.py` and its schema in
NousResearch/hermes-agent, and its documentation of `config.yaml`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from nacre.extensions.importers.sources.contents import (
    Conversation,
    Files,
    Note,
    Piece,
    Said,
    Setting,
    Skipped,
    Variable,
)
from nacre.extensions.importers.sources.env import variables
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
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
_OWNERS = ("cli", "tui", "desktop")
"""Sources at which nobody but the owner sits."""
_DIRECT = ("dm", "direct", "private")
_JSON_MARKS = ("\x00json:", "\x01json:")
_PROVIDERS = ("anthropic", "openai", "gemini", "deepseek", "mistral", "xai", "groq", "ollama", "openrouter")
"""Providers that both programs call by the same name."""


def read_hermes(files: Files) -> Iterator[Piece]:
    """Keys, settings and notes, then the sessions."""
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
            with files.opened(name) as file:
                yield Note(path=_NOTES[name], data=_as_list(file.read()), file=name)
        else:
            yield Skipped(kind="files", name=name, reason=_reason(name), file=name)


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
    if name.startswith("auth"):
        return "it holds secrets: give Nacre its own"
    if name.startswith("skills/"):
        return "Hermes's skills stay there"
    if name.startswith(f"{DATABASE}-"):
        return "it belongs to the database, with which it is read"
    return "Hermes's own"


def _settings(files: Files, name: str, keys: set[str]) -> Iterator[Piece]:
    """The model and the time zone; the rest is about a program that works otherwise."""
    import yaml

    with files.opened(name) as file:
        try:
            value = yaml.safe_load(file.read())
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            reason = f"it cannot be read: {' '.join(str(error).split())[:120]}"
            yield Skipped(kind="settings", name=name, reason=reason, file=name)
            return
    for key, leaf in _leaves(value if isinstance(value, dict) else {}):
        if key == ("timezone",) and leaf:
            yield Setting(key=("agents", "defaults", "userTimezone"), value=leaf, file=name)
        elif key in (("model",), ("model", "default")) and (model := _model(value["model"], keys)):
            yield Setting(key=("agents", "defaults", "model", "primary"), value=model, file=name)
        elif key == ("model", "base_url") and _is_custom(value["model"]):
            yield Setting(key=("models", "providers", "custom", "baseUrl"), value=leaf, file=name)
        elif key == ("model", "api_key") and _is_custom(value["model"]):
            yield Setting(key=("models", "providers", "custom", "apiKey"), value=leaf, file=name)
        else:
            reason = "its provider goes by another name here: `nacre init` chooses a model"
            if key[0] != "model":
                reason = "Hermes's own: Nacre works otherwise there"
            elif key[1:] == ("provider",) and _model(value["model"], keys):
                reason = "it is part of the model's name here"
            yield Skipped(kind="settings", name=".".join(key), reason=reason, file=name)


def _leaves(value: Mapping[Any, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, each in value.items():
        if isinstance(each, dict) and each:
            yield from _leaves(each, (*above, str(name)))
        else:
            yield (*above, str(name)), each


def _is_custom(model: Any) -> bool:
    return isinstance(model, dict) and model.get("provider") == "custom" and bool(model.get("base_url"))


def _model(model: Any, keys: set[str]) -> str:
    """`provider/model` as litellm names it; empty where the provider cannot be told.

    With `auto` Hermes takes OpenRouter, if there is a key of it.
    """
    told = model if isinstance(model, dict) else {"default": model}
    name = str(told.get("default") or "")
    provider = str(told.get("provider") or "auto").lower()
    if provider == "auto" and "OPENROUTER_API_KEY" in keys:
        provider = "openrouter"
    if _is_custom(told):
        return f"custom/{name}" if name else ""
    if not name or provider not in _PROVIDERS:
        return ""
    return name if name.startswith(f"{provider}/") else f"{provider}/{name}"


def _database(path: Path | None) -> Iterator[Piece]:
    if path is None:
        reason = "it is in an archive: unpack that first"
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
        reason = f"the database cannot be read on from there: {error}"
        yield Skipped(kind="sessions", name=f"the rest of {DATABASE}", reason=reason, file=DATABASE)


def _session(raw: Mapping[str, Any], rows: list[dict[str, Any]]) -> Conversation:
    name = str(raw.get("title") or raw["id"])
    said: list[Said] = []
    skipped: list[Skipped] = []
    before: str | None = None
    for row in rows:
        at_ms = int(float(row.get("timestamp") or raw.get("started_at") or 0) * 1000)
        body = _body(row, str(raw.get("model") or ""), at_ms)
        if isinstance(body, str):
            skipped.append(Skipped(kind="messages", name=name, reason=body, file=DATABASE))
            continue
        identity = str(row["id"])
        said.append(Said(id=identity, parent_id=before, at_ms=at_ms, body=body, message=identity))
        before = identity
    is_owners = str(raw.get("source") or "") in _OWNERS
    return Conversation(
        id=str(raw["id"]),
        title=str(raw.get("title") or ""),
        began_ms=int(float(raw.get("started_at") or 0) * 1000),
        said=said,
        leaf_id=before,
        messages=len(rows),
        file=DATABASE,
        skipped=skipped,
        is_private=is_owners,
        is_group=not is_owners and raw.get("chat_type") not in _DIRECT,
        cwd=str(raw.get("cwd") or ""),
    )


def _shown(content: object) -> tuple[Text | Image, ...]:
    """A content as text and pictures: plain, or OpenAI's parts as JSON behind a mark."""
    words = str(content or "")
    mark = next((mark for mark in _JSON_MARKS if words.startswith(mark)), "")
    if not mark:
        return (Text(text=words),) if words.strip() else ()
    try:
        parts = json.loads(words[len(mark) :])
    except (ValueError, RecursionError):
        return (Text(text=words[len(mark) :]),)
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
    shown = _shown(row.get("content"))
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
        content=(*thinking, *(each for each in shown if isinstance(each, Text)), *calls),
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
