"""Access to a command's session, whose lock the command already holds."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from nacre.runtime.commands.contract.command import CommandRun
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.contracts.errors import TurnBroken
from nacre.runtime.contracts.inbound import Attachment, Reply
from nacre.runtime.session_lifecycle.lifecycle import Lifecycle
from nacre.runtime.turn.loop import TurnBounds, UsageLimits
from nacre.runtime.turn.turn import Turn

T = TypeVar("T")


class HeldDoor:
    """The session of one command's chat only, because waiting for a second lock could deadlock."""

    def __init__(self, run: CommandRun) -> None:
        self.chosen: ChosenModels = run.chosen
        self.lifecycle: Lifecycle = run.lifecycle
        self._turn = run.turn

    async def present(self) -> Turn:
        """The turn in the key's current session, which the command may have changed."""
        turn = self._turn
        record = await turn.parts.sessions.index.get(turn.session.key)
        if record is not None and record.session_id != turn.session.session_id:
            reopened = await turn.parts.sessions.open(turn.session.route)
            self._turn = self.chosen.applied(turn.of_session(reopened))
        return self._turn

    async def run(self, key: str, work: Callable[[Turn], Awaitable[T]], /) -> T:
        """Runs a function on the session."""
        return await work(await self._turn_of(key))

    async def ask(
        self, key: str, text: str, /, *, attachments: tuple[Attachment, ...], limits: UsageLimits | None
    ) -> Reply | None:
        """Replies to a text in the session, with the rights of whoever called the command."""
        turn = await self._turn_of(key)
        if limits is not None:
            turn = Turn(turn.session, turn.parts, turn.emit, TurnBounds(limits))
        await turn.write_down(text, attachments)
        return await turn.answer()

    async def _turn_of(self, key: str) -> Turn:
        if key != self._turn.session.key:
            raise TurnBroken(
                f"A command of {self._turn.session.key!r} cannot wait for the session {key!r}. "
                "Use agent.sessions.get(…) outside of the command."
            )
        return await self.present()
