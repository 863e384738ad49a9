"""How an agent answers one message, or a heartbeat:

route ─► lock ─► open the session ─► a command ─► its reply
                                 └─► words ─► (an expired session ends) ─► on disk ─► answer
"""

from __future__ import annotations

import asyncio
import logging
import re
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import cast

from nacre.memory.contracts.errors import MemoryIndexError
from nacre.memory.contracts.workspace import PathOutsideRoot, Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.prompts import render
from nacre.runtime.agent.approvals import answer_in_chat, settle
from nacre.runtime.agent.opening.agent_parts import AgentParts
from nacre.runtime.commands.command import CommandRun, Outcome, command_reply
from nacre.runtime.commands.session_commands import APPROVE, DENY
from nacre.runtime.commands.status import STATUS
from nacre.runtime.contracts.errors import AgentError, ConfigError, TurnBroken, TurnCancelled
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
from nacre.runtime.hooks.hooks import run_inbound_hooks, run_outbound_hooks, without_streamed_text
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY, OpenSession
from nacre.runtime.open_sessions.routing import Route, workspace_access
from nacre.runtime.turn.inbound_message import earlier_attempt, joined
from nacre.runtime.turn.loop import TurnBounds
from nacre.runtime.turn.system_prompt import own_lines
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import AskOptions, CallOptions, TurnOptions
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import UserMessage
from nacre.sessions.entries.entries import Compaction, Entry

log = logging.getLogger(__name__)

INTERRUPTED_COMMAND = (
    "Nacre stopped while it handled {name}, which may or may not have taken effect. Look at /status, and "
    "send it again if you need it."
)


async def run_turn(
    parts: AgentParts, inbound: Inbound, route: Route, emit: Emit, bounds: TurnBounds, options: TurnOptions
) -> None:
    """Runs one turn and emits how it ended; only a cancellation is raised.

    A message waits until no other turn runs in its session. Answers to approvals and `/status` do not wait.
    """
    try:
        called = None
        if inbound.trigger:
            message = await triggered_message(parts, inbound, route)
            if message is None:
                emit(Silence(session_key=route.key, session_id=""))
                return
            inbound = message
        parts.reread_settings()
        if not inbound.trigger:
            for sentence in parts.settings_file.take_notices(route.policy):
                emit(Warned(message=sentence))
            called = parts.commands.called(inbound.text, route.policy)
            if called is not None and called.command in (APPROVE, DENY):
                await answer_in_chat(parts, called, route, emit)
                return
        if called is not None and called.command == STATUS and parts.locks.is_busy(route.key):
            turn = _turn(parts, await parts.turn.sessions.open(route), emit)
            turn, reply = await _outcome(parts, inbound, turn, has_left_over=False)
            emit(turn.ending(reply))
            return
        async with parts.locks.enter(route.key, on_wait=lambda text: emit(Warned(message=text))):
            session = await parts.turn.sessions.open(route)
            shared = (*parts.turn.sessions.index.notices, *parts.upkeep.notices, *parts.turn.history.notices)
            parts.turn.notice_log.once("", shared, emit)
            parts.turn.notice_log.once(session.session_id, session.notices, emit)
            try:
                hooks, chat = parts.turn.hooks, parts.turn.chat(session)
                turn = _turn(parts, session, without_streamed_text(hooks, emit), bounds, options)
                left_over = await parts.turn.approvals.of_session(session.key)
                if left_over:
                    await settle(turn, left_over, runs=False)
                message = await run_inbound_hooks(hooks, chat, inbound)
                turn, reply = await _outcome(parts, message, turn, has_left_over=bool(left_over))
                if inbound.trigger == "heartbeat":
                    reply = await heartbeat_reply(turn, inbound, reply)
                parts.turn.memory.transcripts_changed()
                if reply is not None:
                    reply = await run_outbound_hooks(hooks, chat, reply)
                emit(turn.ending(reply))
            finally:
                parts.turn.history.turn_ended()
                parts.lifecycle.finish(route.key)
                parts.upkeep.start_if_due(parts.running.keys)
    except asyncio.CancelledError:
        emit(TurnFailed(error=TurnCancelled("The turn was stopped.")))
        raise
    except Exception as error:  # noqa: BLE001 - a bug must end in an answer, not in a chat that hangs
        emit(TurnFailed(error=failure_of(parts.settings_file.hide_values(error))))


def _turn(
    parts: AgentParts,
    session: OpenSession,
    emit: Emit,
    bounds: TurnBounds | None = None,
    options: TurnOptions | None = None,
) -> Turn:
    of_turn = parts.turn if options is None else replace(parts.turn, options=options)
    return parts.chosen.applied(Turn(session, of_turn, emit, bounds))


async def _outcome(parts: AgentParts, inbound: Inbound, turn: Turn, *, has_left_over: bool) -> Outcome:
    """The reply to a message, and the turn that it ended in: a command may have changed the session."""
    policy, turn.trigger = turn.session.policy, inbound.trigger
    called = None if inbound.trigger else parts.commands.called(inbound.text, policy)
    if called is not None and inbound.redelivered:
        return turn, command_reply(turn.session, INTERRUPTED_COMMAND.format(name=called.command.called_by[0]))
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
    earlier = None
    if inbound.redelivered:
        branch = turn.session.branch
        earlier = earlier_attempt(branch, inbound.inbound_id, inbound.joined_by)
        for inbound_id in joined(branch, inbound.joined_by):
            turn.emit(MessageJoined(inbound_id=inbound_id))
    if earlier is not None and earlier.answer is not None:
        return turn, turn.reply(earlier.answer, earlier.texts)
    if earlier is None:
        before = turn
        if not inbound.trigger:  # only a person's words end an expired session
            turn = await parts.lifecycle.reset_if_due(turn)
        await turn.write_down(inbound.text, inbound.attachments, inbound.inbound_id, quoted=inbound.quoted)
        if turn is not before:
            await before.save_notes()
    else:
        turn.words = inbound.text
    if has_left_over:
        # Listed again: the owner may have answered since. No other call can have come meanwhile.
        await settle(turn, await parts.turn.approvals.of_session(turn.session.key), runs=True)
    return turn, await turn.answer()


def failure_of(error: Exception) -> AgentError:
    """The error that a turn ends with. Unexpected errors become `TurnBroken` and are logged."""
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


def check_chat(inbound: Inbound) -> None:
    """Refuses a program's message whose chat is probably not what its author meant.

    Raises:
        ConfigError: it is not a message with a text, its chat kind is another word for a direct chat, or a
            group has neither an id nor a session. Other unknown kinds count as groups.
    """
    if not isinstance(getattr(inbound, "text", None), str):
        raise ConfigError(
            "`ask` takes a text, `respond` and `stream` take an Inbound. Write agent.ask('Hello') or "
            "agent.respond(Inbound(text='Hello', chat_kind='direct', is_owner=True))."
        )
    if not isinstance(inbound.session_key, str):
        raise ConfigError(f"session={inbound.session_key!r} cannot be used. Give a text, such as 'main'.")
    if not all(isinstance(file, Attachment) for file in inbound.attachments):
        raise ConfigError(
            f"attachments={inbound.attachments!r} cannot be used. Write attachments=(nacre.Attachment("
            "name='cat.png', mime_type='image/png', data=Path('cat.png').read_bytes()),)."
        )
    kind = inbound.chat_kind
    if str(kind).strip().lower() in ("private", "direct", "dm", "im") and kind != "direct":
        raise ConfigError(f"Inbound(chat_kind={kind!r}) would count as a group. Write chat_kind='direct'.")
    is_group = kind in ("group", "channel")
    if is_group and not (inbound.chat_id.strip() or inbound.session_key or inbound.trigger):
        raise ConfigError(
            f"Inbound(chat_kind={kind!r}) has no chat_id, so that all such chats would share one session. "
            "Give the id of the chat, or a session_key."
        )


async def refuse(error: Exception, emit: Emit) -> None:
    """The turn of a message that belongs to no session."""
    emit(TurnFailed(error=failure_of(error)))


def never_began() -> TurnFailed:
    """The ending of a turn that was stopped before `run_turn` could emit one."""
    return TurnFailed(error=TurnCancelled("The turn was stopped before it began."))


def warn_unread(begun: Sequence[bool]) -> None:
    """Warns of a stream that is gone and was never read."""
    if not begun:
        warnings.warn(
            "The result of agent.stream(…) was never read, so no turn ran. "
            "Write `async for event in agent.stream(…):`, or `await agent.respond(…)`.",
            RuntimeWarning,
            stacklevel=2,
        )


async def wait_for_ending(
    task: asyncio.Task[None], events: Sequence[Event]
) -> ReplyReady | Silence | TurnFailed:
    """Waits for a turn's task and returns the last of its `events`. Cancelling the caller stops the turn."""
    try:
        await task
    except asyncio.CancelledError:
        caller = asyncio.current_task()
        if caller is not None and caller.cancelling():
            raise
    last = events[-1] if events else None
    return last if isinstance(last, ReplyReady | Silence | TurnFailed) else never_began()


def owner_message(
    text: str, session: str, attachments: tuple[Attachment, ...] = (), context: object = None
) -> Inbound:
    """A private message of the owner, sent by a program."""
    return Inbound(
        text=text,
        chat_kind="direct",
        channel="python",
        is_owner=True,
        session_key=session,
        attachments=attachments,
        context=context,
    )


def message_and_options(text: str, options: AskOptions) -> tuple[Inbound, CallOptions]:
    """A private message of the owner with what comes with it, and the options of its turn."""
    session, context = options.pop("session", ""), options.pop("context", None)
    inbound = owner_message(text, session, options.pop("attachments", ()), context)
    return inbound, cast("CallOptions", options)


class EventQueue:
    """Events in order; `None` marks the end."""

    def __init__(self) -> None:
        self._waiting = deque[Event | None]()
        self._is_there = asyncio.Event()

    def put(self, event: Event | None) -> None:
        self._waiting.append(event)
        self._is_there.set()

    async def get(self) -> Event | None:
        """The next event; text events that have piled up are joined, so that a slow reader catches up."""
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


HEARTBEAT_TOKEN = "HEARTBEAT_OK"
HEARTBEAT_FILE = "HEARTBEAT.md"
"""The owner's list of what to look at, in the workspace."""

NO_LIST = f"There is no {HEARTBEAT_FILE}. Look after whatever you know that the owner is waiting for."

_MARKUP = " \t\r\n\f\v*_`~\u200b\ufeff"
_STOPS = ".!。！,:;-–—"
_TAG = re.compile(r"<[^<>]{0,40}>|&nbsp;")
_TAG_AT_END = re.compile(r"(?:<[^<>]{0,40}>|&nbsp;)\Z")
_LONGEST_TAG = 42
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ASKS_FOR_NOTHING = re.compile(r"\s*(?:#+(?:\s.*)?|[-*+](?:\s+\[[ xX]?\])?|\s*)\s*")


async def triggered_message(parts: AgentParts, inbound: Inbound, route: Route) -> Inbound | None:
    """A triggered message with the text that a model reads; `None` for a heartbeat without a task.

    Raises:
        OSError, PathOutsideRoot: HEARTBEAT.md exists and cannot be read.
    """
    moment = parts.turn.now()
    now = f"{moment:%A, %Y-%m-%d %H:%M} {moment.tzname()}"
    if inbound.trigger == "schedule":
        prompt = "session/scheduled_of_others" if inbound.quoted else "session/scheduled"
        return replace(inbound, text=render(prompt, now=now, text=inbound.text.strip()))
    policy = replace(route.policy, access=workspace_access(route.key, parts.turn.settings))
    if not policy.may_read(PurePosixPath(HEARTBEAT_FILE)):
        return None
    checklist = await _checklist(parts.turn.workspace, parts.turn.sources)
    if checklist is None:
        return None
    return replace(inbound, text=render("session/heartbeat", now=now, checklist=checklist))


async def heartbeat_reply(turn: Turn, inbound: Inbound, reply: Reply | None) -> Reply | None:
    """Returns what to deliver of a heartbeat's answer, and removes one that found nothing from the view.

    Raises:
        SessionError: the disk refused; the heartbeat stays in view.
    """
    most = turn.parts.settings.agent.heartbeat.ack_max_chars
    text = worth_saying(reply.text, ack_max_chars=most) if reply is not None else ""
    if reply is not None and text:
        return replace(reply, text=text)
    entries = _entries_since(turn, inbound.inbound_id)
    # A compaction or a flush is about the whole conversation, so it stays in view.
    is_kept = any(
        isinstance(entry.body, Compaction) or entry.custom_data(FLUSH_ENTRY) is not None for entry in entries
    )
    if entries and not is_kept:
        await turn.session.journal.rewind(entries[0].parent_id)
    return None


async def _checklist(workspace: Workspace, sources: Sources) -> str | None:
    """The owner's own lines of the list; `None` when it contains no task."""
    if not workspace.is_there:
        return None
    try:
        file = await workspace.read(HEARTBEAT_FILE)
    except FileNotFoundError:
        return NO_LIST
    text = await own_lines(sources, HEARTBEAT_FILE, file.text)
    return None if asks_for_nothing(text) else f"{HEARTBEAT_FILE} says:\n\n{text.strip()}"


def _entries_since(turn: Turn, inbound_id: str) -> list[Entry]:
    """The entries of the branch from a message on; none if the message is not on it."""
    branch = turn.session.branch
    for place, entry in reversed(list(enumerate(branch))):
        if isinstance(entry.body, UserMessage) and entry.body.inbound_id == inbound_id != "":
            return list(branch[place:])
    return []


def worth_saying(text: str, *, ack_max_chars: int) -> str:
    """Returns what to deliver of a heartbeat's answer; empty for nothing.

    The token is cut off at both ends, with the markup around it. If there was one, a rest of at most
    `ack_max_chars` is dropped, too. A token in the middle is a word like any other.

    >>> worth_saying("**HEARTBEAT_OK**", ack_max_chars=300)
    ''
    >>> worth_saying("HEARTBEAT_OK is what I would say, but the disk is full.", ack_max_chars=10)
    'is what I would say, but the disk is full.'
    """
    rest, had_token = text.strip(), False
    for cut in (_without_leading, _without_trailing):
        while (shorter := cut(rest)) is not None:
            rest, had_token = shorter, True
    return "" if had_token and len(rest) <= ack_max_chars else rest


def asks_for_nothing(checklist: str) -> bool:
    """Whether a list has only headings, comments, empty lines and empty items."""
    return all(_ASKS_FOR_NOTHING.fullmatch(line) for line in _COMMENT.sub("", checklist).splitlines())


def _without_leading(text: str) -> str | None:
    """The text after a leading token; `None` if there is none."""
    rest = text.lstrip(_MARKUP)
    while tag := _TAG.match(rest):
        rest = rest[tag.end() :].lstrip(_MARKUP)
    token, behind = rest[: len(HEARTBEAT_TOKEN)], rest[len(HEARTBEAT_TOKEN) :]
    if token.upper() != HEARTBEAT_TOKEN or behind[:1].isalnum():
        return None
    behind = behind.lstrip("*_`~").lstrip(_STOPS)
    while tag := re.match(r"</[^<>]{0,40}>", behind):
        behind = behind[tag.end() :]
    return behind.strip()


def _without_trailing(text: str) -> str | None:
    """The text before a trailing token; `None` if there is none."""
    rest = text.rstrip(_MARKUP + _STOPS)
    while tag := _TAG_AT_END.search(rest[-_LONGEST_TAG:]):
        rest = rest[: len(rest) - len(tag[0])].rstrip(_MARKUP + _STOPS)
    before, token = rest[: -len(HEARTBEAT_TOKEN)], rest[-len(HEARTBEAT_TOKEN) :]
    if token.upper() != HEARTBEAT_TOKEN or before[-1:].isalnum():
        return None
    before = before.rstrip("*_`~")
    while tag := re.search(r"<[a-zA-Z][^<>]{0,40}>\Z", before[-_LONGEST_TAG:]):
        before = before[: len(before) - len(tag[0])]
    return before.rstrip()
