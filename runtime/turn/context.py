"""What every request of a turn carries besides the transcript: its chat's tools and the system prompt."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import cached_property
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
from nacre.sessions.contracts.messages import Image
from nacre.sessions.entries.entries import CustomMessage
from nacre.sessions.view.transcript import RECALL_TYPE

log = logging.getLogger(__name__)

FULL_TOOLS_TOKENS = 6_000
"""In a smaller window, the descriptions of all tools would leave no room for a conversation."""
SMALL_WINDOW_TOOLS = ("read", "append", "memory_search")


class _CurrentPrompt(Record):
    """What a system prompt would consist of now, in a cycle between two compactions."""

    cycle: int
    stable: StablePart
    changing: str
    tail: str


class TurnContext:
    """What every request of one turn carries besides the transcript: tools and system prompt.

    Each piece is built on first use, so that `/status` reads no file, and then stays the same for the turn.
    `asked` is the model that is asked first, with its window; `words` is the message, `reminders` is the text
    about reminders whose topic it names. `pause` stops the turn's deadline, `run_sub_agent` runs a task of a
    sub-agent.
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
        self._of_sub_agent: SystemPrompt | None = None
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
        self._warn_unknown(chosen or ())
        return self._box([*tools, output.tool()] if output is not None else tools)

    @cached_property
    def every_tool(self) -> Toolbox:
        """The tools of the chat, whatever the call of this turn restricts them to."""
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
            image_problem=self._image_problem,
        )

    def _warn_unknown(self, chosen: tuple[str, ...]) -> None:
        names = [tool.name for tool in self._offered]
        unknown = [each for each in chosen if not any(is_named(name, (each,)) for name in names)]
        if unknown:
            notice = f"tools= names {', '.join(unknown)}, and this chat has no such tool: {', '.join(names)}."
            self._parts.notice_log.once(self._session.session_id, (notice,), self._emit)

    def _image_problem(self, image: Image) -> str:
        return shown_image_problem(image, takes_images=takes_images(self._asked.model))

    @property
    def output(self) -> Output | None:
        """The type that the answer must have, if the model answers with a tool."""
        output = self._parts.options.output
        return None if output is None or self._parts.models.takes_output_schema else output

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model has been told of them."""
        told, chosen = self._prompt.recorded().described(self._tool_specs), self._parts.options.tools
        if chosen is not None:
            told = tuple(spec for spec in told if is_named(spec.name, chosen))
        return told if self.output is None else (*told, self.output.tool().spec())

    @cached_property
    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        return self.every_tool.specs()

    @cached_property
    def results(self) -> ToolResults:
        parts = self._parts
        count_tokens = parts.estimate_tokens
        return ToolResults(self._whole, self._limits, count_tokens=count_tokens, new_id=parts.new_id)

    async def system(self) -> SystemPrompt:
        """The system prompt as this session has it. The owner is told once what was cut from it."""
        sub_agent = self._parts.sub_agent
        if sub_agent is not None:
            self._of_sub_agent = self._of_sub_agent or self._made_for(sub_agent)
            return self._of_sub_agent
        made = await self._now()
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
        )
        self._updated_in_cycle = session.compaction_count

    async def _is_deleted(self, path: str, lines: Sequence[str]) -> bool:
        return not await self._parts.prompts.has_lines(path, lines)

    async def overhead_tokens(self, *, few_tokens: int = 0) -> int:
        """Tokens of the system prompt and the tool schemas, as `SystemPrompts.overhead_tokens`."""
        system = await self.system()
        return await self._parts.prompts.overhead_tokens(system, self.specs, few_tokens=few_tokens)

    async def _now(self) -> _CurrentPrompt:
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
            tail = self._made.tail if self._made is not None else await self._tail()
            tell(stable.notices)
            self._made = _CurrentPrompt(cycle=cycle, stable=stable, changing=self._today(), tail=tail)
        return self._made

    async def _tail(self) -> str:
        parts, chat, tell = self._parts, self.chat, self._tell
        changing = await parts.prompt_parts.changing(chat, tell=tell)
        return joined(*changing, await parts.memory.recall(chat, self._words, tell), self._reminders)

    def _made_for(self, sub_agent: SubAgent) -> SystemPrompt:
        memory = self._parts.memory.instructions(self.chat) if sub_agent.notes else ""
        stable = sub_agent_part(
            sub_agent.name,
            sub_agent.instructions,
            tools=self.specs,
            memory=memory,
            hand_off=sub_agent.hand_off,
        )
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
        self._tell_withheld(own)
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
        return self._fitting(self._distinct(offered))

    def _tell_withheld(self, own: Sequence[FunctionTool[..., Any]]) -> None:
        """Names the tools that are not offered here because nobody said where they are; once an agent."""
        policy, rules = self.chat.policy, self._parts.settings.tool_rules
        withheld = [tool.name for tool in own if tool.chats is None and not _is_offered(tool, policy, rules)]
        if withheld:
            names, to_write = ", ".join(withheld), f"chats=({policy.audience!r},)"
            notice = (
                f"Tools without chats are offered to the owner in private only, so a {policy.audience} chat "
                f"has no {names}. Write @tool({to_write}) or Agent.open(tool_{to_write})."
            )
            self._parts.notice_log.once("", (notice,), self._emit)

    def _of_sources(self, taken: Sequence[str]) -> list[FunctionTool[..., Any]]:
        found: list[FunctionTool[..., Any]] = []
        for source in self._parts.tool_sources:
            found += source.tools((*NOTE_TOOLS, FINAL_ANSWER, *taken, *(tool.name for tool in found)))
        if self.chat.policy.is_private:
            of_sources = (notice for source in self._parts.tool_sources for notice in source.notices)
            self._tell((*of_sources, *self._parts.memory.news))
        return found

    def _distinct(self, tools: Sequence[Tool]) -> tuple[Tool, ...]:
        # A memory engine may reuse the name of another tool.
        kept: dict[str, Tool] = {}
        for tool in tools:
            if kept.setdefault(tool.name, tool) is not tool:
                self._tell((f"There are two tools named {tool.name!r}; the second one is left out.",))
        return tuple(kept.values())

    def _fitting(self, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
        if self._asked.budget.window_tokens >= FULL_TOOLS_TOKENS:
            return tools  # `nacre doctor` says what a smaller window leaves out
        left_out = NOTE_TOOLS.difference(SMALL_WINDOW_TOOLS)
        return tuple(tool for tool in tools if tool.name not in left_out)

    def _tell(self, notices: Sequence[str]) -> None:
        self._parts.notice_log.once(self._session.session_id, notices, self._emit)


def offered_tools(
    built_in: Sequence[Tool],
    own: Sequence[FunctionTool[..., Any]],
    chat: ToolChat,
    rules: Mapping[str, ToolRule],
) -> tuple[Tool, ...]:
    """Nacre's tools, then the bot author's, without those that may not be called in this chat."""
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
    # `None`: there is no rule for it.
    rule = rules.get(name)
    return None if rule is None or rule.chats is None else policy.audience in rule.chats


def _confirmed(tool: Tool, rules: Mapping[str, ToolRule]) -> Tool:
    rule = rules.get(tool.name)
    if rule is None or rule.confirm is None:
        return tool
    return replace(tool, needs_approval=rule.confirm)


async def recalled(session: OpenSession, parts: TurnParts, emit: Emit, *, again: bool = False) -> None:
    """Puts logs and notes of the last days into the transcript. The turn goes on if they cannot be read.

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
