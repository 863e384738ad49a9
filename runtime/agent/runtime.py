"""`Runtime`: the agents of one state folder in one process, each opened on first use."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self, TypedDict, Unpack

from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.open_result import opening
from nacre.runtime.agent.opening.assembly import assemble
from nacre.runtime.agent.opening.author_parts import (
    AuthorParts,
    author_models,
    author_prompt_parts,
    author_tools,
)
from nacre.runtime.agent.opening.shared import Shared
from nacre.runtime.commands.function import FunctionCommand
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import ConfigError, TurnBroken
from nacre.runtime.contracts.ids import NewId, random_id
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.hooks.hooks import HookTable
from nacre.runtime.recall.memory_plugin import MemoryPlugin
from nacre.runtime.settings.config import Config, ListedAgent, StateSettings, process_environment
from nacre.runtime.tools.function import ToolChats
from nacre.runtime.turn.loop import UsageLimits
from nacre.runtime.turn.prompt_part import PromptFunction, PromptPart
from nacre.runtime.turn.sub_agent import AuthorTool


class AgentKeywords(TypedDict, total=False):
    """What can be passed to one agent when it is opened; see `Agent.open`."""

    model: ChatModel | str | Sequence[ChatModel | str] | None
    tools: Sequence[AuthorTool | Callable[..., Any]]
    tool_chats: Sequence[ToolChats] | None
    instructions: str
    commands: Sequence[FunctionCommand]
    limits: UsageLimits | None
    prompt_parts: Sequence[PromptPart | PromptFunction]
    memory: MemoryPlugin | None
    hooks: HookTable | None


class _Opening(Record):
    """What `Runtime.open` was given, for each agent that it opens."""

    environment: Mapping[str, str]
    state_dir: Path | None
    clock: Clock | None
    new_id: NewId
    watch: bool

    def settings(self) -> StateSettings:
        return StateSettings(self.environment, self.state_dir)


class Runtime:
    """Several agents that share models, embedder and token counts, but no messages or notes.

    Open it with `async with await Runtime.open(...)`. It is used on one event loop.
    """

    def __init__(self, opening: _Opening) -> None:
        self._opening = opening
        self._settings = opening.settings()
        self._agents = self._settings.config("").agents
        self._shared = Shared()
        self._open: dict[str, Agent] = {}
        self._locks = {agent.id: asyncio.Lock() for agent in self._agents}
        self._closed = False

    @classmethod
    @opening
    async def open(
        cls,
        *,
        state_dir: Path | str | None = None,
        environment: Mapping[str, str] | None = None,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        watch: bool = True,
        all_agents: bool = False,
    ) -> Self:
        """Reads which agents there are. With `all_agents`, each is opened at once, otherwise on first use.

        The other keywords are those of `Agent.open`, and apply to every agent.

        Raises:
            ConfigError: a setting or the settings file cannot be used.
            TurnBroken: the folders of an agent cannot be made or read.
        """
        runtime = cls(
            _Opening(
                environment=process_environment() if environment is None else environment,
                state_dir=None if state_dir is None else Path(state_dir),
                clock=clock,
                new_id=new_id,
                watch=watch,
            )
        )
        if all_agents:
            try:
                for agent in runtime.agents:
                    await runtime.agent(agent.id)
            except BaseException:
                await runtime.close()
                raise
        return runtime

    @property
    def agents(self) -> tuple[ListedAgent, ...]:
        """All agents of the state folder, open or not, in the order of `agents.list`."""
        return self._agents

    async def agent(self, agent_id: str = "", **keywords: Unpack[AgentKeywords]) -> Agent:
        """The agent with this id, or the default agent; opened now unless it is open.

        `model`, `tools` and the other keywords are those of `Agent.open`. They belong to the opening:
        nothing can be added to an open agent.

        Raises:
            ConfigError: there is no such agent, or it could reach what is another's; a setting or a tool
                cannot be used; the agent is open already and keywords were passed.
            TurnBroken: its folders cannot be made or read, or this runtime is closed.
        """
        known = self._open.get(agent_id)
        if known is not None and not known.is_closed and not keywords:
            return known
        model = keywords.get("model")
        if not self._settings.is_current:
            self._settings = self._opening.settings()
        config = self._settings.config(agent_id, model_name=model if isinstance(model, str) else None)
        async with self._locks.setdefault(config.agent_id, asyncio.Lock()):
            if self._closed:
                raise TurnBroken("This runtime is closed. Open a new one.")
            known = self._open.get(config.agent_id)
            if known is None or known.is_closed:
                self._open[config.agent_id] = known = await self._opened(config, _given(keywords))
            elif keywords:
                raise ConfigError(
                    f"The agent {config.agent_id!r} is open already: hand in its {', '.join(keywords)} "
                    "when it is first asked for."
                )
            return known

    async def close(self) -> None:
        """Stops the turns of all agents, and closes the agents and what they share. Safe to repeat."""
        self._closed = True
        async with AsyncExitStack() as closing:
            for agent_id, lock in self._locks.items():
                async with lock:  # one that is being opened is waited for
                    if agent := self._open.get(agent_id):
                        closing.push_async_callback(agent.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_ended: object) -> None:
        await self.close()

    async def _opened(self, config: Config, given: AuthorParts) -> Agent:
        opening = self._opening
        return Agent(
            await assemble(
                config,
                given,
                clock=opening.clock,
                new_id=opening.new_id,
                watch=opening.watch,
                shared=self._shared,
            )
        )


def _given(keywords: AgentKeywords) -> AuthorParts:
    return AuthorParts(
        models=author_models(keywords.get("model")),
        tools=author_tools(keywords.get("tools", ()), keywords.get("tool_chats")),
        commands=tuple(command.to_command() for command in keywords.get("commands", ())),
        limits=keywords.get("limits"),
        hooks=keywords.get("hooks") or {},
        prompt_parts=author_prompt_parts(keywords.get("instructions", ""), keywords.get("prompt_parts", ())),
        memory=keywords.get("memory"),
    )
