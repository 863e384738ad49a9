"""From messages in the ledger to the reply in the ledger: one turn of an agent, for a chat.

While an answer is being written, the chat shows the typing indicator, and a draft that grows by edits.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Generic, Protocol, TypeVar

from nacre.bridges.connections.connections import Connection
from nacre.bridges.contracts.bridge import Bridge, Place, place_of
from nacre.bridges.contracts.errors import BridgeError, DeliveryRefused, NotDelivered
from nacre.bridges.delivery.outgoing import parts_of
from nacre.bridges.queueing.batches import MAX_ATTEMPTS, Steering, combined
from nacre.bridges.queueing.session_rules import IMMEDIATE_COMMANDS
from nacre.runtime.agent.agent import Agent
from nacre.runtime.commands.wording import shortened
from nacre.runtime.contracts.clock import Sleep
from nacre.runtime.contracts.errors import (
    AgentError,
    AllModelsFailed,
    MessageRefused,
    ModelTimedOut,
    ModelUnavailable,
    TurnCancelled,
)
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    Event,
    MessageJoined,
    ReplyReady,
    Silence,
    TextStreamed,
    ToolStarted,
    TurnFailed,
)
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.ledger import Ledger, Outbox
from nacre.runtime.ledger.records import OutboundPart, Received

log = logging.getLogger(__name__)

T = TypeVar("T")

MIN_DRAFT_CHARS = 24
"""A shorter draft is not shown, because each draft may notify people."""


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
            log.warning("the draft of an answer is no longer updated: %s", error)
        finally:
            self._is_acting = False


async def repeat(act: Callable[[], Awaitable[None]], *, seconds: float, sleep: Sleep) -> None:
    """Acts every `seconds` until it is cancelled or an action fails."""
    try:
        while True:
            await act()
            await sleep(seconds)
    except Exception as error:  # noqa: BLE001 - as above
        log.warning("the typing indicator is no longer shown: %s", error)


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


UNREACHABLE_SECONDS = 300.0
"""How long a message waits for an unreachable provider before its turn fails."""
FIRST_RETRY_SECONDS = 2.0
MAX_RETRY_SECONDS = 10.0
SHOWN_NAME_CHARS = 60
UNREACHABLE = "The model cannot be reached at the moment. I keep trying and answer as soon as it is back."
FAILED = "I could not answer that. My owner can find the reason in my log."
GIVEN_UP = (
    f"I could not answer this: the program ended {MAX_ATTEMPTS} times while answering, so I do not retry. "
    "The message is in the conversation. Rephrase it, or ask what happened to it."
)


class TurnLeftOpen(BridgeError):
    """A turn was ended from outside, not by its chat. It stays open in the ledger."""


class Turns:
    """Answers batches of messages.

    `agent_of` and `connection_of` give the agent and the connection for a message, `bridge_elsewhere` a
    bridge that another program runs. `is_stopped` tells whether a session was stopped, and `is_allowed`
    whether a sender may still have an answer.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        runner: TurnRunner,
        agent_of: Callable[[Received], Agent],
        connection_of: Callable[[Inbound], Connection | None],
        bridge_elsewhere: Callable[[Inbound], Bridge | None],
        is_stopped: Callable[[str], bool],
        is_allowed: Callable[[Inbound], Awaitable[bool]],
        steering: Steering,
        sleep: Sleep,
    ) -> None:
        self._ledger = ledger
        self._runner = runner
        self._agent_of = agent_of
        self._connection_of = connection_of
        self._bridge_elsewhere = bridge_elsewhere
        self._is_stopped = is_stopped
        self._is_allowed = is_allowed
        self._steering = steering
        self._sleep = sleep

    async def answer(self, batch: tuple[Received, ...], *, cap: int, extra_lines: Sequence[str] = ()) -> None:
        """Runs one turn for a batch. When this returns, the reply is in the ledger and being sent.

        `extra_lines` follow the reply.

        Raises:
            TurnLeftOpen: the agent was closed during the turn, or the bridge is missing.
            LedgerUnusable: the disk failed. The turn is still open.
        """
        first = batch[0]
        asked = tuple(received for received in batch if not received.has_joined) or batch[:1]
        inbound = combined(asked, cap=cap)
        # Turns that run in other processes count their attempts there.
        runs_here = self._runner.runs_here(self._agent_of(first), inbound)
        if first.was_begun and first.attempts >= MAX_ATTEMPTS and runs_here:
            await self.finish(batch, "" if first.inbound.trigger == "heartbeat" else GIVEN_UP)
            return
        if first.was_begun:
            inbound = replace(inbound, redelivered=True, joined_by=self._steering.candidate_ids(batch))
        if first.was_begun or not first.begins or len(batch) > 1:
            await self._ledger.begin(batch)
        read_ids: set[str] = set()
        outcome = await self._run_until_reachable(asked, inbound, read_ids)
        answered = (*asked, *await self._steering.end(batch, read_ids))
        if isinstance(outcome, ReplyReady):
            notice = (f"\n({outcome.reply.notice})",) if outcome.reply.notice else ()
            text = "\n".join((outcome.reply.text, *notice, *extra_lines))
            await self.finish(answered, text)
        elif isinstance(outcome, TurnFailed):
            await self._fail(answered, inbound, outcome.error)
        else:
            is_awaited = inbound.chat_kind == "direct" and not inbound.trigger
            await self.finish(
                answered, outcome.problem if isinstance(outcome, Silence) and is_awaited else ""
            )
        self._steering.forget(batch)

    async def finish(self, batch: Sequence[Received], text: str) -> None:
        """Finishes messages with a reply, and sends it.

        It is silent if the text is empty, or if the sender has lost the right to an answer meanwhile.

        Raises:
            TurnLeftOpen: the bridge is missing, so the length limit of messages is unknown.
        """
        inbound = batch[-1].inbound
        connection = self._connection(inbound)
        if text and not await self._is_allowed(inbound):
            log.info("an answer in %s is not sent: its sender no longer has the right", batch[0].session_key)
            text = ""
        texts = parts_of(text, connection.bridge.capabilities)
        finish = partial(self._ledger.finish, batch, place_of(inbound), texts)
        if texts:
            await connection.outgoing.answer(inbound.chat_id, finish)
        else:
            await finish()

    def _connection(self, inbound: Inbound) -> Connection:
        connection = self._connection_of(inbound)
        if connection is None:
            raise TurnLeftOpen(f"the bridge {inbound.channel}/{inbound.account} is missing")
        return connection

    async def _run_until_reachable(
        self, batch: Sequence[Received], inbound: Inbound, read_ids: set[str]
    ) -> Event | None:
        """Runs a turn, and retries for up to `UNREACHABLE_SECONDS` while the provider is unreachable."""
        waited_seconds, delay_seconds = 0.0, FIRST_RETRY_SECONDS
        while True:
            outcome = await self._run(batch, inbound, read_ids)
            is_unreachable = isinstance(outcome, TurnFailed) and _is_unreachable(outcome.error)
            if not is_unreachable or inbound.trigger or waited_seconds >= UNREACHABLE_SECONDS:
                return outcome
            if not waited_seconds and inbound.chat_kind == "direct":
                await self._notify(inbound, UNREACHABLE)
            log.warning("%s waits %.0f s for its provider", batch[0].session_key, delay_seconds)
            await self._sleep(delay_seconds)
            if self._is_stopped(batch[0].session_key):
                return None
            waited_seconds += delay_seconds
            delay_seconds = min(delay_seconds * 2, MAX_RETRY_SECONDS)
            joined_by = tuple(dict.fromkeys((*inbound.joined_by, *self._steering.candidate_ids(batch))))
            inbound = replace(inbound, redelivered=True, joined_by=joined_by)

    async def _notify(self, chat: Inbound, text: str) -> bool:
        """Tells a chat something; another program sends it if it runs the bridge. `False` if nobody does."""
        connection = self._connection_of(chat)
        bridge = self._bridge_elsewhere(chat) if connection is None else connection.bridge
        if bridge is None:
            return False
        place = replace(chat, text="", attachments=(), quoted=())
        await self._ledger.tell(place, parts_of(text, bridge.capabilities))
        if connection is not None:
            connection.outgoing.notify(chat.chat_id)
        return True

    async def _run(self, batch: Sequence[Received], inbound: Inbound, read_ids: set[str]) -> Event | None:
        """Runs a turn and returns its last event. Adds the ids of messages that joined it to `read_ids`."""
        connection, last = self._connection(inbound), None
        agent = self._agent_of(batch[0])
        live = LiveReply(
            connection.bridge,
            self._ledger.outbox,
            place_of(inbound),
            turn=batch[0].number,
            answers=inbound.message_id,
            may_show=lambda: (
                inbound.trigger != "heartbeat"  # its answer is often empty
                and connection.is_up
                and not connection.outgoing.is_sending(inbound.chat_id)
            ),
            sleep=self._sleep,
        )
        try:
            if inbound.chat_kind == "direct":
                live.show_typing()  # in a group the answer is often empty
            if self._is_stopped(batch[0].session_key) and agent.command(inbound) not in IMMEDIATE_COMMANDS:
                return None  # stopped before the turn began
            async with aclosing(self._runner.stream(agent, inbound)) as events:
                async for event in events:
                    if isinstance(event, MessageJoined):
                        read_ids.add(event.inbound_id)
                    elif isinstance(event, ApprovalAsked):
                        await self._ask_owner(agent.id, inbound, event)
                    live.handle(event)
                    last = event
        finally:
            await live.close()
        return last

    async def _ask_owner(self, agent_id: str, inbound: Inbound, asked: ApprovalAsked) -> None:
        """Asks the owner whether a tool call may run.

        The question goes to the private chat that the message came from, or else to the one in which the
        owner wrote last: nobody else may read what a call is about.
        """
        is_here = inbound.is_owner is True and inbound.chat_kind == "direct"
        chats = (inbound,) if is_here else await self._ledger.owner_chats(agent_id)
        for chat in chats:
            if await self._notify(chat, _question(asked, None if is_here else inbound)):
                return
        log.warning(
            "the call %s of %s waits for approval, but the owner has no private chat here in which to ask",
            asked.approval_id,
            asked.tool_name,
        )

    async def _fail(self, batch: Sequence[Received], inbound: Inbound, error: AgentError) -> None:
        if isinstance(error, TurnCancelled):
            if self._agent_of(batch[0]).is_closed and not self._is_stopped(batch[0].session_key):
                raise TurnLeftOpen(str(error))
            await self.finish(batch, "")
            return
        log.warning("a message of %s was not answered: %s", batch[0].session_key, error)
        # An error may name files, people and providers, so only the owner in private reads it. The reason
        # of a refusal is the hook's own. Nobody waits for a heartbeat, and the next one may succeed.
        in_private = inbound.is_owner is True and inbound.chat_kind == "direct"
        text = str(error) if in_private or isinstance(error, MessageRefused) else FAILED
        await self.finish(batch, "" if inbound.trigger == "heartbeat" else text)


def _is_unreachable(error: AgentError) -> bool:
    if isinstance(error, AllModelsFailed):
        return any(map(_is_unreachable, error.failures))
    return isinstance(error, ModelUnavailable) and not isinstance(error, ModelTimedOut)


def _question(asked: ApprovalAsked, asker: Inbound | None) -> str:
    """The question to the owner. `asker` is the message that led to it, if it is from another chat."""
    call = asked.call
    if asker is not None:
        who, where = (
            f"{shortened(name, SHOWN_NAME_CHARS)!r} ({known})" if name else known
            for name, known in ((asker.sender_name, asker.sender_id), (asker.chat_name, asker.chat_id))
        )
        place = "private" if asker.chat_kind == "direct" else where
        call = f"{who} wrote in {place} on {asker.channel}:\n{call}"
    call = call.replace("`", "\\u0060")  # shown as code, because Markdown hides asterisks
    return (
        f"❓ {asked.why}\n```\n{call}\n```\n"
        f"/approve {asked.approval_id} runs it, /deny {asked.approval_id} [reason] refuses it."
    )


class TurnRunner(Protocol):
    """Runs turns, in this process or in others."""

    has_places: bool
    """Whether the runner itself limits how many turns run at once."""

    def stream(self, agent: Agent, inbound: Inbound) -> AsyncGenerator[Event, None]:
        """The events of a message's turn. The last one says how it ended.

        A message that was passed before resumes its turn. A message without an id is from a client, and its
        turn ends if the client stops reading.
        """

    async def admit(self, agent: Agent, inbound: Inbound) -> None:
        """Raises an `AgentError` if the message of a client would be refused now."""

    async def problem(self, agent: Agent) -> str:
        """A sentence that says why turns of an agent only wait; empty if they do not."""

    def limited(self, agent: Agent, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Events outside of a turn, such as a question to the model alone, within the agent's limits."""

    def runs_here(self, agent: Agent, inbound: Inbound) -> bool:
        """Whether a message's turn runs in this process, so that the message may have ended the process."""

    def stop(self, agent: Agent, inbound: Inbound) -> None:
        """Stops the turns of a message's session."""

    def join(self, agent: Agent, inbound: Inbound) -> bool:
        """Adds a message to the running turn of its session. Returns whether there is one.

        `MessageJoined` among the turn's events says that the turn has read it.
        """


class RunHere:
    """Runs each turn in this process."""

    has_places = False

    def stream(self, agent: Agent, inbound: Inbound) -> AsyncGenerator[Event, None]:
        return agent.stream(inbound)

    async def admit(self, agent: Agent, inbound: Inbound) -> None:
        """Refuses nothing."""

    async def problem(self, agent: Agent) -> str:  # noqa: ARG002 - there is none
        return ""

    def limited(self, agent: Agent, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:  # noqa: ARG002 - there are none
        return events

    def runs_here(self, agent: Agent, inbound: Inbound) -> bool:  # noqa: ARG002 - all turns do
        return True

    def stop(self, agent: Agent, inbound: Inbound) -> None:
        agent.stop(inbound)

    def join(self, agent: Agent, inbound: Inbound) -> bool:
        return agent.join(inbound)
