"""The command `nacre send`: one turn for scripts, the reply on standard output."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from nacre.cli.invocation import begin, json_option, shared_options
from nacre.cli.screen.json_text import camel_json, print_json

if TYPE_CHECKING:
    from nacre.cli.invocation import Invocation
    from nacre.cli.talk.quiet_turn import Outcome
    from nacre.runtime.contracts.inbound import Attachment, Inbound

INDEX_SECONDS = 5.0
"""How long the command indexes notes after the reply."""

SIGNALS = 128
"""Exit codes above this are signals: 128 + n."""


@click.command("send")
@click.argument("words", metavar="[TEXT]...", nargs=-1)
@click.option("-m", "--message", metavar="TEXT", help="The message; - or nothing reads standard input.")
@click.option("--stdin", "adds_input", is_flag=True, help="Add standard input after the text of -m.")
@click.option("--session", "session_key", metavar="NAME", default="", help="Session to use; default: main.")
@click.option("--shared", "is_shared", is_flag=True, help="Others may read the session: no private notes.")
@click.option(
    "-a",
    "--attach",
    "files",
    type=click.File("rb"),
    multiple=True,
    help="A file to attach; may be repeated.",
)
@json_option("Print one JSON object with the reply and what happened.")
@shared_options
def command(
    context: click.Context,
    words: tuple[str, ...],
    message: str | None,
    adds_input: bool,
    session_key: str,
    is_shared: bool,
    files: tuple[BinaryIO, ...],
    as_json: bool,
) -> int:
    """Send one message and print the reply.

    TEXT is the message, as with -m; write -- before a text that begins with a dash.

    Only the reply goes to standard output, nothing if the assistant stays silent. The exit code is 0
    for a reply or silence, 1 if the turn failed, 2 for wrong usage or settings.
    """
    if words and message is not None:
        raise click.UsageError("There are two messages. Use words or -m, not both.", context)
    text = _text(" ".join(words) if words else message, adds_input=adds_input)
    if not (text.strip() or files):
        raise click.UsageError("There is nothing to send. Give a text with -m, or pipe one in.", context)
    from nacre.cli.signals import run_until_signal
    from nacre.cli.talk.quiet_turn import shared_key, terminal_message
    from nacre.runtime.contracts.errors import AgentError, ConfigError, TurnCancelled
    from nacre.sessions.contracts.errors import SessionError

    outcomes: list[Outcome] = []
    try:
        invocation = begin(context)
        key = shared_key(session_key, invocation.config.agent_id) if is_shared else session_key
        inbound = replace(terminal_message(text, key), attachments=tuple(map(_attachment, files)))
        code = run_until_signal(_send(invocation, inbound, outcomes, as_json=as_json))
        if code >= SIGNALS and as_json and not outcomes:
            _print_outcome(None, TurnCancelled(f"The turn was stopped by signal {code - SIGNALS}."))
        return code
    except (AgentError, SessionError) as error:
        if not as_json:
            raise
        _print_outcome(None, error)
        return 2 if isinstance(error, ConfigError) else 1


def _text(message: str | None, *, adds_input: bool) -> str:
    if message is None and sys.stdin.isatty() and not adds_input:
        return ""
    if message is None or message == "-":
        return _standard_input()
    return f"{message}\n\n{_standard_input()}" if adds_input else message


def _standard_input() -> str:
    return sys.stdin.buffer.read().decode("utf-8-sig", errors="replace")


def _attachment(file: BinaryIO) -> Attachment:
    from nacre.cli.talk.keyboard.attached_files import FileNotSent, attachment

    try:
        return attachment(file)
    except FileNotSent as error:
        raise click.UsageError(str(error)) from error


async def _send(invocation: Invocation, inbound: Inbound, outcomes: list[Outcome], *, as_json: bool) -> int:
    from nacre.cli.screen.screen import screen_on
    from nacre.cli.talk.quiet_turn import run_quiet_turn
    from nacre.runtime.agent.agent import Agent
    from nacre.runtime.contracts.events import ReplyReady, TurnFailed

    progress = None if as_json else screen_on(sys.stderr, invocation.environment)
    async with Agent.open(environment=invocation.environment, watch=False) as agent:
        for notice in agent.notices:
            if progress is not None:
                progress.line(notice, "warning")
        key = agent.session_key(inbound)
        outcome = await run_quiet_turn(agent, inbound, progress)
        outcomes.append(outcome)
        if as_json:
            _print_outcome(outcome, None, key)
        elif isinstance(outcome.ending, ReplyReady):
            invocation.say(outcome.ending.reply.text.strip())
        sys.stdout.flush()
        await agent.index_notes(wait_seconds=INDEX_SECONDS)
    return 1 if isinstance(outcome.ending, TurnFailed) else 0


def _print_outcome(outcome: Outcome | None, error: Exception | None, key: str | None = None) -> None:
    from nacre.runtime.contracts.events import ReplyReady, Silence, TextStreamed, TurnFailed

    value: dict[str, Any] = {"reply": None, "sessionKey": key, "sessionId": None, "events": []}
    if outcome is not None:
        # Streamed text is left out, because the reply has it.
        events = [event for event in outcome.events if not isinstance(event, TextStreamed)]
        names = [type(event).__name__ for event in events]
        value["events"] = [
            {"type": name[0].lower() + name[1:], **camel_json(event)}
            for name, event in zip(names, events, strict=True)
        ]
        if isinstance(outcome.ending, ReplyReady):
            reply = outcome.ending.reply
            value |= {"reply": reply.text, **camel_json(reply, "session_key", "session_id")}
        elif isinstance(outcome.ending, Silence):
            value |= camel_json(outcome.ending)
        elif isinstance(outcome.ending, TurnFailed):
            error = outcome.ending.error
    if error is not None:
        value["error"] = {"type": type(error).__name__, "message": str(error)}
    print_json(value)
