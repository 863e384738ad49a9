"""What holds of every store of approvals. A test class inherits it and says how one is opened."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from nacre.runtime.contracts.clock import random_id
from nacre.runtime.contracts.errors import ApprovalNotFound
from nacre.runtime.tools.approvals.approvals import Approvals
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


def answering(store: ApprovalStore, *, now_ms: int) -> Approvals:
    """Whoever answers and runs the calls of a store, at a moment."""
    return Approvals(store, now_ms=lambda: now_ms, new_id=random_id, wait_seconds=0, expire_ms=1)


async def claimed(store: ApprovalStore, name: str) -> Approval | None:
    """What whoever runs a call makes of it first."""
    return await answering(store, now_ms=1).claim(name)


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
            assert await claimed(one, "b") is None

    async def test_a_call_is_claimed_once(self, place: Any) -> None:
        """Not before it is approved; then one of many who claim it at the same time has it."""
        async with self.opened(place) as (one, other):
            await one.put(asked("a"))
            assert await claimed(one, "a") is None
            await answering(other, now_ms=1).answer("a", approved=True)
            had = await asyncio.gather(*(claimed(store, "a") for store in (one, other) * 5))
            assert [found.state for found in had if found is not None] == ["running"]
            assert await other.get("a") in had

    async def test_an_answer_counts_in_time_only(self, place: Any) -> None:
        """Also where time went by after the owner had found the call."""
        async with self.opened(place) as (one, other):
            await one.put(asked("a"))
            with pytest.raises(ApprovalNotFound):
                await answering(other, now_ms=2).answer("a", approved=True)
            assert await one.get("a") == asked("a")
