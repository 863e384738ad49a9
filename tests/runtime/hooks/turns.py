"""Turns of an agent with hooks: opened with a scripted model, tools and handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from nacre import Agent, HookTable
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.runtime.agents import START


@asynccontextmanager
async def hooked(
    state_dir: Path,
    model: ChatModel | None,
    *,
    tools: Sequence[Callable[..., Any]] = (),
    hooks: HookTable | None = None,
    clock: Clock | None = None,
    ids: str = "",
) -> AsyncIterator[Agent]:
    """An open agent with tools and handlers."""
    agent = await Agent.open(
        state_dir=state_dir,
        model=model,
        tools=tools,
        hooks=hooks,
        environment={"HOME": str(state_dir / "home")},
        clock=clock or Clock(START),
        new_id=CountingIds(ids),
        watch=False,
    )
    async with agent:
        yield agent
