"""The story of one message in an agent:

route ─► lane ─► open the session ─► a command ─► its reply
                                 └─► words ─► (a session whose time has come ends) ─► on disk ─► answer
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import PurePosixPath

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.prompts import render
from nacre.record import Record
from nacre.runtime.agent.opening.agent_parts import AgentParts
from nacre.runtime.agent.opening.sub_agents import is_sub_agent_key
from nacre.runtime.commands.command import Command, CommandRun, Outcome, said
from nacre.runtime.commands.review_commands import APPROVE, DENY
from nacre.runtime.commands.status import STATUS
from nacre.runtime.contracts.errors import (
    AgentError,
    ApprovalNotFound,
    SessionInUse,
    TurnBroken,
    TurnCancelled,
)
from nacre.runtime.contracts.events import (
    Emit,
    Event,
    MessageJoined,
    ReplyReady,
    Silence,
    TextStreamed,
    TurnFailed,
    Warned,
)
from nacre.runtime.contracts.inbound import Attachment, Inbound, Reply
from nacre.runtime.contracts.policy import ChatPolicy, notes_folder_of
from nacre.runtime.hooks.hooks import run_inbound_hooks, run_outbound_hooks, without_streamed_text
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY
from nacre.runtime.open_sessions.routing import Route, workspace_access
from nacre.runtime.tools.approvals.store import Approval
from nacre.runtime.turn.inbound.inbound_message import (
    HEARTBEAT_FILE,
    asks_for_nothing,
    heard,
    joined,
    worth_saying,
)
from nacre.runtime.turn.loop.loop import TurnBounds
from nacre.runtime.turn.prompt_parts.system_prompt import own_lines
from nacre.runtime.turn.turn import Turn, settle
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import UserMessage
from nacre.sessions.entries.entries import Compaction, CustomRecord, Entry
from nacre.sessions.index.record import Origin

log = logging.getLogger(__name__)

INTERRUPTED_COMMAND = (
    "The program ended when {name} was given, and it may have been carried out or not. Look at /status, and "
    "give it again if you need it."
)


async def run_turn(parts: AgentParts, inbound: Inbound, where: Route, emit: Emit, bounds: TurnBounds) -> None:
    """Runs one turn and emits how it ended; only a cancellation is raised.

    A message waits for the lane of its session. An answer to a waiting call and `/status` do not wait.
    """
    try:
        worded_inbound = await worded(parts, inbound, where)
        if worded_inbound is None:
            emit(Silence(session_key=where.key, session_id=""))
            return
        inbound = worded_inbound
        parts.reread_settings()
        if not inbound.trigger:
            for sentence in parts.settings_file.to_tell(where.policy):
                emit(Warned(message=sentence))
        if not inbound.trigger and await answered_in_chat(parts, inbound.text, where, emit):
            return
        if parts.lanes.is_busy(where.key) and _asks_for_status(parts, inbound, where):
            emit(await _status_meanwhile(parts, inbound, where, emit))
            return
        async with parts.lanes.enter(where.key, on_wait=lambda text: emit(Warned(message=text))):
            session = await parts.turn.sessions.open(where)
            told = parts.turn.told
            told.once(
                "", (*parts.turn.sessions.index.notices, *parts.upkeep.notices, *parts.history.notices), emit
            )
            told.once(session.session_id, session.notices, emit)
            try:
                hooks, window = parts.turn.hooks, parts.turn.window
                chat = session.chat(window.workspace.place, window.sources)
                turn = parts.chosen.applied(
                    Turn(session, parts.turn, without_streamed_text(hooks, emit), bounds)
                )
                left_over = await parts.turn.approvals.of_session(where.key)
                await settle(turn, left_over, runs=False)
                message = await run_inbound_hooks(hooks, chat, inbound)
                turn, reply = await _outcome(parts, message, turn, has_left_over=bool(left_over))
                if inbound.trigger == "heartbeat":
                    reply = await heartbeat_ended(turn, inbound, reply)
                parts.turn.on_said()
                reply = None if reply is None else await run_outbound_hooks(hooks, chat, reply)
                emit(turn.ending(reply))
            finally:
                parts.history.turn_ended()
                parts.lifecycle.finish(where.key)
                parts.upkeep.start_if_due(parts.running.keys)
    except asyncio.CancelledError:
        emit(TurnFailed(error=TurnCancelled("The turn was stopped.")))
        raise
    except Exception as error:  # noqa: BLE001 - a bug must end in an answer, not in a chat that hangs
        emit(TurnFailed(error=failure_of(parts.settings_file.unseen(error))))


async def refuse(error: Exception, emit: Emit) -> None:
    """The turn of a message that belongs to no session."""
    emit(TurnFailed(error=failure_of(error)))


def stopped() -> TurnFailed:
    """How a turn ends that was stopped before its first step, so that no line of `run_turn` could say so."""
    return TurnFailed(error=TurnCancelled("The turn was stopped before it began."))


async def ending_of(task: asyncio.Task[None], heard: Sequence[Event]) -> ReplyReady | Silence | TurnFailed:
    """Waits for a turn's task; the event that it ended with, the last of those that were `heard`.

    Cancelling the caller stops the turn.
    """
    try:
        await task
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if caller is not None and caller.cancelling():
            raise
    last = heard[-1] if heard else None
    return last if isinstance(last, ReplyReady | Silence | TurnFailed) else stopped()


def _asks_for_status(parts: AgentParts, inbound: Inbound, where: Route) -> bool:
    called = parts.commands.called(inbound.text, where.policy)
    return called is not None and called.command == STATUS


async def _status_meanwhile(
    parts: AgentParts, inbound: Inbound, where: Route, emit: Emit
) -> ReplyReady | Silence:
    """The answer to `/status` while a turn holds the lane: it only looks, so it need not wait."""
    session = await parts.turn.sessions.open(where)
    turn = parts.chosen.applied(Turn(session, parts.turn, emit))
    turn, reply = await _outcome(parts, inbound, turn, has_left_over=False)
    return turn.ending(reply)


async def _outcome(parts: AgentParts, inbound: Inbound, turn: Turn, *, has_left_over: bool) -> Outcome:
    """What comes of a message, and the turn that it ended in: a command may have changed the session."""
    policy, turn.trigger = turn.session.policy, inbound.trigger
    called = None if inbound.trigger else parts.commands.called(inbound.text, policy)
    if called is not None and inbound.redelivered:
        return turn, said(turn.session, INTERRUPTED_COMMAND.format(name=called.command.called_by[0]))
    if called is not None:
        run = CommandRun(
            rest=called.rest,
            attachments=inbound.attachments,
            quoted=inbound.quoted,
            turn=turn,
            config=parts.settings_file.config,
            chosen=parts.chosen,
            lifecycle=parts.lifecycle,
            offered=parts.commands.offered(policy),
        )
        return await called.command.run(run)
    if not inbound.text.strip() and not inbound.has_foreign_words:
        return turn, None
    before = None
    if inbound.redelivered:
        branch = turn.session.branch
        before = heard(branch, inbound.inbound_id, inbound.joined_by)
        for inbound_id in joined(branch, inbound.joined_by):
            turn.emit(MessageJoined(inbound_id=inbound_id))
    if before is not None and before.answer is not None:
        return turn, turn.reply(before.answer, before.said)
    if before is None:
        turn = await _written_down(parts, inbound, turn)
    else:
        turn.words = inbound.text
    if has_left_over:
        # Listed again: the owner may have answered since. Nothing else can have come, the lane is ours.
        await settle(turn, await parts.turn.approvals.of_session(turn.session.key), runs=True)
    return turn, await turn.answer()


async def _written_down(parts: AgentParts, inbound: Inbound, turn: Turn) -> Turn:
    """The turn in which the words stand on disk: another where the session was over before them.

    Only words find a session at its end: a command is about the present one, and what nobody said ends none.
    """
    if inbound.trigger:
        await turn.write_down(inbound.text, inbound.attachments, inbound.inbound_id, quoted=inbound.quoted)
        return turn
    before, turn = turn, await parts.lifecycle.reset_if_due(turn)
    await turn.write_down(inbound.text, inbound.attachments, inbound.inbound_id, quoted=inbound.quoted)
    if turn is not before:
        await before.save_notes()
    return turn


def failure_of(error: Exception) -> AgentError:
    """The error that a turn ends with; what is none of the caller's becomes `TurnBroken`, and is logged.

    A bug must end in an answer, not in a chat that hangs.
    """
    if isinstance(error, AgentError):
        return error
    trace: Exception | None = None
    if isinstance(error, SessionError | MemoryIndexError | PathOutsideRoot):
        text = str(error)
    elif isinstance(error, OSError):
        text = f"The turn broke off: {error}. Check the disk and the folder's permissions, then try again."
    else:
        text = f"The turn broke off on an unexpected {type(error).__name__}: {error}. Please report it."
        trace = error
    log.log(logging.ERROR if trace else logging.WARNING, "a turn broke off: %s", error, exc_info=trace)
    broken = TurnBroken(text)
    broken.__cause__ = error
    return broken


def owner_says(text: str, session: str, attachments: tuple[Attachment, ...] = ()) -> Inbound:
    """What the owner says in private by a program."""
    return Inbound(
        text=text,
        chat_kind="direct",
        channel="python",
        is_owner=True,
        session_key=session,
        attachments=attachments,
    )


NO_LIST = f"There is no {HEARTBEAT_FILE}. Look after whatever you know that the owner is waiting for."


async def worded(parts: AgentParts, inbound: Inbound, where: Route) -> Inbound | None:
    """A message with the words that a model reads; `None` for a heartbeat that there is nothing to ask in.

    Raises:
        OSError, PathOutsideRoot: the list of a heartbeat is there and cannot be read.
    """
    now = _told(parts.turn.now())
    if inbound.trigger == "schedule":
        prompt = "session/scheduled_of_others" if inbound.quoted else "session/scheduled"
        return replace(inbound, text=render(prompt, now=now, text=inbound.text.strip()))
    if inbound.trigger != "heartbeat":
        return inbound
    access = workspace_access(where.key, parts.turn.settings)
    policy = replace(where.policy, access=access)
    if not policy.may_read(PurePosixPath(HEARTBEAT_FILE)):
        return None
    checklist = await _checklist(parts.turn.workspace, parts.turn.window.sources)
    if checklist is None:
        return None
    return replace(inbound, text=render("session/heartbeat", now=now, checklist=checklist))


async def heartbeat_ended(turn: Turn, inbound: Inbound, reply: Reply | None) -> Reply | None:
    """What is delivered of a heartbeat's answer. One that found nothing is out of view afterwards.

    Raises:
        SessionError: the disk refused; the heartbeat stays in view.
    """
    most = turn.parts.settings.agent.heartbeat.ack_max_chars
    text = worth_saying(reply.text, ack_max_chars=most) if reply is not None else ""
    if reply is not None and text:
        return replace(reply, text=text)
    behind = _since(turn, inbound.inbound_id)
    # What a compaction or a flush did holds for the whole conversation.
    if behind and not any(_is_upkeep(entry) for entry in behind):
        await turn.session.journal.rewind(behind[0].parent_id)
    return None


async def _checklist(workspace: Workspace, sources: Sources) -> str | None:
    """What the owner's list says in lines of the owner's, `None` where it asks for nothing."""
    if not workspace.is_there:
        return None
    try:
        file = await workspace.read(HEARTBEAT_FILE)
    except FileNotFoundError:
        return NO_LIST
    text = await own_lines(sources, HEARTBEAT_FILE, file.data.decode("utf-8", "replace"))
    return None if asks_for_nothing(text) else f"{HEARTBEAT_FILE} says:\n\n{text.strip()}"


def _since(turn: Turn, inbound_id: str) -> list[Entry]:
    """The entries of the branch from a message on; none where it does not stand there."""
    branch = turn.session.branch
    for place, entry in reversed(list(enumerate(branch))):
        if isinstance(entry.body, UserMessage) and entry.body.inbound_id == inbound_id != "":
            return list(branch[place:])
    return []


def _is_upkeep(entry: Entry) -> bool:
    body = entry.body
    return isinstance(body, Compaction) or (
        isinstance(body, CustomRecord) and body.custom_type == FLUSH_ENTRY
    )


def _told(now: datetime) -> str:
    return f"{now:%A, %Y-%m-%d %H:%M} {now.tzname()}"


class EventQueue:
    """Events in order; `None` says that there are no more."""

    def __init__(self) -> None:
        self._waiting = deque[Event | None]()
        self._is_there = asyncio.Event()

    def put(self, event: Event | None) -> None:
        """Puts an event behind the others."""
        self._waiting.append(event)
        self._is_there.set()

    async def get(self) -> Event | None:
        """The next event; text that has piled up is one, so that a reader who is late catches up."""
        while not self._waiting:
            self._is_there.clear()
            await self._is_there.wait()
        event = self._waiting.popleft()
        if not isinstance(event, TextStreamed):
            return event
        text = [event.text]
        while self._waiting and isinstance(self._waiting[0], TextStreamed):
            text.append(self._waiting[0].text)
            self._waiting.popleft()
        return event if len(text) == 1 else TextStreamed(text="".join(text))


BUSY_SECONDS = 1.0
"""How long to wait for another process, whose turn goes on with the call, or else the next turn does."""


class ApprovalDoor(Record):
    """The calls of one agent that wait for its owner."""

    parts: AgentParts

    async def list(self) -> tuple[Approval, ...]:
        """The calls that may be approved, the oldest first."""
        return await self.parts.turn.approvals.pending()

    async def approve(self, approval_id: str) -> Reply | None:
        """Approves a call by its id, or the beginning of it.

        The call runs once, with the arguments that were shown. `None` when a turn that waits goes on with it;
        otherwise the reply of the turn that follows, `None` for silence.

        Raises:
            ApprovalNotFound: no such call waits.
            AgentError: the turn that follows failed; what was done and said is on disk.
        """
        found = await self.parts.turn.approvals.find(approval_id)
        ending = await approved(self.parts, found, emit=lambda _event: None)
        return ending.reply if isinstance(ending, ReplyReady) else None

    async def deny(self, approval_id: str, reason: str = "") -> None:
        """Denies a call; the model is told, with the reason.

        Raises:
            ApprovalNotFound: no such call waits.
        """
        found = await self.parts.turn.approvals.find(approval_id)
        await self.parts.turn.approvals.answer(found.id, approved=False, reason=reason)

    async def withdraw(self, session_key: str) -> None:
        """Makes void what the turns of a session ask and nobody has answered: whoever spoke there said stop.

        Raises:
            SessionError: the disk refused.
        """
        await self.parts.turn.approvals.withdraw(session_key)


async def approved(parts: AgentParts, approval: Approval, *, emit: Emit) -> ReplyReady | Silence | None:
    """Approves a call, and runs it where no turn waits for it; the ending of the turn that follows.

    `None` when somebody else goes on with it.

    Raises:
        ApprovalNotFound: it does not wait any more, or a sub-agent asked that has ended.
    """
    approvals = parts.turn.approvals
    await approvals.answer(approval.id, approved=True)
    if approvals.is_awaited(approval.id):
        return None
    where = _route(approval)
    try:
        async with parts.lanes.enter(
            where.key, on_wait=lambda text: emit(Warned(message=text)), wait_seconds=BUSY_SECONDS
        ):
            if is_sub_agent_key(where.key):
                # Its lane is free, so it has ended; the agent would go on there with tools of its own.
                await approvals.forget(approval.id)
                raise ApprovalNotFound(
                    f"The sub-agent that asked for {approval.tool_name} has ended. Ask for its task anew."
                )
            return await _waiting_told(parts, where, emit)
    except SessionInUse:
        return None


async def _waiting_told(parts: AgentParts, where: Route, emit: Emit) -> ReplyReady | Silence | None:
    session = await parts.turn.sessions.open(where)
    hooks, chat = parts.turn.hooks, session.chat(parts.turn.workspace.place, parts.turn.window.sources)
    turn = parts.chosen.applied(
        Turn(session, parts.turn, without_streamed_text(hooks, emit), TurnBounds(parts.limits))
    )
    if not await settle(turn, await parts.turn.approvals.of_session(where.key), runs=True):
        return None
    reply = await turn.answer()
    parts.turn.on_said()
    return turn.ending(None if reply is None else await run_outbound_hooks(hooks, chat, reply))


def _route(approval: Approval) -> Route:
    """Where the call was asked, with the policy that held there; whoever approves it lends it no other."""
    policy = ChatPolicy(
        chat_kind=approval.chat_kind,
        is_owner=approval.is_owner,
        session_key_is_private=approval.is_private_key,
        notes_folder=notes_folder_of(approval.session_key),
    )
    return Route(key=approval.session_key, policy=policy, origin=Origin(**approval.origin))


async def answered_in_chat(parts: AgentParts, text: str, where: Route, emit: Emit) -> bool:
    """Whether a message was the owner's answer to a call that waits; then it is carried out, and told."""
    called = parts.commands.called(text, where.policy)
    if called is None or called.command not in (APPROVE, DENY):
        return False
    approval_id, _, reason = called.rest.partition(" ")
    try:
        said = await _answer_approval(parts, called.command, approval_id, reason, where, emit)
    except ApprovalNotFound as error:
        said = str(error)
    if isinstance(said, str):
        emit(ReplyReady(reply=Reply(text=said, session_key=where.key, session_id="", is_command=True)))
    else:
        emit(said)
    return True


async def _answer_approval(
    parts: AgentParts, command: Command, approval_id: str, reason: str, where: Route, emit: Emit
) -> str | ReplyReady | Silence:
    approvals = parts.turn.approvals
    if not approval_id:
        pending = [each for each in await approvals.pending() if _may_answer(each, where)]
        return waiting_list(pending)
    found = await approvals.find(approval_id)
    if not _may_answer(found, where):
        return "This call was asked elsewhere. Answer it there, or in a private chat with the assistant."
    if command is DENY:
        await approvals.answer(found.id, approved=False, reason=reason)
        return f"Denied: {found.tool_name}. The assistant is told."
    ending = await approved(parts, found, emit=emit)
    return ending or f"Approved: {found.tool_name}. The turn that asked goes on with it."


def _may_answer(approval: Approval, where: Route) -> bool:
    """Whether the owner may answer here: in private, or where it was asked."""
    return where.policy.is_owner and (where.policy.is_private or where.key == approval.session_key)


def waiting_list(pending: list[Approval]) -> str:
    """The answer to `/approve` alone."""
    if not pending:
        return "No call waits for your approval."
    lines = [f"{each.id}  {each.tool_name} in {each.session_key}: {each.why}" for each in pending]
    return "\n".join([*lines, "/approve ID lets a call run, /deny ID [reason] does not."])
