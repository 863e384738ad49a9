"""`nacre sessions search`: the page's search for conversations, in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.cli.sessions.commands import reading_shelf

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.cli.sessions.shelf import SessionShelf


@click.command("search")
@click.argument("words", metavar="WORD...", nargs=-1, required=True)
@json_option()
@shared_options
@reading_shelf
async def command(shelf: SessionShelf, invocation: Invocation, words: tuple[str, ...], as_json: bool) -> int:
    """Find the sessions in which one message has all these words.

    Every transcript is read, also of ended and imported sessions; no setting and no index is needed.
    """
    from nacre.cli.screen.plain import one_line
    from nacre.cli.screen.session_words import age, session_name
    from nacre.cli.sessions.text import SHORT_ID_CHARS, session_json
    from nacre.extensions.http.page.search import sessions_with

    found = await sessions_with(shelf.store, " ".join(words).split())
    if as_json:
        told = [(session_json(each.session, main_key=shelf.main_key), each) for each in found]
        return print_json(
            [{**session, "messageId": each.entry_id, "passage": each.passage} for session, each in told]
        )
    if not found:
        invocation.say("No conversation has all these words in one message. Try fewer, or `nacre search`.")
    for each in found:
        session = each.session
        identity = one_line(session.session_id[:SHORT_ID_CHARS])
        name = session_name(session.key, session.record, shelf.main_key, is_current=session.is_current)
        told_age = age(session.active_at_ms, shelf.now())
        invocation.say(f"{name} · {identity} · {told_age}")
        invocation.say(f"  {one_line(each.passage)}")
    return 0
