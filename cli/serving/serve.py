"""The command `nacre serve`: answers the chats that the settings name, until a signal ends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, shared_options

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation


@click.command("serve")
@shared_options
def command(context: click.Context) -> int:
    """Answer the chats that the settings name, until a signal ends it.

    `channels` in nacre.json5 says which. Exit code 0 when it was asked to end, 2 for settings that cannot
    be used.
    """
    from nacre.bridges.contracts.errors import LedgerUnusable
    from nacre.cli.signals import run_until_signal

    invocation = begin(context)
    try:
        run_until_signal(_serve(invocation))
    except LedgerUnusable as error:
        raise click.ClickException(str(error)) from error
    return 0


async def _serve(invocation: Invocation) -> int:
    from nacre.bridges.server import Server

    async with await Server.open(invocation.config, invocation.environment) as server:
        invocation.warn(*server.notices)
        if not server.statuses:
            invocation.warn("The settings name no channel: see channels in docs/bridges.md.")
        invocation.say(*(f"Serving {status.channel} ({status.account})." for status in server.statuses))
        await asyncio.get_running_loop().create_future()
    return 0
