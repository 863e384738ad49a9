"""Several `nacre serve` share the accounts; one is killed, and each message is still answered once."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.schedule.timekeeper import Timekeeper
from nacre.bridges.schedule.timetable import Timetable
from nacre.runtime.models.scripted import Clock
from tests.bridges.channels.contract.line_extension import install_line
from tests.bridges.line_channel import LineServer
from tests.cli.program import WAIT_SECONDS, run_nacre
from tests.cli.serving.test_serve import serving
from tests.extensions.postgres.workers import test_approvals as approvals
from tests.extensions.postgres.workers.crowd import Crowd
from tests.extensions.postgres.workers.served import gateway, settings
from tests.extensions.postgres.workers.worker_process import started
from tests.runtime.agents import write_settings
from tests.servers import provider_wire as wire
from tests.servers.provider_server import ProviderServer

pytestmark = pytest.mark.postgres
CHATS = 4


def answer(request: Mapping[str, Any]) -> wire.Step:
    """The last thing that was said."""
    return wire.reply("re: " + re.findall(r"chat-\d+ says \d+", json.dumps(request["messages"]))[-1])


def served_by(home: Path, path: str) -> dict[str, str]:
    """The program that serves each connected account, as `nacre status` tells; none between two programs."""
    bridges = json.loads(run_nacre(home, "status", "--json", PYTHONPATH=path).stdout)["bridges"]
    connected = (each for each in bridges if each["state"] == "connected" and each["servedBy"])
    return {each["accountId"]: each["servedBy"] for each in connected}


def shared_settings(home: Path, url: str, provider: ProviderServer, *servers: LineServer) -> None:
    """An account of each server, and workers for the turns."""
    common = settings(provider, CHATS)
    accounts = {f"line-{number}": {"port": server.port} for number, server in enumerate(servers)}
    channels = {"line": {**common["channels"]["line"], "accounts": accounts}}
    storage = {"driver": "postgres", "url": url, "workers": True}
    write_settings(home / ".nacre", {**common, "channels": channels, "storage": storage})


@contextmanager
def two_accounts(folder: Path, url: str) -> Iterator[tuple[list[Path], list[LineServer], list[Crowd]]]:
    """Two homes whose programs share the accounts of two servers, and who writes to each; there is a worker.
    At the end each message is answered once.
    """
    with LineServer() as one, LineServer() as two, ProviderServer(responder=answer) as provider:
        crowds = [Crowd(one, CHATS), Crowd(two, CHATS)]
        homes = [folder / "first", folder / "second"]
        for home in homes:
            shared_settings(home, url, provider, one, two)
        worker = started(homes[0] / ".nacre", url)
        try:
            yield homes, [one, two], crowds
        finally:
            worker.kill()
            worker.join()
        assert [crowd.problems() for crowd in crowds] == [[], []]
        assert sum(sum(crowd.said.values()) for crowd in crowds) == len(one.sent) + len(two.sent)


async def until_shared(home: Path, path: str) -> dict[str, str]:
    """Until each of two programs serves an account."""
    async with asyncio.timeout(WAIT_SECONDS):
        while len(set((found := await asyncio.to_thread(served_by, home, path)).values())) < 2:
            pass
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_two_programs_share_two_accounts(tmp_path: Path, database_url: str) -> None:
    """The second one gets an account of the first between messages, and that of the first when it is killed:
    nothing is lost, nothing twice. When one is told to end, the other has both at once.
    """
    path = install_line(tmp_path / "site")
    with (
        two_accounts(tmp_path, database_url) as (homes, servers, crowds),
        serving(homes[0], PYTHONPATH=path) as first,
    ):
        await asyncio.gather(*(crowd.talk(0.5) for crowd in crowds))
        await asyncio.gather(*(crowd.answered(WAIT_SECONDS) for crowd in crowds))
        with serving(homes[1], PYTHONPATH=path) as second:
            before = await until_shared(homes[0], path)
            assert {*before} == {"line-0", "line-1"}
            await asyncio.gather(*(crowd.talk(1) for crowd in crowds))
            first.kill()
            killed = time.monotonic()
            counts = [len(server.sent) for server in servers]
            await asyncio.gather(*(crowd.talk(1) for crowd in crowds))
            for server, count in zip(servers, counts, strict=True):
                await server.until(lambda server, count=count: len(server.sent) >= count + CHATS)
            print(f"answered again after {time.monotonic() - killed:.1f} s")  # noqa: T201 - a figure
            await asyncio.gather(*(crowd.answered(WAIT_SECONDS) for crowd in crowds))
            after = await asyncio.to_thread(served_by, homes[0], path)
            assert {*after.values()} < {*before.values()}, "the second one serves both"
            with serving(homes[0], PYTHONPATH=path) as third:
                await until_shared(homes[0], path)
                second.send_signal(signal.SIGTERM)
                await asyncio.gather(*(crowd.talk(1) for crowd in crowds))
                assert await asyncio.to_thread(second.wait, WAIT_SECONDS) == 0
                await asyncio.gather(*(crowd.answered(WAIT_SECONDS) for crowd in crowds))
                third.send_signal(signal.SIGTERM)
                assert await asyncio.to_thread(third.wait, WAIT_SECONDS) == 0


async def test_the_owner_is_asked_through_another_program(tmp_path: Path, database_url: str) -> None:
    """A group is answered by one program, the owner writes to the other one: it shows the question, sends the
    reminders and has the heartbeats.
    """
    with (
        LineServer() as owners,
        LineServer() as groups,
        ProviderServer(responder=approvals.model) as provider,
    ):
        approvals.prepared(tmp_path, provider)
        worker = started(tmp_path, database_url)
        other_url = f"{database_url}{'&' if '?' in database_url else '?'}application_name=other"
        try:
            async with (
                gateway(tmp_path, database_url, 0, shares={"own": owners.port}) as first,
                gateway(tmp_path, other_url, 0, shares={"own": owners.port, "all": groups.port}) as second,
            ):
                assert {*second.sharing.elsewhere} == {("line", "own")}
                owners.say("hello", chat="n", sender="nora")
                await owners.until(lambda server: server.shown("n"))
                await approvals.sql(database_url, approvals.TRIGGER)
                groups.say("pay Ann for the group", chat="g", sender="bob", chat_kind="group")
                name = await approvals.asked_in(owners)
                owners.say(f"/approve {name}", chat="n", sender="nora")
                await groups.until(lambda server: server.shown("g"))
                assert await approvals.paid(database_url) == 1

                clock = Clock(datetime(2026, 3, 14, 9, tzinfo=UTC))
                keepers = [
                    Timekeeper(
                        each,
                        Timetable(each.tables, now=clock),
                        tuple(each._agents),
                        now=clock,
                        sleep=asyncio.sleep,
                    )
                    for each in (second, first)
                ]
                beats = "SELECT count(*) FROM ledger_inbound WHERE message_id LIKE 'heartbeat-%'"
                for minutes, found in ((0, (0, 0)), (31, (0, 1)), (1, (1, 1))):
                    clock.advance(minutes=minutes)
                    for keeper, count in zip(keepers, found, strict=True):
                        await keeper.run_due()
                        assert await approvals.sql(database_url, beats) == count
                [chat] = await second.tables.owner_chats("main")
                assert await first.reach(chat, "main") == "open"
                assert await second.reach(chat, "main") == "elsewhere"
        finally:
            worker.kill()
            worker.join()


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_a_program_that_slept_gives_way(tmp_path: Path, database_url: str) -> None:
    """It is stopped until the other one has its account, in the middle of messages, and goes on: it hangs up
    there, nothing is doubled, and it gets an account again.
    """
    path = install_line(tmp_path / "site")
    with (
        two_accounts(tmp_path, database_url) as (homes, _, crowds),
        serving(homes[0], PYTHONPATH=path) as first,
        serving(homes[1], PYTHONPATH=path),
    ):
        before = await until_shared(homes[0], path)
        await asyncio.gather(*(crowd.talk(0.5) for crowd in crowds))
        first.send_signal(signal.SIGSTOP)
        await asyncio.gather(*(crowd.talk(0.5) for crowd in crowds))
        await asyncio.gather(*(crowd.answered(WAIT_SECONDS) for crowd in crowds))
        assert len(set((await asyncio.to_thread(served_by, homes[0], path)).values())) == 1
        first.send_signal(signal.SIGCONT)
        await asyncio.gather(*(crowd.talk(3) for crowd in crowds))
        await asyncio.gather(*(crowd.answered(WAIT_SECONDS) for crowd in crowds))
        assert {*(await until_shared(homes[0], path)).values()} == {*before.values()}
        await asyncio.gather(*(crowd.talk(1) for crowd in crowds))
        await asyncio.gather(*(crowd.answered(WAIT_SECONDS) for crowd in crowds))
