"""The command `nacre status`: how the assistant is, and the program that serves it, looked at from beside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import print_json

if TYPE_CHECKING:
    from nacre.bridges.connections.supervisor import SavedStatus
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock
    from nacre.runtime.settings.config import Config

NEVER_SERVED = "`nacre serve` has never run with this state folder."


@click.command("status")
@json_option("Print a JSON object.")
@shared_options
def command(context: click.Context, as_json: bool) -> int:
    """Show the model, notes, sessions, cost and channels.

    Exit code 1 when there is something to serve and `nacre serve` does not run, or a channel is not
    connected; else 0. `nacre doctor` looks deeper.
    """
    from nacre.runtime.contracts.clock import owner_clock
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    now = owner_clock(invocation.config.settings.agent.user_timezone)
    try:
        return asyncio.run(_status(invocation, now, as_json=as_json))
    except (LedgerUnusable, SessionError) as error:
        raise click.ClickException(str(error)) from error


async def _status(invocation: Invocation, now: Clock, *, as_json: bool) -> int:
    from nacre.bridges.connections.supervisor import saved_statuses
    from nacre.bridges.schedule.timetable import Timetable, upcoming_lines
    from nacre.cli.serving.overview import overview_of
    from nacre.runtime.ledger.ledger import told
    from nacre.runtime.storage.storage import ledger_of

    config = invocation.config
    overview = await overview_of(config, now)
    if not as_json:
        invocation.say(*overview.lines(invocation.short), "")
    place = ledger_of(config)
    # whoever only uses the terminal has nothing to serve
    is_wanted = any(channel.enabled for channel in config.settings.channels.values())
    if not await place.is_there():
        if as_json:
            print_json({**overview.json(), "serving": False, "bridges": [], "ledger": {}, "coming": []})
        else:
            (invocation.warn if is_wanted else invocation.say)(NEVER_SERVED)
        return 1 if is_wanted else 0
    is_running = await place.is_served()
    tables = await place.open_tables(now=now)
    try:
        kept = await saved_statuses(tables, now)
        counts = await tables.not_done()
        timetable = Timetable(tables, now=now)
        coming = await upcoming_lines(timetable, config.agent_id, config.settings.agent.heartbeat, now())
    finally:
        await tables.close()
    turns = await _turns(config) if config.settings.storage.workers else {}
    is_wanted = is_wanted or bool(kept or any(counts.values()))
    is_well = (
        turns.get("workers") != 0 and all(each.status.state == "connected" for each in kept)
        if is_running
        else not is_wanted
    )
    if as_json:
        print_json(
            {
                **overview.json(),
                "serving": is_running,
                "bridges": [_json(each) for each in kept],
                "ledger": counts,
                "coming": list(coming),
                **({"turns": turns} if turns else {}),
            }
        )
        return 0 if is_well else 1
    invocation.say("Serving." if is_running else "Not serving: `nacre serve` does not run.")
    invocation.say(*(_line(each, is_running=is_running) for each in kept))
    invocation.say(f"📮 Messages: {told(counts)}", *coming)
    if turns:
        invocation.say(
            "⚙️ Turns: {waiting} wait, the longest for {waitingSeconds:.0f} s; {running} run; the oldest was "
            "asked for {oldestSeconds:.0f} s ago; workers: {workers} with {places} places; "
            "sessions held: {leases}, by workers that went silent: {leasesRunOut}".format(**turns)
        )
    return 0 if is_well else 1


async def _turns(config: Config) -> dict[str, Any]:
    """What workers have to do. Raises `ClickException` when the database cannot be asked."""
    from nacre.runtime.extensions.loading import load_workers
    from nacre.runtime.storage.backend import StorageFailed

    try:
        workers = load_workers(config.folders.storage, config.settings.plugins)
        figures = await workers.figures(config)
    except StorageFailed as error:
        raise click.ClickException(str(error)) from error
    return {
        "waiting": figures["waiting"],
        "running": figures["running"],
        "waitingSeconds": figures["waiting_seconds"],
        "oldestSeconds": figures["oldest_seconds"],
        "leases": figures["leases"],
        "leasesRunOut": figures["leases_run_out"],
        "workers": figures["workers"],
        "places": figures["places"],
    }


def _line(kept: SavedStatus, *, is_running: bool) -> str:
    from nacre.cli.screen.plain import one_line

    since = f" since {kept.since:%Y-%m-%d %H:%M}" if kept.since is not None else ""
    again = f"; tried again at {kept.next_try:%H:%M:%S}" if kept.next_try is not None and is_running else ""
    was = "" if is_running else "was "
    return one_line(f"{was}{kept.status.line}{since}{again}")


def _json(kept: SavedStatus) -> dict[str, Any]:
    status = kept.status
    return {
        "channel": status.channel,
        "accountId": status.account,
        "state": status.state,
        "problem": status.problem or None,
        "restarts": status.restarts,
        "since": kept.since.isoformat() if kept.since is not None else None,
        "nextTry": kept.next_try.isoformat() if kept.next_try is not None else None,
    }
