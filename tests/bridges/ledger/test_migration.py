"""A ledger that an older Nacre wrote is read for ever."""

from __future__ import annotations

import gzip
from pathlib import Path

from nacre.bridges.access.people import People
from nacre.bridges.ledger.ledger import Ledger
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.house.tree import ROOT
from tests.runtime.agents import START


async def test_the_first_version_knows_its_agents_afterwards(tmp_path: Path) -> None:
    """Open messages with the agent of their key, parts that are to be sent, cursors, and who was let in."""
    file = tmp_path / "ledger.sqlite"
    file.write_bytes(gzip.decompress((ROOT / "tests/fixtures/ledger-v1.sqlite.gz").read_bytes()))

    ledger = await Ledger.open(file, now=Clock(START), new_id=CountingIds())
    try:
        begun, waiting = await ledger.open_messages()
        part = await ledger.outbox.next_part("line", "default", "a")
        [person] = await People(ledger.database, now=Clock(START)).known()

        assert (begun.agent_id, begun.was_begun, begun.inbound.text) == ("work", True, "two")
        assert [file.data for file in begun.inbound.attachments] == [b"x"]
        assert (waiting.agent_id, waiting.was_begun, waiting.has_joined) == ("main", False, False)
        assert part is not None
        assert (part.part.text, part.asker) == ("re: one", None)
        assert (person.sender_id, person.role) == ("bob", "guest")
        assert await ledger.cursor("line", "default") == "3"
    finally:
        await ledger.close()
