"""Splits replies into parts, and sends the parts in the ledger for one bridge: in order within a chat, and
once, or with a mark if that is unclear.

If the server refuses one answer only, that answer is paused and later ones are sent before it.
"""

from __future__ import annotations

import asyncio
import logging
import re
import unicodedata
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from nacre.bridges.contracts.bridge import Bridge, Capabilities
from nacre.bridges.contracts.errors import DeliveryRefused, NotDelivered
from nacre.closing import stop_tasks
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Outbox
from nacre.runtime.ledger.records import LedgerUnusable, OutboundPart

T = TypeVar("T")

log = logging.getLogger(__name__)

REPEAT_MARK = "(sent again, perhaps) "
MAX_UNSURE_SENDS = 8
MAX_SENDS = 300
"""With the longest delays between them, this many attempts take about a day."""
MAX_RETRY_SECONDS = 300.0

MaySend: TypeAlias = Callable[[Inbound], Awaitable[bool]]
"""Tells whether the answer to a message may still be sent to its sender. The message has no text."""
Around: TypeAlias = Callable[[OutboundPart], AbstractAsyncContextManager[None]]
"""Called around the sending of each part."""
Step: TypeAlias = Literal["send", "find", "mark", "edit"]


class Finish(Protocol):
    """Records an answer, as `Ledger.finish` does."""

    def __call__(self, *, sends: bool) -> Awaitable[OutboundPart | None]:
        """The part that is being sent; `None` if the answer has none or `sends` is false."""


def next_step(part: OutboundPart, can: Capabilities) -> Step:
    """What to do with a part next.

    `edit` the message that shows its draft, `find` out whether it arrived, `mark` it as a possible repeat and
    send it, or `send` it: for the first time, or if a second time shows nothing new.
    """
    if part.sent_id:
        return "edit" if can.can_edit else "send"
    if part.state == "pending" or can.has_idempotent_sends:
        return "send"
    return "find" if can.can_read_back else "mark"


def parts_of(text: str, can: Capabilities) -> tuple[str, ...]:
    """Splits a reply into texts that the channel takes, with room for the repeat mark if it may be needed."""
    is_sure = can.has_idempotent_sends or can.can_read_back
    room = 0 if is_sure else can.length(REPEAT_MARK)
    return split_reply(text, most=can.greatest_length - room, length=can.length)


def retry_delay_seconds(attempts: int, requested_seconds: float | None) -> float:
    """The delay after a failed attempt: what the channel requested, or else doubling with each attempt."""
    if requested_seconds is not None:
        return max(0.0, requested_seconds)
    return float(min(MAX_RETRY_SECONDS, 2 ** min(max(0, attempts - 1), 10)))


class Outgoing:
    """Sends the parts in the outbox for one bridge. `up` is set while the bridge is connected."""

    def __init__(
        self,
        bridge: Bridge,
        outbox: Outbox,
        up: asyncio.Event,
        *,
        may_send: MaySend,
        around: Around = lambda _part: nullcontext(),
        sleep: Sleep,
    ) -> None:
        self._bridge = bridge
        self._may_send = may_send
        self._around = around
        self._outbox = outbox
        self._up = up
        self._sleep = sleep
        self._tasks: dict[str, asyncio.Future[None]] = {}
        self._renotified: set[str] = set()
        self._paused: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def resume(self) -> None:
        """Sends what an earlier program left."""
        for chat_id in await self._outbox.chats_with_parts(self._bridge.channel, self._bridge.account):
            self.notify(chat_id)

    async def answer(self, chat_id: str, finish: Finish) -> None:
        """Calls `finish`, which records an answer for a chat, and sends the answer.

        Call it right after the sender's rights were checked. If nothing else must be sent first, `finish`
        also records that the first part is being sent, and returns it.
        """
        if chat_id in self._tasks or self._paused or not self._up.is_set():
            await finish(sends=False)
            self.notify(chat_id)
            return
        first, held = None, asyncio.get_running_loop().create_future()
        self._tasks[chat_id] = held
        try:
            first = await finish(sends=True)
        finally:
            held.cancel()
            del self._tasks[chat_id]
            self.notify(chat_id, first)

    def notify(self, chat_id: str, first: OutboundPart | None = None) -> None:
        """Announces new parts for a chat in the ledger. `first` is one that is recorded as being sent."""
        if chat_id in self._tasks:
            self._renotified.add(chat_id)
            return
        task = asyncio.create_task(self._drain(chat_id, first))
        self._tasks[chat_id] = task
        task.add_done_callback(lambda done: self._on_done(chat_id, done))

    def is_sending(self, chat_id: str) -> bool:
        """Whether anything is being sent to a chat, so that nothing may overtake it."""
        return chat_id in self._tasks

    @property
    def is_busy(self) -> bool:
        """Whether anything is being sent or waits for a retry."""
        return bool(self._tasks or self._paused)

    async def flush(self) -> None:
        """Waits until everything that can be sent is sent. Call it with a time limit."""
        while self._tasks and self._up.is_set():
            await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Stops sending. What is not sent stays in the ledger."""
        await stop_tasks(*self._tasks.values(), *self._paused.values())

    def _on_done(self, chat_id: str, done: asyncio.Task[None]) -> None:
        del self._tasks[chat_id]
        if not done.cancelled() and (error := done.exception()):
            log.error("sending to %s stopped until the next message: %s", chat_id, error)
        elif not done.cancelled() and chat_id in self._renotified:
            self.notify(chat_id)
        self._renotified.discard(chat_id)

    async def _drain(self, chat_id: str, first: OutboundPart | None) -> None:
        chat, after = (self._bridge.channel, self._bridge.account, chat_id), 0
        delay = 0.0 if first is None else await self._try(first, is_recorded=True)
        while delay is not None:
            if delay:
                await self._sleep(delay)
            part = await self._insist(partial(self._outbox.next_part, *chat, after=after))
            if part is None:
                return
            if (chat_id, _answer_key(part)) in self._paused:
                after, delay = part.number, 0.0
                continue
            await self._up.wait()
            delay = await self._try(part)

    async def _try(self, part: OutboundPart, *, is_recorded: bool = False) -> float | None:
        """Sends a part. `is_recorded` means that its receiver's rights and its state are up to date.

        Returns the seconds to wait before the next part; `None` if there is none.
        """
        asker = part.asker
        if not is_recorded and asker is not None and not await self._insist(lambda: self._may_send(asker)):
            await self._fail(part, "failed", DeliveryRefused("its receiver no longer has the right"), 0)
            return 0.0
        try:
            async with self._around(part):
                return None if await self._send(part, is_recorded=is_recorded) else 0.0
        except NotDelivered as error:
            delay = await self._fail(part, "pending", error, MAX_SENDS, error.retry_after_seconds)
            if error.holds_chat:
                return delay
            self._pause(part, delay)
        except DeliveryRefused as error:
            await self._fail(part, "failed", error, 0)
        except Exception as error:  # noqa: BLE001 - after any other error nobody knows whether it arrived
            return await self._fail(part, "unsure", error, MAX_UNSURE_SENDS)
        return 0.0

    def _pause(self, part: OutboundPart, seconds: float) -> None:
        chat_id, answer = part.part.place.chat_id, _answer_key(part)

        async def resume() -> None:
            await self._sleep(seconds)
            del self._paused[chat_id, answer]
            self.notify(chat_id)

        self._paused[chat_id, answer] = asyncio.create_task(resume())

    async def _send(self, part: OutboundPart, *, is_recorded: bool) -> bool:
        bridge, step = self._bridge, next_step(part, self._bridge.capabilities)
        if step == "edit":
            await bridge.edit(part.part, part.sent_id)
            return await self._record_sent(part, part.sent_id)
        if step == "find":
            found = await bridge.find(part.part)
            if found is not None:
                return await self._record_sent(part, found, is_whole=not part.was_draft)
        if not is_recorded or part.sent_id:
            is_durable = not bridge.capabilities.has_idempotent_sends
            await self._insist(lambda: self._outbox.sending(part, durable=is_durable))
        marked = replace(part.part, text=f"{REPEAT_MARK}{part.part.text}")
        sent_id = await bridge.deliver(marked if step == "mark" else part.part)
        # A draft that is sent again under its key still shows the draft's text.
        shows_draft = part.was_draft and part.state == "unsure" and step == "send" and bool(sent_id)
        return await self._record_sent(part, sent_id, is_whole=not shows_draft)

    async def _record_sent(self, part: OutboundPart, sent_id: str, *, is_whole: bool = True) -> bool:
        return await self._insist(lambda: self._outbox.sent(part, sent_id, is_whole=is_whole))

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Calls the ledger until it does not fail, because a full disk must not end the sending to a chat."""
        refusals = 0
        while True:
            try:
                return await call()
            except LedgerUnusable as error:
                refusals += 1
                delay = retry_delay_seconds(refusals, None)
                log.error("sending waits for %.0f seconds: %s", delay, error)
            await self._sleep(delay)

    async def _fail(
        self,
        part: OutboundPart,
        state: str,
        error: Exception,
        max_attempts: int,
        retry_seconds: float | None = None,
    ) -> float:
        if part.attempts + 1 >= max_attempts:
            state = "failed"
        problem = f"{type(error).__name__}: {error}"
        log.warning("part %s for %s is %s: %s", part.part.key, part.part.place.chat_id, state, problem)
        await self._insist(lambda: self._outbox.not_sent(part, state, problem))
        return retry_delay_seconds(part.attempts + 1, retry_seconds)


def _answer_key(part: OutboundPart) -> str:
    return part.part.answers or f"#{part.number}"


_FENCE = re.compile(r" {0,3}(?P<marker>`{3,}(?=[^`]*$)|~{3,})(?P<info>.*)")
_WORST_SHARE = 3
"""The text is not cut at a paragraph's end if that leaves less than a third of the limit."""
_FENCE_SHARE = 4
"""A fence that takes more than a quarter of the limit is not reopened."""
_JOINERS = "\u200d\ufe0e\ufe0f"
_MOST_STEPS_BACK = 16


class Fence(NamedTuple):
    """The opening of a code block: its marker, and the whole line."""

    marker: str
    line: str


def split_reply(text: str, *, most: int, length: Callable[[str], int] = len) -> tuple[str, ...]:
    """Splits a reply into parts of at most `most`, measured by `length`. No part is blank.

    The cut is at the end of a paragraph or code block if there is one in the last two thirds of a part, else
    at the end of a line, else at a space, else anywhere. A code block that is cut is closed and reopened with
    its language. Only white space at the cuts is left out.
    """
    parts, rest, fence = [], text, None
    while rest:
        part, rest, fence = _next_part(rest, fence, most, length)
        if part.strip():
            parts.append(part)
    return tuple(parts)


def open_fence(text: str) -> Fence | None:
    """The code block that a text leaves open, by CommonMark's rules for fences."""
    fence = None
    for line in text.split("\n"):
        fence = _fence_after(line, fence)
    return fence


def _next_part(
    text: str, fence: Fence | None, most: int, length: Callable[[str], int]
) -> tuple[str, str, Fence | None]:
    opening = f"{fence.line}\n" if fence else ""
    if length(opening) * _FENCE_SHARE > most:
        opening = ""
    room = most - length(opening)
    while room > 0:
        end = _fitting(text, room, length)
        cut = end if end == len(text) else _cut(text, end, fence if opening else None)
        body = text[:cut].removesuffix("\n") if opening else text[:cut].strip("\n").rstrip()
        part = opening + body
        left_open = open_fence(part)
        if left_open and len(left_open.line) * _FENCE_SHARE > most:
            left_open = Fence(left_open.marker, left_open.marker)
        if left_open:
            part = f"{part}\n{left_open.marker}"
        over = length(part) - most
        if over <= 0:
            rest = text[cut:] if left_open else text[cut:].lstrip("\n")
            return part, rest.removeprefix("\n") if left_open else rest, left_open if rest else None
        room -= over
    cut = max(1, _fitting(text, most, length))  # the fence alone would fill the part, so it is left out
    return text[:cut], text[cut:], None


def _fitting(text: str, most: int, length: Callable[[str], int]) -> int:
    low, high = 1, min(len(text), most)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if length(text[:middle]) <= most else (low, middle - 1)
    return low


def _cut(text: str, end: int, fence: Fence | None) -> int:
    ends = list(_line_ends(text[: end + 1], fence))
    whole = [place for place, is_whole in ends if is_whole and place <= end]
    if whole and whole[-1] * _WORST_SHARE >= end:
        return whole[-1]
    lines = [place for place, _ in ends if place <= end]
    if lines and lines[-1] * _WORST_SHARE >= end:
        return lines[-1]
    blank = text.rfind(" ", 0, end)
    if blank * _WORST_SHARE >= end:
        return blank + 1
    return _between_characters(text, end)


def _line_ends(text: str, fence: Fence | None) -> Iterator[tuple[int, bool]]:
    place, was_inside = 0, fence is not None
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1]):
        place += len(line) + 1
        fence = _fence_after(line, fence)
        is_inside, opened = fence is not None, fence is not None and not was_inside
        is_whole = not is_inside and (was_inside or not line.strip() or not lines[number + 1].strip())
        was_inside = is_inside
        if not opened:  # the first line of a block is useless without the second
            yield place, is_whole


def _fence_after(line: str, fence: Fence | None) -> Fence | None:
    found = _FENCE.match(line)
    if found is None:
        return fence
    marker = found["marker"]
    if fence is None:
        return Fence(marker, line)
    closes = marker.startswith(fence.marker) and not found["info"].strip()
    return None if closes else fence


def _between_characters(text: str, end: int) -> int:
    """`end`, or a position shortly before it that does not separate a letter from its accents or split an
    emoji.
    """
    for place in range(end, max(0, end - _MOST_STEPS_BACK), -1):
        behind, before = text[place : place + 1], text[place - 1]
        tears = behind and (unicodedata.combining(behind) or behind in _JOINERS or "🏻" <= behind <= "🏿")
        if not tears and before != "\u200d":
            return place
    return end
