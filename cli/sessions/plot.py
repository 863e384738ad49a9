"""The command `nacre sessions plot`: how full the context of a session was over time."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from nacre.cli.screen.json_text import print_json
from nacre.installation import install_command

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.cli.sessions.shelf import SessionShelf

NOTHING_COUNTED = "No answer of this session was counted by its provider, so there is nothing to draw."
NO_LIBRARY = (
    "A picture needs matplotlib, which cannot be used here ({error}). Install it with "
    "`{command}`; without --output the drawing is text."
)


async def plotted(
    shelf: SessionShelf, invocation: Invocation, name: str, *, as_json: bool, output: Path | None
) -> int:
    """Draws the present branch of a session on the terminal, or into a new file; 1 where nothing is drawn."""
    from nacre.cli.sessions.timeline import chart_lines, legend, timeline_json
    from nacre.runtime.agent.insight.model_facts import budget_of
    from nacre.runtime.agent.insight.timeline import timeline
    from nacre.runtime.providers.opening import has_price

    session = await shelf.find(name)
    transcript = await shelf.read(session)
    budget = await budget_of(invocation.config, shelf.now)
    # On a thread, so that a signal is heard meanwhile.
    found = await asyncio.to_thread(timeline, transcript.branch, budget, has_price=has_price)
    if as_json:
        return print_json({"key": session.key, "sessionId": session.session_id, **timeline_json(found)})
    if not found.points:
        invocation.warn(NOTHING_COUNTED)
        return 1
    if output is None:
        columns = shutil.get_terminal_size().columns
        invocation.say(*chart_lines(found, columns=columns), legend(found))
        return 0
    from nacre.cli.sessions.picture import picture

    try:
        data = picture(found, output.suffix.lower().lstrip("."), title=session.key)
    except ImportError as error:
        invocation.warn(NO_LIBRARY.format(error=error, command=install_command("plot")), tone="error")
        return 1
    shelf.write_new(output, data)
    invocation.say(f"Drew session {session.session_id} into {output} ({len(data)} bytes).")
    return 0
