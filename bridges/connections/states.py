"""How the bridges are, in the ledger's file: for a terminal beside the program that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nacre.bridges.connections.supervisor import BridgeState, BridgeStatus
from nacre.bridges.ledger.database import Connection, Database
from nacre.runtime.contracts.clock import Clock, epoch_ms, stored_moment


@dataclass(frozen=True, kw_only=True)
class KeptStatus:
    """How a bridge was when that last changed, and when it is started again if it waits for that."""

    status: BridgeStatus
    since: datetime | None
    next_try: datetime | None


async def keep_statuses(database: Database, statuses: Sequence[BridgeStatus], now: Clock) -> None:
    """Puts how all bridges are on disk, in place of what stood there."""
    now_ms = epoch_ms(now())

    def work(db: Connection) -> None:
        db.execute("DELETE FROM bridge_states")
        for each in statuses:
            next_ms = now_ms + round(each.wait_seconds * 1000) if each.state == "waiting" else 0
            what = (each.channel, each.account, each.state, each.problem, each.restarts, now_ms, next_ms)
            db.execute("INSERT INTO bridge_states VALUES (?, ?, ?, ?, ?, ?, ?)", what)

    await database.write(work)


async def kept_statuses(database: Database, now: Clock) -> tuple[KeptStatus, ...]:
    """What `keep_statuses` last put there."""
    query = (
        "SELECT channel, account, state, problem, restarts, since_ms, next_try_ms FROM bridge_states "
        "ORDER BY channel, account"
    )
    rows: list[Any] = await database.write(lambda db: db.execute(query).fetchall())
    zone = now().tzinfo
    return tuple(
        KeptStatus(
            status=BridgeStatus(
                channel=channel, account=account, state=_state(state), problem=problem, restarts=restarts
            ),
            since=stored_moment(since_ms, zone),
            next_try=stored_moment(next_ms, zone),
        )
        for channel, account, state, problem, restarts, since_ms, next_ms in rows
    )


def _state(text: str) -> BridgeState:
    states: tuple[BridgeState, ...] = ("stopped", "connecting", "connected", "waiting")
    return next((state for state in states if state == text), "stopped")
