"""The command `nacre serve`: answers the chats that the settings name, until a signal ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, shared_options, with_ledger
from nacre.closing import stop_tasks

if TYPE_CHECKING:
    from nacre.bridges.server import Server
    from nacre.cli.invocation import Invocation
    from nacre.runtime.extensions.host import ExtensionHost
    from nacre.runtime.extensions.service import Serving
    from nacre.runtime.ledger.records import BridgeStatus

log = logging.getLogger(__name__)

TURN_SECONDS = 30.0
"""How long running turns may take when the program is to stop."""
STANDBY_SECONDS = 0.5
"""How often a standby checks whether another program serves."""
LOOK_SECONDS = 2.0
"""How often the settings file and the connections are checked."""


@click.command("serve")
@click.option("--check", is_flag=True, help="Check the settings, and start nothing.")
@click.option("--standby", is_flag=True, help="Wait while another program serves, then take over.")
@shared_options
def command(context: click.Context, check: bool, standby: bool) -> int:
    """Run the channels and services of the settings until a signal.

    `nacre init` adds Telegram. `nacre config set http.port 8700` adds a page for the browser; its login says
    which command prints the token.

    SIGTERM and Ctrl-C wait up to half a minute for running turns; a second one ends the program at once. A
    changed settings file is read again. The exit code is 0 after a signal, and 2 if the settings cannot be
    used.
    """
    from nacre.cli.signals import run_until_asked
    from nacre.runtime.extensions.service import ServiceFailed
    from nacre.runtime.ledger.records import LedgerUnusable

    invocation = begin(context)
    if check:
        return _check(invocation)
    try:
        run_until_asked(lambda asked: _serve(invocation, asked, is_standby=standby))
    except (LedgerUnusable, ServiceFailed) as error:
        raise click.ClickException(str(error)) from error
    return 0


def _check(invocation: Invocation) -> int:
    from nacre.bridges.server import check_channels

    config = invocation.config
    if not config.is_in_files:
        # This changes nothing, and fails if the database cannot be written.
        with_ledger(invocation, lambda tables, _now: tables.people.revoke("", ""))
    invocation.say(*check_channels(config, config.clock))
    invocation.say(f"Agents: {', '.join(agent.id for agent in config.agents)}.")
    invocation.warn(*config.notices)
    for host in _hosts(invocation):
        for service in host.services:
            if problem := service.problem(config):
                raise click.ClickException(problem)
    return 0


def _hosts(invocation: Invocation) -> Sequence[ExtensionHost]:
    """The extensions that may have services, or routes for them."""
    from nacre.runtime.extensions.loading import hosts_with

    config, needed = invocation.config, []
    if config.settings.http.port is not None:
        needed = ["http", "mcp", *([] if config.is_in_files else [config.folders.storage.driver])]
    hosts, notices = hosts_with(config.settings.plugins, needed)
    invocation.warn(*notices)
    return hosts


async def _serve(invocation: Invocation, asked: asyncio.Event, *, is_standby: bool) -> None:
    server = await _open_server(invocation, asked, is_standby=is_standby)
    if server is None:
        return
    try:
        invocation.warn(*server.notices)
        if not server.has_channels and invocation.config.settings.http.port is None:
            invocation.warn(
                "There is no channel and no page, so nobody is answered. `nacre init` adds Telegram, "
                "`nacre config set http.port 8700` a page for the browser."
            )
        invocation.say(f"Agents: {', '.join(server.agent_ids)}.")
        invocation.say(*(f"Serving {status.channel} ({status.account})." for status in server.statuses))
        others = server.elsewhere.items()
        invocation.say(*(f"{holder} serves {channel} ({account})." for (channel, account), holder in others))
        async with AsyncExitStack() as services:
            hosts = _hosts(invocation)
            serving = _serving(invocation, server, hosts)
            for service in (service for host in hosts for service in host.services):
                await services.enter_async_context(service.run(serving))
            # Everything loaded stays until the end. Without a freeze, the garbage collector searches it
            # again and again, for a quarter of a second each time, in which nobody is answered.
            gc.collect()
            gc.freeze()
            watching = asyncio.create_task(_follow(invocation, server))
            server.lost.add_done_callback(lambda _lost: asked.set())
            try:
                await asked.wait()
            finally:
                await stop_tasks(watching)
        if server.lost.done():
            raise server.lost.result()
    finally:
        await server.close(turn_seconds=0 if server.lost.done() or not asked.is_set() else TURN_SECONDS)


async def _open_server(invocation: Invocation, asked: asyncio.Event, *, is_standby: bool) -> Server | None:
    """The server; with `is_standby`, once no other program serves, or `None` if asked to end before."""
    from nacre.bridges.server import Server
    from nacre.cli.logs import hide_in_log
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.storage import ledger_of

    ledger, is_told = ledger_of(invocation.config), False
    while not asked.is_set():
        try:
            if not (is_standby and await ledger.is_served()):
                return await Server.open(invocation.config, invocation.environment, hide=hide_in_log)
        except LedgerUnusable as error:
            if not is_standby:
                raise
            log.info("the standby waits: %s", error)
        if not is_told:
            invocation.say("Another program serves. This one takes over when it ends.")
            is_told = True
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), STANDBY_SECONDS)
    return None


def _serving(invocation: Invocation, server: Server, hosts: Sequence[ExtensionHost]) -> Serving:
    from nacre.runtime.extensions.service import Serving

    return Serving(
        config=invocation.config,
        environment=invocation.environment,
        agents=server.agents,
        runner=server.runner,
        http_mounts=[make for host in hosts for make in host.http_mounts],
        has_channels=server.has_channels,
        figures=partial(_figures, server),
        say=invocation.say,
        warn=invocation.warn,
        turn_seconds=TURN_SECONDS,
    )


async def _figures(server: Server) -> Mapping[str, float]:
    """Figures of the waiting work; empty while it cannot be queried, so that `/metrics` has the others."""
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.storage.backend import StorageFailed

    try:
        return await server.figures()
    except (LedgerUnusable, StorageFailed) as error:
        log.warning("/metrics has no figures of the waiting work: %s", error)
        return {}


async def _follow(invocation: Invocation, server: Server) -> None:
    from nacre.runtime.ledger.records import LedgerUnusable
    from nacre.runtime.settings.config import SETTINGS_FILE, file_stamp

    file = invocation.config.state_dir / SETTINGS_FILE
    before = await asyncio.to_thread(file_stamp, file)
    seen: dict[tuple[str, str], tuple[str, str]] = {}
    kept: tuple[BridgeStatus, ...] | None = None
    while True:
        if server.statuses != kept:
            statuses = server.statuses
            with suppress(LedgerUnusable):  # other work reports it, and this is tried again
                await server.save_statuses()
                kept = statuses
        await asyncio.sleep(LOOK_SECONDS)
        _report_changes(invocation, server, seen)
        now = await asyncio.to_thread(file_stamp, file)
        if now != before:
            before = now
            invocation.say("The settings file has changed.", *await server.reload())


def _report_changes(
    invocation: Invocation, server: Server, seen: dict[tuple[str, str], tuple[str, str]]
) -> None:
    """Reports each connection and each new problem once; `seen` has the last report of each account."""
    for status in server.statuses:
        now = (status.state, status.problem)
        if status.state not in ("connected", "waiting") or seen.get((status.channel, status.account)) == now:
            continue
        seen[status.channel, status.account] = now
        if status.state == "connected":
            invocation.say(f"{status.line}.")
        else:
            invocation.warn(f"{status.line}. It is tried again.")
