"""ChatGPT's data export: `conversations.json`, or shards `conversations-000.json`, and pictures.

A conversation is a tree. `mapping` has a node for each message, and `current_node` ends the branch that was
shown. There is no list of memories: messages of the type `model_editable_context` contain what the model was
given of them, and `user_editable_context` the owner's instructions. The newest of each becomes a note. OpenAI
publishes no description of the format; the source is what people report about their exports.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from nacre.extensions.importers.sources.formats import assistant_message, conversations_in
from nacre.extensions.importers.sources.pieces import (
    Conversation,
    ConversationEntry,
    Files,
    Kind,
    Note,
    Piece,
    Skipped,
)
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

MOST_PICTURE_BYTES = 5_000_000
"""Providers reject larger pictures; these stay in the export."""
_BEGINNINGS = ((b"\x89PNG\r\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))
_SHARD = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$")
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|webp|dat)$", re.IGNORECASE)
_HIDDEN = "is_visually_hidden_from_conversation"
_NO_WORDS = {
    "model_editable_context": "the newest one becomes a note",
    "user_editable_context": "the newest one becomes a note",
    "reasoning_recap": "it was written by the program",
}
"""Types of messages that are not imported, with the reason."""
_MARKS = re.compile(
    r"(?P<gap>[ \t]*)(?:\ue200(?P<inside>[^\ue200\ue201]*)\ue201|【[^】\n]*†[^】\n]*】"
    r"|:contentReference\[oaicite:\d+\](?:\{index=\d+\})?)|[\ue200-\ue206]"
)
"""Marks that ChatGPT shows as links to sources, or not at all."""


def _shown(mark: re.Match[str]) -> str:
    """What stood in the place of a mark, without the source: the name of an entity or the label of a link."""
    kind, *fields = (mark["inside"] or "").split("\ue202")
    names = re.findall(r'"((?:[^"\\]|\\.)*)"', fields[0])[1:2] if kind == "entity" and fields else fields[:1]
    if kind in ("entity", "url"):
        return (mark["gap"] or "") + "".join(names)
    is_glued = mark.string[mark.end() : mark.end() + 1].isalnum()
    return (mark["gap"] or "") if is_glued else ""


def mime_type(data: bytes) -> str:
    """The type of a picture; empty if a model cannot read it."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), "")


class Pictures:
    """The pictures of an export, found by the IDs that messages use."""

    def __init__(self, files: Files, names: tuple[str, ...]) -> None:
        self._files = files
        self._names = names
        self._used: set[str] = set()

    # The reasons become text of transcripts. Other words would make a second import see other messages.
    def find(self, identity: str) -> tuple[str, Image] | str:
        """The file whose name starts with an ID, and its picture, or the reason why there is none."""
        begins = re.compile(rf"(?:^|/){re.escape(identity)}(?![A-Za-z0-9])[^/]*$")
        found = [name for name in self._names if identity and begins.search(name)]
        if not found:
            return "the export does not hold it"
        self._used.add(found[0])
        if self._files.size_bytes(found[0]) > MOST_PICTURE_BYTES:
            return f"it has more than {MOST_PICTURE_BYTES} bytes"
        with self._files.open_file(found[0]) as file:
            data = file.read()
        kind = mime_type(data)
        if not kind:
            return "it is no picture that a model can see"
        return found[0], Image(data=b64encode(data).decode("ascii"), mime_type=kind)

    def unused(self) -> tuple[str, ...]:
        return tuple(name for name in self._names if name not in self._used)


def read_chatgpt(files: Files) -> Iterator[Piece]:
    """Yields the conversations of all shards, then the memories and instructions in them."""
    names = files.names()
    pictures = Pictures(files, tuple(name for name in names if _PICTURE.search(name)))
    context = _OwnerContext()
    for name in names:
        if _SHARD.search(name):
            yield from conversations_in(files, name, partial(_conversation, name, pictures, context))
        elif not _PICTURE.search(name):
            yield Skipped(kind="files", name=name, reason="it contains nothing to import", file=name)
    for name in pictures.unused():
        yield Skipped(kind="files", name=name, reason="no message refers to it", file=name)
    yield from context.notes()


def _conversation(
    file: str, pictures: Pictures, context: _OwnerContext, raw: Mapping[str, Any]
) -> Conversation | None:
    identity = str(raw.get("conversation_id") or raw.get("id") or "")
    if not identity or not isinstance(raw.get("mapping"), dict):
        return None
    context.collect(raw, file)
    mapping = {key: node for key, node in raw["mapping"].items() if isinstance(node, dict)}
    messages = [key for key, node in mapping.items() if isinstance(node.get("message"), dict)]
    started_ms = _ms(raw.get("create_time")) or 0
    title = " ".join(str(raw.get("title") or "").split())
    nodes = _Nodes(mapping, started_ms, title or identity, pictures, file)
    leaf = raw.get("current_node")
    return Conversation(
        id=identity,
        title=title,
        started_at_ms=started_ms or min((entry.at_ms for entry in nodes.entries), default=0),
        entries=nodes.entries,
        leaf_id=leaf if isinstance(leaf, str) else (nodes.entries[-1].id if nodes.entries else None),
        messages=len(messages),
        file=file,
        attachments=nodes.attachments,
        shows=nodes.shows,
        skipped=nodes.skipped,
        parents=nodes.parents,
    )


class _OwnerContext:
    """The newest version of what ChatGPT was given about its owner."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, str, str]] = {}

    def collect(self, raw: Mapping[str, Any], file: str) -> None:
        started_ms = _ms(raw.get("create_time")) or 0
        for node in raw["mapping"].values():
            message = node.get("message") if isinstance(node, dict) else None
            content = message.get("content") if isinstance(message, dict) else None
            if not isinstance(message, dict) or not isinstance(content, dict):
                continue
            at_ms = _ms(message.get("create_time")) or started_ms
            if content.get("content_type") == "model_editable_context":
                self._keep("memories", at_ms, str(content.get("model_set_context") or ""), file)
            if content.get("content_type") == "user_editable_context":
                parts = (content.get("user_profile"), content.get("user_instructions"))
                text = "\n\n".join(str(part).strip() for part in parts if part)
                self._keep("custom-instructions", at_ms, text, file)

    def notes(self) -> Iterator[Note]:
        titles = {
            "memories": ("What ChatGPT remembered", False),
            "custom-instructions": ("Custom instructions for ChatGPT", True),
        }
        for name, (title, is_owners) in titles.items():
            if name in self._newest:
                _, text, file = self._newest[name]
                data = f"# {title}\n\n{text}\n".encode("utf-8", "replace")
                path = f"memory/imports/chatgpt/{name}.md"
                yield Note(path=path, data=data, file=file, is_owners=is_owners)

    def _keep(self, name: str, at_ms: int, text: str, file: str) -> None:
        if text.strip() and at_ms >= self._newest.get(name, (0, "", ""))[0]:
            self._newest[name] = (at_ms, text.strip(), file)


class _Nodes:
    """The nodes of one tree, each after its parent."""

    def __init__(
        self,
        mapping: Mapping[str, Mapping[str, Any]],
        started_ms: int,
        name: str,
        pictures: Pictures,
        file: str,
    ) -> None:
        self.entries: list[ConversationEntry] = []
        self.skipped: list[Skipped] = []
        self.shows: list[str] = []
        self.attachments = 0
        self.parents = {
            key: parent if isinstance(parent := node.get("parent"), str) and parent in mapping else None
            for key, node in mapping.items()
        }
        self._name, self._pictures, self._file = name, pictures, file
        self._calls: dict[str, str] = {}
        children: dict[str | None, list[str]] = {}
        for key, parent in self.parents.items():
            children.setdefault(parent, []).append(key)
        waiting = [(key, started_ms) for key in reversed(children.get(None, []))]
        reached: set[str] = set()
        while waiting:
            key, before_ms = waiting.pop()
            reached.add(key)
            at_ms = self._take(key, mapping[key], before_ms)
            waiting += [(child, at_ms) for child in reversed(children.get(key, []))]
        for key, node in mapping.items():
            if key not in reached and isinstance(node.get("message"), dict):
                self._skip("its parents form a cycle")

    def _take(self, key: str, node: Mapping[str, Any], before_ms: int) -> int:
        message = node.get("message")
        if not isinstance(message, dict):
            return before_ms
        at_ms = _ms(message.get("create_time")) or before_ms
        body = self._body(key, message, at_ms)
        if isinstance(body, str):
            self._skip(body)
        else:
            self.entries.append(
                ConversationEntry(id=key, parent_id=self.parents[key], at_ms=at_ms, body=body, message=key)
            )
        return at_ms

    def _body(self, key: str, message: Mapping[str, Any], at_ms: int) -> KnownBody | str:
        author = message.get("author") if isinstance(message.get("author"), dict) else {}
        metadata = message.get("metadata") if isinstance(message.get("metadata"), dict) else {}
        role = (author or {}).get("role")
        content = message.get("content")
        kind = content.get("content_type") if isinstance(content, dict) else None
        if kind in _NO_WORDS:
            return _NO_WORDS[kind]
        blocks = (*self._blocks(content), *self._documents((metadata or {}).get("attachments")))
        shown = tuple(block for block in blocks if not isinstance(block, Thinking))
        if not blocks:
            return "it contains no text"
        if role == "system" or (metadata or {}).get(_HIDDEN):
            return "it is a hidden message of the program"
        if role == "user":
            return UserMessage(content=shown, timestamp_ms=at_ms)
        if role == "tool":
            call = self._calls.get(self.parents[key] or "", key)
            name = str((author or {}).get("name") or "tool")
            return ToolResultMessage(
                tool_call_id=call, tool_name=name, content=shown, is_error=False, timestamp_ms=at_ms
            )
        if role != "assistant":
            return f"{role!r} is not a role that a transcript has"
        return self._assistant(key, message, blocks, str((metadata or {}).get("model_slug") or ""), at_ms)

    def _assistant(
        self, key: str, message: Mapping[str, Any], blocks: tuple[Any, ...], model: str, at_ms: int
    ) -> AssistantMessage:
        recipient = message.get("recipient")
        spoken: list[Text | Thinking | ToolCall] = []
        for block in blocks:
            if isinstance(block, Image):
                spoken.append(Text(text=f"[an image, {block.mime_type}]"))
            else:
                spoken.append(block)
        if isinstance(recipient, str) and recipient not in ("", "all"):
            text = "\n".join(block.text for block in spoken if isinstance(block, Text))
            spoken = [ToolCall(id=key, name=recipient, arguments={"input": text})]
            self._calls[key] = key
        return assistant_message(spoken, provider="chatgpt", model=model, when_ms=at_ms)

    def _blocks(self, content: object) -> tuple[Text | Image | Thinking, ...]:
        if not isinstance(content, dict):
            return ()
        if content.get("content_type") == "thoughts" and isinstance(content.get("thoughts"), list):
            thoughts = (each for each in content["thoughts"] if isinstance(each, dict))
            text = "\n\n".join(str(each.get("content") or each.get("summary") or "") for each in thoughts)
            return (Thinking(thinking=text),) if text.strip() else ()
        parts = content.get("parts")
        if not isinstance(parts, list):
            parts = [content.get("text") or content.get("result") or ""]
        blocks: list[Text | Image | Thinking] = []
        for part in parts:
            if isinstance(part, str):
                text = part
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                text = part["text"]
            else:
                self._attach(part, blocks)
                continue
            if (text := _MARKS.sub(_shown, text)).strip():
                blocks.append(Text(text=text))
        return tuple(blocks)

    def _attach(self, part: object, blocks: list[Text | Image | Thinking]) -> None:
        """Counts what is not text, and includes it if it is a picture in the export."""
        self.attachments += 1
        pointer = part.get("asset_pointer") if isinstance(part, dict) else None
        found = self._pictures.find(str(pointer or "").rpartition("/")[2])
        if isinstance(found, str):
            blocks.append(Text(text=f"[an attachment that was not carried: {found}]"))
            self._skip(found, "attachments")
        else:
            name, image = found
            self.shows.append(name)
            blocks.append(image)

    def _documents(self, listed: object) -> Iterator[Text]:
        """A line for each file that a message lists besides its text; pictures are part of the text."""
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and not str(each.get("mime_type") or "").startswith("image/"):
                self.attachments += 1
                self._skip("documents stay in the export", "attachments")
                yield Text(text=f"[a document that was not carried: {each.get('name') or 'without a name'}]")

    def _skip(self, reason: str, kind: Kind = "messages") -> None:
        self.skipped.append(Skipped(kind=kind, name=self._name, reason=reason, file=self._file))


def _ms(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 253_402_300_000:
        return None
    return int(seconds * 1000)
