"""The command `nacre chat`."""

from __future__ import annotations

import sys

import click

from nacre.cli.invocation import begin, shared_options


@click.command("chat")
@click.option("--session", "session_key", metavar="NAME", default="", help="Session to use; default: main.")
@click.option("--shared", "is_shared", is_flag=True, help="Others may read the session: no private notes.")
@click.option("--no-color", "is_plain", is_flag=True, help="No colors, as with the variable NO_COLOR.")
@shared_options
def command(context: click.Context, session_key: str, is_shared: bool, is_plain: bool) -> int:
    """Talk to the assistant in this terminal (the default).

    Enter sends, Alt-Enter starts a new line, Tab completes, @path attaches a file, Ctrl-O shows
    the tool calls of the last turn, Ctrl-C stops an answer, Ctrl-D leaves. Without a terminal, each
    line of standard input is a message and replies go to standard output.
    """
    from nacre.cli.signals import run_until_signal

    if is_plain:
        context.ensure_object(dict)["NO_COLOR"] = "1"
    invocation = begin(context)
    if is_shared:
        from nacre.cli.talk.quiet_turn import shared_key

        session_key = shared_key(session_key, invocation.config.agent_id)
    if sys.stdin.isatty() and sys.stdout.isatty():
        from nacre.cli.talk.conversation import converse

        return run_until_signal(converse(invocation, session_key), interruptible=False)
    from nacre.cli.talk.piped_chat import answer_lines

    return run_until_signal(answer_lines(invocation, session_key))
