"""A turn while it runs, as the page shows it. Whoever looks in late sees all of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field

from nacre.runtime.agent.agent import Agent
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

MOST_RESULT_CHARS = 20_000
"""So much of a tool's result is shown."""
_KEPT_TURNS = 50
_PAUSE_SECONDS = 0.08
"""The least time between two pictures of a turn: a screen shows no more, and each is a whole answer."""


@dataclass(kw_only=True)
class ToolLine:
    """A tool call as one line that opens."""

    name: str
    asked: str
    summary: str = ""
    result: str = ""
    state: str = "running"


@dataclass(kw_only=True)
class LiveTurn:
    """What was heard of a turn. `notes` are sentences, `approval_id` a call that waits for the owner."""

    id: str
    key: str
    said: str
    files: tuple[str, ...] = ()
    text: str = ""
    tools: dict[str, ToolLine] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    approvals: dict[str, str] = field(default_factory=dict)
    has_failed: bool = False
    is_done: bool = False

    def hear(self, event: Event) -> None:
        """Takes what happened."""
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
            case _:
                self._hear_tools(event)
                self.notes.extend(_told(event))

    def _hear_tools(self, event: Event) -> None:
        match event:
            case ToolStarted():
                # What is said between calls belongs before them; the transcript has it, the answer follows.
                self.tools[event.call_id] = ToolLine(name=event.tool_name, asked=json_of(event.arguments))
            case ToolProgressed() if event.call_id in self.tools:
                self.tools[event.call_id].summary = event.text
            case ToolEnded() if event.call_id in self.tools:
                line = self.tools[event.call_id]
                line.summary, line.result = event.summary, event.result[:MOST_RESULT_CHARS]
                line.state = "failed" if event.is_error else "done"
            case ApprovalAsked():
                self.approvals[event.approval_id] = (
                    f"{event.tool_name} {json_of(event.arguments)}. {event.why}"
                )
            case _:
                pass


class LiveTurns:
    """The turns that this process runs for the page, and the latest that ended."""

    def __init__(self) -> None:
        self._turns: dict[str, tuple[LiveTurn, asyncio.Condition]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, turn: LiveTurn, agent: Agent, inbound: Inbound) -> None:
        """Starts the turn of a message; it goes on when nobody looks."""
        for old in [each for each, (known, _) in self._turns.items() if known.is_done][:-_KEPT_TURNS]:
            del self._turns[old]
        self._turns[turn.id] = turn, asyncio.Condition()
        task = asyncio.create_task(self._run(turn, agent.stream(inbound)), name=f"page-turn-{turn.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def of(self, turn_id: str) -> LiveTurn | None:
        """The turn of an id."""
        found = self._turns.get(turn_id)
        return found[0] if found else None

    def running(self, key: str) -> list[LiveTurn]:
        """The turns of a session that run or wait."""
        return [turn for turn, _ in self._turns.values() if turn.key == key and not turn.is_done]

    async def changes(self, turn_id: str) -> AsyncIterator[LiveTurn]:
        """The turn now, and again after each change, until it has ended."""
        turn, changed = self._turns[turn_id]
        while True:
            yield turn
            if turn.is_done:
                return
            async with changed:
                await changed.wait()
            if not turn.is_done:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def close(self) -> None:
        """Stops what runs, and waits for it."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, turn: LiveTurn, events: AsyncGenerator[Event, None]) -> None:
        _, changed = self._turns[turn.id]
        try:
            async for event in events:
                turn.hear(event)
                async with changed:
                    changed.notify_all()
        finally:
            await events.aclose()
            turn.is_done = True
            async with changed:
                changed.notify_all()


def json_of(value: object) -> str:
    """Arguments as one would read them."""
    return json.dumps(value, ensure_ascii=False, indent=1, default=str)


def _told(event: Event) -> list[str]:
    """What a line among the words says of an event."""
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
            return [f"{event.model_name} answered in the place of {event.first_model_name}: {event.problem}"]
        case Warned(message=message):
            return [message]
        case _:
            return []
