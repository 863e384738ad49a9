"""What happened in each turn of a session, from the transcript, the usage files and the ledger."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Literal, TypeAlias

from nacre.record import Record
from nacre.runtime.models.spending import Spent, spending
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY, FLUSH_MESSAGE_ENTRY
from nacre.runtime.settings.config import Config
from nacre.runtime.settings.spending import spending_folder
from nacre.runtime.tools.session_sources import SUB_AGENT_ENTRY
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.keys import key_kind
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_from_json,
    message_text,
)
from nacre.sessions.disk.json_text import timestamp_ms
from nacre.sessions.entries.entries import Compaction, Entry
from nacre.sessions.stores.store import SessionStore
from nacre.sessions.upkeep.stored_session import StoredSession

StepKind: TypeAlias = Literal[
    "inbound", "model", "tool", "sub_agent", "answer", "flush", "compaction", "delivery"
]


class Step(Record):
    """One step of a turn, and the steps within it.

    `at_ms` is its end in milliseconds since the epoch, `took_ms` its duration, 0 if unknown; for an
    inbound message, it is the time from the bridge to the turn. `name` is the model, the tool, the speaker or
    the channel; `text` is what was said, given or reported; `message_id` is the `inbound_id` of a
    message. An `answer` is a reply that a hand-off brought.
    """

    kind: StepKind
    name: str = ""
    text: str = ""
    at_ms: int = 0
    took_ms: int = 0
    first_token_ms: int = 0
    usage: Usage | None = None
    is_error: bool = False
    message_id: str = ""
    call_id: str = ""
    steps: tuple[Step, ...] = field(default_factory=tuple)


class TurnTrace(Record):
    """The steps of one turn, in the order in which they were stored."""

    steps: tuple[Step, ...]

    @property
    def started_ms(self) -> int:
        return self.steps[0].at_ms if self.steps else 0

    @property
    def took_ms(self) -> int:
        """From the message to the last stored step."""
        return max(0, max((step.at_ms for step in self.steps), default=0) - self.started_ms)

    @property
    def usage(self) -> Usage:
        """The usage of all model calls of the turn, including those of sub-agents and notes."""
        total = Usage()
        for step in every_step(self.steps):
            total += step.usage or Usage()
        return total


def every_step(steps: Sequence[Step]) -> Iterator[Step]:
    """The steps and those within them."""
    for step in steps:
        yield step
        yield from every_step(step.steps)


def turns_of(branch: Sequence[Entry], *, spent: Collection[Spent] = ()) -> list[TurnTrace]:
    """The turns of a branch, oldest first.

    A message that arrived while tools ran belongs to the running turn. `spent` are the calls of the usage
    files: those for a summary are found by their time, because they are in no transcript.
    """
    reader = _TurnReader(spent)
    for entry in branch:
        reader.take(entry)
    return reader.turns()


async def last_turns(
    config: Config, store: SessionStore, session: StoredSession, *, last: int
) -> list[TurnTrace]:
    """The last turns of a session, with what its sub-agents did below their calls.

    Raises:
        SessionError: the transcript or the usage files cannot be read.
    """
    found = await asyncio.to_thread(lambda: list(spending(spending_folder(config))))
    spent = [each for each in found if each.agent_id == config.agent_id]
    return await _last_turns(store, session, spent, last=last)


async def _last_turns(
    store: SessionStore, session: StoredSession, spent: Collection[Spent], *, last: int
) -> list[TurnTrace]:
    turns = turns_of((await store.stored(session)).branch, spent=spent)[-last:]
    if not any(step.kind == "tool" for turn in turns for step in turn.steps):
        return turns
    below: dict[str, tuple[Step, ...]] = {}
    for other in await store.sessions(with_earlier=True):
        if key_kind(other.key) != "subagent" or other.active_at_ms < turns[0].started_ms:
            continue
        try:
            entries = (await store.stored(other)).entries
        except SessionError:
            continue
        found = (data for entry in entries if (data := entry.custom_data(SUB_AGENT_ENTRY)) is not None)
        called_by = next(found, {})
        if called_by.get("sessionId") == session.session_id:
            of_task = await _last_turns(store, other, spent, last=1)
            below[str(called_by.get("callId") or "")] = of_task[0].steps if of_task else ()
    return [
        TurnTrace(
            steps=tuple(
                replace(step, kind="sub_agent", steps=below[step.call_id]) if step.call_id in below else step
                for step in turn.steps
            )
        )
        for turn in turns
    ]


class _TurnReader:
    def __init__(self, spent: Collection[Spent]) -> None:
        self._spent = [each for each in spent if each.purpose == "compaction"]
        self._turns: list[list[Step]] = []
        self._notes: list[Step] = []
        self._calls: dict[str, ToolCall] = {}
        self._before_ms = 0
        self._is_over = True

    def turns(self) -> list[TurnTrace]:
        return [TurnTrace(steps=tuple(steps)) for steps in self._turns]

    def take(self, entry: Entry) -> None:
        body = entry.body
        if isinstance(body, Message):
            if isinstance(body, UserMessage) and self._is_over:
                self._turns.append([])
            self._add(self._step(body))
            self._is_over = not isinstance(body, ToolResultMessage) and not (
                isinstance(body, AssistantMessage) and body.tool_calls
            )
        elif isinstance(body, Compaction):
            at_ms = timestamp_ms(entry.timestamp)
            calls = tuple(
                Step(kind="model", name=each.model, text="summary", at_ms=each.at_ms, usage=each.usage)
                for each in self._spent
                if self._before_ms <= each.at_ms <= at_ms
            )
            text = f"{body.tokens_before:,} tokens before"
            took_ms = max(0, at_ms - self._before_ms)
            self._add(Step(kind="compaction", text=text, at_ms=at_ms, took_ms=took_ms, steps=calls))
        elif (note := entry.custom_data(FLUSH_MESSAGE_ENTRY)) is not None:
            message = stored_message(note)
            if message is not None:
                step = self._step(message)
                self._notes += [step] if step.kind != "inbound" else []
                self._before_ms = step.at_ms
        elif (flush := entry.custom_data(FLUSH_ENTRY)) is not None:
            status, path, problem = (str(flush.get(name) or "") for name in ("status", "path", "problem"))
            steps, self._notes = tuple(self._notes), []
            text = " ".join(filter(None, (status, path, problem)))
            at_ms, is_error = timestamp_ms(entry.timestamp), status == "failed"
            self._add(Step(kind="flush", text=text, at_ms=at_ms, is_error=is_error, steps=steps))

    def _add(self, step: Step) -> None:
        if not self._turns:
            self._turns.append([])
        self._turns[-1].append(step)
        self._before_ms = step.at_ms

    def _step(self, message: Message) -> Step:
        at_ms, text = message.timestamp_ms, message_text(message)
        if isinstance(message, UserMessage):
            who = message.speaker or message.sender
            return Step(kind="inbound", name=who, text=text, at_ms=at_ms, message_id=message.inbound_id)
        if isinstance(message, AssistantMessage):
            self._calls.update({call.id: call for call in message.tool_calls})
            is_handed = not message.model and message.stop_reason == "stop"
            return Step(
                kind="answer" if is_handed else "model",
                name="/".join(filter(None, (message.provider, message.model))),
                text=message.error_message or text,
                at_ms=at_ms,
                took_ms=message.took_ms or max(0, at_ms - self._before_ms),
                first_token_ms=message.first_token_ms,
                usage=message.usage,
                is_error=message.is_broken_off,
            )
        call = self._calls.get(message.tool_call_id)
        arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str) if call else ""
        return Step(
            kind="tool",
            name=message.tool_name,
            text=f"{arguments} {text}" if message.is_error else arguments,
            at_ms=at_ms,
            took_ms=max(0, at_ms - self._before_ms),
            is_error=message.is_error,
            call_id=message.tool_call_id,
        )


def stored_message(raw: Mapping[str, Any]) -> Message | None:
    """The message in a program's record; `None` if there is none."""
    try:
        return message_from_json(raw)
    except ValueError:
        return None
