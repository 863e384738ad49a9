"""`Server`: the agents of a state folder in the chats that its settings name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self, TypeAlias

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.answering.runner import RunHere, TurnRunner
from nacre.bridges.channels.configured import Account, Configured, configured_accounts
from nacre.bridges.connections.states import keep_statuses
from nacre.bridges.connections.supervisor import BridgeStatus
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.bridges.gateway import Gateway
from nacre.bridges.schedule.schedule_tool import ScheduleDesk
from nacre.bridges.schedule.timekeeper import Timekeeper
from nacre.bridges.schedule.timetable import Timetable
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.contracts.clock import Clock, owner_clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.ids import NewId, random_id
from nacre.runtime.extensions.loading import load_workers
from nacre.runtime.ledger.ledger import STATES
from nacre.runtime.settings.config import SETTINGS_FILE, Config, load_config
from nacre.runtime.settings.disk.settings_file import told_of_emptied
from nacre.runtime.settings.settings import Settings
from nacre.runtime.storage.backend import StorageFailed
from nacre.runtime.storage.storage import ledger_of

log = logging.getLogger(__name__)

LIVE_KEYS = ("channels", "bindings", "commands", "messages")
"""Top-level keys that are taken over here; the agents take over some of the others."""

Hide: TypeAlias = Callable[[tuple[str, ...]], None]


def _hide_nothing(_secrets: tuple[str, ...]) -> None:
    """There is no log to keep anything out of."""


class Server:
    """Use it as `async with await Server.open(...)`."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        agents: BoundAgents,
        gateway: Gateway,
        timekeeper: Timekeeper,
        accounts: tuple[Account, ...],
        notices: tuple[str, ...],
        now: Clock,
        closing: AsyncExitStack,
        hide: Hide,
    ) -> None:
        self._config = config
        self._hide = hide
        self._environment = environment
        self._agents = agents
        self._gateway = gateway
        self._timekeeper = timekeeper
        self._accounts = accounts
        self._now = now
        self._closing = closing
        self.notices = notices
        """Sentences for the owner from opening."""

    @classmethod
    async def open(
        cls,
        config: Config,
        environment: Mapping[str, str],
        *,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        hide: Hide = _hide_nothing,
    ) -> Self:
        """Opens every agent and the ledger, and starts the bridges.

        `hide` is told the accounts' passwords first, to keep them out of a log.

        Raises:
            ConfigError: no channel that the settings name can be used, or something else in them.
            TurnBroken: the folders of an agent cannot be made or read.
            LedgerUnusable: the ledger cannot be opened, or another program is at it.
        """
        now = clock or owner_clock(config.settings.agent.user_timezone)
        found = configured_accounts(config.settings, state_dir=config.state_dir, home=config.home)
        hide(found.secrets)
        bridges, problems = _to_serve(found, config, now)
        closing = AsyncExitStack()
        try:
            opening = Runtime.open(
                state_dir=config.state_dir, environment=environment, clock=clock, new_id=new_id
            )
            runtime = await closing.enter_async_context(await opening)
            desk = ScheduleDesk(now=now, new_id=new_id)
            opened = await _opened(runtime, desk)
            agents = BoundAgents(opened, config.settings)
            runner = await closing.enter_async_context(_runner(config))
            gateway = await Gateway.open(
                agents,
                bridges,
                state_dir=config.state_dir,
                ledger=ledger_of(config),
                now=now,
                new_id=new_id,
                runner=runner,
            )
            timetable = Timetable(gateway.tables, now=now)
            desk.opened(timetable, gateway.speaking)
            timekeeper = Timekeeper(gateway, timetable, opened, now=now, sleep=asyncio.sleep)
            timekeeper.start()
        except BaseException:
            await closing.aclose()
            raise
        return cls(
            config,
            environment,
            agents=agents,
            gateway=gateway,
            timekeeper=timekeeper,
            accounts=_served(found, bridges),
            notices=_each_once(opened, [*problems, *agents.unknown(config.settings), gateway.notice]),
            now=now,
            closing=closing,
            hide=hide,
        )

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        """How each bridge is."""
        return self._gateway.statuses

    @property
    def agent_ids(self) -> tuple[str, ...]:
        """The agents that answer, the default one first."""
        return tuple(agent.id for agent in self._agents)

    @property
    def agents(self) -> tuple[Agent, ...]:
        """The open agents, the default one first."""
        return tuple(self._agents)

    async def figures(self) -> dict[str, float]:
        """What is to be done, and how many bridges are connected, by names with units: all are gauges.

        Raises:
            LedgerUnusable: the ledger cannot be read.
            StorageFailed: what has the turns of the workers cannot be asked.
        """
        counts = await self._gateway.tables.not_done()
        found: dict[str, float] = {f"messages_{state}": counts.get(state, 0) for state in STATES}
        found["bridges"] = len(self.statuses)
        found["bridges_connected"] = sum(status.state == "connected" for status in self.statuses)
        if self._config.settings.storage.workers:
            workers = load_workers(self._config.folders.storage, self._config.settings.plugins)
            at = await workers.figures(self._config)
            found |= {f"turns_{name}": value for name, value in at.items()}
        return found

    async def keep_statuses(self) -> None:
        """Puts how the bridges are on disk, for `nacre status`. Raises `LedgerUnusable`."""
        await keep_statuses(self._gateway.tables, self.statuses, self._now)

    async def reload(self) -> tuple[str, ...]:
        """Reads the settings anew and does what can be done at once; sentences about what was and was not.

        Settings that cannot be used change nothing. Bridges whose account did not change go on.
        """
        if emptied := told_of_emptied(self._config.state_dir / SETTINGS_FILE):
            return (emptied,)
        try:
            config = load_config(
                self._environment, state_dir=self._config.state_dir, agent_id=self._config.agent_id
            )
            found = checked_channels(config)
            self._hide(found.secrets)
            here = {account.id: account for account in self._accounts}
            wanted = {account.id: account for account in found.accounts}
            changed = [name for name in wanted if wanted[name] != here.get(name)]
            made = [wanted[name].bridge(config.state_dir, self._now) for name in changed]
        except (ConfigError, ChannelUnusable) as error:
            return (f"The changed settings cannot be used, and the old ones hold: {error}",)
        gone = [name for name in here if name not in wanted or name in changed]
        for name in gone:
            await self._gateway.remove(name)
        self._agents.settings = _live(self._agents.settings, config.settings)
        for bridge in made:
            await self._gateway.add(bridge)
        self._config, self._accounts = config, found.accounts
        started = [f"{bridge.channel}/{bridge.account}" for bridge in made]
        stopped = ["/".join(name) for name in gone if name not in wanted]
        told = dict.fromkeys(sentence for agent in self._agents for sentence in agent.reread_settings())
        return (
            *([f"Started: {', '.join(started)}."] if started else []),
            *([f"Stopped: {', '.join(stopped)}."] if stopped else []),
            *found.notices,
            *self._agents.unknown(config.settings),
            *told,
        )

    async def close(self, *, turn_seconds: float = 0.0) -> None:
        """Stops everything; running turns may take `turn_seconds` to end by themselves first.

        What is not done then is recorded as aborted, and stays in the ledger for the next start.
        """
        try:
            await self._timekeeper.close()
            await self._gateway.close(turn_seconds=turn_seconds)
        finally:
            await self._closing.aclose()

    async def __aenter__(self) -> Self:
        """The server itself."""
        return self

    async def __aexit__(self, *_ended: object) -> None:
        """Closes the server."""
        await self.close()


@asynccontextmanager
async def _runner(config: Config) -> AsyncIterator[TurnRunner]:
    """What runs the turns: this process, or workers where the settings say so."""
    if not config.settings.storage.workers:
        yield RunHere()
        return
    workers = load_workers(config.folders.storage, config.settings.plugins)
    try:
        async with workers.hand_over(config) as runner:
            yield runner
    except StorageFailed as error:
        raise ConfigError(str(error)) from error


def checked_channels(config: Config) -> Configured:
    """The accounts that the settings name.

    Raises:
        ConfigError: one of them cannot be used.
    """
    found = configured_accounts(config.settings, state_dir=config.state_dir, home=config.home)
    if found.problems:
        raise ConfigError(" ".join(found.problems))
    return found


def checked(config: Config, now: Clock) -> tuple[str, ...]:
    """A line for each account that the settings name; its bridge is made, and connects to nothing.

    Raises:
        ConfigError: one of them cannot be used.
    """
    found = checked_channels(config)
    bridges, problems = _made(found, config, now)
    if problems:
        raise ConfigError(" ".join(problems))
    return (*(f"{bridge.channel}/{bridge.account} can be started." for bridge in bridges), *found.notices)


async def _opened(runtime: Runtime, desk: ScheduleDesk) -> list[Agent]:
    """All agents, the default one first."""
    first = sorted(runtime.agents, key=lambda agent: not agent.is_default)
    return [await runtime.agent(agent.id, tools=[desk.tool(agent.id)]) for agent in first]


def _to_serve(found: Configured, config: Config, now: Clock) -> tuple[list[Bridge], list[str]]:
    """The bridges that can be made, and sentences about the rest and about settings that nobody reads.

    Raises:
        ConfigError: nothing is left to serve.
    """
    bridges, problems = _made(found, config, now)
    if problems and not bridges and config.settings.http.port is None:
        raise ConfigError(" ".join(problems))
    return bridges, [*problems, *found.notices]


def _served(found: Configured, bridges: Sequence[Bridge]) -> tuple[Account, ...]:
    ids = {(bridge.channel, bridge.account) for bridge in bridges}
    return tuple(account for account in found.accounts if account.id in ids)


def _made(found: Configured, config: Config, now: Clock) -> tuple[list[Bridge], list[str]]:
    """The bridges that can be made, and a sentence for each account and channel that cannot be used."""
    bridges, problems = [], list(found.problems)
    for account in found.accounts:
        try:
            bridges.append(account.bridge(config.state_dir, now))
        except ChannelUnusable as error:
            problems.append(str(error))
    return bridges, problems


def _each_once(agents: Sequence[Agent], notices: Sequence[str]) -> tuple[str, ...]:
    """What the agents and others have to say, without repeats."""
    told = [notice for agent in agents for notice in agent.notices]
    return tuple(dict.fromkeys(notice for notice in (*told, *notices) if notice))


def _live(before: Settings, after: Settings) -> Settings:
    """The settings with the changes that count at once."""
    return before.model_copy(update={name: getattr(after, name) for name in LIVE_KEYS})
