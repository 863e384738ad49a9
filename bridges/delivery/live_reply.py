"""What a chat shows while an answer is being written: the typing indicator, and a draft that grows by
edits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Generic, TypeVar

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.errors import DeliveryRefused, NotDelivered
from nacre.bridges.delivery.outgoing import parts_of
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.contracts.events import AnswerDiscarded, Event, TextStreamed, ToolStarted
from nacre.runtime.ledger.ledger import Outbox
from nacre.runtime.ledger.records import OutboundPart

log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_DRAFT_CHARS = 24
"""A shorter draft is not worth the notification."""


class Throttle(Generic[T]):
    """Acts on the newest value, at most once in `seconds`.

    It is for optional actions: if `act` fails, that is logged and nothing more is done.
    """

    def __init__(self, act: Callable[[T], Awaitable[None]], *, seconds: float, sleep: Sleep) -> None:
        self._act = act
        self._seconds = seconds
        self._sleep = sleep
        self._newest: list[T] = []
        self._task: asyncio.Task[None] | None = None
        self._is_acting = False
        self._is_closed = False

    def put(self, value: T) -> None:
        """Schedules an action on this value, unless a newer one replaces it first."""
        self._newest = [value]
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stops. An action that runs is finished first."""
        self._is_closed, task = True, self._task
        if task is None:
            return
        if not self._is_acting:
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    def _is_ending(self) -> bool:
        return self._is_closed

    async def _run(self) -> None:
        try:
            while self._newest and not self._is_ending():
                self._is_acting = True
                await self._act(self._newest.pop())
                self._is_acting = False
                if not self._is_ending():
                    await self._sleep(self._seconds)
            self._task = None
        except Exception as error:  # noqa: BLE001 - a failed draft must not cost the answer
            log.warning("the draft of an answer is not updated any more: %s", error)
        finally:
            self._is_acting = False


async def repeat(act: Callable[[], Awaitable[None]], *, seconds: float, sleep: Sleep) -> None:
    """Acts every `seconds` until it is cancelled or an action fails."""
    try:
        while True:
            await act()
            await sleep(seconds)
    except Exception as error:  # noqa: BLE001 - as above
        log.warning("the typing indicator is not shown any more: %s", error)


class LiveReply:
    """The live view of one turn. `answers` is the id of the turn's last message.

    `may_show` tells whether the bridge is connected and nothing is being sent that a draft would overtake.
    """

    def __init__(
        self,
        bridge: Bridge,
        outbox: Outbox,
        place: Place,
        *,
        turn: int,
        answers: str,
        may_show: Callable[[], bool],
        sleep: Sleep,
    ) -> None:
        self._bridge = bridge
        self._outbox = outbox
        self._place = place
        self._turn = turn
        self._answers = answers
        self._may_show = may_show
        self._sleep = sleep
        self._text = ""
        self._draft: OutboundPart | None = None
        self._is_unsure = False
        can = bridge.capabilities
        self._shown = Throttle(self._show, seconds=can.edit_seconds, sleep=sleep) if can.can_edit else None
        self._typing: asyncio.Task[None] | None = None

    def handle(self, event: Event) -> None:
        """Takes the turn's next event."""
        match event:
            case TextStreamed():
                self.show_typing()
                self._text += event.text
                if self._shown is not None and len(self._text) >= MIN_DRAFT_CHARS and self._may_show():
                    self._shown.put(self._text)
            case AnswerDiscarded() | ToolStarted():
                self._text = ""

    def show_typing(self) -> None:
        """Shows the typing indicator from now on."""
        can = self._bridge.capabilities
        if self._typing is None and can.has_typing and self._may_show():
            repeated = repeat(self._type, seconds=can.typing_seconds, sleep=self._sleep)
            self._typing = asyncio.create_task(repeated)

    async def close(self) -> None:
        """Stops. An edit or a draft that is being sent is finished first."""
        if self._typing is not None:
            self._typing.cancel()
            await asyncio.gather(self._typing, return_exceptions=True)
        if self._shown is not None:
            await self._shown.close()

    async def _type(self) -> None:
        await self._bridge.typing(self._place)

    async def _show(self, text: str) -> None:
        [beginning, *_] = parts_of(text, self._bridge.capabilities) or ("",)
        if not beginning or self._is_unsure:
            return
        if self._draft is None:
            self._draft = await self._outbox.draft(self._turn, self._place, beginning, answers=self._answers)
            self._is_unsure = self._draft is None
        if self._draft is None:
            return
        part = replace(self._draft.part, text=beginning)
        if self._draft.sent_id:
            await self._bridge.edit(part, self._draft.sent_id)
            return
        try:
            sent_id = await self._bridge.deliver(part)
        except (NotDelivered, DeliveryRefused):
            await self._outbox.undraft(self._draft)
            raise
        await self._outbox.drafted(self._draft, sent_id)
        self._draft = replace(self._draft, sent_id=sent_id)
