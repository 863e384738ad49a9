"""How tests of what is due open a gateway with its timekeeper: frozen clock, nobody looks but the test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from nacre import Agent
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.gateway import Gateway
from nacre.bridges.schedule.schedule_tool import ScheduleTools
from nacre.bridges.schedule.timekeeper import Timekeeper
from nacre.bridges.schedule.timetable import Timetable
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.bridges.chats import QUICK
from tests.runtime.agents import write_settings

MORNING = datetime(2026, 3, 14, 9, 0, tzinfo=ZoneInfo("Europe/Berlin"))
STEADY = {**QUICK, "agents": {"defaults": {"heartbeat": {"every": "0"}}}}
"""Jobs alone: no heartbeats."""


async def until(done: Callable[[], bool]) -> None:
    """Waits until something is so."""
    async with asyncio.timeout(60):
        while not done():
            await asyncio.to_thread(lambda: None)


@dataclass(frozen=True)
class Kept:
    """What is open."""

    gateway: Gateway
    agent: Agent
    timekeeper: Timekeeper
    timetable: Timetable
    clock: Clock

    async def until_idle(self) -> None:
        """Waits until everything that was taken is answered and sent."""
        await until(lambda: self.gateway.is_idle)

    async def look(self) -> None:
        """Looks once, and waits until what was due is done."""
        await self.timekeeper.run_due()
        await self.until_idle()


@asynccontextmanager
async def kept(
    state_dir: Path,
    model: ChatModel,
    bridges: Sequence[Bridge],
    clock: Clock,
    *,
    settings: Mapping[str, Any] = QUICK,
    ids: str = "",
) -> AsyncIterator[Kept]:
    """An open gateway, whose agent has the tool `schedule`."""
    write_settings(state_dir, dict(settings))
    new_id = CountingIds(f"ledger-{ids}")
    desk = ScheduleTools(now=clock, new_id=CountingIds(f"job-{ids}"))
    opening = Agent.open(
        state_dir=state_dir,
        model=model,
        tools=[desk.tool("main")],
        environment={"HOME": str(state_dir / "home")},
        clock=clock,
        new_id=CountingIds(ids),
        watch=False,
    )
    async with (
        await opening as agent,
        await Gateway.open(agent, bridges, state_dir=state_dir, now=clock, new_id=new_id) as gateway,
    ):
        timetable = Timetable(gateway.tables, now=clock)
        desk.open(timetable, gateway.dispatcher.current_message)
        timekeeper = Timekeeper(gateway, timetable, [agent], now=clock, sleep=asyncio.sleep)
        async with asyncio.timeout(60):
            while any(status.state != "connected" for status in gateway.statuses):
                await asyncio.to_thread(lambda: None)
        yield Kept(gateway, agent, timekeeper, timetable, clock)
