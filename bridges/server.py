"""`Server`: the agents of a state folder in the chats that its settings name."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Self

from nacre.bridges.channels.configured import Configured, configured_accounts
from nacre.bridges.contracts.errors import ChannelUnusable
from nacre.bridges.gateway import Gateway
from nacre.bridges.supervisor import BridgeStatus
from nacre.runtime.agent.runtime import Runtime
from nacre.runtime.contracts.clock import Clock, owner_zone, system_clock
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.ids import NewId, random_id
from nacre.runtime.settings.config import Config


class Server:
    """Use it as `async with await Server.open(...)`."""

    def __init__(self, gateway: Gateway, notices: tuple[str, ...], closing: AsyncExitStack) -> None:
        self._gateway = gateway
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
    ) -> Self:
        """Opens the agents and the ledger, and starts the bridges.

        Raises:
            ConfigError: a channel that the settings name cannot be used, or anything else in them.
            TurnBroken: the folders of an agent cannot be made or read.
            LedgerUnusable: the ledger cannot be opened, or another program is at it.
        """
        now = clock or system_clock(owner_zone(config.settings.agent.user_timezone or None))
        found = checked_channels(config)
        try:
            bridges = [account.bridge(config.state_dir, now) for account in found.accounts]
        except ChannelUnusable as error:
            raise ConfigError(str(error)) from error
        async with AsyncExitStack() as closing:
            runtime = await closing.enter_async_context(
                await Runtime.open(
                    state_dir=config.state_dir, environment=environment, clock=clock, new_id=new_id
                )
            )
            agent = await runtime.agent(config.agent_id)
            gateway = await closing.enter_async_context(
                await Gateway.open(agent, bridges, state_dir=config.state_dir, now=now, new_id=new_id)
            )
            notices = (*agent.notices, *found.notices, *([gateway.notice] if gateway.notice else []))
            return cls(gateway, notices, closing.pop_all())
        raise AssertionError("nothing above swallows an exception")

    @property
    def statuses(self) -> tuple[BridgeStatus, ...]:
        """How each bridge is."""
        return self._gateway.statuses

    async def close(self) -> None:
        """Stops everything. What is not done stays in the ledger, for the next start."""
        await self._closing.aclose()

    async def __aenter__(self) -> Self:
        """The server itself."""
        return self

    async def __aexit__(self, *_ended: object) -> None:
        """Closes the server."""
        await self.close()


def checked_channels(config: Config) -> Configured:
    """The accounts that the settings name.

    Raises:
        ConfigError: one of them cannot be used.
    """
    found = configured_accounts(config.settings, state_dir=config.state_dir, home=config.home)
    if found.problems:
        raise ConfigError(" ".join(found.problems))
    return found
