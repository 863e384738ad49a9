"""What Litestream needs of the ledger's file, tried as it does it: beside the program, over the log."""

from __future__ import annotations

import shutil
from pathlib import Path

import apsw

from tests.runtime.ledger.ledger_contract import said
from tests.runtime.ledger.test_ledger import _opened

PAGES = 4_000
"""More than the log takes before SQLite would copy it into the file."""


async def test_a_reader_beside_keeps_the_log_and_a_copy_of_both_is_whole(tmp_path: Path) -> None:
    """While it holds its place the log only grows; file and log, copied, are the ledger of that moment."""
    ledger_file = tmp_path / "bridges" / "ledger.sqlite"
    log = ledger_file.with_name("ledger.sqlite-wal")
    async with _opened(tmp_path) as ledger:
        await ledger.receive(said(1), "k", cursor="1")
        replica = apsw.Connection(str(ledger_file))
        assert replica.pragma("journal_mode") == "wal"
        replica.execute("CREATE TABLE IF NOT EXISTS _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")
        replica.execute("BEGIN")
        replica.execute("SELECT count(*) FROM _litestream_seq").fetchall()
        number = 1
        while log.stat().st_size < PAGES * 4096:
            number += 1
            await ledger.receive(said(number, text="x" * 200_000), "k", cursor=str(number))
        (tmp_path / "copy" / "bridges").mkdir(parents=True)
        for each in (ledger_file, log):
            shutil.copy(each, tmp_path / "copy" / "bridges" / each.name)
        replica.execute("COMMIT")
        replica.execute("PRAGMA wal_checkpoint(PASSIVE)")
        assert await ledger.receive(said(number + 1), "k", cursor=str(number + 1)) is not None
        replica.close()
    async with _opened(tmp_path / "copy") as restored:
        assert await restored.cursor("line", "default") == str(number)
        there = await restored.open_messages()
        assert [received.inbound.message_id for received in there] == [str(n + 1) for n in range(number)]
        assert await restored.receive(said(number), "k", cursor=str(number)) is None
