"""The ledger that a state folder opens does what every ledger does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.bridges.ledger.contracts.ledger import Ledger
from nacre.bridges.ledger.opening import LedgerPlace, is_served, is_there, open_ledger, open_tables
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.bridges.ledger.ledger_contract import LedgerContract, OpenLedger, said


class TestAFolder(LedgerContract):
    """One file of a state folder."""

    @pytest.fixture
    def open_ledger(self, tmp_path: Path) -> OpenLedger:
        """Opens it there."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[Ledger]:
            ledger = await open_ledger(LedgerPlace(state_dir=tmp_path), now=Clock(), new_id=CountingIds())
            try:
                yield ledger
            finally:
                await ledger.close()

        return opened


async def test_a_terminal_looks_at_it_beside_the_program_that_serves(tmp_path: Path) -> None:
    """It sees what is kept, changes what it may, and knows whether anybody serves."""
    place = LedgerPlace(state_dir=tmp_path)
    assert not await is_there(place)
    ledger = await open_ledger(place, now=Clock(), new_id=CountingIds())
    try:
        await ledger.receive(said(1), "k")
        tables = await open_tables(place, now=Clock())
        assert await tables.not_done() == {"waiting": 1}
        await tables.put_choice("k", "send", "off")
        await tables.close()
        assert dict(await ledger.choices()) == {("k", "send"): "off"}
        assert (await is_there(place), await is_served(place)) == (True, True)
    finally:
        await ledger.close()
    assert not await is_served(place)
