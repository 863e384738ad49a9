"""`nacre sessions resume`: runs `/resume` in the chat of a session, and continues there."""

from __future__ import annotations

import sys

import click

from nacre.cli.invocation import Invocation, json_option, shared_options
from nacre.cli.screen.json_text import print_json
from nacre.cli.sessions.commands import run_on_shelf
from nacre.cli.sessions.shelf import SessionShelf
from nacre.cli.talk.conversation import converse
from nacre.cli.talk.piped_chat import answer_lines
from nacre.cli.talk.quiet_turn import run_quiet_turn, terminal_message
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.events import ReplyReady, TurnFailed
from nacre.sessions.contracts.keys import RECOVERED, canonical_key
from nacre.sessions.upkeep.stored_session import StoredSession


@click.command("resume")
@click.argument("name")
@json_option("Only go back, without a chat, and print JSON.")
@shared_options
def resume(context: click.Context, name: str, as_json: bool) -> int:
    """Go back to a session, and continue it as in nacre chat.

    Its key refers to it again; you can go back to the key's previous session in the same way.
    """
    is_chat = not as_json and sys.stdin.isatty() and sys.stdout.isatty()

    async def work(shelf: SessionShelf, invocation: Invocation) -> int:
        session, main_key = await shelf.find(name), shelf.main_key
        # A transcript without a key, or with a former main key, continues in the main session's chat.
        own_key = main_key if session.key.startswith(RECOVERED) else session.key
        key = canonical_key(own_key, agent_id=invocation.config.agent_id, main_key=main_key)
        first = "" if session.is_current and key == session.key else f"/resume {session.session_id}"
        if as_json:
            return await _resume_only(invocation, session, key, first)
        if is_chat:
            return await converse(invocation, key, first=first)
        return await answer_lines(invocation, key, first=first)

    return run_on_shelf(context, work, interruptible=not is_chat)


async def _resume_only(invocation: Invocation, session: StoredSession, key: str, first: str) -> int:
    reply, error, session_id = "", "", session.session_id
    if first:
        async with Agent.open(environment=invocation.environment, watch=False) as agent:
            ending = (await run_quiet_turn(agent, terminal_message(first, key), None)).ending
        if isinstance(ending, ReplyReady):
            reply, session_id, key = ending.reply.text, ending.reply.session_id, ending.reply.session_key
        elif isinstance(ending, TurnFailed):
            error = str(ending.error)
    is_back = not error and session_id == session.session_id
    said = {"reply": reply or None, "error": error or None}
    print_json({"key": key, "sessionId": session_id, "resumed": is_back, **said})
    return 0 if is_back else 1
