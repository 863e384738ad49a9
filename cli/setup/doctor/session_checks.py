"""Checks of what was said: transcripts, their list, the locks of turns. Edge: reads only."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nacre.cli.setup.doctor.disk_checks import shown_paths
from nacre.cli.setup.doctor.finding import Finding

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.runtime.contracts.clock import Clock

_SHOWN_LINES = 5


async def session_findings(invocation: Invocation, now: Clock) -> list[Finding]:
    """What is wrong with sessions and their files."""
    from nacre.runtime.contracts.ids import random_id
    from nacre.runtime.storage.storage import storage_of
    from nacre.sessions.contracts.errors import SessionError

    store = storage_of(invocation.config).sessions(now=now, new_id=random_id)
    try:
        sessions = await store.sessions(with_earlier=True)
        found = [
            Finding(area="sessions", state="problem", text=notice, advice=_SET_ASIDE)
            for notice in store.index.notices
        ]
    except SessionError as error:
        return [Finding(area="sessions", state="problem", text=str(error), advice="Nothing was changed.")]
    finally:
        await store.close()
    lost = [each.key for each in sessions if each.is_current and each.size_bytes is None]
    if lost:
        found.append(
            Finding(
                area="sessions",
                state="note",
                text=f"the list names transcripts that are not there: {', '.join(lost[:_SHOWN_LINES])}",
                advice="Such a session begins anew with its next message. If you have the file in a backup, "
                "put it back.",
            )
        )
    if invocation.config.is_in_files:
        found += await _files(invocation)
    if not any(each.state == "problem" for each in found):
        found.append(Finding(area="sessions", state="well", text=f"{len(sessions)} can be read"))
    return found


_SET_ASIDE = "What could not be read was set aside beside the list, not overwritten."


async def _files(invocation: Invocation) -> list[Finding]:
    from nacre.sessions.contracts.errors import SessionError
    from nacre.sessions.upkeep.checking import orphaned_results, running_turns, transcript_problems

    config = invocation.config
    folder = config.folders.sessions_file.parent
    try:
        broken = await asyncio.to_thread(lambda: list(transcript_problems(folder)))
        orphans = await asyncio.to_thread(orphaned_results, folder)
    except SessionError as error:
        return [Finding(area="sessions", state="problem", text=str(error), advice="Nothing was changed.")]
    found = []
    for each in broken:
        lines = ", ".join(map(str, each.unreadable_lines[:_SHOWN_LINES]))
        told = each.problem or (f"line {lines} cannot be read" if lines else "its last line is torn")
        found.append(
            Finding(
                area="sessions",
                state="problem",
                text=f"{invocation.short(each.path)}: {told}",
                advice="A newer Nacre wrote it, or it is no file of its own; it is left as it is."
                if each.problem
                else "The next turn of that session sets a copy aside and goes on with what can be read.",
            )
        )
    if orphans:
        found.append(
            Finding(
                area="sessions",
                state="note",
                text=f"results of tools without their transcript: {shown_paths(invocation, orphans)}",
                advice="Nothing uses them. Move them away if you do not expect the transcript back.",
            )
        )
    running = await asyncio.to_thread(running_turns, config.folders.private_dir(config.state_dir) / "locks")
    text = (
        f"{running} held: a turn is running" if running else "none is held, and a killed process leaves none"
    )
    return [*found, Finding(area="locks", state="well", text=text)]
