"""Kill -9 at every step from a job that is due to its answer in the chat: said once, whenever it was."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.bridges.schedule.times import parse_times
from nacre.bridges.schedule.timetable import Timetable
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.file_ledger import LEDGER_FILE, open_tables
from nacre.runtime.models.scripted import Clock
from tests.bridges.faults.test_kills import driver
from tests.bridges.line_channel import LineServer
from tests.bridges.schedule.kept import MORNING
from tests.bridges.schedule.kill_driver import ANSWER

NORA = Inbound(text="", chat_kind="direct", channel="line", chat_id="n", sender_id="nora", is_owner=True)
DRIVER = Path(__file__).with_name("kill_driver.py")
STRIDE = 3
"""Every third step is killed at; all of them would take a minute and more."""


async def _schedule(state: Path) -> None:
    timetable = Timetable(open_tables(state / LEDGER_FILE), now=Clock(MORNING))
    try:
        for name, when in (("once", {"at": "1h"}), ("again", {"cron": "0 * * * *"})):
            due = parse_times(**when, now=MORNING)
            await timetable.add("main", NORA, name, due, lambda name=name: name)  # type: ignore[misc]
    finally:
        await timetable.tables.close()


@pytest.mark.slow  # two processes for each step
def test_a_kill_at_any_step_says_nothing_twice_and_forgets_nothing(tmp_path: Path) -> None:
    """A reminder and a job that comes again, both due: each is answered once."""
    kills, problems = 0, []
    with driver(DRIVER) as order:
        for kill_at in range(1, 500, STRIDE):
            state = tmp_path / str(kill_at)
            asyncio.run(_schedule(state))
            with LineServer() as server:
                what = {"state": str(state), "port": server.port}
                if order({**what, "kill_at": kill_at, "ids": "a"}) is None:
                    break
                kills += 1
                order({**what, "kill_at": 0, "ids": "b"})
                if server.shown("n") != [ANSWER, ANSWER]:
                    problems.append((kill_at, server.shown("n")))

    assert problems == []
    assert kills > 5  # writes of the same moment are one step
