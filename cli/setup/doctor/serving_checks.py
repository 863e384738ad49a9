"""Checks of the chats of others: the settings of channels, and how the program that serves them is. Edge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacre.cli.setup.doctor.finding import Finding

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock


async def serving_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """Whether the channels can be used, and what hinders those that are served."""
    from nacre.bridges.connections.supervisor import saved_statuses
    from nacre.bridges.server import check_channels
    from nacre.runtime.contracts.errors import ConfigError
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.storage import ledger_of

    try:
        told = check_channels(invocation.config, now)
    except ConfigError as error:
        advice = "Nothing is served until that is put right; `nacre serve --check` tries again."
        return [Finding(area="channels", state="problem", text=str(error), advice=advice)]
    place = ledger_of(invocation.config)
    try:
        if not await place.is_there():
            text = " ".join(told) or "none is set up"
            return [Finding(area="channels", state="well", text=text)]
        is_running = await place.is_served()
        tables = await place.open_tables(now=now)
        try:
            kept = await saved_statuses(tables, now)
            counts = await tables.not_done()
        finally:
            await tables.close()
    except LedgerUnusable as error:
        advice = "What was set aside lies beside it; `nacre status` says more."
        return [Finding(area="channels", state="problem", text=str(error), advice=advice)]
    found = [
        Finding(area="channels", state="problem", text=each.status.line, advice="`nacre status` says more.")
        for each in kept
        if is_running and each.status.state != "connected"
    ]
    if kept and not is_running:
        advice = "`nacre serve` answers them, or a service does: docs/serve.md."
        found.append(Finding(area="channels", state="note", text="nobody serves them now", advice=advice))
    if counts.get("failed"):
        text = f"{counts['failed']} messages could not be sent for good"
        found.append(Finding(area="channels", state="note", text=text, advice="The log says why."))
    return found or [Finding(area="channels", state="well", text="connected" if is_running else "none")]
