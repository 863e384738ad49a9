"""Sends what the ledger holds for one bridge: in order in a chat, and once, or marked if nobody can know.

An answer that the server refused for itself alone rests, and those behind it go out before it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal, TypeAlias

from nacre.bridges.contracts.bridge import Bridge, Capabilities, Part
from nacre.bridges.contracts.errors import DeliveryRefused, NotDelivered
from nacre.bridges.delivery.splitting import split_reply
from nacre.bridges.delivery.throttle import Sleep
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Outbox
from nacre.runtime.ledger.records import OutboundPart

log = logging.getLogger(__name__)

REPEAT_MARK = "(sent again, perhaps) "
MOST_UNSURE_SENDS = 8
MOST_SENDS = 300
"""With the longest waits between them, so many tries take about a day."""
LONGEST_WAIT_SECONDS = 300.0

MaySend: TypeAlias = Callable[[Inbound], Awaitable[bool]]
"""Whether whoever asked for a part may still have it; told the message that it answers, without its words."""
Step: TypeAlias = Literal["send", "find", "mark", "edit"]


def next_step(part: OutboundPart, can: Capabilities) -> Step:
    """What is to be done with a part. Pure.

    `edit` what is shown already, `find` out whether it arrived, `mark` it as a possible repeat and send it,
    or just `send` it: for the first time, or where a second time shows nothing new.
    """
    if part.sent_id:
        return "edit" if can.can_edit else "send"
    if part.state == "pending" or can.has_idempotent_sends:
        return "send"
    return "find" if can.can_read_back else "mark"


def parts_of(text: str, can: Capabilities) -> tuple[str, ...]:
    """A reply as the texts of messages that the channel takes, with room for a mark if one may be needed."""
    is_sure = can.has_idempotent_sends or can.can_read_back
    room = 0 if is_sure else can.length(REPEAT_MARK)
    return split_reply(text, most=can.greatest_length - room, length=can.length)


def wait_seconds(attempts: int, asked: float | None) -> float:
    """How long to wait behind a failed try: as long as the channel asked, else twice as long each time."""
    if asked is not None:
        return max(0.0, asked)
    return float(min(LONGEST_WAIT_SECONDS, 2 ** min(max(0, attempts - 1), 10)))


class Outgoing:
    """The way out of one bridge. `up` is set while it is connected."""

    def __init__(
        self, bridge: Bridge, outbox: Outbox, up: asyncio.Event, *, may_send: MaySend, sleep: Sleep
    ) -> None:
        self._bridge = bridge
        self._may_send = may_send
        self._outbox = outbox
        self._up = up
        self._sleep = sleep
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._resting: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def resume(self) -> None:
        """Goes on with what an earlier program left."""
        for chat_id in await self._outbox.chats_with_parts(self._bridge.channel, self._bridge.account):
            self.notify(chat_id)

    def notify(self, chat_id: str) -> None:
        """Says that the ledger holds something for a chat."""
        if chat_id in self._tasks:
            self._again.add(chat_id)
            return
        task = self._tasks[chat_id] = asyncio.create_task(self._drain(chat_id))
        task.add_done_callback(lambda done: self._ended(chat_id, done))

    def is_sending(self, chat_id: str) -> bool:
        """Whether something is on its way to a chat, so that nothing may overtake it."""
        return chat_id in self._tasks

    @property
    def is_busy(self) -> bool:
        """Whether anything is on its way, or waits to be."""
        return bool(self._tasks or self._resting)

    async def flush(self) -> None:
        """Waits until everything is sent that can be; for a graceful end, under a time limit."""
        while self._tasks and self._up.is_set():
            await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Stops sending; what is not sent stays in the ledger."""
        tasks = [*self._tasks.values(), *self._resting.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, chat_id: str, done: asyncio.Task[None]) -> None:
        del self._tasks[chat_id]
        if not done.cancelled() and (error := done.exception()):
            log.error("nothing more is sent to %s for now: %s", chat_id, error)
        elif not done.cancelled() and chat_id in self._again:
            self.notify(chat_id)
        self._again.discard(chat_id)

    async def _drain(self, chat_id: str) -> None:
        chat, after = (self._bridge.channel, self._bridge.account, chat_id), 0
        while (part := await self._outbox.next_part(*chat, after=after)) is not None:
            if (chat_id, _answer_of(part)) in self._resting:
                after = part.number
                continue
            await self._up.wait()
            wait = await self._try(part)
            if wait is not None:
                await self._sleep(wait)

    async def _try(self, part: OutboundPart) -> float | None:
        """Sends a part, or notes why not; how long to wait before the next try."""
        if part.asker is not None and not await self._may_send(part.asker):
            await self._failed(part, "failed", DeliveryRefused("whoever asked for it may not any more"), 0)
            return None
        try:
            await self._send(part)
        except NotDelivered as error:
            wait = await self._failed(part, "pending", error, MOST_SENDS, error.retry_after_seconds)
            if error.holds_chat:
                return wait
            self._rest(part, wait)
        except DeliveryRefused as error:
            await self._failed(part, "failed", error, 0)
        except Exception as error:  # noqa: BLE001 - whatever a library raises: nobody knows if it arrived
            return await self._failed(part, "unsure", error, MOST_UNSURE_SENDS)
        return None

    def _rest(self, part: OutboundPart, seconds: float) -> None:
        """Leaves the answer of a part alone for a while; then it is tried again."""
        chat_id, answer = part.part.place.chat_id, _answer_of(part)

        async def rest() -> None:
            await self._sleep(seconds)
            del self._resting[chat_id, answer]
            self.notify(chat_id)

        self._resting[chat_id, answer] = asyncio.create_task(rest())

    async def _send(self, part: OutboundPart) -> None:
        bridge, step = self._bridge, next_step(part, self._bridge.capabilities)
        if step == "edit":
            await bridge.edit(part.part, part.sent_id)
            await self._outbox.sent(part, part.sent_id)
            return
        if step == "find":
            found = await bridge.find(part.part)
            if found is not None:
                await self._outbox.sent(part, found, is_whole=not part.was_draft)
                return
        await self._outbox.sending(part)
        sent_id = await bridge.deliver(self._marked(part) if step == "mark" else part.part)
        # Sent a second time under its key, a draft still shows what the draft said.
        shows_draft = part.was_draft and part.state == "unsure" and step == "send" and bool(sent_id)
        await self._outbox.sent(part, sent_id, is_whole=not shows_draft)

    def _marked(self, part: OutboundPart) -> Part:
        return replace(part.part, text=f"{REPEAT_MARK}{part.part.text}")

    async def _failed(
        self, part: OutboundPart, state: str, error: Exception, most: int, asked: float | None = None
    ) -> float:
        if part.attempts + 1 >= most:
            state = "failed"
        what = f"{type(error).__name__}: {error}"
        log.warning("part %s for %s is %s: %s", part.part.key, part.part.place.chat_id, state, what)
        await self._outbox.not_sent(part, state, what)
        return wait_seconds(part.attempts + 1, asked)


def _answer_of(part: OutboundPart) -> str:
    """What the parts of one answer have in common; they stay in their order."""
    return part.part.answers or f"#{part.number}"
