"""What the model reads before the conversation: workspace files, the day, and where recalled notes stand.

Stable parts come first and stay byte for byte the same from call to call, so that a provider's
prompt cache holds; what moves with the day or the chat comes last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from functools import cached_property
from pathlib import Path

from nacre.memory.workspace.workspace import ContextFile, read_context_files
from nacre.prompts import render
from nacre.runtime.contracts.events import Emit, Warned
from nacre.runtime.contracts.model import SystemPrompt, ToolSpec, overhead_tokens
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.models.failover import Candidate
from nacre.runtime.recall.memory_tools import memory_tools
from nacre.runtime.settings.agents import AgentSettings
from nacre.runtime.tools.files import file_tools
from nacre.runtime.tools.results import ToolResults, result_limits
from nacre.runtime.tools.toolbox import Tool, Toolbox
from nacre.runtime.turn.guard import TurnGuard
from nacre.runtime.turn.parts import TurnParts
from nacre.runtime.turn.tool_rules import offered_tools
from nacre.sessions.disk.whole_results import WholeResults

log = logging.getLogger(__name__)

OPTIONAL_FILES = ("MEMORY.md",)
"""Files whose absence is no news: they are left out instead of marked as missing."""


class TurnContext:
    """What every request of one turn carries besides the transcript: tools and system prompt.

    Each piece is made when it is first asked for, so that a `/status` reads no file, and then stays the same
    for the turn. `asked` is the model that is asked first, with its window. `pause` stops the turn's
    deadline.
    """

    def __init__(
        self,
        session: OpenSession,
        parts: TurnParts,
        asked: Candidate,
        emit: Emit,
        *,
        pause: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._session = session
        self._parts = parts
        self._asked = asked
        self._emit = emit
        self._pause = pause
        self._whole = WholeResults(session.journal.path)
        self._limits = result_limits(asked.budget)
        self._system: SystemPrompt | None = None
        self._overhead_tokens: int | None = None

    @cached_property
    def guard(self) -> TurnGuard:
        """What stands between the model's calls and the tools."""
        parts, session = self._parts, self._session
        return TurnGuard(
            session,
            session.chat(parts.workspace),
            hooks=parts.hooks,
            approvals=parts.approvals,
            emit=self._emit,
            pause=self._pause,
        )

    @cached_property
    def toolbox(self) -> Toolbox:
        """The tools of this chat."""
        return Toolbox(
            self._tools(),
            now_ms=self._session.now_ms,
            timeout_seconds=self._parts.settings.agent.tool_timeout_seconds,
            guard=self.guard,
        )

    @cached_property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as the model sees them."""
        return self.toolbox.specs()

    @cached_property
    def results(self) -> ToolResults:
        """What cuts the tools' results to size."""
        parts = self._parts
        return ToolResults(self._whole, self._limits, count_tokens=parts.count_tokens, new_id=parts.new_id)

    async def system(self) -> SystemPrompt:
        """The system prompt; what was cut of it is told once."""
        if self._system is None:
            parts, policy = self._parts, self._session.policy
            self._system, notices = await system_prompt(
                workspace=parts.workspace,
                policy=policy,
                settings=parts.settings.agent,
                tools=self.specs,
                cites=parts.cites(policy),
                instructions=parts.instructions,
                changing=changing_part(
                    now=parts.now(),
                    channel=self._session.route.origin.channel,
                    chat_kind=policy.chat_kind,
                    model_name=self._asked.model.name,
                ),
            )
            parts.told.once(self._session.session_id, notices, self._emit)
        return self._system

    async def overhead_tokens(self) -> int:
        """Tokens of system prompt and tool schemas together, counted on a thread."""
        if self._overhead_tokens is None:
            self._overhead_tokens = await asyncio.to_thread(
                overhead_tokens, await self.system(), self.specs, self._parts.count_tokens
            )
        return self._overhead_tokens

    def _tools(self) -> tuple[Tool, ...]:
        parts, session, policy = self._parts, self._session, self._session.policy
        workspace = parts.workspace
        chat = session.chat(workspace)
        rules = parts.settings.tools
        if not workspace.is_dir():
            # A mount that is not there must not be grown anew: the notes on it would seem lost.
            log.warning("the workspace %s is gone", workspace)
            text = f"The workspace folder {workspace.name!r} is gone: no note can be read or written."
            self._emit(Warned(message=text))
            return offered_tools((), parts.tools, chat, rules)
        tools = file_tools(
            workspace,
            policy,
            lock_dir=parts.window.lock_dir,
            on_changed=parts.window.on_notes,
            now=parts.now,
            whole_results=self._whole,
            page_chars=self._limits.page_chars,
        )
        notes = parts.memory or parts.unindexed
        if notes is not None and policy.offers_memory_tools:
            tools = (*tools, *memory_tools(notes, cites=parts.cites(policy)))
        return offered_tools(tools, parts.tools, chat, rules)


async def system_prompt(
    *,
    workspace: Path,
    policy: ChatPolicy,
    settings: AgentSettings,
    tools: Sequence[ToolSpec],
    cites: bool,
    changing: str,
    instructions: str = "",
) -> tuple[SystemPrompt, tuple[str, ...]]:
    """The system prompt of one chat, and a sentence for each file that was cut.

    `instructions` are the words of the program that runs the agent, in every chat.
    """
    files = await read_context_files(
        workspace,
        policy.context_files(),
        per_file_chars=settings.bootstrap_max_chars,
        total_chars=settings.bootstrap_total_max_chars,
    )
    shown = [file for file in files if _is_shown(file)]
    tool_lines = "\n".join(f"- `{tool.name}`: {tool.description}" for tool in tools) or "(none)"
    if policy.is_private:
        head = render(
            "system/private",
            tools=tool_lines,
            citations=render("system/citations_on" if cites else "system/citations_off"),
            workspace=str(workspace),
        )
    else:
        head = render("system/group", tools=tool_lines, workspace=str(workspace))
    if instructions.strip():
        head = f"{head}\n\n{render('system/instructions', text=instructions.strip())}"
    texts = "\n\n".join(render("system/context_file", name=file.name, text=file.text) for file in shown)
    stable = f"{head}\n\n{render('system/context_files', files=texts)}" if shown else head
    notices = tuple(
        f"{file.name} is too long for the context: "
        f"{file.injected_chars} of {file.raw_chars} characters went in."
        for file in files
        if file.truncated
    )
    return SystemPrompt(stable=stable, changing=changing), notices


def changing_part(*, now: datetime, channel: str, chat_kind: str, model_name: str) -> str:
    """The part of the system prompt that moves: the owner's date and zone, the chat, the model."""
    return render(
        "system/changing",
        date=now.strftime("%Y-%m-%d"),
        weekday=now.strftime("%A"),
        time_zone=str(now.tzinfo),
        channel=channel or "unknown",
        chat_kind=chat_kind,
        model=model_name,
    )


def _is_shown(file: ContextFile) -> bool:
    return bool(file.text.strip()) and not (file.missing and file.name in OPTIONAL_FILES)
