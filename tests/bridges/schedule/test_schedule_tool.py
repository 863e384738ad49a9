"""The tool `schedule`: jobs are made, listed and removed where they were asked for, by whom may."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.bridges.line_channel import LineBridge, LineServer
from tests.bridges.schedule.kept import MORNING, STEADY, Kept, kept


def asks(action: str, **arguments: Any) -> Any:
    """The model calls the tool."""
    return calls(("schedule", {"action": action, **arguments}))


def results(model: ScriptedModel) -> list[str]:
    """What the tool answered, in the order of the calls."""
    last = [message_text(request.messages[-1]) for request in model.requests]
    return [
        text for text in last if text.startswith(("Scheduled", "There", "Removed", "Only", "Give", "0000"))
    ]


async def said(here: Kept, server: LineServer, text: str, **where: str) -> None:
    """Somebody says something, and it is answered."""
    before = len(server.sent)
    server.say(text, **where)
    await server.until(lambda at: len(at.sent) > before)
    await here.until_idle()


async def test_a_reminder_that_the_model_makes_comes_back_to_the_chat(tmp_path: Path) -> None:
    """Made, listed, carried out, and gone."""
    clock = Clock(MORNING)
    model = ScriptedModel(
        asks("add", text="Remind Nora of the plants.", at="2026-03-14T18:00"),
        says("I will."),
        asks("list"),
        says("One."),
        says("Nora, the plants!"),
        asks("list"),
        says("None."),
    )
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await said(here, server, "Remind me at six", chat="n", sender="nora")
            await said(here, server, "What is planned?", chat="n", sender="nora")
            clock.advance(hours=9)
            await here.look()
            await said(here, server, "And now?", chat="n", sender="nora")

    assert server.shown("n") == ["I will.", "One.", "Nora, the plants!", "None."]
    line = "Sat 2026-03-14 18:00 CET, in the direct chat n of line: Remind Nora of the plants."
    assert results(model) == [f"Scheduled as 00000001: {line}", f"00000001: {line}", "There are no jobs."]
    model.assert_complete()


async def test_a_group_sees_and_changes_its_own_jobs_alone(tmp_path: Path) -> None:
    """The private job is neither listed nor removed there; the owner in private has all of them."""
    clock = Clock(MORNING)
    model = ScriptedModel(
        asks("add", text="CANARY surprise party", cron="0 18 * * FRI"),
        says("Done."),
        asks("add", text="Stand-up", cron="0 9 * * MON-FRI"),
        says("Done."),
        asks("list"),
        asks("remove", job_id="00000001"),
        says("Only one."),
        asks("list"),
        asks("remove", job_id="00000002"),
        says("Gone."),
    )
    crew = {"chat": "crew", "sender": "nora", "chat_kind": "group"}
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await said(here, server, "Plan my party", chat="n", sender="nora")
            await said(here, server, "Plan the stand-up", **crew)
            await said(here, server, "Which jobs are there?", **crew)
            await said(here, server, "All of them, please", chat="n", sender="nora")
            [left] = await here.timetable.jobs("main")

    _party, standup, in_group, not_there, all_of_them, removed = results(model)
    assert "00000002: Mon 2026-03-16 09:00 CET (0 9 * * MON-FRI), in the group chat crew of line" in standup
    assert "CANARY" not in in_group
    assert "Stand-up" in in_group
    assert not_there.startswith("There is no job '00000001' in this chat.")
    assert "CANARY" in all_of_them
    assert removed.startswith("Removed: 00000002")
    assert left.text == "CANARY surprise party"


async def test_others_may_look_and_not_schedule(tmp_path: Path) -> None:
    """In a group a guest is told that the owner has to ask; in private a guest has no such tool."""
    clock = Clock(MORNING)
    model = ScriptedModel(
        asks("add", text="Spend the owner's money", cron="* * * * *"),
        says("Ask Nora."),
        says("Hello.", check=lambda request: all(tool.name != "schedule" for tool in request.tools)),
    )
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await said(here, server, "Schedule this", chat="crew", sender="bob", chat_kind="group")
            await said(here, server, "Hello", chat="b", sender="bob")
            assert await here.timetable.jobs("main") == ()

    assert results(model) == ["Only the owner may create and remove jobs. Tell whoever asked."]


async def test_what_cannot_be_read_is_told_to_the_model(tmp_path: Path) -> None:
    """A time that is past, and no time at all."""
    clock = Clock(MORNING)
    model = ScriptedModel(
        asks("add", text="x", at="2026-03-14T08:00"),
        asks("add", text="x"),
        asks("add", at="20m"),
        says("I cannot."),
    )
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=STEADY) as here:
            await said(here, server, "Remind me", chat="n", sender="nora")

    told = [message_text(request.messages[-1]) for request in model.requests[1:]]
    assert told == [
        "Sat 2026-03-14 08:00 CET is past; it is now Sat 2026-03-14 09:00 CET.",
        "Give either cron, for a recurring job, or at, for a job that runs once.",
        "The text is empty. Write what to do when the job is due.",
    ]
