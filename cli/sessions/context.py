"""The command `nacre sessions context`: exactly what the model would receive now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from nacre.cli.invocation import begin, json_option, run_reporting, shared_options
from nacre.cli.screen.json_text import camel_json, print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation

NO_SESSION = (
    "There is no session {key!r} yet. The first message starts it, such as `nacre send Hello`. "
    "`nacre sessions list` shows all sessions."
)


@click.command("context")
@click.argument("key", default="main")
@click.option("--full", is_flag=True, help="Also print the text of each part.")
@json_option()
@shared_options
def command(context: click.Context, key: str, full: bool, as_json: bool) -> int:
    """Show what the model would receive now, with sizes in tokens.

    KEY is the key of a session; default: main. No model is asked, and nothing changes.
    """
    from nacre.sessions.contracts.errors import SessionError

    invocation = begin(context)
    return run_reporting(invocation, _context(invocation, key, full=full, as_json=as_json), SessionError)


async def _context(invocation: Invocation, key: str, *, full: bool, as_json: bool) -> int:
    from nacre.runtime.agent.agent import Agent
    from nacre.runtime.commands.session_commands import context_lines
    from nacre.sessions.contracts.errors import SessionNotFound

    async with Agent.open(environment=invocation.environment, watch=False) as agent:
        try:
            session = await agent.sessions.get(key)
        except SessionNotFound:
            invocation.warn(NO_SESSION.format(key=key), tone="error")
            return 1
        view = await session.context()
    if as_json:
        budget, usage = view.budget, view.last_usage
        shown = ("name", "tokens", "is_cached", *(("text",) if full else ()))
        return print_json(
            {
                "key": view.key,
                "model": view.model_name,
                "tokens": view.tokens,
                "windowTokens": budget.window_tokens,
                "flushAtTokens": budget.flush_at,
                "compactAboveTokens": budget.compact_at,
                "lastCacheReadTokens": usage.cache_read_tokens if usage is not None else None,
                "parts": [camel_json(part, *shown) for part in view.parts],
            }
        )
    invocation.say(*context_lines(view))
    for part in view.parts if full else ():
        invocation.say("", f"━━━ {part.name} ━━━", part.text)
    return 0
