"""Claude's data export: `conversations.json` with `chat_messages`, `memories.json`, `projects.json`.

Anthropic publishes no description of the format; the source is what people report about their exports. What
is unknown here is skipped with a reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from nacre.extensions.importers.sources.formats import answer_and_results, conversations_in, question
from nacre.extensions.importers.sources.pieces import (
    Conversation,
    ConversationEntry,
    Files,
    Note,
    Piece,
    Skipped,
)
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import KnownBody

_FOLDER = "memory/imports/claude"
_MOST_BYTES = 256 << 20
"""A larger file of memories or projects is skipped."""


def read_claude(files: Files) -> Iterator[Piece]:
    """Yields the conversations, memories and projects of an export."""
    for name in files.names():
        if re.search(r"(?:^|/)conversations(?:-\d+)?\.json$", name):
            yield from conversations_in(files, name, partial(_conversation, name))
        elif re.search(r"(?:^|/)memories(?:\.json|/[^/]+\.json)$", name):
            yield from _documents(files, name, _memories)
        elif re.search(r"(?:^|/)projects(?:\.json|/[^/]+\.json)$", name):
            yield from _documents(files, name, _project)
        else:
            reason = (
                "unpack it and import it separately"
                if name.endswith(".zip")
                else "it contains nothing to import"
            )
            yield Skipped(kind="files", name=name, reason=reason, file=name)


def _conversation(file: str, raw: Mapping[str, Any]) -> Conversation | None:
    messages = raw.get("chat_messages")
    if not isinstance(messages, list) or not raw.get("uuid"):
        return None
    name = str(raw.get("name") or raw["uuid"])
    started_ms = timestamp_ms(str(raw.get("created_at")))
    entries: list[ConversationEntry] = []
    skipped: list[Skipped] = []
    attachments, before, latest_ms = 0, "", started_ms
    parents: dict[str, str | None] = {}
    ids = {each.get("uuid") for each in messages if isinstance(each, dict)}
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            skipped.append(Skipped(kind="messages", name=name, reason="it is not a message", file=file))
            continue
        identity = str(message.get("uuid") or f"{raw['uuid']}:{place}")
        stated_parent = message.get("parent_message_uuid")
        parent = stated_parent if stated_parent in ids else None if stated_parent else before or None
        parents[identity], before = parent, identity
        latest_ms = timestamp_ms(str(message.get("created_at"))) or latest_ms
        bodies, lost = _bodies(message, latest_ms)
        attachments += len(_attached(message))
        skipped += [Skipped(kind="attachments", name=name, reason=reason, file=file) for reason in lost]
        if not bodies:
            skipped.append(Skipped(kind="messages", name=name, reason="it contains no text", file=file))
        for number, body in enumerate(bodies):
            entry_id = identity if number == len(bodies) - 1 else f"{identity}/{number}"
            entries.append(
                ConversationEntry(id=entry_id, parent_id=parent, at_ms=latest_ms, body=body, message=identity)
            )
            parent = entry_id
    return Conversation(
        id=str(raw["uuid"]),
        title=str(raw.get("name") or ""),
        started_at_ms=started_ms,
        entries=entries,
        leaf_id=str(raw.get("current_leaf_message_uuid") or "") or (before or None),
        messages=len(messages),
        file=file,
        attachments=attachments,
        skipped=skipped,
        parents=parents,
    )


def _attached(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The files of a message. A file is listed twice if its text was extracted."""
    found: dict[str, Mapping[str, Any]] = {}
    for key in ("files", "attachments"):
        listed = message.get(key)
        for number, each in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(each, dict):
                found[str(each.get("file_name") or f"{key} {number + 1}")] = each
    return list(found.values())


def _bodies(message: Mapping[str, Any], when_ms: int) -> tuple[list[KnownBody], list[str]]:
    content = message.get("content")
    blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if not any(str(block.get("text") or "").strip() or block.get("type") != "text" for block in blocks):
        blocks = [{"type": "text", "text": str(message.get("text") or "")}]
    lost: list[str] = []
    for attached in _attached(message):
        text = str(attached.get("extracted_content") or "")
        name = str(attached.get("file_name") or "a file")
        if text.strip():
            blocks.append({"type": "text", "text": f"[{name}]\n{text}"})
        else:
            lost.append("the export does not contain its contents")
            blocks.append({"type": "text", "text": f"[an attachment that was not carried: {name}]"})
    if message.get("sender") == "human":
        return question(blocks, when_ms), lost
    return answer_and_results(blocks, provider="claude", model="", when_ms=when_ms), lost


def _documents(
    files: Files, name: str, read: Callable[[Mapping[str, Any], str], Iterator[Note]]
) -> Iterator[Piece]:
    if files.size_bytes(name) > _MOST_BYTES:
        reason = f"it has more than {_MOST_BYTES >> 20} MB"
        yield Skipped(kind="notes", name=name, reason=reason, file=name)
        return
    with files.open_file(name) as file:
        try:
            value = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            yield Skipped(kind="notes", name=name, reason=f"it cannot be read: {error}", file=name)
            return
    listed = value if isinstance(value, list) else [value]
    notes = [note for each in listed if isinstance(each, dict) for note in read(each, name)]
    yield from notes
    if not notes:
        yield Skipped(kind="files", name=name, reason="it contains no notes", file=name)


def _memories(raw: Mapping[str, Any], file: str) -> Iterator[Note]:
    about = str(raw.get("conversations_memory") or "").strip()
    if about:
        text = f"# What Claude noted\n\n{about}\n"
        yield Note(path=f"{_FOLDER}/memories.md", data=_bytes(text), file=file, is_owners=False)
    projects = raw.get("project_memories")
    for identity, text in projects.items() if isinstance(projects, dict) else ():
        if isinstance(text, str) and text.strip():
            path = f"{_FOLDER}/project-{_plain(identity)}.md"
            text = f"# What Claude noted about a project\n\n{text.strip()}\n"
            yield Note(path=path, data=_bytes(text), file=file, is_owners=False)


def _project(raw: Mapping[str, Any], file: str) -> Iterator[Note]:
    folder = (
        f"{_FOLDER}/projects/{_plain(str(raw.get('name') or 'project'))}-{_plain(str(raw.get('uuid')))[:8]}"
    )
    prompt = str(raw.get("prompt_template") or "").strip()
    about = str(raw.get("description") or "").strip()
    if prompt or about:
        text = "\n\n".join(part for part in (f"# {raw.get('name')}", about, prompt) if part)
        yield Note(path=f"{folder}/project.md", data=_bytes(f"{text}\n"), file=file)
    docs = raw.get("docs")
    for number, doc in enumerate(docs if isinstance(docs, list) else ()):
        if isinstance(doc, dict) and isinstance(doc.get("content"), str) and doc["content"].strip():
            stem = _plain(str(doc.get("filename") or "document").removesuffix(".md"))
            yield Note(
                path=f"{folder}/{number + 1:02}-{stem}.md",
                data=_bytes(doc["content"]),
                file=file,
                is_owners=False,
            )


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:60] or "unnamed"


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
