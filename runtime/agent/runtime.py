"""`Runtime`: the agents of one state folder in one process, each opened on first use."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, Unpack

from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.open_result import opening
from nacre.runtime.agent.opening.assembly import assemble
from nacre.runtime.agent.opening.author_parts import AgentKeywords, SharedKeywords, author_parts
from nacre.runtime.agent.opening.shared import Shared
from nacre.runtime.contracts.clock import Clock, NewId, random_id
from nacre.runtime.contracts.errors import ConfigError, TurnBroken
from nacre.runtime.settings.config import (
    USER_PREFIX,
    Config,
    ListedAgent,
    StateSettings,
    process_environment,
    user_agent_id,
)
from nacre.runtime.settings.sections.agents import Profile

USER_IDLE_SECONDS = 60.0
"""How long the agent of a user stays open after its last use."""
MOST_IDLE_USERS = 32
"""How many unused agents of users stay open; those that were used last are kept longest."""
BUSY_SECONDS = 1.0
"""After how long an unused agent that is still busy is checked again."""
TRIMMED_EVERY = 32
"""Freed memory is returned to the system after each 32nd closed agent, and when none is open."""


class _OpenOptions(Record):
    """The options of `Runtime.open`, for each agent that it opens."""

    environment: Mapping[str, str]
    state_dir: Path | None
    clock: Clock | None
    new_id: NewId
    watch: bool
    profile: str
    keywords: SharedKeywords
    user_idle_seconds: float
    most_idle_users: int

    def settings(self) -> StateSettings:
        return StateSettings(self.environment, self.state_dir, profile=self.profile)


class Runtime:
    """Several agents that share models, embedder and token counts, but no messages or notes.

    Its agents are those of the settings, and one for each user. Open it with
    `async with Runtime.open(...)`. It is used on one event loop.
    """

    def __init__(self, opening: _OpenOptions) -> None:
        self._opening = opening
        self._settings = opening.settings()
        self._agents = self._settings.config("").agents
        self._shared = Shared(keeps=True)
        self._open: dict[str, Agent] = {}
        self._users: dict[str, _OpenUser] = {}
        self._eviction: asyncio.TimerHandle | None = None
        self._evicting: set[asyncio.Task[None]] = set()
        self._closings = 0
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
        profile: Profile | None = None,
        user_idle_seconds: float = USER_IDLE_SECONDS,
        most_idle_users: int = MOST_IDLE_USERS,
        **keywords: Unpack[SharedKeywords],
    ) -> Self:
        """Reads which agents there are. With `all_agents`, each is opened at once, otherwise on first use.

        The agent of a user is closed when nobody has used it for `user_idle_seconds`, or when more than
        `most_idle_users` are open that nobody uses. The other keywords are those of `Agent.open`, and apply
        to every agent and user; `agent()` replaces them one by one.

        Raises:
            ConfigError: a setting or the settings file cannot be used.
            TurnBroken: the folders of an agent cannot be made or read.
        """
        runtime = cls(
            _OpenOptions(
                environment=process_environment() if environment is None else environment,
                state_dir=None if state_dir is None else Path(state_dir),
                clock=clock,
                new_id=new_id,
                watch=watch,
                profile=profile or "",
                keywords=keywords,
                user_idle_seconds=user_idle_seconds,
                most_idle_users=most_idle_users,
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

        `model`, `tools` and the other keywords are those of `Agent.open`. An open agent takes no more of
        them.

        Raises:
            ConfigError: there is no such agent, or it could reach what is another's; a setting or a tool
                cannot be used; the agent is open already and keywords were passed.
            TurnBroken: its folders cannot be made or read, or this runtime is closed.
        """
        known = self._open.get(agent_id)
        if known is not None and not known.is_closed and not keywords:
            return known
        config = self._config(agent_id, keywords.get("model"))
        async with self._locks.setdefault(config.agent_id, asyncio.Lock()):
            if self._closed:
                raise TurnBroken("This runtime is closed. Open a new one.")
            known = self._open.get(config.agent_id)
            if known is None or known.is_closed:
                self._open[config.agent_id] = known = await self._opened(config, keywords)
            elif keywords:
                raise ConfigError(
                    f"The agent {config.agent_id!r} is open already: pass its {', '.join(keywords)} "
                    "when you ask for it first."
                )
            return known

    @asynccontextmanager
    async def user(self, user: str) -> AsyncIterator[Agent]:
        """The private assistant of a user, with `async with runtime.user("ann") as agent:`.

        It is made at its first use and needs no entry in the settings; `agents.defaults` applies. Its user is
        its owner. It has notes, conversations and an index of its own, in `<state folder>/users/`.
        The name may be any text that is not blank; names that differ in case are two users. After the block
        the agent stays open for a while, and is closed when it is idle.

        Raises:
            ConfigError: the name is blank, a setting cannot be used, or `agents.list` has such an agent.
            TurnBroken: its folders cannot be made or read, or this runtime is closed.
        """
        async with self._user(user_agent_id(user)) as agent:
            yield agent

    @asynccontextmanager
    async def lent(self, agent_id: str) -> AsyncIterator[Agent]:
        """An agent of the settings, or one of a user, open at least until the end of the block.

        Raises as `agent` and `user`.
        """
        if agent_id.startswith(USER_PREFIX) and all(each.id != agent_id for each in self._agents):
            async with self._user(agent_id) as agent:
                yield agent
        else:
            yield await self.agent(agent_id)

    @asynccontextmanager
    async def _user(self, agent_id: str) -> AsyncIterator[Agent]:
        entry = self._users.setdefault(agent_id, _OpenUser())
        entry.users += 1
        entry.idle_since = None
        try:
            async with entry.lock:
                if self._closed:
                    raise TurnBroken("This runtime is closed. Open a new one.")
                if entry.agent is None or entry.agent.is_closed:
                    config = self._config(agent_id, self._opening.keywords.get("model"), new_user=True)
                    entry.agent = await self._opened(config, {}, on_demand=True)
            yield entry.agent
        finally:
            entry.users -= 1
            if not entry.users:
                entry.idle_since = asyncio.get_running_loop().time()
                self._users[agent_id] = self._users.pop(agent_id, entry)  # the last of those that are idle
                self._evict()

    @property
    def open_users(self) -> int:
        """How many agents of users are open, or being opened or closed."""
        return len(self._users)

    def _evict(self) -> None:
        """Closes agents of users that are idle for too long or are too many, and sets the next time."""
        loop = asyncio.get_running_loop()
        if self._eviction is not None:
            self._eviction.cancel()
        dues: list[float] = []
        idle = [(each, entry) for each, entry in self._users.items() if entry.idle_since is not None]
        spare = len(idle) - self._opening.most_idle_users
        for place, (agent_id, entry) in enumerate(idle):
            assert entry.idle_since is not None
            due = entry.idle_since + self._opening.user_idle_seconds
            # Something may run in the background, such as what follows a stopped turn.
            if entry.agent is not None and entry.agent.is_busy:
                due = loop.time() + BUSY_SECONDS
            elif place < spare or due <= loop.time():
                task = asyncio.create_task(self._close_user(agent_id, entry), name="user-close")
                self._evicting.add(task)
                task.add_done_callback(self._evicting.discard)
                entry.idle_since = None
                continue
            dues.append(due)
        self._eviction = loop.call_at(min(dues), self._evict) if dues else None

    async def _close_user(self, agent_id: str, entry: _OpenUser) -> None:
        async with entry.lock:
            if entry.users:  # asked for again meanwhile
                return
            agent, entry.agent = entry.agent, None
            if agent is not None:
                await agent.close()
        if not entry.users and self._users.get(agent_id) is entry and entry.agent is None:
            del self._users[agent_id]
        self._closings += 1
        if not self._users or self._closings % TRIMMED_EVERY == 0:
            await asyncio.to_thread(_return_memory)

    async def close(self) -> None:
        """Stops the turns of all agents, and closes the agents and what they share. Safe to repeat."""
        self._closed = True
        if self._eviction is not None:
            self._eviction.cancel()
        async with AsyncExitStack() as closing:
            closing.push_async_callback(self._shared.close)
            for entry in list(self._users.values()):
                async with entry.lock:
                    if entry.agent is not None:
                        closing.push_async_callback(entry.agent.close)
            for task in self._evicting:
                closing.push_async_callback(asyncio.wait, (task,))
            for agent_id, lock in self._locks.items():
                async with lock:  # one that is being opened is waited for
                    if agent := self._open.get(agent_id):
                        closing.push_async_callback(agent.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_ended: object) -> None:
        await self.close()

    def _config(self, agent_id: str, model: object, *, new_user: bool = False) -> Config:
        """The settings of an agent, which are read again if a file has changed."""
        if not self._settings.is_current:
            self._settings = self._opening.settings()
        name = model if isinstance(model, str) else None
        return self._settings.config(agent_id, model_name=name, new_user=new_user)

    async def _opened(self, config: Config, keywords: AgentKeywords, *, on_demand: bool = False) -> Agent:
        opening = self._opening
        return Agent(
            await assemble(
                config,
                author_parts({**opening.keywords, **keywords}),
                clock=opening.clock,
                new_id=opening.new_id,
                watch=opening.watch,
                shared=self._shared,
                on_demand=on_demand,
            )
        )


@dataclass(kw_only=True)
class _OpenUser:
    """The agent of a user that somebody uses, or that is not closed yet."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    agent: Agent | None = None
    users: int = 0
    idle_since: float | None = None


def _return_memory() -> None:
    """Returns freed memory to the system: glibc keeps what the threads of closed agents have freed."""
    if sys.platform != "linux":
        return
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
