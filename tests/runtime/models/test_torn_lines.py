"""A kill in the middle of a line of the usage file: no other line gets lost, and the cap counts on."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import SpendingCapReached
from nacre.runtime.models.scripted import Clock
from nacre.runtime.models.spending import Estimate, SpendingLedger, spending
from nacre.sessions.contracts.messages import Usage
from tests.runtime.agents import START

USAGE = Usage(input_tokens=1, cost_usd=1.0)


def _ledger(folder: Path) -> SpendingLedger:
    return SpendingLedger(folder, agent_id="Zoë", now=Clock(START), cap_usd=lambda: 2.5)


async def _spend(ledger: SpendingLedger, at_ms: int) -> None:
    await ledger.spend("turn", "openai/gpt-4o-mini", USAGE, at_ms=at_ms)


async def _is_spent(ledger: SpendingLedger) -> bool:
    try:
        (await ledger.reserve("turn", "openai/gpt-4o-mini", Estimate(prompt_usd=0.1))).release()
    except SpendingCapReached:
        return True
    return False


async def test_a_line_torn_at_any_byte_costs_itself_alone(tmp_path: Path) -> None:
    """At every byte: the line before and the one after are read, by programs that start and that run on."""
    running = _ledger(tmp_path)
    await _spend(running, 1)
    [path] = tmp_path.glob("*.jsonl")
    first = path.read_bytes()
    await _spend(running, 2)
    second = path.read_bytes()[len(first) :]
    for size in range(len(second) + 1):
        path.write_bytes(first + second[:size])
        is_whole = size >= len(second) - 1  # only the line's end is missing
        seen = _ledger(tmp_path)
        assert not await _is_spent(seen)
        assert [spent.at_ms for spent in spending(tmp_path)] == ([1, 2] if is_whole else [1])

        await _spend(_ledger(tmp_path), 3)

        kept = [1, 2, 3] if is_whole else [1, 3]
        assert [(spent.at_ms, spent.agent_id) for spent in spending(tmp_path)] == [(at, "Zoë") for at in kept]
        assert await _is_spent(seen) is await _is_spent(_ledger(tmp_path)) is is_whole
        assert path.read_bytes().startswith(first + second[:size])


@pytest.mark.parametrize("torn", [b"\0" * 64, b"\xff\xfe", b"[" * 100_000, b"\n\n"])
async def test_what_a_crash_of_the_machine_leaves_is_passed_over(tmp_path: Path, torn: bytes) -> None:
    """Zeros, bytes that are no text, nonsense: what comes behind is a line of its own."""
    ledger = _ledger(tmp_path)
    await _spend(ledger, 1)
    [path] = tmp_path.glob("*.jsonl")
    path.write_bytes(path.read_bytes() + torn)

    await asyncio.gather(_spend(ledger, 2), _spend(_ledger(tmp_path), 3))

    assert sorted(spent.at_ms for spent in spending(tmp_path)) == [1, 2, 3]
