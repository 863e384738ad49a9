"""ChatGPT's data export: `conversations.json`, or shards `conversations-000.json`, with a tree a conversation.

A tree's `mapping` has a node for each message; `current_node` ends the branch that was shown. Source: the
exports as people describe them, since OpenAI publishes no description. Pure, given the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nacre.cli.setup.moving.sources.arrays import elements
from nacre.cli.setup.moving.sources.contents import Conversation, Files, Found, Piece, Said, Skipped
from nacre.cli.setup.moving.sources.pictures import Pictures
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

_SHARD = re.compile(r"(?:^|/)conversations(?:-\d+)?\.json$")
_PICTURE = re.compile(r"\.(?:png|jpe?g|gif|webp|dat)$", re.IGNORECASE)
_HIDDEN = "is_visually_hidden_from_conversation"


def read_chatgpt(files: Files) -> Iterator[Piece]:
    """Conversations of all shards; other files of the export are skipped with a reason."""
    names = files.names()
    pictures = Pictures(files, tuple(name for name in names if _PICTURE.search(name)))
    for name in names:
        if _SHARD.search(name):
            yield from _shard(files, name, pictures)
        elif not _PICTURE.search(name):
            yield Found(kind="files")
            yield Skipped(kind="files", name=name, reason="it holds no conversations")
    for name in pictures.unused():
        yield Found(kind="files")
        yield Skipped(kind="files", name=name, reason="no message shows it")


def _shard(files: Files, name: str, pictures: Pictures) -> Iterator[Piece]:
    with files.opened(name) as file:
        for number, element in enumerate(elements(file, lambda value: "mapping" in value)):
            yield Found(kind="conversations")
            where = f"{name} line {element.line}"
            if element.value is None:
                yield Skipped(kind="conversations", name=where, reason=f"it cannot be read: {element.error}")
            elif not isinstance(element.value.get("mapping"), dict):
                yield Skipped(kind="conversations", name=where, reason="it has no messages")
            else:
                yield from _conversation(element.value, f"{name} #{number + 1}", pictures)


def _conversation(raw: Mapping[str, Any], where: str, pictures: Pictures) -> Iterator[Piece]:
    mapping = {key: node for key, node in raw["mapping"].items() if isinstance(node, dict)}
    identity = str(raw.get("conversation_id") or raw.get("id") or "")
    title = str(raw.get("title") or "")
    messages = [key for key, node in mapping.items() if isinstance(node.get("message"), dict)]
    yield Found(kind="messages", count=len(messages))
    if not identity:
        reason = "it has no id"
        yield Skipped(kind="conversations", name=where, reason=reason)
        yield Skipped(kind="messages", name=where, reason=reason, count=len(messages))
        return
    began_ms, name = _ms(raw.get("create_time")) or 0, title or where
    made = _Nodes(mapping, began_ms, name, pictures)
    yield Found(kind="attachments", count=made.attachments)
    leaf = raw.get("current_node")
    yield Conversation(
        id=identity,
        name=name,
        title=title,
        began_ms=began_ms or min((said.at_ms for said in made.said), default=0),
        said=tuple(made.said),
        leaf_id=leaf if isinstance(leaf, str) else (made.said[-1].id if made.said else None),
        messages=len(messages),
        attachments=made.attachments,
        skipped=tuple(made.skipped),
        parents=made.parents,
        model=str(raw.get("default_model_slug") or ""),
    )


class _Nodes:
    """The nodes of one tree, each behind its parent."""

    def __init__(
        self, mapping: Mapping[str, Mapping[str, Any]], began_ms: int, name: str, pictures: Pictures
    ) -> None:
        self.said: list[Said] = []
        self.skipped: list[Skipped] = []
        self.attachments = 0
        self.parents = {key: _parent(node, mapping) for key, node in mapping.items()}
        self._name, self._pictures = name, pictures
        self._calls: dict[str, str] = {}
        children: dict[str | None, list[str]] = {}
        for key, parent in self.parents.items():
            children.setdefault(parent, []).append(key)
        waiting = [(key, began_ms) for key in reversed(children.get(None, []))]
        reached: set[str] = set()
        while waiting:
            key, before_ms = waiting.pop()
            reached.add(key)
            at_ms = self._take(key, mapping[key], before_ms)
            waiting += [(child, at_ms) for child in reversed(children.get(key, []))]
        for key, node in mapping.items():
            if key not in reached and isinstance(node.get("message"), dict):
                self._skip("its place in the conversation leads in a circle")

    def _take(self, key: str, node: Mapping[str, Any], before_ms: int) -> int:
        message = node.get("message")
        if not isinstance(message, dict):
            return before_ms
        at_ms = _ms(message.get("create_time")) or before_ms
        body = self._body(key, message, at_ms)
        if isinstance(body, str):
            self._skip(body)
        else:
            self.said.append(Said(id=key, parent_id=self.parents[key], at_ms=at_ms, body=body))
        return at_ms

    def _body(self, key: str, message: Mapping[str, Any], at_ms: int) -> KnownBody | str:
        """What an entry says, or why there is none."""
        author = message.get("author") if isinstance(message.get("author"), dict) else {}
        metadata = message.get("metadata") if isinstance(message.get("metadata"), dict) else {}
        role = (author or {}).get("role")
        blocks = self._blocks(message.get("content"))
        shown = tuple(block for block in blocks if not isinstance(block, Thinking))
        if not blocks:
            return "it has no words"
        if role == "system" or (metadata or {}).get(_HIDDEN):
            return "the program wrote it, and hid it"
        if role == "user":
            return UserMessage(content=shown, timestamp_ms=at_ms)
        if role == "tool":
            call = self._calls.get(self.parents[key] or "", key)
            name = str((author or {}).get("name") or "tool")
            return ToolResultMessage(
                tool_call_id=call, tool_name=name, content=shown, is_error=False, timestamp_ms=at_ms
            )
        if role != "assistant":
            return f"{role!r} is nobody whose words a transcript has"
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
        called = isinstance(recipient, str) and recipient not in ("", "all")
        if called:
            words = "\n".join(block.text for block in spoken if isinstance(block, Text))
            spoken = [ToolCall(id=key, name=str(recipient), arguments={"input": words})]
            self._calls[key] = key
        return AssistantMessage(
            content=tuple(spoken),
            api="import",
            provider="chatgpt",
            model=model,
            usage=None,
            stop_reason="toolUse" if called else "stop",
            timestamp_ms=at_ms,
        )

    def _blocks(self, content: object) -> tuple[Text | Image | Thinking, ...]:
        if not isinstance(content, dict):
            return ()
        if content.get("content_type") == "thoughts" and isinstance(content.get("thoughts"), list):
            thoughts = (each for each in content["thoughts"] if isinstance(each, dict))
            words = "\n\n".join(str(each.get("content") or each.get("summary") or "") for each in thoughts)
            return (Thinking(thinking=words),) if words.strip() else ()
        parts = content.get("parts")
        if not isinstance(parts, list):
            parts = [content.get("text") or content.get("result") or ""]
        blocks: list[Text | Image | Thinking] = []
        for part in parts:
            if isinstance(part, str):
                words = part
            elif isinstance(part, dict) and isinstance(part.get("text"), str):
                words = part["text"]
            else:
                self._attach(part, blocks)
                continue
            if words.strip():
                blocks.append(Text(text=words))
        return tuple(blocks)

    def _attach(self, part: object, blocks: list[Text | Image | Thinking]) -> None:
        """Counts what is no text, and shows it where it is a picture that the export holds."""
        self.attachments += 1
        pointer = part.get("asset_pointer") if isinstance(part, dict) else None
        found = self._pictures.of(str(pointer or "").rpartition("/")[2])
        if isinstance(found, Image):
            blocks.append(found)
            return
        blocks.append(Text(text=f"[an attachment that was not carried: {found}]"))
        self.skipped.append(Skipped(kind="attachments", name=self._name, reason=found))

    def _skip(self, reason: str) -> None:
        self.skipped.append(Skipped(kind="messages", name=self._name, reason=reason))


def _parent(node: Mapping[str, Any], mapping: Mapping[str, Any]) -> str | None:
    parent = node.get("parent")
    return parent if isinstance(parent, str) and parent in mapping else None


def _ms(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 253_402_300_000:
        return None
    return int(seconds * 1000)
