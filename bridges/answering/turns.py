"""From messages in the ledger to the reply in the ledger: one turn of an agent, for a chat."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace

from nacre.bridges.answering.asking import OwnerQuestions
from nacre.bridges.answering.runner import TurnRunner
from nacre.bridges.connections.connections import Connection
from nacre.bridges.contracts.bridge import place_of
from nacre.bridges.contracts.errors import BridgeError
from nacre.bridges.delivery.live_reply import LiveReply
from nacre.bridges.delivery.outgoing import parts_of
from nacre.bridges.delivery.throttle import Sleep
from nacre.bridges.queueing.commands import AT_ONCE
from nacre.bridges.queueing.joining import Joining
from nacre.bridges.queueing.waiting import MOST_ATTEMPTS, composed
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.errors import (
    AgentError,
    AllModelsFailed,
    MessageRefused,
    ModelTimedOut,
    ModelUnavailable,
    TurnCancelled,
)
from nacre.runtime.contracts.events import ApprovalAsked, Event, MessageJoined, ReplyReady, TurnFailed
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Ledger
from nacre.runtime.ledger.records import Received

log = logging.getLogger(__name__)

AWAY_SECONDS = 300.0
"""How long a message waits for an unreachable provider before its sender is told that there is no answer."""
FIRST_AWAY_DELAY_SECONDS = 2.0
MOST_AWAY_DELAY_SECONDS = 10.0
AWAY = "The model cannot be reached at the moment. I keep trying, and answer as soon as it is back."
FAILED_HERE = "I could not answer that. My owner can find out why in my log."
GIVEN_UP = (
    f"I could not answer this: the program ended {MOST_ATTEMPTS} times while it was at it, and it is not "
    "tried again. It stands in the conversation; say it in other words, or ask what became of it."
)


class TurnLeftOpen(BridgeError):
    """A turn was ended from outside, not by its chat: it stays open in the ledger."""


class Turns:
    """Answers batches of messages.

    `connection_of` is the way to a chat, `agent_of` who answers there, `is_stopped` whether a session was
    stopped, `may_see` whether whoever asked may still have an answer.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        runner: TurnRunner,
        agent_of: Callable[[Received], Agent],
        connection_of: Callable[[Inbound], Connection | None],
        is_stopped: Callable[[str], bool],
        may_see: Callable[[Inbound], Awaitable[bool]],
        joining: Joining,
        sleep: Sleep,
    ) -> None:
        self._ledger = ledger
        self._runner = runner
        self._agent_of = agent_of
        self._connection_of = connection_of
        self._is_stopped = is_stopped
        self._may_hear = may_see
        self._joining = joining
        self._questions = OwnerQuestions(ledger, connection_of)
        self._sleep = sleep

    async def answer(self, batch: tuple[Received, ...], *, cap: int, below: Sequence[str] = ()) -> None:
        """One turn for a batch; when this returns its reply is in the ledger, and on its way.

        `below` are lines that follow the reply.

        Raises:
            TurnLeftOpen: the agent was closed under it, or its bridge is not here.
            LedgerUnusable: the disk refused; what is done is done, and the turn is still open.
        """
        first = batch[0]
        said = tuple(received for received in batch if not received.has_joined) or batch[:1]
        inbound = composed(said, cap=cap)
        if first.was_begun and first.attempts >= MOST_ATTEMPTS and self._may_be_why(first, inbound):
            await self.say(batch, "" if first.inbound.trigger == "heartbeat" else GIVEN_UP)
            return
        if first.was_begun:
            inbound = replace(inbound, redelivered=True, joined_by=self._joining.ids(batch))
        await self._ledger.begin(batch)
        heard: set[str] = set()
        ending = await self._ending_with_a_provider(said, inbound, heard)
        joined, apart = self._joining.end(batch, heard)
        await self._joining.put_back(apart)
        said = (*said, *joined)
        if isinstance(ending, ReplyReady):
            await self.say(said, await self._kept_back(said, "\n".join((ending.reply.text, *below))))
        elif isinstance(ending, TurnFailed):
            await self._failed(said, inbound, ending.error)
        else:
            await self.say(said, "")

    async def say(self, batch: Sequence[Received], text: str) -> None:
        """Finishes messages with a text, or with silence, and sends it.

        Raises:
            TurnLeftOpen: their bridge is not here, so nobody knows how long a message may be.
        """
        inbound = batch[-1].inbound
        connection = self._connection(inbound)
        texts = parts_of(text, connection.bridge.capabilities)
        await self._ledger.finish(batch, place_of(inbound), texts)
        if texts:
            connection.outgoing.notify(inbound.chat_id)

    async def _kept_back(self, batch: Sequence[Received], text: str) -> str:
        """The text, or nothing: somebody whose right was taken back meanwhile does not read the answer."""
        if await self._may_hear(batch[-1].inbound):
            return text
        log.info("an answer in %s is kept back: who asked may not hear it", batch[0].session_key)
        return ""

    def _may_be_why(self, first: Received, inbound: Inbound) -> bool:
        """Whether a message may be why the program ended; of a turn that others run they count the ends."""
        return self._runner.runs_here(self._agent_of(first), inbound)

    def _connection(self, inbound: Inbound) -> Connection:
        connection = self._connection_of(inbound)
        if connection is None:
            raise TurnLeftOpen(f"the bridge {inbound.channel}/{inbound.account} is not here")
        return connection

    async def _ending_with_a_provider(
        self, batch: Sequence[Received], inbound: Inbound, heard: set[str]
    ) -> Event | None:
        """As `_ending`; a turn whose provider is away goes on when it is back, for `AWAY_SECONDS` at most."""
        waited_seconds, delay_seconds = 0.0, FIRST_AWAY_DELAY_SECONDS
        while True:
            ending = await self._ending(batch, inbound, heard)
            is_away = isinstance(ending, TurnFailed) and _is_away(ending.error)
            if not is_away or inbound.trigger or waited_seconds >= AWAY_SECONDS:
                return ending
            if not waited_seconds and inbound.chat_kind == "direct":
                await self._tell(inbound, AWAY)
            log.warning("%s waits %.0f s for its provider", batch[0].session_key, delay_seconds)
            await self._sleep(delay_seconds)
            if self._is_stopped(batch[0].session_key):
                return None
            waited_seconds += delay_seconds
            delay_seconds = min(delay_seconds * 2, MOST_AWAY_DELAY_SECONDS)
            joined_by = tuple(dict.fromkeys((*inbound.joined_by, *self._joining.ids(tuple(batch)))))
            inbound = replace(inbound, redelivered=True, joined_by=joined_by)

    async def _tell(self, inbound: Inbound, text: str) -> None:
        """Puts a message into the outbox that answers nothing."""
        connection = self._connection(inbound)
        texts = parts_of(text, connection.bridge.capabilities)
        await self._ledger.tell(replace(inbound, text="", attachments=()), texts)
        connection.outgoing.notify(inbound.chat_id)

    async def _ending(self, batch: Sequence[Received], inbound: Inbound, heard: set[str]) -> Event | None:
        """The event that a turn ended with; what was said into it is added to `heard`."""
        connection, ending = self._connection(inbound), None
        agent = self._agent_of(batch[0])
        live = LiveReply(
            connection.bridge,
            self._ledger.outbox,
            place_of(inbound),
            turn=batch[0].number,
            answers=inbound.message_id,
            may_show=lambda: (
                inbound.trigger != "heartbeat"  # it may well turn out to be silence
                and connection.is_up
                and not connection.outgoing.is_sending(inbound.chat_id)
            ),
            sleep=self._sleep,
        )
        try:
            if inbound.chat_kind == "direct":
                live.type()  # in a group the answer may well be silence
            if self._is_stopped(batch[0].session_key) and agent.command(inbound) not in AT_ONCE:
                return None  # stopped before the agent heard of it
            async with aclosing(self._runner.stream(agent, inbound)) as events:
                async for event in events:
                    if isinstance(event, MessageJoined):
                        heard.add(event.inbound_id)
                    elif isinstance(event, ApprovalAsked):
                        await self._questions.ask(agent.id, inbound, event)
                    live.hear(event)
                    ending = event
        finally:
            await live.close()
        return ending

    async def _failed(self, batch: Sequence[Received], inbound: Inbound, error: AgentError) -> None:
        if isinstance(error, TurnCancelled):
            if not self._is_stopped(batch[0].session_key):
                raise TurnLeftOpen(str(error))
            await self.say(batch, "")
            return
        log.warning("a message of %s was not answered: %s", batch[0].session_key, error)
        if inbound.trigger == "heartbeat":  # nobody waits for it, and the next one may be well
            await self.say(batch, "")
            return
        await self.say(batch, await self._kept_back(batch, failure_text(error, inbound)))


def _is_away(error: AgentError) -> bool:
    """Whether a provider was unreachable, so that the message can wait for it."""
    if isinstance(error, AllModelsFailed):
        return any(map(_is_away, error.failures))
    return isinstance(error, ModelUnavailable) and not isinstance(error, ModelTimedOut)


def failure_text(error: AgentError, inbound: Inbound) -> str:
    """What a chat is told of a failure: the owner in private what it is, everybody else only that it is.

    The text of an error may name files, people and providers. A hook's refusal is told as the hook words it.
    """
    in_private = inbound.is_owner is True and inbound.chat_kind == "direct"
    return str(error) if in_private or isinstance(error, MessageRefused) else FAILED_HERE
