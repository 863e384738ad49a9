"""What a chat command is given, and how it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from nacre.runtime.commands.chosen_models import ChosenModels
from nacre.runtime.contracts.inbound import Attachment, Reply
from nacre.runtime.endings.lifecycle import Lifecycle
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.turn.turn import Turn

Outcome: TypeAlias = tuple[Turn, Reply | None]
"""The turn that a command ended in, which may be that of another session, and its reply."""


@dataclass(frozen=True, kw_only=True)
class CommandRun:
    """One command: the text behind its name, what came with it, and the turn that it stands in."""

    rest: str
    attachments: tuple[Attachment, ...]
    turn: Turn
    chosen: ChosenModels
    lifecycle: Lifecycle

    def said(self, text: str) -> Outcome:
        """The outcome of a command that leaves the session as it is."""
        return self.turn, said(self.turn.session, text)


CommandFunction: TypeAlias = Callable[[CommandRun], Awaitable[Outcome]]


def said(session: OpenSession, text: str, *, session_id: str = "") -> Reply:
    """A command's own words; `session_id` names another session of the key."""
    return Reply(
        text=text, session_key=session.key, session_id=session_id or session.session_id, is_command=True
    )
