"""ChatGPT's data export: `conversations.json`, or shards `conversations-000.json`, a tree a conversation.

A tree's `mapping` has a node for each message; `current_node` ends the branch that was shown. There is no
list of memories: what the model was given of them stands in messages of the type `model_editable_context`,
and the owner's instructions in `user_editable_context`; the newest of each becomes a note. Source: what
people say of their exports, since OpenAI publishes no description. Pure, given the files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from nacre.extensions.importers.sources.arrays import ArrayBroken, elements
from nacre.extensions.importers.sources.contents import Conversation, Files, Kind, Note, Piece, Said, Skipped
from nacre.extensions.importers.sources.pictures import Pictures
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
_NO_WORDS = {
    "model_editable_context": "the newest of them is a note",
    "user_editable_context": "the newest of them is a note",
    "reasoning_recap": "the program wrote it",
}
"""Sorts of messages that nobody said, and why they are not carried."""


def read_chatgpt(files: Files) -> Iterator[Piece]:
    """Conversations of all shards, then what they tell of memories and instructions."""
    names = files.names()
    pictures = Pictures(files, tuple(name for name in names if _PICTURE.search(name)))
    told = _Told()
    for name in names:
        if _SHARD.search(name):
            yield from _shard(files, name, pictures, told)
        elif not _PICTURE.search(name):
            yield Skipped(kind="files", name=name, reason="nothing in it is carried", file=name)
    for name in pictures.unused():
        yield Skipped(kind="files", name=name, reason="no message shows it", file=name)
    yield from told.notes()


def _shard(files: Files, name: str, pictures: Pictures, told: _Told) -> Iterator[Piece]:
    with files.opened(name) as file:
        try:
            for number, raw in enumerate(elements(file), 1):
                where = f"{name} #{number}"
                identity = raw.get("conversation_id") or raw.get("id") if isinstance(raw, dict) else None
                if not identity or not isinstance(raw.get("mapping"), dict):
                    reason = "it has no id or no messages"
                    yield Skipped(kind="sessions", name=where, reason=reason, file=name)
                else:
                    told.listen(raw, name)
                    yield _conversation(raw, str(identity), name, pictures)
        except ArrayBroken as error:
            reason = f"the file cannot be read on from there: {error}"
            yield Skipped(kind="sessions", name=f"the rest of {name}", reason=reason, file=name)


def _conversation(raw: Mapping[str, Any], identity: str, file: str, pictures: Pictures) -> Conversation:
    mapping = {key: node for key, node in raw["mapping"].items() if isinstance(node, dict)}
    messages = [key for key, node in mapping.items() if isinstance(node.get("message"), dict)]
    began_ms = _ms(raw.get("create_time")) or 0
    title = str(raw.get("title") or "")
    made = _Nodes(mapping, began_ms, title or identity, pictures, file)
    leaf = raw.get("current_node")
    return Conversation(
        id=identity,
        title=title,
        began_ms=began_ms or min((said.at_ms for said in made.said), default=0),
        said=made.said,
        leaf_id=leaf if isinstance(leaf, str) else (made.said[-1].id if made.said else None),
        messages=len(messages),
        file=file,
        attachments=made.attachments,
        shows=made.shows,
        skipped=made.skipped,
        parents=made.parents,
    )


class _Told:
    """The newest that conversations tell of what ChatGPT was to know about its owner."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[int, str, str]] = {}

    def listen(self, raw: Mapping[str, Any], file: str) -> None:
        """Looks through the messages of a conversation."""
        began_ms = _ms(raw.get("create_time")) or 0
        for node in raw["mapping"].values():
            message = node.get("message") if isinstance(node, dict) else None
            content = message.get("content") if isinstance(message, dict) else None
            if not isinstance(message, dict) or not isinstance(content, dict):
                continue
            at_ms = _ms(message.get("create_time")) or began_ms
            if content.get("content_type") == "model_editable_context":
                self._keep("memories", at_ms, str(content.get("model_set_context") or ""), file)
            if content.get("content_type") == "user_editable_context":
                parts = (content.get("user_profile"), content.get("user_instructions"))
                words = "\n\n".join(str(part).strip() for part in parts if part)
                self._keep("custom-instructions", at_ms, words, file)

    def notes(self) -> Iterator[Note]:
        """A note for each sort."""
        titles = {
            "memories": ("What ChatGPT remembered", False),
            "custom-instructions": ("Custom instructions for ChatGPT", True),
        }
        for name, (title, is_owners) in titles.items():
            if name in self._newest:
                _, words, file = self._newest[name]
                data = f"# {title}\n\n{words}\n".encode("utf-8", "replace")
                path = f"memory/imports/chatgpt/{name}.md"
                yield Note(path=path, data=data, file=file, is_owners=is_owners)

    def _keep(self, name: str, at_ms: int, words: str, file: str) -> None:
        if words.strip() and at_ms >= self._newest.get(name, (0, "", ""))[0]:
            self._newest[name] = (at_ms, words.strip(), file)


class _Nodes:
    """The nodes of one tree, each behind its parent."""

    def __init__(
        self,
        mapping: Mapping[str, Mapping[str, Any]],
        began_ms: int,
        name: str,
        pictures: Pictures,
        file: str,
    ) -> None:
        self.said: list[Said] = []
        self.skipped: list[Skipped] = []
        self.shows: list[str] = []
        self.attachments = 0
        self.parents = {key: _parent(node, mapping) for key, node in mapping.items()}
        self._name, self._pictures, self._file = name, pictures, file
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
            self.said.append(Said(id=key, parent_id=self.parents[key], at_ms=at_ms, body=body, message=key))
        return at_ms

    def _body(self, key: str, message: Mapping[str, Any], at_ms: int) -> KnownBody | str:
        """What an entry says, or why there is none."""
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
        if isinstance(found, str):
            blocks.append(Text(text=f"[an attachment that was not carried: {found}]"))
            self._skip(found, "attachments")
        else:
            name, image = found
            self.shows.append(name)
            blocks.append(image)

    def _documents(self, listed: object) -> Iterator[Text]:
        """Files that a message names beside its words, each as a line; pictures stand in the words."""
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and not str(each.get("mime_type") or "").startswith("image/"):
                self.attachments += 1
                self._skip("a document stays in the export", "attachments")
                yield Text(text=f"[a document that was not carried: {each.get('name') or 'without a name'}]")

    def _skip(self, reason: str, kind: Kind = "messages") -> None:
        self.skipped.append(Skipped(kind=kind, name=self._name, reason=reason, file=self._file))


def _parent(node: Mapping[str, Any], mapping: Mapping[str, Any]) -> str | None:
    parent = node.get("parent")
    return parent if isinstance(parent, str) and parent in mapping else None


def _ms(seconds: object) -> int | None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 253_402_300_000:
        return None
    return int(seconds * 1000)
