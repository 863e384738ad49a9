"""The command `nacre admin worker`: runs turns that `nacre serve` hands over, until a signal ends it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, shared_options

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation


TURN_SECONDS = 30.0
"""How long turns that run may take to end when the program is to stop."""


@click.command("worker")
@click.option(
    "--at-once", metavar="N", type=click.IntRange(min=1), help="Run so many turns at once, at most."
)
@shared_options
def command(context: click.Context, at_once: int | None) -> int:
    """Run turns from the database that the settings name, until a signal ends it.

    Any number of workers may run, on any number of machines. SIGTERM and Ctrl-C let running turns end, for
    half a minute at most; others go on with what is not done then. Exit code 0 when it was asked to end,
    2 for settings that cannot be used.
    """
    from nacre.cli.signals import run_until_asked
    from nacre.extensions.postgres.server.connections import DatabaseError

    invocation = begin(context)
    try:
        run_until_asked(lambda asked: _work(invocation, asked, at_once))
    except DatabaseError as error:
        raise click.ClickException(str(error)) from error
    return 0


async def _work(invocation: Invocation, asked: asyncio.Event, at_once: int | None) -> None:
    from nacre.extensions.postgres.workers.worker import opened_worker

    most_at_once = at_once or invocation.config.settings.agent.max_concurrent
    opening = opened_worker(invocation.config, invocation.environment, most_at_once=most_at_once)
    async with opening as worker:
        invocation.say(f"Working, {most_at_once} turns at once at most.")
        working = asyncio.create_task(worker.run(last_seconds=TURN_SECONDS))
        asking = asyncio.create_task(asked.wait())
        await asyncio.wait({working, asking}, return_when=asyncio.FIRST_COMPLETED)
        asking.cancel()
        working.cancel()
        ended = await asyncio.gather(working, return_exceptions=True)
        if isinstance(ended[0], Exception):
            raise ended[0]
