"""How tests open a gateway: a real agent and ledger, and line servers on loopback TCP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nacre import Agent
from nacre.bridges.contracts.bridge import Bridge
from nacre.bridges.gateway import Gateway
from nacre.runtime.contracts.model import ChatModel, ModelRequest
from nacre.runtime.models.scripted import Clock, CountingIds, ScriptedModel, says
from nacre.sessions.contracts.messages import UserMessage, message_text
from tests.runtime.agents import START, opened, write_settings

OPEN = {
    "channels": {
        "line": {"dmPolicy": "open", "groupPolicy": "open", "groups": {"*": {"requireMention": False}}}
    },
    "commands": {"ownerAllowFrom": ["line:nora"]},
}
"""Everybody is answered, and Nora is the owner."""
QUICK = {**OPEN, "messages": {"queue": {"debounceMs": 1}, "inbound": {"debounceMs": 0}}}
FOLLOW_UP = {**OPEN, "messages": {"queue": {"mode": "followup", "debounceMs": 0}}}


class Answering(ScriptedModel):
    """A model that answers whatever it is asked: what `reply` makes of the last words alone."""

    def __init__(self, reply: Callable[[str], str] = lambda text: f"re: {text}") -> None:
        super().__init__()
        self.reply = reply
        self.holds = False
        self.held: asyncio.Queue[str] = asyncio.Queue()
        """The words of requests that wait while `holds`."""
        self._go = asyncio.Semaphore(0)

    def let_go(self) -> None:
        """Lets one request that waits be answered."""
        self._go.release()

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """The answer to one request."""
        message = request.messages[-1]
        speaker = message.speaker if isinstance(message, UserMessage) else ""
        text = message_text(message).removeprefix(f"[{speaker}]\n")
        if self.holds:
            self.held.put_nowait(text)
            await self._go.acquire()
        self.add(says(self.reply(text)))
        async for item in super().stream(request):
            yield item


@asynccontextmanager
async def gateway(
    state_dir: Path,
    model: ChatModel,
    bridges: Sequence[Bridge],
    *,
    settings: Mapping[str, Any] = QUICK,
    ids: str = "",
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> AsyncIterator[tuple[Gateway, Agent]]:
    """An open gateway and its agent."""
    write_settings(state_dir, dict(settings))
    async with opened(state_dir, model, ids=ids) as agent:
        opening = Gateway.open(
            agent,
            bridges,
            state_dir=state_dir,
            now=Clock(START),
            new_id=CountingIds(f"ledger-{ids}"),
            sleep=sleep,
        )
        async with await opening as open_gateway:
            yield open_gateway, agent
