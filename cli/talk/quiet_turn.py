"""Runs a turn without a live screen: returns the whole answer, and reports events on a stream."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from nacre.cli.screen.screen import Screen
from nacre.cli.talk.event_lines import event_line
from nacre.record import Record
from nacre.runtime.contracts.errors import ConfigError
from nacre.runtime.contracts.events import Event, ReplyReady, Silence, TurnFailed
from nacre.runtime.contracts.inbound import Inbound

if TYPE_CHECKING:
    from nacre.runtime.agent.agent import Agent

LEAVE_COMMANDS = ("/quit", "/exit")
"""The commands that end a chat, on a terminal and in a pipe."""


class Outcome(Record):
    """The ending of a turn, and its other events."""

    ending: ReplyReady | Silence | TurnFailed
    events: tuple[Event, ...]


def terminal_message(text: str, session_key: str) -> Inbound:
    """A message of the owner from a terminal: a private chat, in a named session or the main one."""
    return Inbound(
        text=text, chat_kind="direct", channel="terminal", is_owner=True, session_key=session_key.strip()
    )


def shared_key(name: str, agent_id: str) -> str:
    """The key of a session with that name which others may read.

    Raises:
        ConfigError: there is no name, or it is a key, which already has its audience.
    """
    if not name.strip() or ":" in name:
        raise ConfigError("--shared needs a plain name in --session, such as --session project --shared.")
    return f"agent:{agent_id}:{name.strip()}"


async def run_quiet_turn(agent: Agent, inbound: Inbound, progress: Screen | None) -> Outcome:
    """Runs a turn; lines about tools, notes and warnings go to `progress` as they happen."""
    events: list[Event] = []
    async with aclosing(agent.stream(inbound)) as stream:
        async for event in stream:
            if progress is not None and (line := event_line(event)):
                progress.line(*line)
            if isinstance(event, ReplyReady | Silence | TurnFailed):
                return Outcome(ending=event, events=tuple(events))
            events.append(event)
    raise AssertionError("a turn ended without ReplyReady, Silence or TurnFailed")
