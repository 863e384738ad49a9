"""The place of the recorded cost of model calls, and the cost of today."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.models.spending import SpendingLedger, spending
from nacre.runtime.settings.config import Config


def spending_folder(config: Config) -> Path:
    """The folder with the usage of all agents, one file per day."""
    return config.state_dir / "usage"


def spending_ledger(config: Config, now: Clock) -> SpendingLedger:
    """The ledger that records the cost of an agent's calls and enforces the owner's cap."""
    return SpendingLedger(
        spending_folder(config),
        agent_id=config.agent_id,
        now=now,
        cap_usd=lambda: config.daily_cap.usd,
        prices={
            name: {"input_cost_per_token": each.input / 1e6, "output_cost_per_token": each.output / 1e6}
            for name, each in config.settings.usage.prices.items()
        },
    )


async def spent_today_usd(config: Config, now: Clock) -> float:
    """Dollars that all agents of the state folder spent today: what the cap counts. Raises `SessionError`."""
    today = now().date().isoformat()
    spent = await asyncio.to_thread(lambda: list(spending(spending_folder(config), day=today)))
    return sum(each.usage.cost_usd for each in spent)
