"""`/queue`, `/send` and `/activation`, which the bridges' gateway handles before they arrive here."""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome


async def _elsewhere(run: CommandRun) -> Outcome:
    return run.said("This is about chats that `nacre serve` answers; here nothing waits and all is answered.")


QUEUE = Command(
    name="queue",
    help="show or choose what becomes of messages that arrive during a turn",
    arguments="[mode]",
    run=_elsewhere,
)
SEND = Command(
    name="send", help="whether messages are answered here", arguments="on|off|inherit", run=_elsewhere
)
ACTIVATION = Command(
    name="activation",
    help="whether a group is answered always, or when it is spoken to",
    arguments="mention|always",
    run=_elsewhere,
    where=("group",),
)
