"""The usage files of a state folder."""

from __future__ import annotations

from pathlib import Path

from nacre.runtime.contracts.clock import Clock
from nacre.runtime.models.spending import SpendingLedger
from nacre.runtime.settings.config import Config


def spending_folder(config: Config) -> Path:
    """Where the usage of all agents stands, a file a day."""
    return config.state_dir / "usage"


def spending_ledger(config: Config, now: Clock) -> SpendingLedger:
    """What writes down the cost of an agent's calls, and keeps them within the owner's cap."""
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
