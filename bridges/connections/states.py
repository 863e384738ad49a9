"""How the bridges are, in the ledger: for a terminal beside the program that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from nacre.bridges.connections.supervisor import BridgeState, BridgeStatus
from nacre.record import Record
from nacre.runtime.contracts.clock import Clock, epoch_ms, stored_moment
from nacre.runtime.ledger.ledger import LedgerTables
from nacre.runtime.ledger.records import StoredStatus


class KeptStatus(Record):
    """How a bridge was when that last changed, and when it is started again if it waits for that."""

    status: BridgeStatus
    since: datetime | None
    next_try: datetime | None


async def keep_statuses(tables: LedgerTables, statuses: Sequence[BridgeStatus], now: Clock) -> None:
    """Keeps how all bridges are, in place of what stood there."""
    now_ms = epoch_ms(now())
    await tables.put_statuses(
        [
            StoredStatus(
                channel=each.channel,
                account=each.account,
                state=each.state,
                problem=each.problem,
                restarts=each.restarts,
                since_ms=now_ms,
                next_try_ms=now_ms + round(each.wait_seconds * 1000) if each.state == "waiting" else 0,
            )
            for each in statuses
        ]
    )


async def kept_statuses(tables: LedgerTables, now: Clock) -> tuple[KeptStatus, ...]:
    """What `keep_statuses` last kept."""
    zone = now().tzinfo
    return tuple(
        KeptStatus(
            status=BridgeStatus(
                channel=row.channel,
                account=row.account,
                state=_state(row.state),
                problem=row.problem,
                restarts=row.restarts,
            ),
            since=stored_moment(row.since_ms, zone),
            next_try=stored_moment(row.next_try_ms, zone),
        )
        for row in await tables.statuses()
    )


def _state(text: str) -> BridgeState:
    states: tuple[BridgeState, ...] = ("stopped", "connecting", "connected", "waiting")
    return next((state for state in states if state == text), "stopped")
