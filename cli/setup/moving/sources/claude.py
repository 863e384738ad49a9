"""Claude's data export (`conversations.json` with `chat_messages`), and Claude Code's folder `~/.claude`.

Which of the two it is, the files say: an export has `conversations.json`, the folder has `projects/<name>/*.jsonl`.
Anthropic describes neither; what is not known here is skipped with its reason. Pure, given the files.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from nacre.cli.setup.moving.sources.arrays import elements
from nacre.cli.setup.moving.sources.blocks import answer_and_results, at_ms, question
from nacre.cli.setup.moving.sources.contents import Conversation, Files, Found, Note, Piece, Said, Skipped
from nacre.cli.setup.moving.sources.lines import read_claude_code
from nacre.sessions.entries.entries import KnownBody

_FOLDER = "memory/imports/claude"


def read_claude(files: Files) -> Iterator[Piece]:
    """Conversations, memories and projects of an export, or the sessions of Claude Code."""
    names = files.names()
    if any(re.search(r"(?:^|/)projects/[^/]+/[^/]+\.jsonl$", name) for name in names):
        yield from read_claude_code(files)
        return
    for name in names:
        last = name.rpartition("/")[2]
        if last == "conversations.json":
            yield from _conversations(files, name)
        elif last == "memories.json":
            yield from _documents(files, name, _memories)
        elif last == "projects.json" or re.search(r"(?:^|/)projects/[^/]+\.json$", name):
            yield from _documents(files, name, _project)
        else:
            yield Found(kind="files")
            yield Skipped(kind="files", name=name, reason="it holds neither conversations nor notes")


def _conversations(files: Files, name: str) -> Iterator[Piece]:
    with files.opened(name) as file:
        for number, element in enumerate(elements(file, lambda value: "chat_messages" in value)):
            yield Found(kind="conversations")
            raw, where = element.value, f"{name} line {element.line}"
            if raw is None:
                yield Skipped(kind="conversations", name=where, reason=f"it cannot be read: {element.error}")
            elif not isinstance(raw.get("chat_messages"), list) or not raw.get("uuid"):
                yield Skipped(kind="conversations", name=where, reason="it has no messages or no id")
            else:
                yield from _conversation(raw, f"{name} #{number + 1}")


def _conversation(raw: Mapping[str, Any], where: str) -> Iterator[Piece]:
    messages = raw["chat_messages"]
    yield Found(kind="messages", count=len(messages))
    name = str(raw.get("name") or where)
    began_ms = at_ms(raw.get("created_at"))
    said: list[Said] = []
    skipped: list[Skipped] = []
    attachments, before, latest_ms = 0, "", began_ms
    parents: dict[str, str | None] = {}
    ids = {each.get("uuid") for each in messages if isinstance(each, dict)}
    for place, message in enumerate(messages):
        if not isinstance(message, dict):
            skipped.append(Skipped(kind="messages", name=name, reason="it is no object"))
            continue
        identity = str(message.get("uuid") or f"{raw['uuid']}:{place}")
        told = message.get("parent_message_uuid")
        parent = told if told in ids else None if told else before or None
        parents[identity], before = parent, identity
        latest_ms = at_ms(message.get("created_at")) or latest_ms
        bodies, lost = _bodies(message, latest_ms)
        attachments += len(_attached(message))
        skipped += [Skipped(kind="attachments", name=name, reason=reason) for reason in lost]
        if not bodies:
            skipped.append(Skipped(kind="messages", name=name, reason="it has no words"))
        for number, body in enumerate(bodies):
            mine = identity if number == len(bodies) - 1 else f"{identity}/{number}"
            said.append(Said(id=mine, parent_id=parent, at_ms=latest_ms, body=body))
            parent = mine
    yield Found(kind="attachments", count=attachments)
    yield Conversation(
        id=str(raw["uuid"]),
        name=name,
        title=str(raw.get("name") or ""),
        began_ms=began_ms,
        said=tuple(said),
        leaf_id=str(raw.get("current_leaf_message_uuid") or "") or (before or None),
        messages=len(messages),
        attachments=attachments,
        skipped=tuple(skipped),
        parents=parents,
        model=str(raw.get("model") or ""),
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


def _documents(files: Files, name: str, read: Any) -> Iterator[Piece]:
    with files.opened(name) as file:
        try:
            value = json.loads(file.read())
        except (ValueError, RecursionError) as error:
            yield Found(kind="notes")
            yield Skipped(kind="notes", name=name, reason=f"it cannot be read: {error}")
            return
    found = 0
    for each in value if isinstance(value, list) else [value]:
        for note in read(each) if isinstance(each, dict) else ():
            found += 1
            yield Found(kind="notes")
            yield note
    if not found:
        yield Found(kind="files")
        yield Skipped(kind="files", name=name, reason="it holds no notes")


def _memories(raw: Mapping[str, Any]) -> Iterator[Note]:
    about = str(raw.get("conversations_memory") or "").strip()
    if about:
        text = f"# What Claude noted\n\n{about}\n"
        yield Note(path=f"{_FOLDER}/memories.md", data=text.encode(), is_by_model=True)
    projects = raw.get("project_memories")
    for identity, text in projects.items() if isinstance(projects, dict) else ():
        if isinstance(text, str) and text.strip():
            path = f"{_FOLDER}/project-{_plain(identity)}.md"
            words = f"# What Claude noted about a project\n\n{text.strip()}\n"
            yield Note(path=path, data=words.encode(), is_by_model=True)


def _project(raw: Mapping[str, Any]) -> Iterator[Note]:
    folder = (
        f"{_FOLDER}/projects/{_plain(str(raw.get('name') or 'project'))}-{_plain(str(raw.get('uuid')))[:8]}"
    )
    prompt = str(raw.get("prompt_template") or "").strip()
    about = str(raw.get("description") or "").strip()
    if prompt or about:
        text = "\n\n".join(part for part in (f"# {raw.get('name')}", about, prompt) if part)
        yield Note(path=f"{folder}/project.md", data=f"{text}\n".encode())
    docs = raw.get("docs")
    for number, doc in enumerate(docs if isinstance(docs, list) else ()):
        if isinstance(doc, dict) and isinstance(doc.get("content"), str) and doc["content"].strip():
            stem = _plain(str(doc.get("filename") or "document").removesuffix(".md"))
            yield Note(path=f"{folder}/{number + 1:02}-{stem}.md", data=doc["content"].encode())


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-.")[:60] or "unnamed"
