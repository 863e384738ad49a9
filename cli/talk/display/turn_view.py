"""One turn on a screen: the answer as it comes, a line for each thing done, one status line."""

from __future__ import annotations

from collections.abc import Callable

from nacre.cli.screen.screen import Screen
from nacre.cli.talk.display.answer_text import answer_on
from nacre.cli.talk.display.calls import Calls
from nacre.cli.talk.display.event_lines import asked_text, event_line
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

_WAITING = "· working (Ctrl-C stops)"


class TurnView:
    """Shows the events of one turn. `now_seconds` is a clock that only goes forward.

    `show` keeps words of the answer for `paint` where drawing them anew is dear; everything else is shown at
    once, behind the words that came before it.
    """

    def __init__(self, screen: Screen, now_seconds: Callable[[], float]) -> None:
        self._screen = screen
        self._now_seconds = now_seconds
        self._answer = answer_on(screen)
        self._streamed = ""
        self.calls = Calls()
        screen.status(_WAITING)

    def show(self, event: Event) -> None:
        """Shows an event, or has it wait for `paint`."""
        if isinstance(event, TextStreamed):
            self._streamed += event.text
            self._answer.feed(event.text)
            return
        self._answer.end()
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

    def paint(self) -> None:
        """Draws the words that have come."""
        self._answer.paint()

    def close(self) -> None:
        """Leaves the cursor at the start of a line, however the turn ended."""
        self._answer.end()
        self._screen.end_line()

    def _unstreamed(self, ready: ReplyReady) -> None:
        text = ready.reply.text.strip()
        if ready.reply.is_command:
            self._screen.line(text)
        else:
            self._answer.feed(text)
            self._answer.end()


def _reading(event: PromptRead) -> str:
    percent = 100 * event.read_tokens // max(1, event.prompt_tokens)
    return f"· reading the conversation: {percent} % of {event.prompt_tokens:,} tokens (Ctrl-C stops)"
