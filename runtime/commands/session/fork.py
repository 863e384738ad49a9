"""`/fork` continues in a copy of the session, from an earlier place or from here."""

from __future__ import annotations

from nacre.runtime.commands.contract.command import Command, CommandRun, Outcome, said
from nacre.runtime.commands.conversation.branch_points import HERE
from nacre.runtime.commands.conversation.branching import fork
from nacre.runtime.commands.session.places import place_named, places_text
from nacre.runtime.contracts.errors import PlaceUnknown


async def _fork(run: CommandRun) -> Outcome:
    word, left = run.rest.strip(), run.turn.session
    if not word:
        return run.said(places_text(run))
    is_here = word.lower() == HERE and left.has_messages
    try:
        forked = await fork(run.turn, None if is_here else place_named(run, word))
    except PlaceUnknown as error:
        return run.said(places_text(run, problem=str(error)))
    text = (
        f"🍴 This chat goes on in the new session {forked.session_id}. "
        f"The session {left.session_id} stays as it is; /resume {left.session_id} goes back to it."
    )
    return run.turn, said(left, text, session_id=forked.session_id)


FORK = Command(
    name="fork",
    arguments="[place]",
    help="go on from there, or from here, in a new session, and keep this one as it is",
    run=_fork,
)
