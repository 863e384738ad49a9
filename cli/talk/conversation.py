"""`nacre chat` in a terminal: type, watch the answer come, stop it, leave."""

from __future__ import annotations

import logging
import sys
from contextlib import aclosing

from nacre.cli.invocation import Invocation
from nacre.cli.screen.screen import Screen, screen_on
from nacre.cli.signals import on_interrupt
from nacre.cli.talk.approval_question import ApprovalQuestion
from nacre.cli.talk.prompt import Prompt, keyboard_held_back
from nacre.cli.talk.quiet_turn import owner_says
from nacre.cli.talk.turn_view import TurnView
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.inbound import Inbound

log = logging.getLogger(__name__)

HISTORY_FILE = "chat_history"
_LEAVE_COMMANDS = ("/quit", "/exit")
_SHOWN_NOTICES = 2


async def converse(invocation: Invocation, session_key: str, *, first: str = "") -> int:
    """Talks until the owner leaves; `first` is said before they type anything.

    Raises:
        AgentError: the agent could not be opened.
    """
    screen = screen_on(sys.stdout, invocation.environment)
    with keyboard_held_back():
        async with await Agent.open(environment=invocation.environment) as agent:
            _greet(agent, invocation, screen)
            commands = agent.commands(owner_says("", session_key))
            meanings = {word: command.help for command in commands for word in command.called_by}
            prompt = Prompt(invocation.config.private_dir / HISTORY_FILE, meanings)
            text = first or await _next_message(prompt, screen)
            while text is not None:
                await _turn(agent, owner_says(text, session_key), screen, prompt)
                text = await _next_message(prompt, screen)
        return 0


async def _next_message(prompt: Prompt, screen: Screen) -> str | None:
    """What the owner typed, or `None` when they leave."""
    while True:
        try:
            text = await prompt.read()
        except EOFError:
            return None
        except KeyboardInterrupt:
            if prompt.was_empty:
                screen.line("Ctrl-D or /quit leaves.", "dim")
            continue
        if text.strip().lower() in _LEAVE_COMMANDS:
            return None
        if text.strip():
            return text


async def _turn(agent: Agent, inbound: Inbound, screen: Screen, prompt: Prompt) -> None:
    view = TurnView(screen)
    question = ApprovalQuestion(agent, inbound, screen, prompt)
    try:
        with on_interrupt(lambda: agent.stop(inbound)):
            async with aclosing(agent.stream(inbound)) as events:
                async for event in events:
                    await question.withdraw()
                    view.show(event)
                    question.follow(event)
    finally:
        await question.withdraw()
        view.close()
    screen.line("")


def _greet(agent: Agent, invocation: Invocation, screen: Screen) -> None:
    """At most five lines: who answers, where the notes are, how to get help, what to know."""
    from nacre import __version__

    who = f"Nacre {__version__}" if invocation.is_default_agent else f"Nacre {__version__} · {agent.id}"
    if agent.is_offline:
        screen.line(f"{who} · offline: no model is connected")
        screen.line("To connect one, set NACRE_MODEL, for example NACRE_MODEL=openai/gpt-5-mini.", "dim")
    else:
        screen.line(f"{who} · {agent.model_name}")
    screen.line(f"Notes in {invocation.short(agent.workspace)} · /help lists commands · Ctrl-D leaves", "dim")
    notices = agent.notices
    for notice in notices:
        log.info("%s", notice)
    if len(notices) > _SHOWN_NOTICES:
        rest = f"{len(notices) - 1} more notices are in {invocation.short(invocation.log_file)}."
        notices = (notices[0], rest)
    for notice in notices:
        screen.line(notice, "warning")
    screen.line("")
