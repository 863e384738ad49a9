"""What is due is done once, in its chat and by its rights, and what was missed is told."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from nacre.bridges.schedule.times import parse_times
from nacre.bridges.schedule.timetable import Job, rescheduled
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.ledger.records import JobChanged
from nacre.runtime.models.scripted import Clock, ScriptedModel
from nacre.sessions.contracts.messages import message_text
from tests.bridges.chats import Answering
from tests.bridges.line_channel import LineBridge, LineServer
from tests.bridges.schedule.kept import MORNING, STEADY, Kept, kept

NORA = Inbound(text="", chat_kind="direct", channel="line", chat_id="n", sender_id="nora", is_owner=True)
CREW = Inbound(text="", chat_kind="group", channel="line", chat_id="crew", sender_id="nora", is_owner=True)


async def add(here: Kept, text: str, asker: Inbound = NORA, **when: str) -> Job:
    """A job of the agent."""
    due = parse_times(**when, now=here.clock())
    return await here.timetable.add("main", asker, text, due, lambda: text)


async def test_a_reminder_is_said_once_in_its_chat(tmp_path: Path) -> None:
    """When it is due and not before; behind it there is no job any more."""
    clock, model = Clock(MORNING), Answering(lambda _text: "Water the plants!")
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await add(here, "water the plants", at="20m")
            await here.look()
            assert server.shown("n") == []
            clock.advance(minutes=20)
            await here.look()
            await here.look()
            left = await here.timetable.jobs("main")

    assert server.shown("n") == ["Water the plants!"]
    assert left == ()
    asked = message_text(model.requests[0].messages[-1])
    assert "due Sat 2026-03-14 09:20 CET]\nwater the plants" in asked


@pytest.mark.covers("A4-11")
async def test_a_job_comes_again_and_is_part_of_the_conversation(tmp_path: Path) -> None:
    """Each run is one message of its chat's session, which the owner can answer."""
    clock, model = Clock(MORNING), Answering(lambda text: "Three mails." if "mails" in text else "Gladly.")
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await add(here, "tell the new mails", cron="30 * * * *")
            for _ in range(2):
                clock.advance(minutes=30)
                await here.look()
                clock.advance(minutes=30)
            server.say("Thanks", chat="n", sender="nora")
            await server.until(lambda at: len(at.sent) == 3)
            [job] = await here.timetable.jobs("main")

    assert server.shown("n") == ["Three mails.", "Three mails.", "Gladly."]
    assert job.due is not None
    assert job.due.isoformat() == "2026-03-14T11:30:00+01:00"
    seen = [message_text(message) for message in model.requests[-1].messages]
    assert "Three mails." in seen


async def test_a_groups_job_sees_what_a_group_sees(tmp_path: Path) -> None:
    """It is said in the group although nobody mentioned anybody, and private notes are not before it."""
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "MEMORY.md").write_text("CANARY of the owner\n")
    settings = {**STEADY, "channels": {"line": {"groups": {"crew": {"requireMention": True}}}}}
    clock, model = Clock(MORNING), Answering(lambda _text: "Stand-up!")
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=settings) as here:
            await add(here, "call for the stand-up", CREW, at="1m")
            clock.advance(minutes=1)
            await here.look()

    assert server.shown("crew") == ["Stand-up!"]
    [request] = model.requests
    assert "CANARY" not in request.system.joined()
    assert "CANARY" not in "".join(message_text(message) for message in request.messages)


async def test_missed_runs_are_told_and_a_missed_reminder_comes_late(tmp_path: Path) -> None:
    """After a down time no model is asked about what comes again; what comes once is done, and says so."""
    clock, model = Clock(MORNING), Answering(lambda _text: "Water the plants!")
    with LineServer() as server:
        async with kept(tmp_path, Answering(), [], clock, settings=STEADY) as here:
            await add(here, "tell the new mails", cron="0 * * * *")
            await add(here, "water the plants", at="90m")
        clock.advance(hours=3, minutes=10)
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY, ids="b") as here:
            await here.look()
            await here.look()

    [request] = model.requests
    assert "late: the program was not running then" in message_text(request.messages[-1])
    assert sorted(server.shown("n")) == [
        "Water the plants!",
        "⏰ While I was not running, this job was due 3 times since Sat 2026-03-14 10:00 CET and was not "
        "run: “tell the new mails”. The next run is on Sat 2026-03-14 13:00 CET.",
    ]


async def test_a_job_is_not_late_because_clocks_were_changed(tmp_path: Path) -> None:
    """From 01:58 in winter to 03:01 in summer are three minutes: it is done."""
    clock, model = Clock(datetime(2026, 3, 29, 1, 50, tzinfo=MORNING.tzinfo)), Answering(lambda _text: "Up!")
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await add(here, "wake the crew", cron="58 1 * * *")
            clock.advance(minutes=11)
            await here.look()

    assert server.shown("n") == ["Up!"]


async def test_what_is_due_waits_for_its_bridge(tmp_path: Path) -> None:
    """A channel that is not served now gets its reminder when it is back."""
    clock, model = Clock(MORNING), Answering(lambda _text: "Water the plants!")
    with LineServer() as server:
        async with kept(tmp_path, model, [], clock, settings=STEADY) as here:
            await add(here, "water the plants", at="1m")
            clock.advance(minutes=2)
            await here.look()
            assert len(await here.timetable.due()) == 1
            await here.gateway.add(LineBridge(server.port))
            await here.look()
            await server.until(lambda at: at.shown("n"))


async def test_a_job_of_somebody_who_is_owner_no_more_is_not_done(tmp_path: Path) -> None:
    """It says why, and its words reach nobody."""
    clock, model = Clock(MORNING), Answering()
    nobody = {**STEADY, "commands": {"ownerAllowFrom": []}}
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=nobody) as here:
            await add(here, "tell the new mails", at="1m")
            clock.advance(minutes=1)
            await here.look()
            [job] = await here.timetable.jobs("main")

    assert (server.sent, model.requests) == ([], [])
    assert job.due is None
    assert "not run on Sat 2026-03-14 09:01 CET: its creator no longer has the right" in job.problem


async def test_a_job_that_was_taken_is_not_taken_again(tmp_path: Path) -> None:
    """The message and the step of its job are one: neither is there without the other, whatever breaks."""
    clock, model = Clock(MORNING), Answering()
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            job = await add(here, "tell the new mails", cron="0 * * * *")
            clock.advance(hours=1)
            [due] = await here.timetable.due()
            await here.timetable.tables.jobs.remove(job.id)
            message = replace(NORA, text="x", message_id="job")
            with pytest.raises(JobChanged):
                await here.gateway.submit(message, "main", along=rescheduled(due, None))
            await here.look()

    assert (server.sent, model.requests) == ([], [])


async def test_a_job_that_is_due_is_taken_up_after_a_kill(tmp_path: Path) -> None:
    """It stands in the ledger with its answer to come; the next start answers it, once."""
    clock, held = Clock(MORNING), Answering()
    held.holds = True
    with LineServer() as server:
        async with kept(tmp_path, held, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await add(here, "water the plants", at="1m")
            clock.advance(minutes=1)
            await here.timekeeper.run_due()
            await held.held.get()
        model = Answering(lambda _text: "Water the plants!")
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY, ids="b") as here:
            await here.look()
            await server.until(lambda at: at.shown("n"))
            await here.until_idle()

    assert server.shown("n") == ["Water the plants!"]


async def test_another_zone_moves_the_jobs_that_come_again(tmp_path: Path) -> None:
    """Nine o'clock is the owner's nine, also after a journey."""
    clock, model = Clock(MORNING), ScriptedModel()
    async with kept(tmp_path, model, [], clock, settings=STEADY) as here:
        await add(here, "tell the new mails", cron="0 12 * * *")
    abroad = Clock(MORNING.astimezone(ZoneInfo("America/New_York")))
    async with kept(tmp_path, model, [], abroad, settings=STEADY, ids="b") as here:
        await here.timekeeper.realign()
        [job] = await here.timetable.jobs("main")

    assert job.due is not None
    assert job.due.isoformat() == "2026-03-14T12:00:00-04:00"
