"""The ledger's file: private, bounded, whole after a kill, set aside when it is damaged, for one program."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nacre.runtime.contracts.inbound import Attachment, Inbound
from nacre.runtime.ledger.file_ledger import SqliteLedger
from nacre.runtime.ledger.ledger import FORGETS_EVERY
from nacre.runtime.ledger.records import MOST_KEPT_IDS, LedgerUnusable, inbound_from_json, inbound_to_json
from nacre.runtime.models.scripted import Clock, CountingIds
from tests.runtime.ledger.ledger_contract import PLACE, said


@asynccontextmanager
async def _opened(folder: Path, ids: str = "") -> AsyncIterator[SqliteLedger]:
    ledger = await SqliteLedger.open(
        folder / "bridges" / "ledger.sqlite", now=Clock(), new_id=CountingIds(ids)
    )
    try:
        yield ledger
    finally:
        await ledger.close()


async def test_its_files_are_the_owners_alone(tmp_path: Path) -> None:
    """They hold what people said."""
    async with _opened(tmp_path) as ledger:
        await ledger.receive(said(1), "k")
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "bridges").iterdir()}
    assert set(modes.values()) == {0o600}
    assert {"ledger.sqlite", "ledger.sqlite-wal"} <= set(modes)
    assert (tmp_path / "bridges").stat().st_mode & 0o777 == 0o700


async def test_what_is_answered_is_forgotten_when_much_came_since(tmp_path: Path) -> None:
    """Words go when they are answered; ids of the newest messages of a chat stay, and all that is open."""
    async with _opened(tmp_path) as ledger:
        first = await ledger.receive(said(0), "k")
        other = await ledger.receive(said(0, chat_id="d"), "k")
        assert first is not None
        assert other is not None
        for received in (first, other):
            await ledger.finish([received], PLACE, [])
        waits = await ledger.receive(said(1), "k")
        for number in range(2, MOST_KEPT_IDS + 5):
            received = await ledger.receive(said(number), "k")
            assert received is not None
            await ledger.finish([received], PLACE, ["a reply"])
            part = await ledger.outbox.next_part("line", "default", "c")
            assert part is not None
            await ledger.outbox.sent(part, "id")
        assert await ledger.receive(said(1), "k") is None
        assert await ledger.receive(said(5), "k") is None
        for number in range(MOST_KEPT_IDS + 5, MOST_KEPT_IDS + 10 * FORGETS_EVERY):
            received = await ledger.receive(said(number), "k")
            assert received is not None
            await ledger.finish([received], PLACE, [])
        assert await ledger.receive(said(0, chat_id="d"), "k") is None
        assert await ledger.receive(said(0), "k") is not None, "an id of long ago is forgotten"
        assert waits in await ledger.open_messages()
    assert (tmp_path / "bridges" / "ledger.sqlite").stat().st_size < 1_000_000


async def test_no_part_has_the_key_of_another_ledgers(tmp_path: Path) -> None:
    """A server knows a part again by its key."""
    keys = []
    for name in ("one", "other"):
        async with _opened(tmp_path / name, name) as ledger:
            await ledger.outbox.put(PLACE, ["one"])
            part = await ledger.outbox.next_part("line", "default", "c")
            assert part is not None
            keys.append(part.part.key)
    assert keys[0] != keys[1]


async def test_a_damaged_file_is_set_aside(tmp_path: Path) -> None:
    """Nothing of it is overwritten, the bridges go on, and the owner is told what that means."""
    async with _opened(tmp_path) as ledger:
        await ledger.receive(said(1), "k")
    file = tmp_path / "bridges" / "ledger.sqlite"
    file.write_bytes(b"this is no database" * 100)
    async with _opened(tmp_path, "second-") as ledger:
        assert "was damaged" in ledger.notice
        assert await ledger.receive(said(1), "k") is not None
    [aside] = file.parent.glob("ledger.sqlite.corrupt-*")
    assert aside.read_bytes().startswith(b"this is no database")


async def test_two_programs_do_not_share_it(tmp_path: Path) -> None:
    """The second one is told, and can have it when the first is done."""
    async with _opened(tmp_path):
        with pytest.raises(LedgerUnusable, match="Another program"):
            async with _opened(tmp_path):
                pass
    async with _opened(tmp_path):
        pass


async def test_a_newer_programs_file_is_left_alone(tmp_path: Path) -> None:
    """It is not read as something that it is not, and what could not open it does not hold it."""
    import apsw

    async with _opened(tmp_path):
        pass
    connection = apsw.Connection(str(tmp_path / "bridges" / "ledger.sqlite"))
    connection.pragma("user_version", 99)
    connection.close()
    for _ in range(2):
        with pytest.raises(LedgerUnusable, match="version 99"):
            async with _opened(tmp_path):
                pass


async def test_work_that_fails_takes_nothing_else_back(tmp_path: Path) -> None:
    """What is written at the same moment by others stays."""
    async with _opened(tmp_path) as ledger:

        def broken(_run: object) -> None:
            raise KeyError("a bug")

        results = await asyncio.gather(
            ledger.receive(said(1), "k"),
            ledger.rows.write(broken),
            ledger.receive(said(2), "k"),
            return_exceptions=True,
        )
        assert isinstance(results[1], KeyError)
        assert [each.inbound.message_id for each in await ledger.open_messages()] == ["1", "2"]
        await ledger.close()
        with pytest.raises(LedgerUnusable, match="closed"):
            await ledger.receive(said(3), "k")


@given(
    st.text(),
    st.sampled_from(["direct", "group", "channel"]),
    st.binary(max_size=50),
    st.booleans(),
    st.text(max_size=5),
)
def test_a_stored_message_is_read_as_it_was(
    text: str, kind: str, data: bytes, is_owner: bool, name: str
) -> None:
    """Every field, whatever people send; whether it is handed in again is not a part of it."""
    inbound = Inbound(
        text=text,
        chat_kind=kind,  # type: ignore[arg-type]
        chat_name=name,
        is_owner=is_owner,
        attachments=(Attachment(name=name, mime_type="image/png", data=data),),
    )
    assert inbound_from_json(inbound_to_json(inbound)) == inbound


def test_a_stored_message_of_unknown_kind_is_a_groups() -> None:
    """What is not known to be private is not."""
    inbound = inbound_from_json('{"text": "hi"}')
    assert inbound.chat_kind == "group"
    assert inbound.is_owner is False
