"""Sends the events of running turns from a worker to the gateway that requested them, by `NOTIFY`.

Each turn is a text of JSON lines, cut into payloads with their positions. Nothing is stored or repeated: a
gateway that misses a payload gets the answer from the outcome.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import groupby
from typing import get_args

from nacre.extensions.postgres.workers.turn_rows import TakenTurn, TurnKey, TurnRows
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    Event,
    MessageJoined,
    ReplyReady,
    Silence,
    TextStreamed,
    ToolEnded,
    TurnFailed,
)

GATHER_SECONDS = 0.1
"""The least time between two notifications of a worker, unless a turn begins to speak."""
MOST_PAYLOAD_CHARS = 7_900
"""PostgreSQL takes payloads below 8,000 bytes; these are ASCII."""
MOST_RESULT_CHARS = 20_000
"""How much of a tool's result is sent."""
CONTINUED = "Another worker continues the answer."
_KINDS = {kind.__name__: kind for kind in get_args(Event)}
_IN_ROWS = ApprovalAsked | MessageJoined | ReplyReady | Silence | TurnFailed
"""The events that must arrive."""


class SentStream:
    """The events of a turn that a worker runs."""

    def __init__(self, turn: TakenTurn) -> None:
        self.channel = turn.stream
        self._place = [*turn.key, turn.fence]
        self.events: list[Event] = []
        """The events that `take` has not returned yet."""
        self.sent_chars = 0

    def take(self) -> Iterator[str]:
        """The payloads with the events since the last call."""
        events, self.events = self.events, []
        text = "".join(_lines(events))
        while text:
            head = json.dumps([*self._place, self.sent_chars]) + "\n"
            piece, text = text[: MOST_PAYLOAD_CHARS - len(head)], text[MOST_PAYLOAD_CHARS - len(head) :]
            self.sent_chars += len(piece)
            yield head + piece


class Sender:
    """Sends the events of all turns of a worker: the first ones of a turn at once, others together."""

    def __init__(self, rows: TurnRows) -> None:
        self._rows = rows
        self._waiting: dict[SentStream, None] = {}
        self._due_at, self._sent_at = math.inf, -math.inf
        self._sooner = asyncio.Event()
        self._sending = asyncio.Lock()

    def put(self, stream: SentStream, event: Event) -> None:
        """Sends an event soon, if anybody listens."""
        if not stream.channel or isinstance(event, _IN_ROWS):
            return
        begins = not stream.sent_chars and stream not in self._waiting
        stream.events.append(event)
        self._waiting[stream] = None
        now = asyncio.get_running_loop().time()
        due_at = now if begins else max(now, self._sent_at + GATHER_SECONDS)
        if due_at < self._due_at:
            self._due_at = due_at
            self._sooner.set()

    async def rest(self, stream: SentStream) -> list[str]:
        """The last payloads of an ended turn, to be sent with its outcome, after all others."""
        self._waiting.pop(stream, None)
        async with self._sending:
            return [*stream.take()]

    async def run(self) -> None:
        """Sends until it is cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            while (left := self._due_at - loop.time()) > 0:
                try:
                    await asyncio.wait_for(self._sooner.wait(), None if left == math.inf else left)
                except TimeoutError:
                    break
                self._sooner.clear()
            streams, self._waiting = self._waiting, {}
            self._due_at, self._sent_at = math.inf, loop.time()
            payloads = [(each.channel, payload) for each in streams for payload in each.take()]
            if not payloads:
                continue
            async with self._sending:
                await self._rows.notify(payloads)


class HeardStream:
    """The events of a turn that a worker runs, as its gateway hears them."""

    def __init__(self) -> None:
        self._fence = 0
        self._text = ""
        self._has_gap = False
        self.heard_chars = 0

    def read(self, fence: int, begin: int, piece: str) -> Iterator[Event]:
        """The events that a payload completes. After a gap there are none until another worker begins."""
        if fence > self._fence:
            if self.heard_chars:
                yield AnswerDiscarded(problem=CONTINUED)
            self._fence, self._text, self._has_gap, self.heard_chars = fence, "", False, 0
        if fence < self._fence or begin < self.heard_chars:
            return
        self._has_gap |= begin > self.heard_chars
        if self._has_gap:
            return
        self.heard_chars += len(piece)
        *lines, self._text = (self._text + piece).split("\n")
        for line in lines:
            if (event := _event(line)) is not None:
                yield event


def parse_payload(payload: str) -> tuple[TurnKey, int, int, str] | None:
    """The turn, its fence, and where a piece of its text begins; `None` for other payloads."""
    head, found, piece = payload.partition("\n")
    if not found:
        return None
    agent_id, turn_id, fence, begin = json.loads(head)
    return (agent_id, turn_id), fence, begin, piece


def _lines(events: list[Event]) -> Iterator[str]:
    for is_text, several in groupby(events, lambda event: isinstance(event, TextStreamed)):
        if is_text:
            text = "".join(event.text for event in several if isinstance(event, TextStreamed))
            yield _line(TextStreamed(text=text))
        else:
            yield from map(_line, several)


def _line(event: Event) -> str:
    if isinstance(event, ToolEnded):
        event = replace(event, result=event.result[:MOST_RESULT_CHARS], error=None)
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    return json.dumps([type(event).__name__, values], default=_plain) + "\n"


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _event(line: str) -> Event | None:
    """Parses an event; `None` for one of another version."""
    kind, values = json.loads(line)
    try:
        event: Event = _KINDS[kind](**values)
    except (KeyError, TypeError):
        return None
    return event
