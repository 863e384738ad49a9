"""One turn: from a person's words to the reply.

    write_down ─► answer ─► loop: request ─► ask ─► record ─► tools ─► request ─► … ─► reply
                                   │
                                   └─ the window makes room; logs and notes are recalled

Whatever is said stands on disk before the next step begins.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

from nacre.prompts import quoted, render
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import (
    ContextOverflow,
    MessageRefused,
    TurnCancelled,
    TurnTimedOut,
    UsageLimitReached,
)
from nacre.runtime.contracts.events import Emit, MessageJoined, ReplyReady, Silence, Warned
from nacre.runtime.contracts.inbound import Attachment, Inbound, Quoted, Reply, Trigger
from nacre.runtime.contracts.model import Ask, ModelRequest, takes_images
from nacre.runtime.contracts.silence import is_silent, without_token
from nacre.runtime.hooks.hooks import around_turn, run_inbound_hooks, with_model_hooks
from nacre.runtime.models.failover import Candidate, ModelChain
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.tools.approvals.store import Approval
from nacre.runtime.turn.context import TurnContext, denied_text, recalled, waiting_text
from nacre.runtime.turn.inbound.inbound_message import message_of, unread_message
from nacre.runtime.turn.loop.loop import TurnBounds, paused, run_loop, run_tool
from nacre.runtime.turn.prompt_parts.system_prompt import recall_is_due
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.runtime.turn.window.window import Window
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Message,
    Text,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_text,
    speaker_label,
)
from nacre.sessions.entries.entries import CustomMessage, Entry

log = logging.getLogger(__name__)


APPROVAL_TYPE = "nacre.approval"
SHOWN_ARGUMENT_CHARS = 4_000


async def settle(turn: Turn, left_over: Sequence[Approval], *, runs: bool) -> bool:
    """Tells the session's conversation what became of its calls that waited, which are `left_over`.

    With `runs` approved ones are run; that takes as long as a tool does, so a person's words are written
    down before. Calls that still wait get a result that says so, where a kill left them without one.
    `True` when a model should hear of it: something new stands in the transcript.

    Raises:
        SessionError: the disk refused; what is not told yet will be told the next time.
    """
    has_news = False
    for approval in left_over:
        has_news = await _settled(turn, approval, runs=runs) or has_news
    return has_news


async def _settled(turn: Turn, approval: Approval, *, runs: bool) -> bool:
    approvals, branch = turn.parts.approvals, turn.session.branch
    if approval.state in ("asked", "approved") and _is_told(branch, approval):
        await approvals.forget(approval.id)  # an older copy that somebody brought back: it ran, or was denied
        return False
    waits = approval.state in ("asked", "approved") and not approval.is_expired(turn.now_ms())
    result = result_of(branch, approval)
    if waits and not (runs and approval.state == "approved"):
        if result is None and is_open(branch, approval):
            await turn.record(_result(turn, approval, waiting_text(approval), is_error=True))
        return False
    if result is not None and result != waiting_text(approval):
        await approvals.forget(approval.id)
        return False
    if approval.state == "approved":
        claimed = await approvals.claim(approval.id)
        if claimed is None:
            return False
        approval = await _run(turn, claimed)
    text, is_error = outcome_of(approval)
    if result is None and is_open(branch, approval):
        await turn.record(_result(turn, approval, text, is_error=is_error))
    elif not _is_told(branch, approval):
        await _tell(turn, approval, text, is_error=is_error)
    await approvals.forget(approval.id)
    return True


async def _run(turn: Turn, approval: Approval) -> Approval:
    """Runs a claimed call as it was shown, and keeps what came of it."""
    context = await turn.context()
    context.guard.let_pass(approval)
    call = ToolCall(id=approval.call_id, name=approval.tool_name, arguments=approval.arguments)
    outcome = await run_tool(context.toolbox, call, turn.emit)
    return replace(
        approval,
        state="done",
        result=message_text(outcome.message),
        is_error=outcome.message.is_error,
    )


def outcome_of(approval: Approval) -> tuple[str, bool]:
    """What the model is told of a call, and whether that is a failure. Pure."""
    match approval.state:
        case "done":
            return approval.result, approval.is_error
        case "denied":
            return denied_text(approval), True
        case "running":
            return (
                "The owner approved this call, and the program ended while it ran. It may have done its work "
                "or a part of it, and is not run again. Look whether it did before you call it anew."
            ), True
        case _:
            return "Not run: the owner did not answer in time.", True


def is_open(branch: Sequence[Entry], approval: Approval) -> bool:
    """Whether a result can still follow the call directly: nothing but results came behind it. Pure."""
    for entry in reversed(branch):
        if entry.id == approval.message_id:
            return True
        if isinstance(entry.body, Message | CustomMessage) and not isinstance(entry.body, ToolResultMessage):
            return False
    return False


def result_of(branch: Sequence[Entry], approval: Approval) -> str | None:
    """The text of the call's result, `None` while it has none on this branch. Pure."""
    found: str | None = None
    for entry in reversed(branch):
        if entry.id == approval.message_id:
            return found
        if isinstance(entry.body, ToolResultMessage) and entry.body.tool_call_id == approval.call_id:
            found = message_text(entry.body)
    return None  # the call itself is not here: whatever bears its id belongs to another


def _is_told(branch: Sequence[Entry], approval: Approval) -> bool:
    return any(
        isinstance(entry.body, CustomMessage)
        and entry.body.custom_type == APPROVAL_TYPE
        and (entry.body.details or {}).get("approvalId") == approval.id
        for entry in branch
    )


async def _tell(turn: Turn, approval: Approval, text: str, *, is_error: bool) -> None:
    """Puts the outcome into the conversation as data: behind the call there is no room for it any more."""
    fitted = await (await turn.context()).results.fitted(_result(turn, approval, text, is_error=is_error))
    if approval.state == "done":
        verdict = "It failed" if is_error else "It ran"
        result = quoted(message_text(fitted))
        outcome = f"The owner approved it. {verdict}, and this is its result:\n\n{result}"
    else:
        outcome = text
    shown = json.dumps(approval.arguments, ensure_ascii=False)
    if len(shown) > SHOWN_ARGUMENT_CHARS:
        shown = f"{shown[:SHOWN_ARGUMENT_CHARS]} […]"
    content = render("session/approval", name=approval.tool_name, arguments=quoted(shown), outcome=outcome)
    details = {"approvalId": approval.id, "callId": approval.call_id, "state": approval.state}
    await turn.session.journal.append(
        CustomMessage(custom_type=APPROVAL_TYPE, content=content, details=details)
    )


def _result(turn: Turn, approval: Approval, text: str, *, is_error: bool) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=approval.call_id,
        tool_name=approval.tool_name,
        content=(Text(text=text),),
        is_error=is_error,
        timestamp_ms=turn.now_ms(),
    )


async def written_down(
    session: OpenSession,
    parts: TurnParts,
    text: str,
    attachments: tuple[Attachment, ...],
    *,
    quoted: Sequence[Quoted] = (),
    inbound_id: str,
    sender: str = "",
    speaker: str = "",
    is_said: bool = True,
) -> None:
    """Puts a message on disk with what can be read of its files; `is_said` by somebody, the `sender`.

    Who that was is written down where others than the owner may speak; the `speaker`, in groups.

    Reading may take long. A message that is stopped meanwhile stands there with its files unread; but not one
    with an id, which whoever handed it in keeps and can hand in again.
    """
    now_ms = session.now_ms()
    write = session.say if is_said else session.write
    try:
        message = await message_of(
            text,
            attachments,
            quoted=quoted,
            takes_images=takes_images(parts.model),
            voice_notes=parts.voice_notes,
            timestamp_ms=now_ms,
            inbound_id=inbound_id,
        )
    except asyncio.CancelledError:
        if not inbound_id:
            unread = unread_message(text, attachments, quoted=quoted, timestamp_ms=now_ms)
            await write(_by(sender, speaker, session, unread))
        raise
    await write(_by(sender, speaker, session, message))


def _by(sender: str, speaker: str, session: OpenSession, message: UserMessage) -> UserMessage:
    if session.policy.is_private:
        return message
    return replace(
        message, sender=sender.strip(), speaker=speaker if session.policy.audience == "group" else ""
    )


async def taken_in(session: OpenSession, parts: TurnParts, said: Sequence[Inbound], emit: Emit) -> None:
    """Puts messages on disk that were said while tools ran, as the hooks let them through."""
    chat = session.chat(parts.workspace.place, parts.window.sources)
    for each in said:
        try:
            inbound = await run_inbound_hooks(parts.hooks, chat, each)
        except MessageRefused as refused:
            log.info("a message does not join the turn of %s: %s", session.key, refused)
            continue
        await written_down(
            session,
            parts,
            inbound.text,
            inbound.attachments,
            quoted=inbound.quoted,
            inbound_id=each.inbound_id,
            sender=each.sender_id,
            speaker=speaker_label(each.sender_name, each.sender_id, is_owner=each.is_owner is True),
        )
        emit(MessageJoined(inbound_id=each.inbound_id))


MOST_SHORTENINGS = 3
"""How often in a turn what a provider calls too long is halved where no compaction helps."""

BROKEN_ANSWER_ENTRY = "nacre.broken_answer"


class Turn:
    """An open session in the hands of its agent: what a message, a command or an ending is carried out on.

    `parts` is what the agent's turns share, `emit` hears what happens. `usage` sums the tokens and the cost
    of the turn's answers; `None` until a provider has reported any. `bounds` limit it; `words` it answers.
    `trigger` made these where nobody said them.
    """

    def __init__(
        self, session: OpenSession, parts: TurnParts, emit: Emit, bounds: TurnBounds | None = None
    ) -> None:
        self.session = session
        self.parts = parts
        self.emit = emit
        self.bounds = bounds or TurnBounds()
        self.usage: Usage | None = None
        self._asked: Candidate | None = None
        self._context: TurnContext | None = None
        self._window: Window | None = None
        self._deadline = asyncio.timeout(None)
        self._said: list[str] = []
        self.words = ""
        self.trigger: Trigger = ""
        self._has_overflowed = False
        self._shortenings = 0

    def of_session(self, session: OpenSession) -> Turn:
        """The same, of another session."""
        return Turn(session, self.parts, self.emit, self.bounds)

    def with_models(self, models: ModelChain) -> Turn:
        """The same, with other models."""
        if models is self.parts.models:
            return self
        return Turn(self.session, replace(self.parts, models=models), self.emit, self.bounds)

    async def write_down(
        self,
        text: str,
        attachments: tuple[Attachment, ...],
        inbound_id: str = "",
        *,
        quoted: Sequence[Quoted] = (),
    ) -> None:
        """Puts a person's words, or what stands in their place, on disk with what came with them."""
        self.words = text
        origin, is_owner = self.session.route.origin, self.session.policy.is_owner is True
        speaker = (
            "" if self.trigger else speaker_label(origin.sender_name, origin.sender_id, is_owner=is_owner)
        )
        await written_down(
            self.session,
            self.parts,
            text,
            attachments,
            quoted=quoted,
            inbound_id=inbound_id,
            sender=origin.sender_id,
            speaker=speaker,
            is_said=not self.trigger,
        )

    async def answer(self) -> Reply | None:
        """The reply to what was written down, or `None` for silence.

        Raises:
            ModelError: no answer could be had; the words and all that followed are on disk.
            TurnTimedOut: the answer took too long; the same holds.
            UsageLimitReached, TurnCancelled: the turn ended before its answer; the same holds.
        """
        session, parts = self.session, self.parts
        agent, window = parts.settings.agent, parts.window
        chat = session.chat(window.workspace.place, window.sources)
        async with around_turn(
            parts.hooks, chat, model_name=parts.model.name, usage=lambda: self.usage
        ) as replied:
            if parts.sub_agent is None:
                for source in parts.tool_sources:
                    await source.ready(session.policy)
            context = await self.context()
            self._deadline = asyncio.timeout(agent.timeout_seconds)
            try:
                async with self._limits():
                    answer = await run_loop(
                        self,
                        ask=self._ask(),
                        toolbox=context.toolbox,
                        emit=self.emit,
                        max_steps=agent.max_steps,
                        bounds=self.bounds,
                    )
                window_tokens = parts.models.window_tokens_of(answer)
                await session.line.answered(
                    answer, window_tokens=window_tokens, compactions=session.compaction_count
                )
            finally:
                await session.line.try_settle()
            reply = self.reply(answer, self._said)
            if parts.sub_agent is None and not self.trigger:
                parts.memory.capture(context.chat, self.words, reply.text if reply else "")
            replied(reply)
        return reply

    @asynccontextmanager
    async def _limits(self) -> AsyncIterator[None]:
        """Holds the turn to its time, lets messages join it, and words what ends it before its answer."""
        line = self.session.line
        try:
            with self.bounds.joining.open():
                async with self._deadline:
                    yield
        except (asyncio.CancelledError, TurnCancelled, UsageLimitReached):
            await line.aborted()
            raise
        except TimeoutError as error:
            if not self._deadline.expired():
                raise
            await line.aborted()
            raise TurnTimedOut(
                f"The turn was stopped after {self.parts.settings.agent.timeout_seconds:.15g} seconds. "
                "What was said and done until then is kept: ask to go on, "
                "ask for less at once, or raise agents.defaults.timeoutSeconds."
            ) from error
        except ContextOverflow as overflow:
            raise ContextOverflow(
                f"{overflow} If your last message is very long, send less of it, or put it into a file of "
                "the workspace; /new begins a fresh session.",
                detail=overflow.detail,
            ) from overflow

    async def save_notes(self) -> None:
        """The flush before the session is left, if anything was said in it since the last one."""
        if self.session.flushes.has_unflushed_messages:
            await (await self.window()).flush_before_leaving()

    async def window(self) -> Window:
        """The session's window, that of the model which is asked first."""
        if self._window is None:
            self._window = await self._window_in((await self._asked_first()).budget)
        return self._window

    # What the loop asks of a conversation.

    async def request(self) -> ModelRequest:
        """The whole context, after the window has made room."""
        with paused(self._deadline):
            await (await self.window()).keep()
        session, context = self.session, await self.context()
        if recall_is_due(session.branch):
            await self.recall()
        await context.bring_up_to_date()
        return ModelRequest(
            system=await context.system(),
            messages=session.view.messages(),
            tools=context.specs,
            purpose="background" if self.trigger else "turn",
        )

    async def make_room(self, overflow: ContextOverflow) -> bool:
        """Shortens what is too large, or flushes and compacts once a turn; a second overflow is the caller's.

        An overflow may have told how large the window is. One that nobody knows is taken for no larger than
        what it refused: the size assumed for it would keep too much, and be refused again.
        """
        if self._has_overflowed:
            return False
        log.warning("the window of %s overflowed: %s", self.session.key, overflow)
        window = await self._window_in((await self.parts.models.current()).budget)
        if overflow.window_tokens is not None:
            window = await self._window_in(self.parts.models.budget_of(overflow.window_tokens))
        elif window.budget.window_source == "fallback":
            window = await self._window_in(window.budget.within((await window.measure()).tokens))
        self._window = window
        with paused(self._deadline):
            if await self._was_shortened(window):
                return True
            self._has_overflowed = True
            ended = await window.compact("overflow")
        return not ended.problem

    async def _was_shortened(self, window: Window) -> bool:
        """Whether less is sent now of what no compaction takes away, and all of it should fit."""
        if self._shortenings == MOST_SHORTENINGS:
            return False
        self._shortenings += 1
        tokens = (await window.measure()).tokens
        if not await window.shorten(tokens, was_refused=True):
            return False
        return (await window.measure()).tokens <= window.budget.compact_at

    async def record(self, message: Message) -> None:
        """Puts the message on disk, a tool's result no longer than fits."""
        results = (await self.context()).results
        if isinstance(message, ToolResultMessage):
            message = await results.fitted(message)
        await self.session.write(message)
        if isinstance(message, ToolResultMessage):
            await (await self.context()).guard.recorded(message.tool_call_id)
        if isinstance(message, AssistantMessage):
            results.begin_step(len(message.tool_calls))
            if message.usage is not None:
                self.spend(message.usage)
            if message_text(message).strip():
                self._said.append(message_text(message))

    async def take_in(self) -> None:
        """Puts on disk what was said into the turn while its tools ran."""
        await taken_in(self.session, self.parts, self.bounds.joining.take(), self.emit)

    async def set_aside(self, answer: AssistantMessage) -> None:
        """Keeps the beginning of an answer that comes anew, where no model sees it."""
        await self.session.journal.append_custom(BROKEN_ANSWER_ENTRY, answer.to_json())

    def now_ms(self) -> int:
        """The present moment in milliseconds since the epoch."""
        return self.session.now_ms()

    async def recall(self) -> None:
        """Puts logs and notes of the last days into the transcript; what cannot be read costs no turn."""
        if self.parts.sub_agent is None and self.session.policy.loads_daily_logs:
            await recalled(self.session, self.parts, self.emit)

    def spend(self, usage: Usage) -> None:
        """Adds what a model call, or a sub-agent, has used."""
        self.usage = usage if self.usage is None else self.usage + usage

    def _ask(self) -> Ask:
        parts = self.parts
        chat = self.session.chat(parts.workspace.place, parts.window.sources)
        return with_model_hooks(parts.models.ask(self.emit), parts.hooks, chat, model_name=parts.model.name)

    async def _asked_first(self) -> Candidate:
        if self._asked is None:
            self._asked = await self.parts.models.current()
        return self._asked

    async def context(self) -> TurnContext:
        """What every request of the turn carries besides the transcript."""
        if self._context is None:
            self._context = TurnContext(
                self.session,
                self.parts,
                await self._asked_first(),
                self.emit,
                words=self.words,
                pause=lambda: paused(self._deadline),
                run_sub_agent=partial(self.parts.run_sub_agent, self),
            )
        return self._context

    async def _window_in(self, budget: ContextBudget) -> Window:
        if self.parts.sub_agent is not None:
            budget = replace(budget, flush_enabled=False)  # its caller knows what is worth a note
        return Window((await self.context()).seen_by_window(budget))

    def ending(self, reply: Reply | None) -> ReplyReady | Silence:
        """The event that this turn ends with."""
        if reply is not None:
            return ReplyReady(reply=reply)
        session = self.session
        return Silence(session_key=session.key, session_id=session.session_id, usage=self.usage)

    def reply(self, answer: AssistantMessage, said: Sequence[str]) -> Reply | None:
        """The final words; if there are none, what was `said` last before a tool call."""
        final = message_text(answer)
        if is_silent(final):
            return None
        text = without_token(final).strip() or (without_token(said[-1]).strip() if said else "")
        if not text:
            self.emit(Warned(message="The model ended its turn without a word."))
            return None
        return Reply(
            text=text, session_key=self.session.key, session_id=self.session.session_id, usage=self.usage
        )
