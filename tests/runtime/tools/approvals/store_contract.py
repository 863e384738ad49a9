"""What holds of every store of approvals. A test class inherits it and says how one is opened."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from nacre.runtime.tools.approvals.store import Approval, ApprovalStore

KEY = "agent:main:main"


def asked(name: str, **more: Any) -> Approval:
    """A call that waits."""
    values = {
        "id": name,
        "session_key": KEY,
        "session_id": "s",
        "message_id": "m",
        "call_id": "c",
        "tool_name": "pay",
        "arguments": {"to": "\0 \ud800 Ann"},
        "why": "why",
        "asked_at_ms": 1,
        "expires_at_ms": 2,
        "chat_kind": "direct",
        "is_owner": True,
        "is_private_key": True,
        "origin": {"channel": "line"},
    }
    return Approval(**{**values, **more})


def claimed(found: Approval) -> Approval | None:
    """What whoever runs a call makes of it."""
    return replace(found, state="running") if found.state == "asked" else None


class ApprovalStoreContract:
    """`opened` gives two that keep the same approvals, as two processes have them."""

    def opened(self, place: Any) -> AbstractAsyncContextManager[tuple[ApprovalStore, ApprovalStore]]:
        """Two stores of one agent."""
        raise NotImplementedError

    async def test_what_one_keeps_another_finds(self, place: Any) -> None:
        """Whole, the oldest first; an id is given once, and what is struck off is gone."""
        async with self.opened(place) as (one, other):
            assert (await one.all(), await one.get("a")) == ((), None)
            assert await one.put(asked("b", asked_at_ms=5))
            assert await other.put(asked("a", asked_at_ms=7))
            assert not await other.put(asked("b", why="another"))
            assert await other.all() == (asked("b", asked_at_ms=5), asked("a", asked_at_ms=7))
            await other.remove("b")
            await other.remove("b")
            assert (await one.get("b"), await one.get("a")) == (None, asked("a", asked_at_ms=7))
            assert await one.change("b", claimed, by_turn=True) is None

    async def test_a_change_is_made_once(self, place: Any) -> None:
        """Of many who claim a call at the same time one has it."""
        async with self.opened(place) as (one, other):
            await one.put(asked("a"))
            tries = [store.change("a", claimed, by_turn=True) for store in (one, other) * 5]
            had = [found for found in await asyncio.gather(*tries) if found is not None]
            assert [found.state for found in had] == ["running"]
            assert (await other.get("a")) == had[0]
