"""One turn on a terminal: shown while it runs, asked about where it waits for approval."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing

from nacre.cli.screen.screen import Screen
from nacre.cli.talk.approval_question import ApprovalQuestion
from nacre.cli.talk.display.calls import Calls
from nacre.cli.talk.display.turn_view import TurnView
from nacre.cli.talk.keyboard.prompt import Prompt
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.events import ReplyReady, Silence, TextStreamed
from nacre.runtime.contracts.inbound import Inbound
from nacre.sessions.contracts.messages import Usage

_FRAME_SECONDS = 0.04
_PAUSE_FOR_A_PAINTING = 3
"""How many times as long as a drawing took nothing is drawn: a long block leaves time for the rest."""


class Ran(Record):
    """A turn that ended: its tool calls, and its tokens and cost, which are `None` if none were reported."""

    calls: Calls
    usage: Usage | None


async def run_live_turn(agent: Agent, inbound: Inbound, screen: Screen, prompt: Prompt) -> Ran:
    """Runs a turn and shows it."""
    view = TurnView(screen, time.monotonic)
    question = ApprovalQuestion(agent, inbound, screen, prompt)
    has_words = asyncio.Event()
    painting = asyncio.create_task(_paint(view, has_words))
    usage: Usage | None = None
    screen.bracket_pastes(is_on=True)
    try:
        async with aclosing(agent.stream(inbound)) as events:
            async for event in events:
                await question.withdraw()
                view.show(event)
                question.follow(event)
                if isinstance(event, TextStreamed):
                    has_words.set()
                elif isinstance(event, ReplyReady | Silence):
                    usage = event.reply.usage if isinstance(event, ReplyReady) else event.usage
    finally:
        painting.cancel()
        await asyncio.gather(painting, return_exceptions=True)
        await question.withdraw()
        view.close()
        screen.bracket_pastes(is_on=False)
    screen.line("")
    return Ran(calls=view.calls, usage=usage)


async def _paint(view: TurnView, has_words: asyncio.Event) -> None:
    """Draws words soon after they came: several at once, and nothing while none come."""
    while await has_words.wait():
        has_words.clear()
        begun = time.monotonic()
        view.paint()
        await asyncio.sleep(max(_FRAME_SECONDS, _PAUSE_FOR_A_PAINTING * (time.monotonic() - begun)))
