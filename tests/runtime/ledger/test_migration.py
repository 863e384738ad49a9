"""A ledger that an older Nacre wrote is read for ever."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

from nacre.bridges.access.people import People
from nacre.bridges.queueing.session_rules import Choices
from nacre.runtime.ledger.file_ledger import SqliteLedger
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.house.tree import ROOT
from tests.runtime.agents import START


async def test_the_first_version_knows_its_agents_afterwards(tmp_path: Path) -> None:
    """Open messages with the agent of their key, parts that are to be sent, cursors, and who was let in."""
    file = tmp_path / "ledger.sqlite"
    file.write_bytes(gzip.decompress((ROOT / "tests/fixtures/ledger-v1.sqlite.gz").read_bytes()))

    ledger = await SqliteLedger.open(file, now=Clock(START), new_id=CountingIds())
    try:
        begun, waiting = await ledger.open_messages()
        part = await ledger.outbox.next_part("line", "default", "a")
        [person] = await People(ledger, now=Clock(START)).approved()

        assert (begun.agent_id, begun.was_begun, begun.inbound.text) == ("work", True, "two")
        assert [file.data for file in begun.inbound.attachments] == [b"x"]
        assert (waiting.agent_id, waiting.was_begun, waiting.has_joined) == ("main", False, False)
        assert part is not None
        assert (part.part.text, part.asker) == ("re: one", None)
        assert (person.sender_id, person.role) == ("bob", "guest")
        assert await ledger.cursor("line", "default") == "3"
    finally:
        await ledger.close()


async def test_the_second_version_knows_where_its_owner_wrote(tmp_path: Path) -> None:
    """One chat for each agent became one for each of its accounts; what was chosen still is."""
    file = tmp_path / "ledger.sqlite"
    file.write_bytes(gzip.decompress((ROOT / "tests/fixtures/ledger-v2.sqlite.gz").read_bytes()))

    ledger = await SqliteLedger.open(file, now=Clock(START), new_id=CountingIds())
    try:
        [main] = await ledger.owner_chats("main")
        [work] = await ledger.owner_chats("work", target="IRC")
        elsewhere = await ledger.owner_chats("work", target="line")
        newer = replace(main, account="second", message_id="1")
        await ledger.receive(newer, "agent:main:main", agent_id="main")
        both = await ledger.owner_chats("main")
        choices = Choices(ledger)
        await choices.load()
    finally:
        await ledger.close()

    assert (main.channel, main.chat_id, main.is_owner, main.trigger) == ("line", "n", True, "")
    assert (work.channel, work.chat_id, elsewhere) == ("irc", "nora", ())
    assert [chat.account for chat in both] == ["second", "default"]
    assert choices.get("agent:main:main", "queue") == "steer"
