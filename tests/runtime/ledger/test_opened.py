"""The ledger that a state folder opens does what every ledger does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from nacre.runtime.ledger.file_ledger import ledger_file
from nacre.runtime.ledger.ledger import Ledger
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.runtime.ledger.ledger_contract import LedgerContract, OpenLedger, said


class TestAFolder(LedgerContract):
    """One file of a state folder."""

    @pytest.fixture
    def open_ledger(self, tmp_path: Path) -> OpenLedger:
        """Opens it there."""

        @asynccontextmanager
        async def opened() -> AsyncIterator[Ledger]:
            ledger = await ledger_file(tmp_path).open(now=Clock(), new_id=CountingIds())
            try:
                yield ledger
            finally:
                await ledger.close()

        return opened


async def test_a_terminal_looks_at_it_beside_the_program_that_serves(tmp_path: Path) -> None:
    """It sees what is kept, changes what it may, and knows whether anybody serves."""
    place = ledger_file(tmp_path)
    assert not await place.is_there()
    ledger = await place.open(now=Clock(), new_id=CountingIds())
    try:
        await ledger.receive(said(1), "k")
        tables = await place.open_tables()
        assert await tables.not_done() == {"waiting": 1}
        await tables.put_choice("k", "send", "off")
        await tables.close()
        assert dict(await ledger.choices()) == {("k", "send"): "off"}
        assert (await place.is_there(), await place.is_served()) == (True, True)
    finally:
        await ledger.close()
    assert not await place.is_served()
