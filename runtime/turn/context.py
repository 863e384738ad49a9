"""The tools and the system prompt that every request of a turn carries besides the transcript."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from nacre.memory.workspace.workspace import workspace_gone
from nacre.record import Record
from nacre.runtime.contracts.events import Emit, Warned
from nacre.runtime.contracts.model import SystemPrompt, ToolSpec, takes_images
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.failover import Candidate
from nacre.runtime.open_sessions.open_session import OpenSession
from nacre.runtime.settings.sections.hooks import ToolRule, is_named
from nacre.runtime.tools.file_tools import file_tools
from nacre.runtime.tools.function import FunctionTool, ToolChat
from nacre.runtime.tools.session_sources import NOTE_TOOLS
from nacre.runtime.tools.toolbox import Tool, Toolbox, ToolResults, result_limits
from nacre.runtime.turn.inbound_message import shown_image_problem
from nacre.runtime.turn.output import FINAL_ANSWER, Output
from nacre.runtime.turn.session_prompt import SessionPrompt
from nacre.runtime.turn.sub_agent import RunSubAgent, SubAgent
from nacre.runtime.turn.system_prompt import (
    RecalledNotes,
    StablePart,
    changing_part,
    joined,
    recalled_notes,
    startup_limits,
    sub_agent_part,
)
from nacre.runtime.turn.tool_guard import TurnGuard
from nacre.runtime.turn.turn_parts import TurnParts
from nacre.sessions.entries.entries import CustomMessage
from nacre.sessions.view.transcript import RECALL_TYPE

log = logging.getLogger(__name__)

FULL_TOOLS_TOKENS = 6_000
"""In a smaller window, the descriptions of all tools would leave no room for a conversation."""
SMALL_WINDOW_TOOLS = ("read", "append", "memory_search")


class _CurrentPrompt(Record):
    """The parts of the system prompt as they are now; `cycle` counts the session's compactions."""

    cycle: int
    stable: StablePart
    changing: str
    tail: str


class TurnContext:
    """The tools and the system prompt of one turn.

    Each piece is built on first use, so that `/status` reads no file, and then stays the same for the turn.
    `asked` is the model that is asked first, with its window. `words` is the message, `reminders` is the text
    about reminders whose topic it names. `pause` stops the turn's deadline.
    """

    def __init__(
        self,
        session: OpenSession,
        parts: TurnParts,
        asked: Candidate,
        emit: Emit,
        *,
        words: str = "",
        reminders: str = "",
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
        run_sub_agent: RunSubAgent,
    ) -> None:
        self._session = session
        self._words = words
        self._reminders = reminders
        self._parts = parts
        self._asked = asked
        self._emit = emit
        self._pause = pause
        self._run_sub_agent = run_sub_agent
        self._whole = session.journal.results
        self._limits = result_limits(asked.budget)
        self._prompt = SessionPrompt(session, window_tokens=asked.budget.window_tokens)
        self._made: _CurrentPrompt | None = None
        self._updated_in_cycle: int | None = None

    @cached_property
    def chat(self) -> ToolChat:
        return self._parts.chat(self._session)

    @cached_property
    def guard(self) -> TurnGuard:
        return TurnGuard(self._session, self._parts, self.chat, self._emit, pause=self._pause)

    @cached_property
    def toolbox(self) -> Toolbox:
        output, chosen = self.output, self._parts.options.tools
        if output is None and chosen is None:
            return self.every_tool
        tools = [tool for tool in self._offered if chosen is None or is_named(tool.name, chosen)]
        names = [tool.name for tool in self._offered]
        unknown = [each for each in chosen or () if not any(is_named(name, (each,)) for name in names)]
        if unknown:
            notice = f"tools= names {', '.join(unknown)}, and this chat has no such tool: {', '.join(names)}."
            self._tell((notice,))
        return self._box([*tools, output.tool()] if output is not None else tools)

    @cached_property
    def every_tool(self) -> Toolbox:
        """All tools of the chat, even those that the options of this turn leave out."""
        return self._box(self._offered)

    @cached_property
    def _offered(self) -> tuple[Tool, ...]:
        return tuple(tool for tool in self._tools() if self._parts.settings.agent.tools.admits(tool.name))

    def _box(self, tools: Sequence[Tool]) -> Toolbox:
        return Toolbox(
            tools,
            now_ms=self._session.now_ms,
            timeout_seconds=self._parts.settings.agent.tool_timeout_seconds,
            guard=lambda: self.guard,
            image_problem=partial(shown_image_problem, takes_images=takes_images(self._asked.model)),
        )

    @property
    def output(self) -> Output | None:
        """The type that the answer must have, if the model returns it by a tool call."""
        output = self._parts.options.output
        return None if output is None or self._parts.models.takes_output_schema else output

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools with the descriptions that the session's prompt gave of them."""
        specs, chosen = self._prompt.recorded().described(self._tool_specs), self._parts.options.tools
        if chosen is not None:
            specs = tuple(spec for spec in specs if is_named(spec.name, chosen))
        return specs if self.output is None else (*specs, self.output.tool().spec())

    @cached_property
    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        return self.every_tool.specs()

    @cached_property
    def results(self) -> ToolResults:
        count_tokens, new_id = self._parts.estimate_tokens, self._parts.new_id
        return ToolResults(self._whole, self._limits, count_tokens=count_tokens, new_id=new_id)

    async def system(self) -> SystemPrompt:
        """The session's system prompt. A notice tells the owner once what was cut from it."""
        if self._parts.sub_agent is not None:
            return self._sub_agent_prompt
        made = await self._current_prompt()
        stable, changing = self._prompt.texts(made.stable, made.changing)
        return SystemPrompt(stable=stable, changing=changing, tail=made.tail)

    async def bring_up_to_date(self) -> None:
        """Records what changed in the system prompt, once a turn and after each compaction.

        Raises:
            SessionError: the transcript cannot be written.
        """
        session, parts = self._session, self._parts
        if parts.sub_agent is not None or self._updated_in_cycle == session.compaction_count:
            return
        made = await self._current_prompt()
        logs: dict[str, str] = {}
        if session.policy.loads_daily_logs:
            logs |= await parts.prompts.logs(parts.now(), self._asked.budget)
            logs |= await parts.prompts.other_logs(sorted(self._prompt.told_paths - set(logs)))
        await self._prompt.bring_up_to_date(
            made.stable,
            made.changing,
            logs,
            has_lines=parts.prompts.has_lines,
            recall_again=lambda: recalled(session, parts, self._emit, again=True),
        )
        self._updated_in_cycle = session.compaction_count

    async def overhead_tokens(self, *, few_tokens: int = 0) -> int:
        """Tokens of the system prompt and the tool schemas, as `SystemPrompts.overhead_tokens`."""
        system = await self.system()
        return await self._parts.prompts.overhead_tokens(system, self.specs, few_tokens=few_tokens)

    async def _current_prompt(self) -> _CurrentPrompt:
        # Read again after a compaction.
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
            if self._made is None:
                sections = await parts.prompt_parts.changing(chat, tell=tell)
                tail = joined(*sections, await parts.memory.recall(chat, self._words, tell), self._reminders)
            else:
                tail = self._made.tail
            tell(stable.notices)
            self._made = _CurrentPrompt(cycle=cycle, stable=stable, changing=self._changing(), tail=tail)
        return self._made

    @cached_property
    def _sub_agent_prompt(self) -> SystemPrompt:
        sub_agent = self._parts.sub_agent
        assert sub_agent is not None
        memory = self._parts.memory.instructions(self.chat) if sub_agent.notes else ""
        stable = sub_agent_part(
            sub_agent.name,
            sub_agent.instructions,
            tools=self.specs,
            memory=memory,
            hand_off=sub_agent.hand_off,
        )
        return SystemPrompt(stable=stable, changing=self._changing())

    def _changing(self) -> str:
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
        self._tell_withheld(own)
        if parts.sub_agent is None:
            for source in parts.tool_sources:
                own += source.tools((*NOTE_TOOLS, FINAL_ANSWER, *(tool.name for tool in own)))
            if chat.policy.is_private:
                notices = (notice for source in parts.tool_sources for notice in source.notices)
                self._tell((*notices, *parts.memory.news))
        if parts.sub_agent is not None and not parts.sub_agent.notes:
            return offered_tools((), own, chat, rules)
        if not parts.workspace.is_there:
            # A missing mount must not be replaced by a new folder: its notes would seem lost.
            log.warning("the workspace %s is gone", parts.workspace.place)
            gone = workspace_gone(parts.workspace)
            self._emit(Warned(message=f"{gone[0].upper()}{gone[1:]}: no note can be read or written."))
            return offered_tools((), own, chat, rules)
        sources = self._session.sources(parts.sources)
        tools = file_tools(
            sources.workspace(parts.workspace, "tool"),
            chat.policy,
            approved=sources.workspace(parts.workspace, "tool", is_approved=True),
            asks_secrets=parts.sources.secrets == "ask" and chat.policy.is_private,
            on_changed=parts.on_notes,
            now=parts.now,
            whole_results=self._whole,
            read_skill=parts.prompts.skills.read,
            page_chars=self._limits.page_chars,
        )
        offered = offered_tools((*tools, *parts.memory.tools(chat)), own, chat, rules)
        kept: dict[str, Tool] = {}
        for tool in offered:  # a memory engine may reuse the name of another tool
            if kept.setdefault(tool.name, tool) is not tool:
                self._tell((f"There are two tools named {tool.name!r}; the second one is left out.",))
        if self._asked.budget.window_tokens >= FULL_TOOLS_TOKENS:
            return tuple(kept.values())
        # `nacre doctor` says what a smaller window leaves out.
        left_out = NOTE_TOOLS.difference(SMALL_WINDOW_TOOLS)
        return tuple(tool for tool in kept.values() if tool.name not in left_out)

    def _tell_withheld(self, own: Sequence[FunctionTool[..., Any]]) -> None:
        """Tells the owner, once an agent, which tools this chat lacks because they name no chats."""
        policy, rules = self.chat.policy, self._parts.settings.tool_rules
        withheld = [tool.name for tool in own if tool.chats is None and not _is_offered(tool, policy, rules)]
        if withheld:
            names, to_write = ", ".join(withheld), f"chats=({policy.audience!r},)"
            notice = (
                f"Tools without chats are offered to the owner in private only, so a {policy.audience} chat "
                f"has no {names}. Write @tool({to_write}) or Agent.open(tool_{to_write})."
            )
            self._parts.notice_log.once("", (notice,), self._emit)

    def _tell(self, notices: Sequence[str]) -> None:
        self._parts.notice_log.once(self._session.session_id, notices, self._emit)


def offered_tools(
    built_in: Sequence[Tool],
    own: Sequence[FunctionTool[..., Any]],
    chat: ToolChat,
    rules: Mapping[str, ToolRule],
) -> tuple[Tool, ...]:
    """The tools that this chat may call: Nacre's, then the bot author's."""
    policy = chat.policy
    found = [
        *[tool for tool in built_in if _in_chats(tool.name, policy, rules) is not False],
        *[tool.bound(chat) for tool in own if _is_offered(tool, policy, rules)],
    ]
    asks = {name: rule.confirm for name, rule in rules.items() if rule.confirm is not None}
    return tuple(
        replace(tool, needs_approval=asks[tool.name]) if tool.name in asks else tool for tool in found
    )


def _is_offered(tool: FunctionTool[..., Any], policy: ChatPolicy, rules: Mapping[str, ToolRule]) -> bool:
    ruled = _in_chats(tool.name, policy, rules)
    return tool.is_offered(policy) if ruled is None else ruled


def _in_chats(name: str, policy: ChatPolicy, rules: Mapping[str, ToolRule]) -> bool | None:
    # `None`: no rule names chats for it.
    rule = rules.get(name)
    return None if rule is None or rule.chats is None else policy.audience in rule.chats


async def recalled(session: OpenSession, parts: TurnParts, emit: Emit, *, again: bool = False) -> None:
    """Adds logs and notes of the last days to the transcript. The turn goes on if they cannot be read.

    With `again` they replace the earlier ones, even if there is nothing left to show.
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
            parts.sources,
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
