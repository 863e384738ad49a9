"""A conversation as the page shows it: running turns, and the entries of a transcript."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from typing import Literal, TypeAlias

from nacre.bridges.answering.turns import TurnRunner
from nacre.closing import stop_tasks
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.commands.conversation.history import moment_of
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    CompactionEnded,
    Event,
    FallbackAnswered,
    FlushEnded,
    ModelRetried,
    ModelSlow,
    ReplyReady,
    SessionReset,
    TextStreamed,
    ToolEnded,
    ToolProgressed,
    ToolStarted,
    TurnFailed,
    Warned,
)
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.silence import without_token
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY
from nacre.sessions.contracts.messages import AssistantMessage, ToolResultMessage, UserMessage, message_text
from nacre.sessions.entries.entries import BranchSummary, Compaction, CustomMessage, Entry

MOST_RESULT_CHARS = 20_000
"""How much of a tool result is shown."""
_KEPT_TURNS = 50
_PAUSE_SECONDS = 0.08
"""The least time between two updates of a turn: each update contains the whole answer."""
_FLUSHES = {
    "written": "Notes saved to {path}",
    "proposed": "Notes for {path} wait for you",
    "nothing": "Nothing new to note down",
    "fallback": "An extract was saved to {path}, without the model",
    "failed": "Notes could not be saved to {path}",
}
ItemKind: TypeAlias = Literal["person", "assistant", "tool", "flush", "compaction", "note"]


@dataclass(kw_only=True)
class ToolLine:
    name: str
    arguments: str
    summary: str = ""
    result: str = ""
    state: str = "running"


@dataclass(kw_only=True)
class LiveTurn:
    """A turn while it runs. `notes` are sentences; `approvals` are calls that wait for the owner, by ID."""

    id: str
    key: str
    message: str
    files: tuple[str, ...] = ()
    text: str = ""
    tools: dict[str, ToolLine] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    approvals: dict[str, str] = field(default_factory=dict)
    has_failed: bool = False
    is_done: bool = False
    event_count: int = 0

    def apply(self, event: Event) -> None:
        self.event_count += 1
        match event:
            case TextStreamed(text=text):
                self.text += text
            case AnswerDiscarded(problem=problem):
                self.text = ""
                self.notes.append(problem)
            case ReplyReady(reply=reply):
                self.text = reply.text
            case TurnFailed(error=error):
                self.has_failed = True
                self.notes.append(str(error))
            case ToolStarted():
                # Text before a call is in the transcript; here only the text after it is shown.
                self.tools[event.call_id] = ToolLine(name=event.tool_name, arguments=json_of(event.arguments))
            case ToolProgressed() if event.call_id in self.tools:
                self.tools[event.call_id].summary = event.text
            case ToolEnded() if event.call_id in self.tools:
                line = self.tools[event.call_id]
                line.summary, line.result = event.summary, event.result[:MOST_RESULT_CHARS]
                line.state = "failed" if event.is_error else "done"
            case ApprovalAsked():
                self.approvals[event.approval_id] = f"{event.call}\n{event.why}"
            case _:
                self.notes.extend(_event_notes(event))


class LiveTurns:
    """The turns that the page has started: those that run, and the latest ones that ended."""

    def __init__(self, runner: TurnRunner) -> None:
        self.runner = runner
        self._turns: dict[str, tuple[LiveTurn, asyncio.Condition]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, turn: LiveTurn, agent: Agent, inbound: Inbound) -> None:
        """Starts a turn, which continues even if nobody watches it."""
        for old in [each for each, (known, _) in self._turns.items() if known.is_done][:-_KEPT_TURNS]:
            del self._turns[old]
        self._turns[turn.id] = turn, asyncio.Condition()
        task = asyncio.create_task(
            self._run(turn, self.runner.stream(agent, inbound)), name=f"page-turn-{turn.id}"
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def get(self, turn_id: str) -> LiveTurn | None:
        found = self._turns.get(turn_id)
        return found[0] if found else None

    def running(self, key: str) -> list[LiveTurn]:
        """The turns of a session that run or wait."""
        return [turn for turn, _ in self._turns.values() if turn.key == key and not turn.is_done]

    async def changes(self, turn_id: str) -> AsyncIterator[LiveTurn]:
        """Yields the turn now and after each change until it has ended. Late watchers get the whole turn."""
        turn, changed = self._turns[turn_id]
        while True:
            # What happens while the caller sends this state is not part of it.
            was_done, seen = turn.is_done, turn.event_count
            yield turn
            if was_done:
                return
            async with changed:
                while turn.event_count == seen and not turn.is_done:
                    await changed.wait()
            if not turn.is_done:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def close(self) -> None:
        await stop_tasks(*self._tasks)

    async def _run(self, turn: LiveTurn, events: AsyncGenerator[Event, None]) -> None:
        _, changed = self._turns[turn.id]
        try:
            async for event in events:
                turn.apply(event)
                async with changed:
                    changed.notify_all()
        finally:
            await events.aclose()
            turn.is_done = True
            async with changed:
                changed.notify_all()


def json_of(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _event_notes(event: Event) -> list[str]:
    match event:
        case FlushEnded(status="written" | "fallback", path=path):
            return [f"Notes were saved to {path}."]
        case FlushEnded(status="proposed", path=path):
            return [f"Notes for {path} wait for your review."]
        case FlushEnded(problem=problem) if problem:
            return [problem]
        case CompactionEnded(problem=problem) if problem:
            return [problem]
        case CompactionEnded():
            return [
                f"Older words were replaced by a summary: {event.tokens_before} tokens before, about "
                f"{event.tokens_after} now. Every word is kept."
            ]
        case SessionReset():
            return ["The session had ended by itself; this is a fresh one. /resume goes back."]
        case ModelSlow():
            return [f"{event.model_name} has sent nothing for {event.silent_seconds:.0f} seconds."]
        case ModelRetried():
            return [f"{event.problem} It is asked again in {event.delay_seconds:.0f} seconds."]
        case FallbackAnswered():
            return [f"{event.model_name} answered instead of {event.first_model_name}: {event.problem}"]
        case Warned(message=message):
            return [message]
        case _:
            return []


class TranscriptItem(Record):
    """An item of a transcript. `text` is Markdown for messages and plain text for marks."""

    entry_id: str
    kind: ItemKind
    at: datetime
    text: str = ""
    sender: str = ""
    tool: ToolLine | None = None


def items_of(branch: Sequence[Entry], zone: tzinfo | None) -> tuple[TranscriptItem, ...]:
    """Everything that is shown of a branch, in order."""
    results = {
        entry.body.tool_call_id: entry.body for entry in branch if isinstance(entry.body, ToolResultMessage)
    }
    return tuple(item for entry in branch for item in _items(entry, results, zone))


def _items(
    entry: Entry, results: dict[str, ToolResultMessage], zone: tzinfo | None
) -> Iterator[TranscriptItem]:
    at, body = moment_of(entry).astimezone(zone), entry.body

    def item(kind: ItemKind, text: str, *, sender: str = "", tool: ToolLine | None = None) -> TranscriptItem:
        return TranscriptItem(entry_id=entry.id, kind=kind, at=at, text=text, sender=sender, tool=tool)

    match body:
        case UserMessage():
            yield item("person", message_text(body), sender=body.sender)
        case AssistantMessage():
            if text := without_token(message_text(body)).strip():
                yield item("assistant", text)
            for call in body.tool_calls:
                arguments = call.invalid_arguments or json_of(dict(call.arguments))
                about = next((value for value in call.arguments.values() if isinstance(value, str)), "")
                yield item("tool", "", tool=_tool(call.name, arguments, about, results.get(call.id)))
            if body.stop_reason in ("error", "aborted"):
                yield item("note", body.error_message or "The answer was interrupted.")
        case Compaction():
            yield item("compaction", body.summary)
        case BranchSummary():
            yield item("note", body.summary)
        case CustomMessage(display=True):
            yield item("note", body.content)
        case _ if (flush := entry.custom_data(FLUSH_ENTRY)) is not None:
            status, path = str(flush.get("status", "")), str(flush.get("path") or "the notes")
            yield item("flush", _FLUSHES.get(status, "A flush: {path}").format(path=path))
        case _:
            return


def _tool(name: str, arguments: str, about: str, result: ToolResultMessage | None) -> ToolLine:
    if result is None:
        return ToolLine(name=name, arguments=arguments, state="unfinished")
    text = message_text(result)
    first = next((line for line in text.splitlines() if line.strip()), "")
    return ToolLine(
        name=name,
        arguments=arguments,
        summary=(about if first.startswith(("{", "[")) else first)[:100],  # JSON is for models
        result=text[:MOST_RESULT_CHARS],
        state="failed" if result.is_error else "done",
    )
