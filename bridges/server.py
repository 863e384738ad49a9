"""`Server`: connects the agents of a state folder with the chats in its settings."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Self, TypeAlias

from nacre.bridges.access.bindings import BoundAgents
from nacre.bridges.answering.turns import RunHere, TurnRunner
from nacre.bridges.channels.configured import Account, Configured, configured_accounts
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.bridges.gateway import Gateway
from nacre.bridges.schedule.schedule_tool import ScheduleTools
from nacre.bridges.schedule.timekeeper import Timekeeper
from nacre.bridges.schedule.timetable import Timetable
from nacre.runtime.agent.agent import Agent
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.contracts.clock import Clock, NewId, random_id
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.extensions.loading import load_workers
from nacre.runtime.ledger.ledger import STATES
from nacre.runtime.ledger.records import BridgeStatus
from nacre.runtime.settings.config import SETTINGS_FILE, Config, load_config
from nacre.runtime.settings.disk.settings_file import emptied_notice
from nacre.runtime.settings.settings import Settings
from nacre.runtime.storage.backend import StorageFailed
from nacre.runtime.storage.storage import ledger_of

log = logging.getLogger(__name__)

LIVE_KEYS = ("channels", "bindings", "commands", "messages")
"""Top-level keys whose changes apply at once. The agents apply changes of some other keys."""

HideSecrets: TypeAlias = Callable[[tuple[str, ...]], None]
"""Keeps secrets out of the log."""


class Server:
    """Serves the channels of the settings. Use it as `async with await Server.open(...)`."""

    def __init__(
        self,
        config: Config,
        environment: Mapping[str, str],
        *,
        agents: BoundAgents,
        gateway: Gateway,
        timekeeper: Timekeeper,
        accounts: dict[tuple[str, str], Account],
        notices: tuple[str, ...],
        now: Clock,
        closing: AsyncExitStack,
        hide: HideSecrets,
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
        self.runner = gateway.runner
        self.lost = gateway.sharing.lost
        self.notices = notices
        """Sentences for the owner about the start."""

    @classmethod
    async def open(
        cls,
        config: Config,
        environment: Mapping[str, str],
        *,
        clock: Clock | None = None,
        new_id: NewId = random_id,
        hide: HideSecrets = lambda _secrets: None,
    ) -> Self:
        """Opens every agent and the ledger, and starts the bridges. First, `hide` gets the passwords.

        Raises:
            ConfigError: none of the channels in the settings can be used, or the settings are invalid.
            TurnBroken: the folders of an agent cannot be created or read.
            LedgerUnusable: the ledger cannot be opened, or another program uses it.
        """
        now = clock or config.clock
        found = configured_accounts(config.settings, state_dir=config.state_dir, home=config.home)
        hide(found.secrets)
        bridges, problems = _bridges_to_serve(found, config, now)
        closing = AsyncExitStack()
        try:
            schedule_tools = ScheduleTools(now=now, new_id=new_id)
            opening = Runtime.open(
                state_dir=config.state_dir, environment=environment, clock=clock, new_id=new_id
            )
            runtime = await closing.enter_async_context(await opening)
            agents = await _open_agents(runtime, schedule_tools, config.settings, closing)
            runner = await closing.enter_async_context(_runner(config))
            by_id = _served(found, bridges)
            gateway = await Gateway.open(
                agents,
                bridges,
                state_dir=config.state_dir,
                ledger=ledger_of(config),
                now=now,
                new_id=new_id,
                runner=runner,
                make_bridge=lambda name: by_id[name].bridge(config.state_dir, now),
            )
            timetable = Timetable(gateway.tables, now=now)
            schedule_tools.open(timetable, gateway.dispatcher.current_message)
            timekeeper = Timekeeper(gateway, timetable, agents, now=now, sleep=asyncio.sleep)
            timekeeper.start()
            notices = (*problems, *agents.unknown_bindings(config.settings), gateway.notice)
        except BaseException:
            await closing.aclose()
            raise
        return cls(
            config,
            environment,
            agents=agents,
            gateway=gateway,
            timekeeper=timekeeper,
            accounts=by_id,
            notices=_without_repeats(*(notice for agent in agents for notice in agent.notices), *notices),
            now=now,
            closing=closing,
            hide=hide,
        )

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        return self._gateway.statuses

    @property
    def elsewhere(self) -> Mapping[tuple[str, str], str]:
        """The accounts that other programs serve, and the names of those programs."""
        return self._gateway.sharing.elsewhere

    @property
    def has_channels(self) -> bool:
        """Whether there is an account to serve, here or in another program."""
        return bool(self._accounts)

    @property
    def agent_ids(self) -> tuple[str, ...]:
        return tuple(agent.id for agent in self._agents)

    @property
    def agents(self) -> tuple[Agent, ...]:
        return tuple(self._agents)

    async def figures(self) -> dict[str, float]:
        """Gauges by name: messages in each state, bridges, connected bridges, and turns of the workers.

        Raises:
            LedgerUnusable: the ledger cannot be read.
            StorageFailed: the workers' turns cannot be queried.
        """
        counts = await self._gateway.tables.not_done()
        found: dict[str, float] = {f"messages_{state}": counts.get(state, 0) for state in STATES}
        found["bridges"] = len(self.statuses)
        found["bridges_elsewhere"] = len(self.elsewhere)
        found["bridges_connected"] = sum(status.state == "connected" for status in self.statuses)
        for each in self.statuses:
            labels = f'channel="{each.channel}",account="{each.account}"'
            found[f"bridge_connected{{{labels}}}"] = each.state == "connected"
        if self._config.settings.storage.workers:
            workers = load_workers(self._config.folders.storage, self._config.settings.plugins)
            at = await workers.figures(self._config)
            found |= {f"turns_{name}": value for name, value in at.items()}
        return found

    async def save_statuses(self) -> None:
        """Stores the bridges' statuses for `nacre status`. Raises `LedgerUnusable`."""
        await self._gateway.tables.put_statuses(self.statuses)

    async def reload(self) -> tuple[str, ...]:
        """Rereads the settings and applies what can be applied at once. Returns sentences about both.

        Invalid settings change nothing. Bridges whose account has not changed keep running.
        """
        if emptied := emptied_notice(self._config.state_dir / SETTINGS_FILE):
            return (emptied,)
        try:
            config = load_config(
                self._environment, state_dir=self._config.state_dir, agent_id=self._config.agent_id
            )
            found = valid_channels(config)
            self._hide(found.secrets)
            before = dict(self._accounts)
            after = {account.id: account for account in found.accounts}
            changed = [name for name in after if after[name] != before.get(name)]
            bridges = [after[name].bridge(config.state_dir, self._now) for name in changed]
        except (ConfigError, ChannelUnusable) as error:
            return (f"The changed settings cannot be used, so the previous ones stay in effect: {error}",)
        removed = [name for name in before if name not in after or name in changed]
        for name in removed:
            await self._gateway.sharing.remove(name)
        live = {name: getattr(config.settings, name) for name in LIVE_KEYS}
        self._agents.settings = self._agents.settings.model_copy(update=live)
        self._accounts.clear()
        self._accounts.update(after)
        for bridge in bridges:
            await self._gateway.add(bridge)
        self._config = config
        started = [f"{bridge.channel}/{bridge.account}" for bridge in bridges]
        stopped = ["/".join(name) for name in removed if name not in after]
        return (
            *([f"Started: {', '.join(started)}."] if started else []),
            *([f"Stopped: {', '.join(stopped)}."] if stopped else []),
            *found.notices,
            *self._agents.unknown_bindings(config.settings),
            *_without_repeats(*(text for agent in self._agents for text in agent.reread_settings())),
        )

    async def close(self, *, turn_seconds: float = 0.0) -> None:
        """Waits up to `turn_seconds` for running turns, then stops everything.

        Turns that are not done then are recorded as aborted. They stay in the ledger for the next start.
        """
        try:
            await self._timekeeper.close()
            await self._gateway.close(turn_seconds=turn_seconds)
        finally:
            await self._closing.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self.close()


@asynccontextmanager
async def _runner(config: Config) -> AsyncIterator[TurnRunner]:
    """The runner of turns: this process, or workers if the settings say so."""
    runs_here = not config.settings.storage.workers
    try:
        workers = load_workers(config.folders.storage, config.settings.plugins)
    except ConfigError:
        if not runs_here:
            raise
        yield RunHere()
        return
    try:
        async with workers.hand_over(config, runs_here=runs_here) as runner:
            yield runner
    except StorageFailed as error:
        raise ConfigError(str(error)) from error


def valid_channels(config: Config) -> Configured:
    """The accounts in the settings.

    Raises:
        ConfigError: one of them cannot be used.
    """
    found = configured_accounts(config.settings, state_dir=config.state_dir, home=config.home)
    if found.problems:
        raise ConfigError(" ".join(found.problems))
    return found


def check_channels(config: Config, now: Clock) -> tuple[str, ...]:
    """Creates the bridge of each account in the settings, without connecting, and returns a line for each.

    Raises:
        ConfigError: one of them cannot be used.
    """
    found = valid_channels(config)
    bridges, problems = _make_bridges(found, config, now)
    if problems:
        raise ConfigError(" ".join(problems))
    return (*(f"{bridge.channel}/{bridge.account} can be started." for bridge in bridges), *found.notices)


async def _open_agents(
    runtime: Runtime, schedule_tools: ScheduleTools, settings: Settings, closing: AsyncExitStack
) -> BoundAgents:
    order = sorted(runtime.agents, key=lambda agent: not agent.is_default)
    opened = [await runtime.agent(agent.id, tools=[schedule_tools.tool(agent.id)]) for agent in order]
    return BoundAgents(opened, settings, open_agent=lambda id: closing.enter_async_context(runtime.lent(id)))


def _bridges_to_serve(found: Configured, config: Config, now: Clock) -> tuple[list[Bridge], list[str]]:
    """The bridges that can be created, and sentences about the others and about ignored settings.

    Raises:
        ConfigError: there is nothing to serve.
    """
    bridges, problems = _make_bridges(found, config, now)
    if problems and not bridges and config.settings.http.port is None:
        raise ConfigError(" ".join(problems))
    return bridges, [*problems, *found.notices]


def _served(found: Configured, bridges: Sequence[Bridge]) -> dict[tuple[str, str], Account]:
    ids = {(bridge.channel, bridge.account) for bridge in bridges}
    return {account.id: account for account in found.accounts if account.id in ids}


def _make_bridges(found: Configured, config: Config, now: Clock) -> tuple[list[Bridge], list[str]]:
    bridges, problems = [], list(found.problems)
    for account in found.accounts:
        try:
            bridges.append(account.bridge(config.state_dir, now))
        except ChannelUnusable as error:
            problems.append(str(error))
    return bridges, problems


def _without_repeats(*sentences: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentence for sentence in sentences if sentence))
