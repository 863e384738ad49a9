"""`nacre admin access`: people are let in by the owner in a terminal and nowhere else."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

from nacre import Inbound
from nacre.bridges.access.people import People
from nacre.runtime.ledger.file_ledger import LEDGER_FILE, open_tables
from tests.cli.program import Terminal, run_here


def _ask(home: Path, name: str, code: str) -> None:
    async def ask() -> None:
        people = People(open_tables(home / ".nacre" / LEDGER_FILE), now=lambda: datetime.now(UTC))
        inbound = Inbound(text="", chat_kind="direct", channel="line", sender_id=name)
        assert await people.request_access(inbound, lambda: code) == code.upper()
        await people.tables.close()

    asyncio.run(ask())


def test_people_are_let_in_refused_and_sent_away(tmp_path: Path) -> None:
    """The list follows each step, and a program without a terminal lets nobody in."""
    (tmp_path / ".nacre").mkdir()
    assert run_here(tmp_path, "admin", "access").stdout.startswith("Nobody has access")
    _ask(tmp_path, "ann", "aaaa1111")
    _ask(tmp_path, "bob", "bbbb2222")
    assert "AAAA1111  line:ann asks since" in run_here(tmp_path, "admin", "access", "list").stdout

    refused = run_here(tmp_path, "admin", "access", "approve", "aaaa1111")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "in a terminal" in refused.stderr
    with Terminal(tmp_path, "admin", "access", "approve", "aaaa1111", "--owner") as terminal:
        terminal.wait_for("Let in: line:ann. They are you")
        assert terminal.exit_code() == 0
    assert run_here(tmp_path, "admin", "access", "deny", "bbbb2222").stdout == "Refused: line:bob.\n"
    assert run_here(tmp_path, "admin", "access", "deny", "bbbb2222").returncode == 1

    lists = json.loads(run_here(tmp_path, "admin", "access", "--json").stdout)
    assert lists["asking"] == []
    assert [(each["id"], each["role"]) for each in lists["known"]] == [("ann", "owner")]
    assert run_here(tmp_path, "admin", "access", "revoke", "line", "ann").stdout.startswith(
        "Revoked: line:ann."
    )
    assert run_here(tmp_path, "admin", "access", "revoke", "line", "ann").returncode == 1
    assert run_here(tmp_path, "admin", "access").stdout.startswith("Nobody has access")
