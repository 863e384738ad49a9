"""The parts of the next request with their sizes, and what the provider had in its cache.

Nothing is flushed, compacted or written: this is the request as it would be before the next message.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from nacre.record import Record
from nacre.runtime.commands.conversation.history import last_usage_of
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.model import SystemPrompt, ToolSpec
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolResultMessage,
    Usage,
    message_text,
)
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.view.sent_view import estimate_message_tokens


class ContextPart(Record):
    """One part of a request. `tokens` is an estimate; `text` is what the model reads.

    `is_cached` means that, according to its count, the provider read all of it from its cache for the last
    reply.
    """

    name: str
    tokens: int
    text: str
    is_cached: bool = False


class ContextView(Record):
    """A request in the order in which providers cache it: tools, system prompt, history.

    `last_usage` is that of the last reply, or `None` if no provider reported it.
    """

    key: str
    model_name: str
    budget: ContextBudget
    parts: tuple[ContextPart, ...]
    last_usage: Usage | None

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)


async def context_of(turn: Turn) -> ContextView:
    """The current context of a turn's session. Raises `SessionError` if the disk refuses."""
    session, context = turn.session, await turn.context()
    system, tools = await context.system(), context.specs
    usage = last_usage_of(session.branch)
    count = turn.parts.count_tokens
    parts = await asyncio.to_thread(lambda: list(_parts(session, system, tools, count)))
    return ContextView(
        key=session.key,
        model_name=(await turn.parts.models.current()).model.name,
        budget=(await turn.window()).budget,
        parts=tuple(_marked(parts, usage.cache_read_tokens if usage else 0)),
        last_usage=usage,
    )


def _parts(
    session: OpenSession, system: SystemPrompt, tools: Sequence[ToolSpec], count: Callable[[str], int]
) -> Iterator[ContextPart]:
    texts = [json.dumps([tool.name, tool.description, dict(tool.parameters)], indent=1) for tool in tools]
    if texts:
        text = "\n".join(texts)
        yield ContextPart(name=f"tools ({len(texts)})", tokens=sum(map(count, texts)), text=text)
    names = session.policy.context_files()
    heading = re.compile(rf"^## ({'|'.join(map(re.escape, names))})\n\n", re.MULTILINE) if names else None
    found = list(heading.finditer(system.stable)) if heading else []
    starts = [match.start() for match in found]
    head = system.stable[: starts[0]] if starts else system.stable
    yield ContextPart(name="instructions", tokens=count(head), text=head)
    for match, end in zip(found, [*starts[1:], len(system.stable)], strict=True):
        text = system.stable[match.start() : end]
        yield ContextPart(name=match[1], tokens=count(text), text=text)
    if system.changing:
        yield ContextPart(name="day and chat", tokens=count(system.changing), text=system.changing)
    for name, run in groupby(session.view.messages(), key=_Kinds(session.branch).of):
        messages = list(run)
        tokens = sum(estimate_message_tokens(message, count) for message in messages)
        label = name if len(messages) == 1 or name == "summary" else f"{name} ({len(messages)})"
        yield ContextPart(name=label, tokens=tokens, text="\n\n".join(map(_message_text, messages)))


class _Kinds:
    """Recognizes messages that are not part of the conversation."""

    def __init__(self, branch: Sequence[Entry]) -> None:
        self._summaries = [entry.body.summary for entry in branch if isinstance(entry.body, Compaction)]
        self._notes = [entry.body.content for entry in branch if isinstance(entry.body, CustomMessage)]

    def of(self, message: Message) -> str:
        """The kind of a message, in words."""
        if isinstance(message, ToolResultMessage):
            return "tool results"
        text = message_text(message)
        if not isinstance(message, AssistantMessage):
            if any(summary and summary in text for summary in self._summaries[-1:]):
                return "summary"
            if any(note and note in text for note in self._notes):
                return "notes added"
        return "conversation"


def _message_text(message: Message) -> str:
    text = message_text(message)
    if isinstance(message, ToolResultMessage):
        return f"[Result of {message.tool_name}] {text}"
    if not isinstance(message, AssistantMessage):
        return f"[User] {text}"
    calls = [f"→ {call.name} {json.dumps(dict(call.arguments))}" for call in message.tool_calls]
    return "\n".join([f"[Assistant] {text}", *calls])


def _marked(parts: Sequence[ContextPart], cached_tokens: int) -> Iterator[ContextPart]:
    """Marks cached parts: providers cache a request from its beginning up to a number of tokens."""
    end = 0
    for part in parts:
        end += part.tokens
        yield ContextPart(
            name=part.name, tokens=part.tokens, text=part.text, is_cached=0 < end <= cached_tokens
        )
