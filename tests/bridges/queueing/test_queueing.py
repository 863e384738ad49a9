"""Messages that arrive during a turn: collected, in order, interrupting; /stop and /status are heard."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from nacre.bridges.answering.dispatch import STOPPED, TOO_MANY
from nacre.bridges.contracts.bridge import Capabilities, Part
from tests.bridges.chats import FOLLOW_UP, OPEN, Answering, gateway
from tests.bridges.line_channel import LineBridge, LineServer
from tests.runtime.agents import transcript_file, user_texts


def _queue(**queue: Any) -> dict[str, Any]:
    return {**OPEN, "messages": {"queue": {"debounceMs": 1, **queue}, "inbound": {"debounceMs": 0}}}


async def _held(model: Answering, server: LineServer, *texts: str, **more: Any) -> None:
    """The first message is being answered; then the others arrive."""
    server.say(texts[0], **more)
    await model.held.get()
    for text in texts[1:]:
        server.say(text, **more)


@pytest.mark.covers("A16-2")
async def test_a_burst_is_one_turn(tmp_path: Path) -> None:
    """What came during a turn is answered together, once, behind it."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        bridge = LineBridge(server.port)
        async with gateway(tmp_path, model, [bridge], settings=_queue(debounceMs=50)):
            await _held(model, server, "one", "two", "three")
            server.say("apart", chat="other", sender="bob")
            assert await model.held.get() == "apart"  # so the messages before it were taken
            model.let_go()
            model.let_go()
            collected = await model.held.get()
            model.let_go()
            await server.until(lambda at: len(at.shown()) == 2)

    assert "Queued #1\ntwo" in collected
    assert "Queued #2\nthree" in collected
    assert server.shown()[0] == "re: one"


async def test_follow_ups_are_answered_one_by_one(tmp_path: Path) -> None:
    """In their order."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=FOLLOW_UP):
            for number in range(5):
                server.say(str(number))
            await server.until(lambda at: len(at.sent) == 5)

    assert server.shown() == [f"re: {number}" for number in range(5)]


@pytest.mark.covers("A15-4")
async def test_stop_ends_the_turn_and_drops_what_waits(tmp_path: Path) -> None:
    """It is heard although the lane is held, it is answered, and the chat goes on."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)]):
            await _held(model, server, "one", "two", "Stop!")
            await server.until(lambda at: len(at.sent) == 1)
            model.holds = False
            server.say("three")
            await server.until(lambda at: len(at.sent) == 2)

    assert server.shown() == [STOPPED, "re: three"]
    assert user_texts(transcript_file(tmp_path)) == ["one", "three"]


class SlowBridge(LineBridge):
    """A bridge that sends a message only when it may, like a network that allows a line a second."""

    def __init__(self, port: int) -> None:
        super().__init__(port, capabilities=Capabilities(greatest_length=64))
        self.wants = asyncio.Event()
        self.may = asyncio.Event()

    async def deliver(self, part: Part) -> str:
        """Waits for the permission."""
        self.wants.set()
        await self.may.wait()
        return await super().deliver(part)


@pytest.mark.parametrize("word", ["/stop", "stop"])
async def test_stop_ends_an_answer_that_is_being_sent(tmp_path: Path, word: str) -> None:
    """The turn is over, and a hundred parts would follow: only the one that is being sent arrives."""
    model = Answering(lambda _text: "seven words of a very long answer. " * 100)
    with LineServer() as server:
        bridge = SlowBridge(server.port)
        async with gateway(tmp_path, model, [bridge]) as (open_gateway, _):
            server.say("tell me all")
            await bridge.wants.wait()
            server.say(word)
            while (await open_gateway.tables.not_done()).get("pending") != 1:  # noqa: ASYNC110 - STOPPED
                await asyncio.sleep(0)
            bridge.may.set()
            await server.until(lambda at: STOPPED in at.shown())

    assert len(server.shown()) == 2


async def test_a_word_that_stops_nothing_is_a_message(tmp_path: Path) -> None:
    """Whoever answers a question with "wait" is understood, unless something runs."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)]):
            server.say("Wait!")
            await server.until(lambda at: len(at.sent) == 1)

    assert server.shown() == ["re: Wait!"]


async def test_a_turn_that_is_stopped_outside_of_its_chat_is_over(tmp_path: Path) -> None:
    """As on the page: its message is not answered again, and the chat goes on."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)]) as (open_gateway, agent):
            await _held(model, server, "one", sender="nora")
            assert agent.stop()
            model.holds = False
            while not open_gateway.is_idle:  # noqa: ASYNC110 - the gateway says when
                await asyncio.sleep(0)
            server.say("two", sender="nora")
            await server.until(lambda at: len(at.sent) == 1)

    assert server.shown() == ["re: two"]


async def test_what_was_stopped_stays_stopped_after_a_restart(tmp_path: Path) -> None:
    """Neither the turn nor what waited behind it is taken up again."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)]):
            await _held(model, server, "one", "two", "/stop")
            await server.until(lambda at: len(at.sent) == 1)
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], ids="b"):
            server.say("three")
            await server.until(lambda at: len(at.sent) == 2)

    assert server.shown() == [STOPPED, "re: three"]


async def test_a_turn_that_the_end_of_the_program_cut_off_is_answered_after_it(tmp_path: Path) -> None:
    """Closing is no stop: the message and what waited behind it are answered by the next program."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=FOLLOW_UP):
            await _held(model, server, "one", "two")
            server.say("apart", chat="other", sender="bob")
            assert await model.held.get() == "apart"
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=FOLLOW_UP, ids="b"):
            await server.until(lambda at: len(at.sent) == 3)

    assert server.shown() == ["re: one", "re: two"]
    assert server.shown("other") == ["re: apart"]


async def test_what_waits_for_a_slot_is_stopped_too(tmp_path: Path) -> None:
    """A turn that has not begun, because too many run, never does."""
    model = Answering()
    model.holds = True
    settings = {**FOLLOW_UP, "agents": {"defaults": {"maxConcurrent": 1}}}
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=settings):
            await _held(model, server, "one", sender="nora")
            server.say("two", chat="b", sender="bob")
            server.say("/stop", chat="b", sender="bob")
            await server.until(lambda at: at.shown("b") == [STOPPED])
            model.holds = False
            model.let_go()
            server.say("three", chat="b", sender="bob")
            await server.until(lambda at: len(at.sent) == 3)

    assert server.shown("b") == [STOPPED, "re: three"]
    assert server.shown() == ["re: one"]


async def test_others_stop_nothing_in_a_group(tmp_path: Path) -> None:
    """Their word is a word like any other."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=FOLLOW_UP):
            await _held(model, server, "one", "stop", chat_kind="group")
            model.let_go()
            assert await model.held.get() == "stop"
            model.let_go()
            await server.until(lambda at: len(at.sent) == 2)

    assert server.shown() == ["re: one", "re: stop"]


async def test_an_interruption_is_answered_in_place_of_the_turn(tmp_path: Path) -> None:
    """The turn that ran ends without a word; nothing is said that nobody waits for any more."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        bridge = LineBridge(server.port)
        async with gateway(tmp_path, model, [bridge], settings=_queue(mode="interrupt")):
            await _held(model, server, "one", "rather this")
            assert await model.held.get() == "rather this"
            model.let_go()
            await server.until(lambda at: len(at.sent) == 1)

    assert server.shown() == ["re: rather this"]


async def test_status_is_answered_while_a_turn_runs(tmp_path: Path) -> None:
    """With the queue, and for the owner in private how the bridges are."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        bridge = LineBridge(server.port, capabilities=Capabilities())
        async with gateway(tmp_path, model, [bridge]):
            await _held(model, server, "one", "/status", sender="nora")
            await server.until(lambda at: any("Bridges: line connected" in sent.text for sent in at.sent), 8)
            model.let_go()
            await server.until(lambda at: at.shown()[-1] == "re: one")

    status = "\n".join(server.shown()[:-1])
    assert "Model: scripted/model" in status
    assert "Queue: collect (a turn runs, 0 waiting)" in status
    assert "Messages: 1 being answered\n" in status  # the one that asks does not count itself


async def test_too_many_messages_are_refused_where_that_is_wished(tmp_path: Path) -> None:
    """Whoever sends them is told; what waits already is answered."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        settings = _queue(mode="followup", cap=1, drop="new")
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=settings):
            await _held(model, server, "one", "two", "three")
            await server.until(lambda at: len(at.sent) == 1)
            model.holds = False
            model.let_go()
            await server.until(lambda at: len(at.sent) == 3)

    assert server.shown() == [TOO_MANY, "re: one", "re: two"]


async def test_the_oldest_are_left_out_where_that_is_wished(tmp_path: Path) -> None:
    """Only the newest wait, also when the next program takes up what is open."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        settings = _queue(mode="followup", cap=1, drop="old")
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=settings):
            await _held(model, server, "one", "two", "three")
            server.say("apart", chat="other", sender="bob")
            assert await model.held.get() == "apart"
            model.holds = False
            model.let_go()
            model.let_go()
            await server.until(lambda at: len(at.shown()) == 2)
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=settings, ids="b"):
            server.say("four")
            await server.until(lambda at: "re: four" in at.shown())

    assert server.shown() == ["re: one", "re: three", "re: four"]


async def test_no_more_chats_are_answered_at_once_than_may_be(tmp_path: Path) -> None:
    """The others wait, and are answered when a slot is free."""
    model = Answering()
    model.holds = True
    settings = {**OPEN, "agents": {"defaults": {"maxConcurrent": 2}}}
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=settings):
            for name in "abc":
                server.say(name, chat=name, sender=name)
            first = {await model.held.get(), await model.held.get()}
            server.say("/status", chat="d", sender="nora")
            await server.until(lambda at: at.shown("d") != [])
            assert model.held.empty()
            model.let_go()
            third = await model.held.get()
            model.let_go()
            model.let_go()
            await server.until(lambda at: all(at.shown(name) == [f"re: {name}"] for name in "abc"))

    assert {*first, third} == {"a", "b", "c"}
