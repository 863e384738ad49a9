"""Agents whose model calls a tool that needs the owner's approval, for tests of what becomes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nacre import Agent, tool
from nacre.runtime.contracts.events import ApprovalAsked, Event
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.tools.function import FunctionTool
from tests.runtime.agents import write_settings


def paying(log: Path, **declared: Any) -> FunctionTool[..., Any]:
    """A tool that writes each payment down, so that a test sees how often it ran."""

    @tool(**{"chats": ("private", "group"), "needs_approval": True, **declared})
    async def pay(euros: int, to: str) -> str:
        """Pays somebody."""
        with log.open("a", encoding="utf-8") as stream:
            stream.write(f"{euros} to {to}\n")
        return f"paid {euros} to {to}"

    return pay


def paid(log: Path) -> list[str]:
    """The payments that were made."""
    return log.read_text(encoding="utf-8").splitlines() if log.exists() else []


def waiting_for(state_dir: Path, seconds: float, **more: float) -> None:
    """Settings under which a turn waits so long for an answer."""
    write_settings(state_dir, {"tools": {"approvals": {"waitSeconds": seconds, **more}}})


def approvals_on_disk(state_dir: Path) -> list[dict[str, Any]]:
    """What the files of waiting calls hold."""
    folder = state_dir / "agents/main/approvals"
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]


async def answered(agent: Agent, inbound: Inbound, answer: str, *, how: Inbound | None = None) -> list[Event]:
    """The events of a turn, in which whoever watches answers each question: by code, or by a message."""
    events: list[Event] = []
    async for event in agent.stream(inbound):
        events.append(event)
        if isinstance(event, ApprovalAsked):
            if how is not None:
                await agent.respond(how)
            elif answer == "yes":
                await agent.approvals.approve(event.approval_id)
            else:
                await agent.approvals.deny(event.approval_id, answer)
    return events
