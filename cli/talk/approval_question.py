"""Asks the owner about the calls of a turn that wait for approval, while the turn goes on."""

from __future__ import annotations

import asyncio

from nacre.cli.screen.plain import one_line
from nacre.cli.screen.screen import Screen
from nacre.cli.talk.keyboard.prompt import Prompt
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.errors import AgentError, ApprovalNotFound
from nacre.runtime.contracts.events import ApprovalAsked, Event, ReplyReady, Silence, ToolEnded, TurnFailed
from nacre.runtime.contracts.inbound import Inbound

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
