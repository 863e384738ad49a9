"""From messages in the ledger to the reply in the ledger: one turn of an agent, for a chat."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace

from nacre.bridges.contracts.bridge import Bridge, Place
from nacre.bridges.contracts.errors import BridgeError
from nacre.bridges.delivery.live_reply import LiveReply
from nacre.bridges.delivery.outgoing import Outgoing, parts_of
from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.ledger.ledger import Ledger, Received
from nacre.bridges.queueing.commands import AT_ONCE
from nacre.bridges.queueing.waiting import MOST_ATTEMPTS, composed
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.errors import AgentError, MessageRefused, TurnCancelled
from nacre.runtime.contracts.events import Event, ReplyReady, TurnFailed
from nacre.runtime.contracts.inbound import Inbound

log = logging.getLogger(__name__)

FAILED_HERE = "I could not answer that. My owner can find out why in my log."
GIVEN_UP = (
    f"I could not answer this: the program ended {MOST_ATTEMPTS} times while it was at it, and it is not "
    "tried again. It stands in the conversation; say it in other words, or ask what became of it."
)


class TurnLeftOpen(BridgeError):
    """A turn was ended from outside, not by its chat: it stays open in the ledger."""


@dataclass(frozen=True, kw_only=True)
class ChatDoor:
    """The bridge of a chat, and the way out to it. `is_up` says whether it is connected."""

    bridge: Bridge
    outgoing: Outgoing
    is_up: Callable[[], bool]


class Turns:
    """Answers batches of messages."""

    def __init__(
        self,
        agent: Agent,
        ledger: Ledger,
        *,
        door_of: Callable[[Inbound], ChatDoor],
        is_stopped: Callable[[str], bool],
        sleep: Sleep,
    ) -> None:
        self._agent = agent
        self._ledger = ledger
        self._door_of = door_of
        self._is_stopped = is_stopped
        self._sleep = sleep

    async def answer(self, batch: tuple[Received, ...], *, cap: int, below: Sequence[str] = ()) -> None:
        """One turn for a batch; when this returns its reply is in the ledger, and on its way.

        `below` are lines that follow the reply.

        Raises:
            TurnLeftOpen: the agent was closed under it.
            LedgerUnusable: the disk refused; what is done is done, and the turn is still open.
        """
        if batch[0].was_begun and batch[0].attempts >= MOST_ATTEMPTS:
            await self.say(batch, GIVEN_UP)
            return
        inbound = composed(batch, cap=cap)
        if batch[0].was_begun:
            inbound = replace(inbound, redelivered=True)
        await self._ledger.begin(batch)
        ending = await self._ending(batch, inbound)
        if isinstance(ending, ReplyReady):
            await self.say(batch, "\n".join((ending.reply.text, *below)))
        elif isinstance(ending, TurnFailed):
            await self._failed(batch, inbound, ending.error)
        else:
            await self.say(batch, "")

    async def say(self, batch: Sequence[Received], text: str) -> None:
        """Finishes messages with a text, or with silence, and sends it."""
        inbound = batch[-1].inbound
        door = self._door_of(inbound)
        texts = parts_of(text, door.bridge.capabilities)
        await self._ledger.finish(batch, place_of(inbound), texts)
        if texts:
            door.outgoing.notify(inbound.chat_id)

    async def _ending(self, batch: Sequence[Received], inbound: Inbound) -> Event | None:
        door, ending = self._door_of(inbound), None
        live = LiveReply(
            door.bridge,
            self._ledger.outbox,
            place_of(inbound),
            turn=batch[0].number,
            answers=inbound.message_id,
            may_show=lambda: self._may_show(batch[-1]),
            sleep=self._sleep,
        )
        try:
            if inbound.chat_kind == "direct":
                live.type()  # in a group the answer may well be silence
            if self._is_stopped(batch[0].session_key) and self._agent.command(inbound) not in AT_ONCE:
                return None  # stopped before the agent heard of it
            async with aclosing(self._agent.stream(inbound)) as events:
                async for event in events:
                    live.hear(event)
                    ending = event
        finally:
            await live.close()
        return ending

    def _may_show(self, received: Received) -> bool:
        door = self._door_of(received.inbound)
        return door.is_up() and not door.outgoing.is_sending(received.inbound.chat_id)

    async def _failed(self, batch: Sequence[Received], inbound: Inbound, error: AgentError) -> None:
        if isinstance(error, TurnCancelled):
            if not self._is_stopped(batch[0].session_key):
                raise TurnLeftOpen(str(error))
            await self.say(batch, "")
            return
        log.warning("a message of %s was not answered: %s", batch[0].session_key, error)
        await self.say(batch, failure_text(error, inbound))


def failure_text(error: AgentError, inbound: Inbound) -> str:
    """What a chat is told of a failure: the owner in private what it is, everybody else only that it is.

    The text of an error may name files, people and providers. A hook's refusal is told as the hook words it.
    """
    in_private = inbound.is_owner is True and inbound.chat_kind == "direct"
    return str(error) if in_private or isinstance(error, MessageRefused) else FAILED_HERE


def place_of(inbound: Inbound) -> Place:
    """Where a message came from, and its answer goes."""
    return Place(
        channel=inbound.channel,
        account=inbound.account,
        chat_id=inbound.chat_id,
        thread_id=inbound.thread_id,
    )
