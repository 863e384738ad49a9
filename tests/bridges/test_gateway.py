"""Messages in, replies out, over TCP: each answered once and in order, whatever comes twice or breaks."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from nacre.bridges.access.gate import Gate
from nacre.bridges.answering.turns import FAILED, UNREACHABLE
from nacre.bridges.contracts.bridge import Part, Place
from nacre.bridges.contracts.errors import NotDelivered
from nacre.bridges.delivery.outgoing import REPEAT_MARK
from nacre.runtime.contracts.errors import (
    AllModelsFailed,
    ModelAuthError,
    ModelError,
    ModelNotRunning,
    NoCredit,
)
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.ledger.file_ledger import LEDGER_FILE, SqliteRows
from nacre.runtime.models.scripted import ScriptedModel, fails, says
from nacre.sessions.contracts.messages import message_text
from tests.bridges.chats import FOLLOW_UP, Answering, gateway
from tests.bridges.line_channel import ALL, NONE, READ_BACK, LineBridge, LineServer


async def test_a_message_is_answered_in_its_chat(tmp_path: Path) -> None:
    """Each person gets the answer to what they said, as a message that answers theirs."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)]):
            server.say("hello", chat="a", sender="ann")
            server.say("hi", chat="b", sender="bob")
            await server.until(lambda at: len(at.sent) == 2)

    assert server.shown("a") == ["re: hello"]
    assert server.shown("b") == ["re: hi"]


STEPS = {SqliteRows._together.__code__: "ledger", Gate._judge.__code__: "rights"}


async def _steps(folder: Path, messages: int) -> Counter[str]:
    """How often the ledger writes and rights are looked up while so many messages are answered in turn."""
    steps = Counter[str]()

    def watch(frame: FrameType, event: str, _called: object) -> None:
        if event == "call" and frame.f_code in STEPS:
            steps[STEPS[frame.f_code]] += 1

    before = sys.getprofile()
    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        with LineServer() as server:
            async with gateway(folder, Answering(), [LineBridge(server.port)], settings=FOLLOW_UP):
                for number in range(1, messages + 1):
                    server.say(f"hello {number}", chat="a", sender="ann")
                    await server.until(lambda at, number=number: len(at.sent) == number)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]  # what it takes to end it
    return steps


async def test_a_message_takes_three_steps_of_the_ledger_and_two_looks_at_its_sender(tmp_path: Path) -> None:
    """It is received, its turn ends with an answer that is being sent, and that has arrived."""
    few, more = await _steps(tmp_path / "few", 1), await _steps(tmp_path / "more", 5)
    assert more["rights"] - few["rights"] == 4 * 2
    assert 4 * 2 <= more["ledger"] - few["ledger"] <= 4 * 3  # what waits at once is written together


class Away(Answering):
    """A model whose server is away for its first `failures` requests, which end with `error`."""

    def __init__(self, failures: int, error: ModelError | None = None) -> None:
        super().__init__()
        self.failures = failures
        self.error = error or ModelNotRunning("Nothing listens there.")

    async def stream(self, request: ModelRequest) -> AsyncIterator[Any]:
        """The answer to one request."""
        if self.failures:
            self.failures -= 1
            raise self.error
        async for item in super().stream(request):
            yield item


@pytest.mark.parametrize(
    "error",
    [
        ModelNotRunning("Nothing listens there."),
        AllModelsFailed("All (2).", failures=(ModelNotRunning("Nothing there."), NoCredit("Empty."))),
    ],
)
async def test_messages_wait_for_a_provider_that_is_away(tmp_path: Path, error: ModelError) -> None:
    """Thirty people are answered once it is back, none gets an error, and each hears of the delay once at
    most."""

    async def soon(_seconds: float) -> None:
        await asyncio.sleep(0)

    people = [f"p{number}" for number in range(30)]
    model = Away(60, error)
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], sleep=soon):
            for name in people:
                server.say("hello", chat=name, sender=name)
            await server.until(lambda at: all("re: hello" in at.shown(name) for name in people))

    assert not model.failures
    for name in people:
        assert server.shown(name) in (["re: hello"], [UNREACHABLE, "re: hello"])
    assert any(UNREACHABLE in server.shown(name) for name in people)
    asked = [[message_text(each) for each in request.messages].count("hello") for request in model.requests]
    assert set(asked) == {1}


async def test_a_provider_that_stays_away_is_told_in_the_end(tmp_path: Path) -> None:
    """After some minutes the sender hears that there is no answer, and the next message is taken."""

    async def soon(_seconds: float) -> None:
        await asyncio.sleep(0)

    with LineServer() as server:
        async with gateway(tmp_path, Away(10**9), [LineBridge(server.port)], sleep=soon):
            server.say("hello", sender="ann")
            await server.until(lambda at: len(at.sent) == 2)

    assert server.shown() == [UNREACHABLE, FAILED]


@pytest.mark.covers("A16-2")
async def test_a_message_that_comes_twice_is_answered_once(tmp_path: Path) -> None:
    """Over one connection, over another one, and after a restart."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)]):
            server.say("one")
            await server.until(lambda at: len(at.sent) == 1)
            server.say_again(1)
            server.say("two")
            await server.until(lambda at: len(at.sent) == 2)
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], ids="b") as (_, _agent):
            server.say_again(1)
            server.say_again(2)
            server.say("three")
            await server.until(lambda at: len(at.sent) == 3)

    assert server.shown() == ["re: one", "re: two", "re: three"]


async def test_what_was_said_while_nobody_was_there_is_answered(tmp_path: Path) -> None:
    """The cursor is that of the last message on disk, so a restart asks for what came behind it."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)]):
            server.say("one")
            await server.until(lambda at: len(at.sent) == 1)
        server.say("two")
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], ids="b"):
            await server.until(lambda at: len(at.sent) == 2)

    assert server.shown() == ["re: one", "re: two"]


async def test_a_broken_connection_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The bridge is started again, and what had to go out meanwhile goes out once."""
    model = Answering()
    model.holds = True
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)]) as (open_gateway, _):
            server.say("one")
            await model.held.get()
            server.cut()
            model.let_go()
            await server.until(lambda at: len(at.sent) == 1)
            [status] = open_gateway.statuses

    assert server.shown() == ["re: one"]
    assert status.line == "line connected, started again 1×"


async def test_a_long_reply_comes_in_parts_in_order(tmp_path: Path) -> None:
    """Each part fits the channel, by its own measure."""
    words = " ".join(f"ä{number}" for number in range(100))
    with LineServer() as server:
        async with gateway(
            tmp_path, Answering(lambda _text: words), [LineBridge(server.port, capabilities=NONE)]
        ):
            server.say("go")
            await server.until(lambda at: at.sent and at.sent[-1].text.endswith("ä99"))

    assert " ".join(server.shown()) == words
    assert all(len(text.encode()) <= NONE.greatest_length for text in server.shown())


async def test_a_draft_grows_by_edits_and_becomes_the_reply(tmp_path: Path) -> None:
    """One message in the end, which was changed on the way; typing was shown."""
    text = "This is a rather long answer that is shown while it is being written, bit by bit."
    with LineServer() as server:
        async with gateway(tmp_path, Answering(lambda _text: text), [LineBridge(server.port)]):
            server.say("go")
            await server.until(lambda at: at.shown() == [text])

    assert len(server.sent) == 1
    assert server.sent[0].edits >= 1
    assert server.signs == ["chat"]


async def test_one_bridge_that_fails_takes_no_other_down(tmp_path: Path) -> None:
    """A server that is not there is told in the status; the other channel is answered."""
    with LineServer() as gone:
        port = gone.port
    with LineServer() as server:
        bridges = [LineBridge(port, account="gone"), LineBridge(server.port)]
        async with gateway(tmp_path, Answering(), bridges) as (open_gateway, _):
            server.say("hello")
            await server.until(lambda at: len(at.sent) == 1)
            broken, sound = open_gateway.statuses

    assert broken.state == "waiting"
    assert "line/gone waiting" in broken.line
    assert sound.state == "connected"


async def test_the_status_names_a_group_that_is_not_in_the_settings(tmp_path: Path) -> None:
    """When it addresses the assistant: its id is what the owner has to write there."""
    settings = {"channels": {"line": {"dmPolicy": "open"}}}
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=settings) as (
            opened,
            _,
        ):
            for chat, is_mentioned in (("g6", False), ("g7", True), ("g7", True)):
                server.say("hi", chat=chat, chat_kind="group", is_mentioned=is_mentioned)
            server.say("the last one")
            await server.until(lambda at: at.sent)
            [status] = opened.statuses
    assert status.state == "connected"
    assert status.problem.count("g7") == 2
    assert "channels.line.groups" in status.problem
    assert "g6" not in status.problem


async def test_a_person_who_waits_hears_of_an_empty_answer(tmp_path: Path) -> None:
    """In a private chat; in a group the model may have meant to be silent."""
    model = Answering(lambda text: "" if "one" in text else text)
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)], settings=FOLLOW_UP):
            for kind in ("group", "direct"):
                server.say("one", chat=kind, chat_kind=kind)
                server.say("two", chat=kind, chat_kind=kind)
            await server.until(lambda at: len(at.sent) == 3)
    assert server.shown("group") == ["two"]
    [problem, two] = server.shown("direct")
    assert (problem.split(".")[0], two) == ("The model ended its turn without a word", "two")


async def test_silence_sends_nothing(tmp_path: Path) -> None:
    """`NO_REPLY` is an answer, and so is what a chat may not do."""
    replies = iter(["NO_REPLY", "now"])
    with LineServer() as server:
        async with gateway(tmp_path, Answering(lambda _text: next(replies)), [LineBridge(server.port)]):
            server.say("psst")
            server.say("speak")
            await server.until(lambda at: len(at.sent) == 1)

    assert server.shown() == ["now"]


@pytest.mark.parametrize(("is_owner", "shown"), [(True, "the key of a provider"), (False, FAILED)])
async def test_a_failure_is_told_without_its_words_to_others(
    tmp_path: Path, is_owner: bool, shown: str
) -> None:
    """The owner reads in private what went wrong; anybody else only that something did."""
    model = ScriptedModel(fails(ModelAuthError("the key of a provider")), says("again"))
    with LineServer() as server:
        async with gateway(tmp_path, model, [LineBridge(server.port)]):
            server.say("go", sender="nora" if is_owner else "ann")
            await server.until(lambda at: len(at.sent) == 1)
            server.say("go on", sender="nora" if is_owner else "ann")
            await server.until(lambda at: len(at.sent) == 2)

    assert server.shown() == [shown, "again"]


async def test_a_chat_that_refuses_holds_up_no_other(tmp_path: Path) -> None:
    """What can never be delivered is set aside, and the next reply is tried."""
    with LineServer() as server:
        server.refused_chats.add("a")
        async with gateway(tmp_path, Answering(), [LineBridge(server.port, capabilities=NONE)]) as (at, _):
            server.say("one", chat="a")
            server.say("two", chat="b", sender="bob")
            await server.until(lambda there: len(there.sent) == 1)
            server.say("three", chat="a")
            server.say("four", chat="b", sender="bob")
            await server.until(lambda there: len(there.sent) == 2)
            async with asyncio.timeout(60):
                states: dict[str, int] = {}
                while "failed" not in states:
                    states = dict(await at.tables.not_done())

    assert [sent.text for sent in server.sent] == ["re: two", "re: four"]


class _Unsure(LineBridge):
    """Delivers, and then does not know whether it did, once."""

    was_unsure = False

    async def deliver(self, part: Part) -> str:
        """Sends it, and fails behind that the first time."""
        sent_id = await super().deliver(part)
        if not self.was_unsure:
            self.was_unsure = True
            raise TimeoutError("no answer from the server")
        return sent_id


@pytest.mark.parametrize(
    ("capabilities", "shown"),
    [(ALL, ["re: hi"]), (READ_BACK, ["re: hi"]), (NONE, ["re: hi", f"{REPEAT_MARK}re: hi"])],
)
async def test_what_may_have_arrived_is_not_said_twice_unmarked(
    tmp_path: Path, capabilities: object, shown: list[str]
) -> None:
    """Sent under the same key, or looked for, or marked: what the channel allows."""
    with LineServer() as server:
        bridge = _Unsure(server.port, capabilities=capabilities)  # type: ignore[arg-type]
        async with gateway(tmp_path, Answering(), [bridge]):
            server.say("hi")
            await server.until(lambda at: len(at.sent) == len(shown))
            server.say("more", chat="other", sender="bob")
            await server.until(lambda at: at.shown("other") != [])

    assert server.shown() == shown


class _Flooded(LineBridge):
    """Is told to slow down three times."""

    refusals = 3

    async def deliver(self, part: Part) -> str:
        """Refuses before it sends."""
        if self.refusals:
            self.refusals -= 1
            raise NotDelivered("too fast", retry_after_seconds=0.001)
        return await super().deliver(part)


async def test_a_flood_limit_delays_and_keeps_the_order(tmp_path: Path) -> None:
    """Nothing is lost, doubled or overtaken."""
    with LineServer() as server:
        bridge = _Flooded(server.port, capabilities=NONE)
        async with gateway(tmp_path, Answering(), [bridge], settings=FOLLOW_UP):
            for number in range(3):
                server.say(f"{number}")
            await server.until(lambda at: len(at.sent) == 3)

    assert server.shown() == ["re: 0", "re: 1", "re: 2"]


async def test_a_thread_is_answered_in_its_thread(tmp_path: Path) -> None:
    """The place of an answer is that of the question."""
    places: list[Place] = []

    class Noted(LineBridge):
        async def deliver(self, part: Part) -> str:
            places.append(part.place)
            return await super().deliver(part)

    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [Noted(server.port)]):
            server.say("hi", chat_kind="group", thread_id="t1")
            await server.until(lambda at: len(at.sent) == 1)

    assert places == [Place(channel="line", account="default", chat_id="chat", thread_id="t1")]


async def test_two_bridges_of_one_account_are_refused(tmp_path: Path) -> None:
    """Nobody could say which of them sends."""
    bridges = [LineBridge(1), LineBridge(2)]
    with pytest.raises(ValueError, match="two bridges"):
        async with gateway(tmp_path, Answering(), bridges):
            pass


async def test_a_bridge_that_is_added_while_people_write_doubles_no_answer(tmp_path: Path) -> None:
    """A message that arrives while the open ones are read for the new account is answered once."""
    with LineServer() as server, LineServer() as other:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], settings=FOLLOW_UP) as (here, _):
            await server.until(lambda at: at._writers)
            for account in range(12):
                for chat in "abcdef":
                    server.say(f"{chat} {account}", chat=chat, sender=chat)
                await here.add(LineBridge(other.port, account=f"{account}"))
            server.say("the end", chat="z", sender="z")
            await server.until(lambda at: len(at.sent) > 12 * 6)

    assert [
        chat for chat in "abcdef" if server.shown(chat) != [f"re: {chat} {each}" for each in range(12)]
    ] == []


async def test_a_message_that_was_answered_and_begun_again_stops_no_start(tmp_path: Path) -> None:
    """An earlier version could leave one so, without its words."""
    with LineServer() as server:
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)]):
            server.say("hello")
            await server.until(lambda at: at.sent)
        with closing(sqlite3.connect(tmp_path / LEDGER_FILE)) as ledger, ledger:
            ledger.execute("UPDATE inbound SET state = 'running'")
        async with gateway(tmp_path, Answering(), [LineBridge(server.port)], ids="later") as (here, _):
            server.say("again")
            await server.until(lambda at: len(at.sent) > 1)
            assert "running" not in await here.tables.not_done()

    assert server.shown() == ["re: hello", "re: again"]
