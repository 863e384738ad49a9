"""Claude's data export: `conversations.json` with `chat_messages`, `memories.json`, `projects.json`.

Source: the exports as people describe them, since Anthropic publishes no description; what is not known here
is skipped with its reason. Pure, given the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nacre.extensions.importers.sources.arrays import ArrayBroken, elements
from nacre.extensions.importers.sources.blocks import answer_and_results, at_ms, question
from nacre.extensions.importers.sources.contents import Conversation, Files, Note, Piece, Said, Skipped
from nacre.sessions.entries.entries import KnownBody

_FOLDER = "memory/imports/claude"
_MOST_BYTES = 256 << 20
"""A larger file of memories or projects is not read."""


def read_claude(files: Files) -> Iterator[Piece]:
    """Conversations, memories and projects of an export."""
    for name in files.names():
        if re.search(r"(?:^|/)conversations(?:-\d+)?\.json$", name):
            yield from _conversations(files, name)
        elif re.search(r"(?:^|/)memories(?:\.json|/[^/]+\.json)$", name):
            yield from _documents(files, name, _memories)
        elif re.search(r"(?:^|/)projects(?:\.json|/[^/]+\.json)$", name):
            yield from _documents(files, name, _project)
        else:
            reason = (
                "unpack it, and import it by itself" if name.endswith(".zip") else "nothing in it is carried"
            )
            yield Skipped(kind="files", name=name, reason=reason, file=name)


def _conversations(files: Files, name: str) -> Iterator[Piece]:
    with files.opened(name) as file:
        try:
            for number, raw in enumerate(elements(file), 1):
                messages = raw.get("chat_messages") if isinstance(raw, dict) else None
                if not isinstance(messages, list) or not raw.get("uuid"):
                    reason = "it has no id or no messages"
                    yield Skipped(kind="sessions", name=f"{name} #{number}", reason=reason, file=name)
                else:
                    yield _conversation(raw, messages, name)
        except ArrayBroken as error:
            reason = f"the file cannot be read on from there: {error}"
            yield Skipped(kind="sessions", name=f"the rest of {name}", reason=reason, file=name)


def _conversation(raw: Mapping[str, Any], messages: list[Any], file: str) -> Conversation:
    name = str(raw.get("name") or raw["uuid"])
    began_ms = at_ms(raw.get("created_at"))
    said: list[Said] = []
    skipped: list[Skipped] = []
    attachments, before, latest_ms = 0, "", began_ms
    parents: dict[str, str | None] = {}
    ids = {each.get("uuid") for each in messages if isinstance(each, dict)}
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            skipped.append(Skipped(kind="messages", name=name, reason="it is no message", file=file))
            continue
        identity = str(message.get("uuid") or f"{raw['uuid']}:{place}")
        told = message.get("parent_message_uuid")
        parent = told if told in ids else None if told else before or None
        parents[identity], before = parent, identity
        latest_ms = at_ms(message.get("created_at")) or latest_ms
        bodies, lost = _bodies(message, latest_ms)
        attachments += len(_attached(message))
        skipped += [Skipped(kind="attachments", name=name, reason=reason, file=file) for reason in lost]
        if not bodies:
            skipped.append(Skipped(kind="messages", name=name, reason="it has no words", file=file))
        for number, body in enumerate(bodies):
            mine = identity if number == len(bodies) - 1 else f"{identity}/{number}"
            said.append(Said(id=mine, parent_id=parent, at_ms=latest_ms, body=body, message=identity))
            parent = mine
    return Conversation(
        id=str(raw["uuid"]),
        title=str(raw.get("name") or ""),
        began_ms=began_ms,
        said=said,
        leaf_id=str(raw.get("current_leaf_message_uuid") or "") or (before or None),
        messages=len(messages),
        file=file,
        attachments=attachments,
        skipped=skipped,
        parents=parents,
    )


def _attached(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Files of a message; the same one is listed twice where its text was taken out."""
    found: dict[str, Mapping[str, Any]] = {}
    for key in ("files", "attachments"):
        listed = message.get(key)
        for number, each in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(each, dict):
                found[str(each.get("file_name") or f"{key} {number + 1}")] = each
    return list(found.values())


def _bodies(message: Mapping[str, Any], when_ms: int) -> tuple[list[KnownBody], list[str]]:
    """The entries of one message, and why attachments of it are not carried."""
    content = message.get("content")
    blocks = [each for each in content if isinstance(each, dict)] if isinstance(content, list) else []
    if not any(str(block.get("text") or "").strip() or block.get("type") != "text" for block in blocks):
        blocks = [{"type": "text", "text": str(message.get("text") or "")}]
    lost: list[str] = []
    for attached in _attached(message):
        words = str(attached.get("extracted_content") or "")
        name = str(attached.get("file_name") or "a file")
        if words.strip():
            blocks.append({"type": "text", "text": f"[{name}]\n{words}"})
        else:
            lost.append("the export does not hold its contents")
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
    with files.opened(name) as file:
        try:
            value = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            yield Skipped(kind="notes", name=name, reason=f"it cannot be read: {error}", file=name)
            return
    listed = value if isinstance(value, list) else [value]
    notes = [note for each in listed if isinstance(each, dict) for note in read(each, name)]
    yield from notes
    if not notes:
        yield Skipped(kind="files", name=name, reason="it holds no notes", file=name)


def _memories(raw: Mapping[str, Any], file: str) -> Iterator[Note]:
    about = str(raw.get("conversations_memory") or "").strip()
    if about:
        text = f"# What Claude noted\n\n{about}\n"
        yield Note(path=f"{_FOLDER}/memories.md", data=_bytes(text), file=file, is_owners=False)
    projects = raw.get("project_memories")
    for identity, text in projects.items() if isinstance(projects, dict) else ():
        if isinstance(text, str) and text.strip():
            path = f"{_FOLDER}/project-{_plain(identity)}.md"
            words = f"# What Claude noted about a project\n\n{text.strip()}\n"
            yield Note(path=path, data=_bytes(words), file=file, is_owners=False)


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
