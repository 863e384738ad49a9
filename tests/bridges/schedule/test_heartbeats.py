"""A heartbeat comes to where the owner last wrote, when nobody is at it, and is heard only if it has news."""

from __future__ import annotations

import asyncio
from pathlib import Path

from nacre.runtime.contracts.errors import ModelAuthError
from nacre.runtime.models.scripted import Clock, ScriptedModel, fails, says
from tests.bridges.chats import QUICK, Answering
from tests.bridges.line_channel import LineBridge, LineServer
from tests.bridges.schedule.kept import MORNING, kept


def put_list(state_dir: Path) -> None:
    """A HEARTBEAT.md that asks for something."""
    (state_dir / "workspace").mkdir(parents=True, exist_ok=True)
    (state_dir / "workspace" / "HEARTBEAT.md").write_text("- Is the backup there?\n")


async def test_a_heartbeat_goes_to_where_the_owner_last_wrote(tmp_path: Path) -> None:
    """Half an hour behind the first look; what finds nothing is not sent, and shows no typing."""
    put_list(tmp_path)
    news = "The backup of last night is missing. " + "I looked in the usual places. " * 12
    clock = Clock(MORNING)
    answers = iter(["Hello.", "Hi.", "HEARTBEAT_OK", news.strip()])
    model = Answering(lambda _text: next(answers))
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock) as here:
            await here.look()
            server.say("Hello", chat="old", sender="nora")
            await server.until(lambda at: at.shown("old"))
            clock.advance(minutes=1)
            server.say("Hello", chat="n", sender="nora")
            await server.until(lambda at: at.shown("n"))
            await here.until_idle()
            signs = len(server.signs)
            clock.advance(minutes=28)
            await here.look()
            assert len(model.requests) == 2
            clock.advance(minutes=1)
            await here.look()
            assert len(model.requests) == 3
            assert (len(server.shown("n")), len(server.signs)) == (1, signs)
            await here.look()
            clock.advance(minutes=30)
            await here.look()

    assert len(model.requests) == 4
    assert "".join(server.shown("n")[1:]).replace(" ", "") == news.replace(" ", "")
    assert server.shown("old") == ["Hello."]


async def test_heartbeats_go_on_where_the_clock_was_a_year_ahead(tmp_path: Path) -> None:
    """They do not wait for the year to pass; a clock that is set back by minutes causes none."""
    put_list(tmp_path)
    clock, model = Clock(MORNING), Answering(lambda text: "HEARTBEAT_OK" if "heartbeat" in text else "Hi.")
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock) as here:
            await here.look()
            server.say("Hello", chat="n", sender="nora")
            await server.until(lambda at: at.shown("n"))
            await here.until_idle()
            asked = []
            for minutes in (31, -20, 525_600, -525_600, 1, 31):
                clock.advance(minutes=minutes)
                await here.look()
                asked.append(len(model.requests) - 1)

    assert asked == [1, 1, 2, 3, 3, 4]


async def test_a_heartbeat_waits_for_the_owner_the_hours_and_silence(tmp_path: Path) -> None:
    """None where the owner never wrote, at night, nor while a turn runs there."""
    put_list(tmp_path)
    heartbeat = {"every": "30m", "activeHours": {"start": "08:00", "end": "10:00"}}
    settings = {**QUICK, "agents": {"defaults": {"heartbeat": heartbeat}}}
    clock, model = Clock(MORNING), Answering(lambda text: "HEARTBEAT_OK" if "heartbeat" in text else "Hi.")
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=settings) as here:
            await here.look()
            clock.advance(minutes=31)
            await here.look()
            assert model.requests == []
            model.holds = True
            server.say("Hello", chat="n", sender="nora")
            await model.held.get()
            await here.timekeeper.run_due()
            assert model.held.empty()
            model.holds = False
            model.let_go()
            await server.until(lambda at: at.shown("n"))
            await here.until_idle()
            clock.advance(minutes=60)
            await here.look()
            assert len(model.requests) == 1
            clock.advance(hours=22)
            await here.look()

    assert len(model.requests) == 2


async def test_a_heartbeat_that_fails_is_no_message(tmp_path: Path) -> None:
    """A model that is down would otherwise be told every half hour."""
    put_list(tmp_path)
    clock = Clock(MORNING)
    model = ScriptedModel(says("Hi."), fails(ModelAuthError("the key is wrong")))
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock) as here:
            await here.look()
            server.say("Hello", chat="n", sender="nora")
            await server.until(lambda at: at.shown("n"))
            clock.advance(minutes=31)
            await here.look()

    assert len(model.requests) == 2
    assert server.shown("n") == ["Hi."]


async def test_the_owners_words_are_never_said_into_a_heartbeat(tmp_path: Path) -> None:
    """Also where words are said into turns: they get a turn of their own, and their answer is not lost."""
    put_list(tmp_path)
    settings = {
        **QUICK,
        "messages": {"queue": {"mode": "steer", "debounceMs": 1}, "inbound": {"debounceMs": 0}},
    }
    clock, model = (
        Clock(MORNING),
        Answering(lambda text: "HEARTBEAT_OK" if "heartbeat" in text else f"re: {text}"),
    )
    with LineServer() as server:
        async with kept(tmp_path, model, [LineBridge(server.port)], clock, settings=settings) as here:
            await here.look()
            server.say("one", chat="n", sender="nora")
            await server.until(lambda at: at.shown("n"))
            await here.until_idle()
            clock.advance(minutes=31)
            model.holds = True
            await here.timekeeper.run_due()
            await model.held.get()
            server.say("two", chat="n", sender="nora")
            async with asyncio.timeout(60):
                while await here.gateway.tables.not_done() != {"running": 1, "waiting": 1}:
                    await asyncio.to_thread(lambda: None)
            model.holds = False
            model.let_go()
            await server.until(lambda at: len(at.shown("n")) == 2)

    assert server.shown("n") == ["re: one", "re: two"]
