"""What every request of a turn carries besides the transcript: its chat's tools and the system prompt."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

from pydantic import BaseModel

from nacre.memory.contracts.notes import FoundNote, NoteMarks, WantedNotes
from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.proposed_write import WaitsForReview
from nacre.memory.files.sources.sources import line_key
from nacre.memory.workspace.workspace import workspace_gone
from nacre.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.events import ApprovalAsked, Emit, Warned
from nacre.runtime.contracts.model import SystemPrompt, ToolSpec, takes_images
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.hooks.events import AfterTool, Ask, BeforeTool, Deny
from nacre.runtime.hooks.hooks import Hooks, run_tool_hooks
from nacre.runtime.models.failover import Candidate
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.settings.sections.hooks import ToolRule
from nacre.runtime.tools.approvals.approvals import Approvals
from nacre.runtime.tools.approvals.store import Approval
from nacre.runtime.tools.file_tools import file_tools
from nacre.runtime.tools.function import FunctionTool, ToolChat
from nacre.runtime.tools.session_sources import NOTE_TOOLS, SessionSources
from nacre.runtime.tools.toolbox import Tool, Toolbox, ToolFailed, ToolOutcome, ToolResults, result_limits
from nacre.runtime.turn.inbound.inbound_message import shown_image_problem
from nacre.runtime.turn.loop.sub_agent import RunSubAgent, SubAgent
from nacre.runtime.turn.prompt_parts.session_prompt import SessionPrompt
from nacre.runtime.turn.prompt_parts.system_prompt import (
    RecalledNotes,
    StablePart,
    changing_part,
    joined,
    recalled_notes,
    startup_limits,
    sub_agent_part,
)
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.runtime.turn.window.window_parts import WindowTurn
from nacre.sessions.contracts.messages import (
    AssistantMessage,
    Image,
    ToolCall,
    message_text,
)
from nacre.sessions.entries.entries import CustomMessage
from nacre.sessions.view.transcript import RECALL_TYPE

log = logging.getLogger(__name__)


WITHDRAWN = "Not run: the question whether it may was withdrawn, and it cannot be approved any more."
"""The result of a call whose turn was stopped while it waited."""


class TurnGuard:
    """The guard of one turn's calls. `pause` stops the turn's deadline while the owner thinks.

    `writes` sees what tools write into the folder of the notes by themselves.
    """

    def __init__(
        self,
        session: OpenSession,
        chat: ToolChat,
        *,
        hooks: Hooks,
        approvals: Approvals,
        writes: ToolWrites,
        emit: Emit,
        pause: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._session = session
        self._chat = chat
        self._hooks = hooks
        self._approvals = approvals
        self._writes = writes
        self._emit = emit
        self._pause = pause
        self._paused = ExitStack()
        self._waiting = 0
        self._answered: dict[str, str] = {}
        self._claimed: set[str] = set()

    def let_pass(self, approval: Approval) -> None:
        """Lets the call of a claimed approval run, with no question asked."""
        self._answered[approval.call_id] = approval.id
        self._claimed.add(approval.call_id)

    async def before(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> bool:
        """Returns when the call may run, and whether the owner approved it.

        Raises:
            ToolFailed: a hook or the owner said no, or the owner has not answered.
        """
        if call.name not in NOTE_TOOLS:
            await self._writes.before()
        if call.id in self._claimed:
            return True
        why = await self._why(call, tool, arguments)
        if not why:
            return False
        approval = await self._approvals.ask(
            lambda approval_id, now_ms, last_ms: _approval(
                self._session, call, why, approval_id=approval_id, now_ms=now_ms, last_ms=last_ms
            )
        )
        self._emit(
            ApprovalAsked(
                approval_id=approval.id,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
                why=why,
            )
        )
        with self._pausing():
            answered = await self._approvals.wait(approval)
        if answered is not None and answered.state == "denied":
            self._answered[call.id] = approval.id
            raise ToolFailed(denied_text(answered))
        if answered is None:
            raise ToolFailed(WITHDRAWN)
        if await self._approvals.claim(approval.id) is None:
            raise ToolFailed(waiting_text(approval))
        self.let_pass(approval)
        return True

    async def after(self, call: ToolCall, outcome: ToolOutcome) -> None:
        """Keeps what came of an approved call, and tells the hooks how a call ended.

        What the tool wrote into notes by itself has a source then.
        """
        text, is_error = message_text(outcome.message), outcome.message.is_error
        if call.name not in NOTE_TOOLS:
            await self._writes.after(call.name)
        for waiting in self._session.take_waiting():
            if waiting.proposal_id and waiting.because and self._session.policy.is_private:
                self._emit(Warned(message=waiting_for_review(waiting)))
        if call.id in self._claimed:
            await self._approvals.done(self._answered[call.id], text, is_error=is_error)
        if not self._hooks.hears("after_tool"):
            return
        await self._hooks.trigger(
            AfterTool(
                chat=self._chat,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
                text=text,
                is_error=is_error,
            )
        )

    async def recorded(self, call_id: str) -> None:
        """The call's result is on disk, so nothing more is to be kept of its approval."""
        if call_id in self._answered:
            self._claimed.discard(call_id)
            await self._approvals.forget(self._answered.pop(call_id))

    async def _why(self, call: ToolCall, tool: Tool, arguments: BaseModel) -> str:
        """Why the owner has to approve the call; empty when they need not.

        Raises:
            ToolFailed: a hook said no.
        """
        answer: Deny | Ask | None = None
        if self._hooks.hears("before_tool"):
            # A copy: what a handler does to it reaches neither the tool nor the transcript.
            event = BeforeTool(
                chat=self._chat,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
            )
            answer = await run_tool_hooks(self._hooks, event)
        if isinstance(answer, Deny):
            raise ToolFailed(f"Not run: {answer.reason}")
        return answer.why if answer is not None else _asked_by(tool, arguments)

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        """Stops the deadline while at least one call waits."""
        if not self._waiting:
            self._paused.enter_context(self._pause())
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._paused.close()


def waiting_for_review(waiting: WaitsForReview) -> str:
    """What the owner is told of a write that waits."""
    return (
        f"A change of {waiting.path} waits for you as proposal {waiting.proposal_id}, because of "
        f"{waiting.because}: /review shows it."
    )


def waiting_text(approval: Approval) -> str:
    """The result of a call that the owner has not answered yet."""
    return (
        f"Not run yet: this call waits for the owner's approval ({approval.id}). Once it is approved it runs "
        "by itself, and you are told its result. Do not call it again."
    )


def denied_text(approval: Approval) -> str:
    """The result of a call that the owner denied."""
    return f"Not run: the owner denied this call. {approval.reason or 'They gave no reason.'}"


def _asked_by(tool: Tool, arguments: BaseModel) -> str:
    """What the tool says of a call of it; one that cannot tell asks."""
    asks = tool.needs_approval
    try:
        needs = asks(arguments) if callable(asks) else asks
    except Exception:
        log.exception("needs_approval of the tool %s failed", tool.name)
        return f"Whether {tool.name!r} needs your approval here could not be found out."
    if isinstance(needs, str):
        return needs.strip()
    return f"{tool.name!r} needs your approval." if needs else ""


def _approval(
    session: OpenSession, call: ToolCall, why: str, *, approval_id: str, now_ms: int, last_ms: int
) -> Approval:
    asking = next(
        (entry for entry in reversed(session.branch) if isinstance(entry.body, AssistantMessage)), None
    )
    origin: Mapping[str, Any] = asdict(session.route.origin)
    return Approval(
        id=approval_id,
        session_key=session.key,
        session_id=session.session_id,
        message_id="" if asking is None else asking.id,
        call_id=call.id,
        tool_name=call.name,
        arguments=dict(call.arguments),
        why=" ".join(why.split()),
        asked_at_ms=now_ms,
        expires_at_ms=last_ms,
        chat_kind=session.policy.chat_kind,
        is_owner=session.policy.is_owner,
        is_private_key=session.policy.session_key_is_private,
        origin=origin,
    )


FULL_TOOLS_TOKENS = 6_000
"""In a smaller window the descriptions of all tools would leave no room for a conversation."""
SMALL_WINDOW_TOOLS = ("read", "append", "memory_search")


class _Made(Record):
    """What a system prompt would be made of now, in a cycle between two compactions."""

    cycle: int
    stable: StablePart
    changing: str
    tail: str


class TurnContext:
    """What every request of one turn carries besides the transcript: tools and system prompt.

    Each piece is made when it is first asked for, so that a `/status` reads no file, and then stays the same
    for the turn. `asked` is the model that is asked first, with its window; `words` are what the person said.
    `pause` stops the turn's deadline, `run_sub_agent` carries out a task of a sub-agent.
    """

    def __init__(
        self,
        session: OpenSession,
        parts: TurnParts,
        asked: Candidate,
        emit: Emit,
        *,
        words: str = "",
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
        run_sub_agent: RunSubAgent,
    ) -> None:
        self._session = session
        self._words = words
        self._parts = parts
        self._asked = asked
        self._emit = emit
        self._pause = pause
        self._run_sub_agent = run_sub_agent
        self._whole = session.journal.results
        self._limits = result_limits(asked.budget)
        self._prompt = SessionPrompt(session, window_tokens=asked.budget.window_tokens)
        self._made: _Made | None = None
        self._of_sub_agent: SystemPrompt | None = None
        self._told_in_cycle: int | None = None

    @cached_property
    def chat(self) -> ToolChat:
        """The chat of this turn, as tools, prompt parts, hooks and the memory engine see it."""
        return self._session.chat(self._parts.workspace.place, self._parts.window.sources)

    @cached_property
    def guard(self) -> TurnGuard:
        """What stands between the model's calls and the tools."""
        parts = self._parts
        return TurnGuard(
            self._session,
            self.chat,
            hooks=parts.hooks,
            approvals=parts.approvals,
            writes=ToolWrites(parts.workspace, self._session.sources(parts.window.sources)),
            emit=self._emit,
            pause=self._pause,
        )

    @cached_property
    def toolbox(self) -> Toolbox:
        """The tools of this chat."""
        agent = self._parts.settings.agent
        return Toolbox(
            [tool for tool in self._tools() if agent.tools.admits(tool.name)],
            now_ms=self._session.now_ms,
            timeout_seconds=agent.tool_timeout_seconds,
            guard=self.guard,
            image_problem=self._image_problem,
        )

    def _image_problem(self, image: Image) -> str:
        return shown_image_problem(image, takes_images=takes_images(self._asked.model))

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them."""
        return self._prompt.tools(self._tool_specs)

    @cached_property
    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        return self.toolbox.specs()

    @cached_property
    def results(self) -> ToolResults:
        """What cuts the tools' results to size."""
        parts = self._parts
        return ToolResults(self._whole, self._limits, count_tokens=parts.count_tokens, new_id=parts.new_id)

    async def system(self) -> SystemPrompt:
        """The system prompt as this session has it; what was cut of it is told once."""
        sub_agent = self._parts.sub_agent
        if sub_agent is not None:
            self._of_sub_agent = self._of_sub_agent or self._made_for(sub_agent)
            return self._of_sub_agent
        made = await self._now()
        stable, changing = self._prompt.texts(made.stable, made.changing)
        return SystemPrompt(stable=stable, changing=changing, tail=made.tail)

    async def bring_up_to_date(self) -> None:
        """Has the transcript say what changed of the system prompt, once a turn and behind a compaction.

        Raises:
            SessionError: the transcript cannot be written.
        """
        session, parts = self._session, self._parts
        if parts.sub_agent is not None or self._told_in_cycle == session.compaction_count:
            return
        await self._bring_up_to_date(only_deleted=False)
        self._told_in_cycle = session.compaction_count

    async def drop_deleted(self) -> None:
        """As `bring_up_to_date`, where a line was deleted. For requests that are no step of a turn.

        Raises:
            SessionError: the transcript cannot be written.
        """
        if self._parts.sub_agent is None and self._told_in_cycle != self._session.compaction_count:
            await self._bring_up_to_date(only_deleted=True)

    async def _bring_up_to_date(self, *, only_deleted: bool) -> None:
        session, parts = self._session, self._parts
        made = await self._now()
        logs: dict[str, str] = {}
        if session.policy.loads_daily_logs:
            logs |= await parts.prompts.logs(parts.now(), self._asked.budget)
            logs |= await parts.prompts.other_logs(sorted(self._prompt.told_paths - set(logs)))
        await self._prompt.bring_up_to_date(
            made.stable,
            made.changing,
            logs,
            is_deleted=self._is_deleted,
            recall_again=lambda: recalled(session, parts, self._emit, again=True),
            only_deleted=only_deleted,
        )

    async def _is_deleted(self, path: str, lines: Sequence[str]) -> bool:
        return not await self._parts.prompts.has_lines(path, lines)

    async def overhead_tokens(self) -> int:
        """Tokens of system prompt and tool schemas together, counted on a thread."""
        return await self._parts.prompts.overhead_tokens(await self.system(), self.specs)

    def seen_by_window(self, budget: ContextBudget) -> WindowTurn:
        """The turn as its window sees it, which is to keep to `budget`."""
        return WindowTurn(
            session=self._session,
            parts=self._parts.window,
            models=self._parts.models,
            budget=budget,
            frame=self,
            emit=self._emit,
        )

    async def _now(self) -> _Made:
        """What the prompt of this turn is made of; read anew behind a compaction."""
        cycle = self._session.compaction_count
        if self._made is None or self._made.cycle != cycle:
            parts, chat, tell = self._parts, self.chat, self._tell
            stable = await parts.prompts.stable(
                chat.policy,
                tools=self._tool_specs,
                memory=parts.memory.instructions(chat),
                budget=self._asked.budget,
                sections=await parts.prompt_parts.stable(chat, cycle=cycle, tell=tell),
            )
            tail = self._made.tail if self._made is not None else await self._tail()
            tell(stable.notices)
            self._made = _Made(cycle=cycle, stable=stable, changing=self._today(), tail=tail)
        return self._made

    async def _tail(self) -> str:
        parts, chat, tell = self._parts, self.chat, self._tell
        changing = await parts.prompt_parts.changing(chat, tell=tell)
        return joined(*changing, await parts.memory.recall(chat, self._words, tell))

    def _made_for(self, sub_agent: SubAgent) -> SystemPrompt:
        memory = self._parts.memory.instructions(self.chat) if sub_agent.notes else ""
        stable = sub_agent_part(sub_agent.name, sub_agent.instructions, tools=self.specs, memory=memory)
        return SystemPrompt(stable=stable, changing=self._today())

    def _today(self) -> str:
        return changing_part(
            now=self._parts.now(),
            channel=self.chat.channel,
            chat_kind=self.chat.policy.chat_kind,
            model_name=self._asked.model.name,
        )

    def _tools(self) -> tuple[Tool, ...]:
        parts, chat, rules = self._parts, self.chat, self._parts.settings.tool_rules
        own = [
            tool.as_tool(self._run_sub_agent) if isinstance(tool, SubAgent) else tool for tool in parts.tools
        ]
        if parts.sub_agent is None:
            own += self._of_sources([tool.name for tool in own])
        if parts.sub_agent is not None and not parts.sub_agent.notes:
            return offered_tools((), own, chat, rules)
        if not parts.workspace.is_there:
            # A mount that is not there must not be grown anew: the notes on it would seem lost.
            log.warning("the workspace %s is gone", parts.workspace.place)
            gone = workspace_gone(parts.workspace)
            self._emit(Warned(message=f"{gone[0].upper()}{gone[1:]}: no note can be read or written."))
            return offered_tools((), own, chat, rules)
        sources = self._session.sources(parts.window.sources)
        tools = file_tools(
            sources.workspace(parts.workspace, "tool"),
            chat.policy,
            approved=sources.workspace(parts.workspace, "tool", is_approved=True),
            asks_secrets=parts.window.sources.secrets == "ask" and chat.policy.is_private,
            on_changed=parts.window.on_notes,
            now=parts.now,
            whole_results=self._whole,
            read_skill=parts.prompts.skills.read,
            page_chars=self._limits.page_chars,
        )
        offered = offered_tools((*tools, *parts.memory.tools(chat)), own, chat, rules)
        return self._fitting(self._distinct(offered))

    def _of_sources(self, taken: Sequence[str]) -> list[FunctionTool[..., Any]]:
        found: list[FunctionTool[..., Any]] = []
        for source in self._parts.tool_sources:
            found += source.tools((*NOTE_TOOLS, *taken, *(tool.name for tool in found)))
        if self.chat.policy.is_private:
            of_sources = (notice for source in self._parts.tool_sources for notice in source.notices)
            self._tell((*of_sources, *self._parts.memory.news))
        return found

    def _distinct(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        """The tools without those whose name is taken: an engine may name one as somebody else's."""
        kept: dict[str, Tool] = {}
        for tool in tools:
            if kept.setdefault(tool.name, tool) is not tool:
                self._tell((f"There are two tools named {tool.name!r}; the second one is left out.",))
        return tuple(kept.values())

    def _fitting(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        """The tools without those of Nacre's for which the window is too small."""
        window_tokens = self._asked.budget.window_tokens
        if window_tokens >= FULL_TOOLS_TOKENS:
            return tools
        left_out = [tool.name for tool in tools if tool.name in NOTE_TOOLS.difference(SMALL_WINDOW_TOOLS)]
        if left_out:
            notice = f"The window has only {window_tokens} tokens, so some tools are left out:"
            self._tell((f"{notice} {', '.join(left_out)}.",))
        return tuple(tool for tool in tools if tool.name not in left_out)

    def _tell(self, notices: Sequence[str]) -> None:
        self._parts.told.once(self._session.session_id, notices, self._emit)


def offered_tools(
    built_in: Sequence[Tool],
    own: Sequence[FunctionTool[..., Any]],
    chat: ToolChat,
    rules: Mapping[str, ToolRule],
) -> tuple[Tool, ...]:
    """Nacre's tools and then the bot author's, without those that may not be called here."""
    policy = chat.policy
    found = [
        *[tool for tool in built_in if _in_chats(tool.name, policy, rules) is not False],
        *[tool.bound(chat) for tool in own if _is_offered(tool, policy, rules)],
    ]
    return tuple([_confirmed(tool, rules) for tool in found])


def _is_offered(tool: FunctionTool[..., Any], policy: ChatPolicy, rules: Mapping[str, ToolRule]) -> bool:
    ruled = _in_chats(tool.name, policy, rules)
    return tool.is_offered(policy) if ruled is None else ruled


def _in_chats(name: str, policy: ChatPolicy, rules: Mapping[str, ToolRule]) -> bool | None:
    """What the tool's rule says of such a chat; `None` where there is none."""
    rule = rules.get(name)
    return None if rule is None or rule.chats is None else policy.audience in rule.chats


def _confirmed(tool: Tool, rules: Mapping[str, ToolRule]) -> Tool:
    rule = rules.get(tool.name)
    if rule is None or rule.confirm is None:
        return tool
    return replace(tool, needs_approval=rule.confirm)


async def recalled(session: OpenSession, parts: TurnParts, emit: Emit, *, again: bool = False) -> None:
    """Puts logs and notes of the last days into the transcript; what cannot be read costs no turn.

    With `again` they take the place of the earlier ones, also where there is nothing to show any more.
    """
    agent = parts.settings.agent
    notes = RecalledNotes()
    if not again:
        parts.memory.session_started()
    if not (agent.startup_context.enabled and session.policy.loads_daily_logs):
        if again:
            await session.journal.append(CustomMessage(custom_type=RECALL_TYPE, content=""))
        return
    try:
        notes = await recalled_notes(
            parts.workspace,
            parts.window.sources,
            now=parts.now(),
            limits=startup_limits(agent.startup_context, parts.models.first.budget),
            log_chars=agent.daily_log_max_chars,
        )
    except OSError as error:
        emit(Warned(message=f"The daily logs could not be read, so they are not in the context: {error}."))
    if notes.text or again:
        await session.journal.append(
            CustomMessage(custom_type=RECALL_TYPE, content=notes.text, details={"paths": list(notes.paths)})
        )


MOST_READ_BYTES = 4 << 20
"""So many bytes of notes are read before a turn's first such call, the newest first. Of a larger note that
changes, every line counts that has no source."""


class ToolWrites:
    """What the tools of one turn write into the folder of the notes."""

    def __init__(self, workspace: Workspace, sources: SessionSources) -> None:
        self._workspace = workspace
        self._sources = sources
        self._seen: Mapping[str, NoteMarks] | None = None
        self._keys: dict[str, frozenset[str]] = {}
        self._one_at_a_time = asyncio.Lock()

    async def before(self) -> None:
        """Looks at the notes, once in a turn; a tool is about to run."""
        async with self._one_at_a_time:
            if self._seen is not None or self._workspace.folder is None or not self._workspace.is_there:
                return
            notes = await self._notes()
            self._seen = {note.name: note.marks for note in notes}
            self._keys = await self._read(_newest(notes))

    async def after(self, tool_name: str) -> None:
        """Notes where lines come from that are new since, and have no source."""
        async with self._one_at_a_time:
            if self._seen is None:
                return
            seen = {note.name: note.marks for note in await self._notes()}
            changed = [name for name, marks in seen.items() if self._seen.get(name) != marks]
            before, self._seen = self._seen, seen
            if not changed:
                return
            source_of = await self._sources.of_tool(tool_name)
            for name, found in (await self._workspace.read_notes(changed)).items():
                if isinstance(found, Exception):
                    continue
                text = found.data.decode("utf-8", "replace")
                known = self._keys.get(name, frozenset())
                lines = [line for line in text.splitlines() if line_key(line) not in known]
                await self._sources.sources.keep_written(name, lines, source_of)
                if name in self._keys or name not in before:
                    self._keys[name] = _keys_of(text)

    async def _notes(self) -> Sequence[FoundNote]:
        return (await self._workspace.list_notes([WantedNotes(name=".", is_required=True)])).notes

    async def _read(self, names: Sequence[str]) -> dict[str, frozenset[str]]:
        read = await self._workspace.read_notes(names)
        return {
            name: _keys_of(found.data.decode("utf-8", "replace"))
            for name, found in read.items()
            if not isinstance(found, Exception)
        }


def _newest(notes: Sequence[FoundNote]) -> list[str]:
    """The newest notes that may be read, those of the prompt, at the top of the workspace, before others."""
    left, names = MOST_READ_BYTES, []
    for note in sorted(notes, key=lambda note: ("/" in note.name, -note.marks.modified_ns)):
        if note.marks.size_bytes <= left:
            left -= note.marks.size_bytes
            names.append(note.name)
    return names


def _keys_of(text: str) -> frozenset[str]:
    return frozenset(map(line_key, text.splitlines()))
