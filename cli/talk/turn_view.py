"""One turn on a live screen: the answer as it comes, a line for each thing done, one status line."""

from __future__ import annotations

from nacre.cli.screen.plain import plain
from nacre.cli.screen.screen import Screen
from nacre.cli.talk.event_lines import asked_text, event_line, running_text
from nacre.runtime.contracts.events import (
    AnswerDiscarded,
    ApprovalAsked,
    Event,
    ReplyReady,
    Silence,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    TurnFailed,
)

_WAITING = "· working (Ctrl-C stops)"


class TurnView:
    """Shows the events of one turn. White space around a block of answer text is not shown."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._running: dict[str, str] = {}
        self._streamed = ""
        self._held = ""
        self._in_block = False
        screen.status(_WAITING)

    def show(self, event: Event) -> None:
        if isinstance(event, TextStreamed):
            self._text(event.text)
            return
        self._end_block()
        if isinstance(event, ToolStarted):
            self._running[event.call_id] = running_text(event)
        elif isinstance(event, AnswerDiscarded):
            self._streamed = ""
        elif isinstance(event, ToolEnded):
            self._running.pop(event.call_id, None)
        elif isinstance(event, ReplyReady) and event.reply.text.strip() not in self._streamed:
            # A command's answer, or words that no stream carried.
            self._screen.line(event.reply.text.strip())
        if isinstance(event, ApprovalAsked):
            self._screen.line(asked_text(event), "warning")  # how it is answered is asked below it
        elif line := event_line(event):
            self._screen.line(*line)
        if not isinstance(event, ReplyReady | Silence | TurnFailed):
            self._screen.status(f"· {', '.join(self._running.values())} …" if self._running else _WAITING)

    def close(self) -> None:
        """Leaves the cursor at the start of a line, however the turn ended."""
        self._end_block()

    def _text(self, text: str) -> None:
        self._streamed += text
        text = self._held + plain(text)
        if not self._in_block:
            text = text.lstrip("\n")
        shown = text.rstrip()
        self._held = text[len(shown) :]
        if shown:
            self._in_block = True
            self._screen.text(shown)

    def _end_block(self) -> None:
        self._held = ""
        self._in_block = False
        self._screen.end_line()
