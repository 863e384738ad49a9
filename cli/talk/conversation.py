"""`nacre chat` in a terminal: reads messages, shows turns while they run, and asks for approvals."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from nacre.cli.invocation import Invocation, in_editor
from nacre.cli.screen.plain import cell_width, cut_to_cells, one_line, plain
from nacre.cli.screen.screen import Screen, screen_on
from nacre.cli.signals import on_interrupt
from nacre.cli.talk.event_lines import Calls, asked_text, event_line
from nacre.cli.talk.keyboard.attached_files import FileNotSent, mentioned_files
from nacre.cli.talk.keyboard.completion import Known
from nacre.cli.talk.keyboard.prompt import Prompt, keyboard_lent, keys_held_back
from nacre.cli.talk.quiet_turn import LEAVE_COMMANDS, terminal_message
from nacre.closing import stop_tasks
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.commands.conversation.status import SessionStatus
from nacre.runtime.commands.registry import help_text
from nacre.runtime.commands.wording import money, short_count, usage_text
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.errors import AgentError, ApprovalNotFound, ConfigError
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
from nacre.runtime.providers.opening import has_price
from nacre.runtime.settings.spending import spent_today_usd
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import Usage

if TYPE_CHECKING:
    from nacre.cli.screen.markdown import StreamedMarkdown

log = logging.getLogger(__name__)

_FRAME_SECONDS = 0.04
_PAUSE_FOR_A_PAINTING = 3
"""The pause after a drawing, as a multiple of its duration."""


class Ran(Record):
    """A turn that ended: its tool calls, and its tokens and cost, which are `None` if none were reported."""

    calls: Calls
    usage: Usage | None


async def run_live_turn(agent: Agent, inbound: Inbound, screen: Screen, prompt: Prompt) -> Ran:
    view = TurnView(screen, time.monotonic)
    question = ApprovalQuestion(agent, inbound, screen, prompt)
    has_words = asyncio.Event()

    async def paint() -> None:
        while await has_words.wait():
            has_words.clear()
            begun = time.monotonic()
            view.answer.paint()
            await asyncio.sleep(max(_FRAME_SECONDS, _PAUSE_FOR_A_PAINTING * (time.monotonic() - begun)))

    painting = asyncio.create_task(paint())
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
        await stop_tasks(painting)
        await question.withdraw()
        view.close()
        screen.bracket_pastes(is_on=False)
    screen.line("")
    return Ran(calls=view.calls, usage=usage)


class PlainAnswer:
    """Shows text unchanged and at once, without white space around a block of it."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._held = ""
        self._in_block = False

    def feed(self, text: str) -> None:
        """Shows the next characters; white space at the end waits for more text."""
        text = self._held + plain(text)
        if not self._in_block:
            text = text.lstrip("\n")
        shown = text.rstrip()
        self._held = text[len(shown) :]
        if shown:
            self._in_block = True
            self._screen.text(shown)

    def paint(self) -> None:
        """Does nothing, because `feed` shows everything."""

    def end(self) -> None:
        self._held, self._in_block = "", False
        self._screen.end_line()


def answer_on(screen: Screen) -> PlainAnswer | StreamedMarkdown:
    """Markdown on a live screen, otherwise plain text."""
    if not screen.is_live:
        return PlainAnswer(screen)
    from nacre.cli.screen.markdown import StreamedMarkdown

    return StreamedMarkdown(screen)


_WAITING = "· working (Ctrl-C stops)"


class TurnView:
    """Shows the events of one turn. `now_seconds` is a monotonic clock.

    Text may wait for `answer.paint`, if drawing it is slow. All other events are shown at once, after the
    text before them.
    """

    def __init__(self, screen: Screen, now_seconds: Callable[[], float]) -> None:
        self._screen = screen
        self._now_seconds = now_seconds
        self.answer = answer_on(screen)
        self._streamed = ""
        self.calls = Calls()
        screen.status(_WAITING)

    def show(self, event: Event) -> None:
        """Shows an event; text may wait for `answer.paint`."""
        if isinstance(event, TextStreamed):
            self._streamed += event.text
            self.answer.feed(event.text)
            return
        self.answer.end()
        lines = self.calls.follow(event, self._now_seconds())
        if isinstance(event, AnswerDiscarded):
            self._streamed = ""
        elif isinstance(event, ReplyReady) and event.reply.text.strip() not in self._streamed:
            text = event.reply.text.strip()
            if event.reply.is_command:
                self._screen.line(text)
            else:
                self.answer.feed(text)
                self.answer.end()
        if isinstance(event, ApprovalAsked):
            lines = [(asked_text(event), "warning")]  # the question is shown below it
        elif not isinstance(event, ToolEnded) and (line := event_line(event)):
            lines = [line]
        for text, tone in lines:
            self._screen.line(text, tone)
        if isinstance(event, PromptRead):
            percent, total = 100 * event.read_tokens // max(1, event.prompt_tokens), event.prompt_tokens
            self._screen.status(f"· reading the conversation: {percent} % of {total:,} tokens (Ctrl-C stops)")
        elif not isinstance(event, ReplyReady | Silence | TurnFailed):
            running = self.calls.running_text
            self._screen.status(f"· {running} …" if running else _WAITING)

    def close(self) -> None:
        """Leaves the cursor at the start of a line, however the turn ended."""
        self.answer.end()
        self._screen.end_line()


_YES = ("y", "yes")


class ApprovalQuestion:
    """The question about the oldest waiting call of a turn.

    It is withdrawn while an event is shown, and asked again if its call still waits. Ctrl-C and Ctrl-D stop
    the turn, and the call stays pending.
    """

    def __init__(self, agent: Agent, inbound: Inbound, screen: Screen, prompt: Prompt) -> None:
        self._agent = agent
        self._inbound = inbound
        self._screen = screen
        self._prompt = prompt
        self._waiting: dict[str, ApprovalAsked] = {}
        self._asking: asyncio.Task[None] | None = None

    def follow(self, event: Event) -> None:
        """Notes an event, and asks about a waiting call."""
        if isinstance(event, ApprovalAsked):
            self._waiting[event.call_id] = event
        elif isinstance(event, ToolEnded):
            self._waiting.pop(event.call_id, None)
        elif isinstance(event, ReplyReady | Silence | TurnFailed):
            self._waiting.clear()
        if self._waiting:
            self._asking = asyncio.create_task(self._ask())

    async def withdraw(self) -> None:
        """Removes the question; an answer that was given takes effect."""
        asking, self._asking = self._asking, None
        await stop_tasks(asking)

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
            if answer in (*_YES, "n", "no"):
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


HISTORY_FILE = "chat_history"
_HERE = {
    "/edit": "write the message, or edit a note such as SOUL.md, in your editor",
    "/details": "show the tool calls and notes of the last turn",
    "/quit": "leave the chat",
}
"""Commands of this chat alone, with their help."""
_SHOWN_NOTICES = 2
_SHORT_ID_CHARS = 8
_WORDS_CELLS = 40


async def converse(invocation: Invocation, session_key: str, *, first: str = "") -> int:
    """Runs a chat until the owner leaves; `first` is its first message, if any.

    Raises:
        AgentError: the agent could not be opened.
    """
    screen = screen_on(sys.stdout, invocation.environment)
    with keys_held_back():
        async with Agent.open(environment=invocation.environment) as agent:
            _greet(agent, invocation, screen)
            chat = _Chat(agent, invocation, screen, session_key)
            with on_interrupt(chat.stop):
                await chat.run(first)
        return 0


class _Chat:
    """One chat, and its state between two turns."""

    def __init__(self, agent: Agent, invocation: Invocation, screen: Screen, session_key: str) -> None:
        self._agent = agent
        self._config = invocation.config
        self._environment = invocation.environment
        self._now = self._config.clock
        self._screen = screen
        self._empty = terminal_message("", session_key)
        # the others apply to chats that `nacre serve` answers
        self._offered = [each for each in agent.commands(self._empty) if each.group != "Channels"]
        meanings = {word: command.help for command in self._offered for word in command.called_by}
        self._known = Known(commands={**meanings, **_HERE})
        self._prompt = Prompt(
            invocation.config.folders.private_dir(invocation.config.state_dir) / HISTORY_FILE,
            self._known,
            is_colored=screen.is_colored,
            status_line=self._status_text,
            show_details=self._show_details,
        )
        self._status: SessionStatus | None = None
        self._refreshed_id = ""
        self._turn: Usage | None = None
        self._is_priced = True
        self._day_usd = 0.0
        self._calls = Calls()
        self._running: Inbound | None = None
        self._has_interrupted = False

    def stop(self) -> None:
        """Handles Ctrl-C outside the prompt: stops the running turn; a second one leaves the chat."""
        if self._running is not None:
            self._agent.stop(self._running)
        elif self._has_interrupted:
            self._prompt.leave()

    async def run(self, first: str) -> None:
        """Turn after turn, until the owner leaves."""
        said = replace(self._empty, text=first) if first else await self._next_message()
        while said is not None:
            self._running = said
            try:
                ran = await run_live_turn(self._agent, said, self._screen, self._prompt)
            finally:
                self._running = None
            self._calls, self._turn = ran.calls, ran.usage
            said = await self._next_message()

    async def _next_message(self) -> Inbound | None:
        """The next message of the owner, with the files that it names; `None` when they leave."""
        looking = asyncio.create_task(self._refresh())
        try:
            while (text := await self._read_message()) is not None:
                try:
                    files = await asyncio.to_thread(mentioned_files, text)
                except FileNotSent as error:
                    self._screen.line(f"{error} The message was not sent; Up brings it back.", "warning")
                    continue
                for file in files:
                    self._screen.line(
                        f"· with {file.name} · {file.mime_type} · {len(file.data)} bytes", "dim"
                    )
                return replace(self._empty, text=text, attachments=files)
            return None
        finally:
            await stop_tasks(looking)

    async def _read_message(self) -> str | None:
        self._has_interrupted = False
        while True:
            try:
                text = await self._prompt.read()
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._prompt.was_empty:
                    continue
                if self._has_interrupted:
                    return None
                self._has_interrupted = True
                self._screen.line("Press Ctrl-C again, or use Ctrl-D or /quit, to leave.", "dim")
                continue
            self._has_interrupted = False
            word, _, rest = text.strip().partition(" ")
            word, rest = word.lower(), rest.strip()
            if word == "/edit":
                if edited := await self._edit(rest):
                    return edited
            elif word in LEAVE_COMMANDS and not rest:
                return None
            elif word == "/details" and not rest:
                self._show_details()
            elif word == "/help" and not rest:
                self._screen.line(f"{help_text(self._offered, _HERE)}\n")
            elif word:
                return text

    async def _edit(self, rest: str) -> str | None:
        """Opens the editor; returns the message, or `None` if the owner edited a note."""
        folder = self._agent.workspace.resolve()
        note = (folder / rest).resolve()
        is_note = note.suffix == ".md" and note.is_relative_to(folder) and note.is_file()
        try:
            with keyboard_lent():
                text = await asyncio.to_thread(
                    in_editor, rest, self._environment, file=note if is_note else None
                )
        except ConfigError as error:
            self._screen.line(str(error), "warning")
            return None
        if is_note:
            self._screen.line(f"The next turn reads the new {note.relative_to(folder)}.", "dim")
        if not (text or "").strip():
            return None
        self._screen.line(f"› {(text or '').strip()}")
        return text

    async def _refresh(self) -> None:
        with suppress(AgentError, SessionError):
            session = await self._agent.sessions.get(self._agent.session_key(self._empty))
            status, day_usd = await session.status(), await spent_today_usd(self._config, self._now)
            is_priced = await asyncio.to_thread(has_price, self._config, status.answering_model_name)
            # assigned together, because the next message can cancel this task anywhere
            self._status, self._day_usd, self._is_priced = status, day_usd, is_priced
            self._prompt.redraw()
            if session.session_id != self._refreshed_id:
                self._known.sessions = {
                    item.session_id[:_SHORT_ID_CHARS]: cut_to_cells(one_line(item.last_said), _WORDS_CELLS)
                    for item in await session.earlier()
                }
                self._refreshed_id = session.session_id

    def _status_text(self, columns: int) -> str:
        if not self._screen.is_live:
            return ""
        return status_line(
            self._status,
            self._agent.model_name,
            columns,
            turn=self._turn,
            is_priced=self._is_priced,
            day_usd=self._day_usd,
        )

    def _show_details(self) -> None:
        lines = self._calls.details() or [("The last turn called no tool and saved no notes.", "dim")]
        for text, tone in lines:
            self._screen.line(text, tone)
        self._screen.line("")


def _greet(agent: Agent, invocation: Invocation, screen: Screen) -> None:
    """Shows at most five lines: the model, the folder of the notes, help, and notices."""
    from nacre import __version__

    who = f"Nacre {__version__}" if invocation.is_default_agent else f"Nacre {__version__} · {agent.id}"
    if agent.is_offline:
        screen.line(f"{who} · offline: no model is connected")
        screen.line("`nacre init` connects one on this machine, on your server or of a provider.", "dim")
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


_BAR_CELLS = 20
_PART = "  "


def status_line(
    status: SessionStatus | None,
    model_name: str,
    columns: int,
    *,
    turn: Usage | None = None,
    is_priced: bool = True,
    day_usd: float = 0.0,
) -> str:
    """The state of the session and the cost of the last turn, in at most so many columns.

    `status` is `None` in a session without messages. `turn` has the tokens and cost of the last turn;
    `is_priced` says whether the price of its model is known. `day_usd` is the known cost of the state folder
    today. On a narrow screen, the next flush is left out first, then the day, half of the bar, the turn.
    """
    if status is None:
        return cut_to_cells(one_line(model_name), columns)
    tokens, budget = status.context_tokens, status.budget
    assumed = " assumed" if budget.window_source == "fallback" else ""
    head = one_line(status.answering_model_name)
    size = f"{short_count(tokens)}/{short_count(budget.window_tokens)}{assumed}"
    left = budget.flush_at - tokens
    flush = [f"flush in {short_count(left)}" if left > 0 else "flush due"] if budget.flush_enabled else []
    spent = [usage_text(turn, is_priced=is_priced)] if turn is not None else []
    day = [f"today {money(day_usd)}"] if day_usd > 0 else []
    both = [" · ".join([*spent, *day])] if spent or day else []
    bar, short_bar = window_bar(tokens, budget), window_bar(tokens, budget, cells=_BAR_CELLS // 2)
    for parts in (
        [bar, size, *flush, *both],
        [bar, size, *both],
        [bar, size, *spent],
        [short_bar, size, *spent],
        [bar, size, *flush],
        [bar, size],
    ):
        line = _PART.join([head, *parts])
        if cell_width(line) <= columns:
            return line
    return cut_to_cells(_PART.join([head, short_bar]), columns)


def window_bar(tokens: int, budget: ContextBudget, *, cells: int = _BAR_CELLS) -> str:
    """The window as a bar: its use, and the marks at which notes are saved and history is compacted.

    >>> window_bar(50_000, ContextBudget(window_tokens=200_000, window_source="model", reserve_tokens=20_000,
    ...                                  soft_threshold_tokens=40_000, keep_recent_tokens=20_000))
    '█████░░░░░░░░░┆░░░│░'
    """

    def cell(tokens_there: int) -> int:
        return min(cells - 1, cells * tokens_there // max(1, budget.window_tokens))

    full = min(cells, -(-cells * tokens // max(1, budget.window_tokens)))
    bar = list("█" * full + "░" * (cells - full))
    compacts = max(1, cell(budget.compact_at))
    bar[min(cell(budget.flush_at), compacts - 1)] = "┆"
    bar[compacts] = "│"
    return "".join(bar)
