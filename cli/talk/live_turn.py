"""One turn on a terminal: shown while it runs, asked about where it waits for approval."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING

from nacre.cli.screen.plain import one_line, plain
from nacre.cli.screen.screen import Screen
from nacre.cli.talk.display.calls import Calls
from nacre.cli.talk.display.event_lines import asked_text, event_line
from nacre.cli.talk.keyboard.prompt import Prompt
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.errors import AgentError, ApprovalNotFound
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    Event,
    PromptRead,
    ReplyReady,
    Silence,
    TextStreamed,
    ToolEnded,
    TurnFailed,
)
from nacre.runtime.contracts.inbound import Inbound
from nacre.sessions.contracts.messages import Usage

if TYPE_CHECKING:
    from nacre.cli.screen.markdown import StreamedMarkdown

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
        view.answer.paint()
        await asyncio.sleep(max(_FRAME_SECONDS, _PAUSE_FOR_A_PAINTING * (time.monotonic() - begun)))


class PlainAnswer:
    """Words at once, as they are. White space around a block of them is not shown."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._held = ""
        self._in_block = False

    def feed(self, text: str) -> None:
        """Shows the next characters; a word may wait for its end."""
        text = self._held + plain(text)
        if not self._in_block:
            text = text.lstrip("\n")
        shown = text.rstrip()
        self._held = text[len(shown) :]
        if shown:
            self._in_block = True
            self._screen.text(shown)

    def paint(self) -> None:
        """Nothing is left to show."""

    def end(self) -> None:
        """Ends the line."""
        self._held, self._in_block = "", False
        self._screen.end_line()


def answer_on(screen: Screen) -> PlainAnswer | StreamedMarkdown:
    """Markdown where the screen is live, else the words as they are."""
    if not screen.is_live:
        return PlainAnswer(screen)
    from nacre.cli.screen.markdown import StreamedMarkdown

    return StreamedMarkdown(screen)


_WAITING = "· working (Ctrl-C stops)"


class TurnView:
    """Shows the events of one turn. `now_seconds` is a clock that only goes forward.

    Where drawing words anew is dear, `show` keeps them for `answer.paint`; everything else is shown at once,
    behind the words that came before it.
    """

    def __init__(self, screen: Screen, now_seconds: Callable[[], float]) -> None:
        self._screen = screen
        self._now_seconds = now_seconds
        self.answer = answer_on(screen)
        self._streamed = ""
        self.calls = Calls()
        screen.status(_WAITING)

    def show(self, event: Event) -> None:
        """Shows an event, or has it wait for `answer.paint`."""
        if isinstance(event, TextStreamed):
            self._streamed += event.text
            self.answer.feed(event.text)
            return
        self.answer.end()
        lines = self.calls.follow(event, self._now_seconds())
        if isinstance(event, AnswerDiscarded):
            self._streamed = ""
        elif isinstance(event, ReplyReady) and event.reply.text.strip() not in self._streamed:
            self._unstreamed(event)
        if isinstance(event, ApprovalAsked):
            lines = [(asked_text(event), "warning")]  # how it is answered is asked below it
        elif not isinstance(event, ToolEnded) and (line := event_line(event)):
            lines = [line]
        for text, tone in lines:
            self._screen.line(text, tone)
        if isinstance(event, PromptRead):
            self._screen.status(_reading(event))
        elif not isinstance(event, ReplyReady | Silence | TurnFailed):
            running = self.calls.running_text
            self._screen.status(f"· {running} …" if running else _WAITING)

    def close(self) -> None:
        """Leaves the cursor at the start of a line, however the turn ended."""
        self.answer.end()
        self._screen.end_line()

    def _unstreamed(self, ready: ReplyReady) -> None:
        text = ready.reply.text.strip()
        if ready.reply.is_command:
            self._screen.line(text)
        else:
            self.answer.feed(text)
            self.answer.end()


def _reading(event: PromptRead) -> str:
    percent = 100 * event.read_tokens // max(1, event.prompt_tokens)
    return f"· reading the conversation: {percent} % of {event.prompt_tokens:,} tokens (Ctrl-C stops)"


_YES = ("y", "yes")
_NO = ("n", "no")


class ApprovalQuestion:
    """The question about the oldest call of one turn that waits.

    It is withdrawn while an event is shown, and asked again if its call still waits then. Ctrl-C and Ctrl-D
    answer nothing: the turn stops, and the call stays pending.
    """

    def __init__(self, agent: Agent, inbound: Inbound, screen: Screen, prompt: Prompt) -> None:
        self._agent = agent
        self._inbound = inbound
        self._screen = screen
        self._prompt = prompt
        self._waiting: dict[str, ApprovalAsked] = {}
        self._asking: asyncio.Task[None] | None = None

    def follow(self, event: Event) -> None:
        """Takes in what happened, and asks what is left to ask."""
        if isinstance(event, ApprovalAsked):
            self._waiting[event.call_id] = event
        elif isinstance(event, ToolEnded):
            self._waiting.pop(event.call_id, None)
        elif isinstance(event, ReplyReady | Silence | TurnFailed):
            self._waiting.clear()
        if self._waiting:
            self._asking = asyncio.create_task(self._ask())

    async def withdraw(self) -> None:
        """Takes the question away; an answer that was given is carried out."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _ask(self) -> None:
        while self._waiting:
            call_id, asked = next(iter(self._waiting.items()))
            self._screen.clear_status()
            name = f"{one_line(asked.tool_name)}: " if len(self._waiting) > 1 else ""
            try:
                answer = (await self._prompt.ask(f"{name}Approve? [y/n] ")).strip().lower()
            except (KeyboardInterrupt, EOFError):
                self._waiting.clear()
                self._agent.stop(self._inbound)
                return
            if answer in (*_YES, *_NO):
                del self._waiting[call_id]
                await asyncio.shield(asyncio.ensure_future(self._answer(asked, is_yes=answer in _YES)))

    async def _answer(self, asked: ApprovalAsked, *, is_yes: bool) -> None:
        try:
            if is_yes:
                await self._agent.approvals.approve(asked.approval_id)
            else:
                await self._agent.approvals.deny(asked.approval_id)
        except (ApprovalNotFound, AgentError) as error:
            self._screen.line(str(error), "warning")
