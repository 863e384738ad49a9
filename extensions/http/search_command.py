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

    It reads every transcript, also those of ended and imported sessions, and needs no setting and no index.
    """
    from nacre.cli.screen.session_words import found_session_lines
    from nacre.cli.sessions.text import session_json
    from nacre.runtime.commands.conversation.word_search import sessions_with

    found = await sessions_with(shelf.store, " ".join(words).split())
    if as_json:
        told = [(session_json(each.session, main_key=shelf.main_key), each) for each in found]
        return print_json(
            [{**session, "messageId": each.entry_id, "passage": each.passage} for session, each in told]
        )
    if not found:
        invocation.say("No conversation has all these words in one message. Try fewer, or `nacre search`.")
    invocation.say(*found_session_lines(found, now=shelf.now(), main_key=shelf.main_key))
    return 0
