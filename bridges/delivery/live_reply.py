"""What a chat sees while an answer is being written: the sign of typing, and a draft that grows by edits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.errors import DeliveryRefused, NotDelivered
from nacre.bridges.delivery.outgoing import parts_of
from nacre.bridges.delivery.throttle import Sleep, Throttle, repeated
from nacre.runtime.contracts.events import AnswerDiscarded, Event, TextStreamed, ToolStarted
from nacre.runtime.ledger.ledger import Outbox
from nacre.runtime.ledger.records import OutboundPart

LEAST_DRAFT_CHARS = 24
"""A chat does not ring for less."""


class LiveReply:
    """That of one turn, whose last message it `answers`.

    `may_show` says that the bridge is up, and that nothing is on its way which may not be overtaken.
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

    def hear(self, event: Event) -> None:
        """Takes the turn's next event."""
        match event:
            case TextStreamed():
                self.type()
                self._text += event.text
                if self._shown is not None and len(self._text) >= LEAST_DRAFT_CHARS and self._may_show():
                    self._shown.put(self._text)
            case AnswerDiscarded() | ToolStarted():
                self._text = ""

    def type(self) -> None:
        """Shows from now on that an answer is being written."""
        can = self._bridge.capabilities
        if self._typing is None and can.has_typing and self._may_show():
            again = repeated(self._type, seconds=can.typing_seconds, sleep=self._sleep)
            self._typing = asyncio.create_task(again)

    async def close(self) -> None:
        """Shows nothing more; what is on its way arrives first."""
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
