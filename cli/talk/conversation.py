"""`nacre chat` in a terminal: type, watch the answer come, stop it, leave."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import suppress
from dataclasses import replace

from nacre.cli.invocation import Invocation, in_editor
from nacre.cli.screen.plain import cell_width, cut_to_cells, one_line
from nacre.cli.screen.screen import Screen, screen_on
from nacre.cli.signals import on_interrupt
from nacre.cli.talk.display.calls import Calls
from nacre.cli.talk.keyboard.attached_files import FileNotSent, mentioned_files
from nacre.cli.talk.keyboard.completion import Known
from nacre.cli.talk.keyboard.prompt import Prompt, keyboard_held_back, keyboard_lent
from nacre.cli.talk.live_turn import run_live_turn
from nacre.cli.talk.quiet_turn import owner_says
from nacre.runtime.agent.agent import Agent
from nacre.runtime.commands.conversation.status import SessionStatus
from nacre.runtime.commands.registry import help_text
from nacre.runtime.commands.wording import money, short_count, usage_text
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.clock import owner_clock
from nacre.runtime.contracts.errors import AgentError, ConfigError
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.providers.opening import has_price
from nacre.runtime.settings.spending import spent_today_usd
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import Usage

log = logging.getLogger(__name__)

HISTORY_FILE = "chat_history"
_HERE = {
    "/edit": "write the message, or change a note such as SOUL.md, in your editor",
    "/details": "open the tool calls and notes of the last turn",
    "/quit": "leave the chat",
}
"""Commands that this chat answers itself, and what they do."""
_EDIT = "/edit"
_HELP = "/help"
_LEAVE_COMMANDS = ("/quit", "/exit")
_DETAILS = "/details"
_SHOWN_NOTICES = 2
_SHORT_ID_CHARS = 8
_WORDS_CELLS = 40


async def converse(invocation: Invocation, session_key: str, *, first: str = "") -> int:
    """Talks until the owner leaves; `first` is said before they type anything.

    Raises:
        AgentError: the agent could not be opened.
    """
    screen = screen_on(sys.stdout, invocation.environment)
    with keyboard_held_back():
        async with Agent.open(environment=invocation.environment) as agent:
            _greet(agent, invocation, screen)
            chat = _Chat(agent, invocation, screen, session_key)
            with on_interrupt(chat.stop):
                await chat.run(first)
        return 0


class _Chat:
    """One chat, with what is known of it between two turns."""

    def __init__(self, agent: Agent, invocation: Invocation, screen: Screen, session_key: str) -> None:
        self._agent = agent
        self._config = invocation.config
        self._environment = invocation.environment
        self._now = owner_clock(self._config.settings.agent.user_timezone)
        self._screen = screen
        self._empty = owner_says("", session_key)
        # the others are about chats that `nacre serve` answers
        self._offered = [each for each in agent.commands(self._empty) if each.group != "Channels"]
        meanings = {word: command.help for command in self._offered for word in command.called_by}
        self._known = Known(commands={**meanings, **_HERE})
        self._prompt = Prompt(
            invocation.config.folders.private_dir(invocation.config.state_dir) / HISTORY_FILE,
            self._known,
            is_coloured=screen.is_coloured,
            quiet_line=self._quiet_line,
            show_details=self._show_details,
        )
        self._status: SessionStatus | None = None
        self._looked_at = ""
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
        """What the owner typed, with the files that it names; `None` when they leave."""
        looking = asyncio.create_task(self._look())
        try:
            while (text := await self._typed()) is not None:
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
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)

    async def _typed(self) -> str | None:
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
                self._screen.line("Ctrl-C again, Ctrl-D or /quit leaves.", "dim")
                continue
            self._has_interrupted = False
            word, _, rest = text.strip().partition(" ")
            word, rest = word.lower(), rest.strip()
            if word == _EDIT:
                if edited := await self._edited(rest):
                    return edited
            elif word in _LEAVE_COMMANDS and not rest:
                return None
            elif word == _DETAILS and not rest:
                self._show_details()
            elif word == _HELP and not rest:
                self._screen.line(f"{help_text(self._offered, _HERE)}\n")
            elif word:
                return text

    async def _edited(self, rest: str) -> str | None:
        """The message that the owner wrote in their editor; `None` if they edited a note instead."""
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
        if not (text or "").strip():
            return None
        self._screen.line(f"› {(text or '').strip()}")
        return text

    async def _look(self) -> None:
        with suppress(AgentError, SessionError):
            session = await self._agent.sessions.get(self._agent.session_key(self._empty))
            self._status = await session.status()
            self._day_usd = await spent_today_usd(self._config, self._now)
            self._is_priced = await asyncio.to_thread(has_price, self._status.answering_model_name)
            self._prompt.redraw()
            if session.session_id != self._looked_at:
                self._known.sessions = {
                    item.session_id[:_SHORT_ID_CHARS]: cut_to_cells(one_line(item.last_said), _WORDS_CELLS)
                    for item in await session.earlier()
                }
                self._looked_at = session.session_id

    def _quiet_line(self, columns: int) -> str:
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
    """At most five lines: who answers, where the notes are, how to get help, what to know."""
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
    """Where the session stands, and what the last turn took, in at most so many columns.

    `status` is `None` while nothing was said. `turn` has the tokens and cost of the last turn; `is_priced`
    says whether the price of its model is known. `day_usd` is what the agents of the state folder cost today,
    as far as prices are known. On a narrow screen the next flush goes first, then the day, then half of the
    bar, then the turn.
    """
    if status is None:
        return cut_to_cells(one_line(model_name), columns)
    tokens, budget = status.context_tokens, status.budget
    assumed = " assumed" if budget.window_source == "fallback" else ""
    head = one_line(status.answering_model_name)
    size = f"{short_count(tokens)}/{short_count(budget.window_tokens)}{assumed}"
    flush = [_next_flush(tokens, budget)] if budget.flush_enabled else []
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
    """The window as a bar: what is full, and the two lines at which notes are saved and history is compacted.

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


def _next_flush(tokens: int, budget: ContextBudget) -> str:
    """The soft threshold, as what may still be said before it."""
    left = budget.flush_at - tokens
    return f"flush in {short_count(left)}" if left > 0 else "flush due"
