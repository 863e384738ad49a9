"""SessionLocks: one turn at a time in a session, first come first served, and nobody else held up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nacre.runtime.contracts.errors import SessionInUse, TurnCancelled
from nacre.runtime.contracts.events import ReplyReady, TurnFailed, Warned
from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.open_sessions.routing import POLL_SECONDS, SessionLocks
from nacre.sessions.contracts.messages import AssistantMessage, message_text
from nacre.sessions.disk.durable import TurnLockFiles
from tests.runtime.agents import events_of, opened, said, transcript_file, user_texts

KEY = "agent:main:main"
PEER = {"is_owner": False, "channel": "chat", "sender_id": "joe"}


class Held(ScriptedModel):
    """A scripted model that answers the owner's first words only once `go` is set."""

    def __init__(self, *steps: object) -> None:
        super().__init__(*steps)  # type: ignore[arg-type]
        self.asked = asyncio.Event()
        self.go = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
        """As the script says, later."""
        if message_text(request.messages[-1]) == "wait":
            self.asked.set()
            await self.go.wait()
        async for item in super().stream(request):
            yield item


def lanes(folder: Path, *, wait_seconds: float = 0.0, slept: list[float] | None = None) -> SessionLocks:
    """SessionLocks whose waiting takes no time."""

    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)
        await asyncio.sleep(0)

    return SessionLocks(TurnLockFiles(folder), sleep=sleep, wait_seconds=wait_seconds)


@pytest.mark.covers("A16-1", "A16-4")
async def test_turns_of_one_session_run_in_the_order_they_came(tmp_path: Path) -> None:
    """The next begins when the one before is over; the transcript has them one after the other."""
    model = Held(says("one"), says("two"), says("three"))
    async with opened(tmp_path, model) as agent:
        first = asyncio.create_task(agent.respond(said("wait")))
        await model.asked.wait()
        others = [asyncio.create_task(agent.respond(said(text))) for text in ("second", "third")]
        model.go.set()
        replies = [await first, *[await other for other in others]]

    assert [reply.text for reply in replies if reply is not None] == ["one", "two", "three"]
    assert user_texts(transcript_file(tmp_path)) == ["wait", "second", "third"]


@pytest.mark.covers("W15-2")
async def test_no_file_is_locked_while_a_model_answers(tmp_path: Path) -> None:
    """While one process waits for a model, another changes the index and talks in another session."""
    model = Held(says("hello, Joe"), says("at last"))
    async with opened(tmp_path, model) as slow, opened(tmp_path, model, ids="other-") as quick:
        waiting = asyncio.create_task(slow.respond(said("wait")))
        await model.asked.wait()
        # A lock on the index or on the waiting session's transcript would hold this up for ever.
        async with asyncio.timeout(30):
            other = await quick.respond(said("hi", **PEER))
        assert not waiting.done()
        model.go.set()
        mine = await waiting

    assert mine is not None
    assert other is not None
    assert (other.text, mine.text) == ("hello, Joe", "at last")


@pytest.mark.covers("W15-1")
async def test_stopping_settles_every_waiting_turn(tmp_path: Path) -> None:
    """Neither the turn that runs nor one that waits behind it is left without an end."""
    model = Held(says("never"))
    async with opened(tmp_path, model) as agent:
        turns = [asyncio.create_task(events_of(agent, said("wait")))]
        await model.asked.wait()
        turns += [asyncio.create_task(events_of(agent, said("me too"))) for _ in range(3)]
        await asyncio.sleep(0)
        assert agent.stop(said(""))
        async with asyncio.timeout(30):
            endings = [(await turn)[-1] for turn in turns]

    assert all(isinstance(event, TurnFailed) for event in endings)
    assert all(isinstance(event.error, TurnCancelled) for event in endings if isinstance(event, TurnFailed))


@pytest.mark.covers("A16-1")
async def test_another_process_is_waited_for_and_told(tmp_path: Path) -> None:
    """After two seconds there is one sentence; when the waiting has an end, it is an error of its own."""
    slept: list[float] = []
    told: list[str] = []
    mine, other = lanes(tmp_path, wait_seconds=10.0, slept=slept), lanes(tmp_path)
    async with other.enter(KEY, on_wait=told.append):
        with pytest.raises(SessionInUse, match="for over 10 seconds"):
            async with mine.enter(KEY, on_wait=told.append):
                pass
        async with mine.enter("another", on_wait=told.append):
            pass

    assert told == [f"Waiting: another process is running a turn of session {KEY!r}."]
    assert sum(slept) == pytest.approx(10.0, abs=2 * POLL_SECONDS)
    async with mine.enter(KEY, on_wait=told.append):
        pass


@pytest.mark.covers("W15-2")
async def test_a_busy_session_is_no_failure_of_a_model(tmp_path: Path) -> None:
    """The turn waits, says so, and is answered by the model it would have been answered by."""
    model = ScriptedModel(says("done"))
    keeper = lanes(tmp_path / "locks" / "lanes")
    async with opened(tmp_path, model) as agent:
        held = keeper.enter(KEY, on_wait=lambda _: None)
        await held.__aenter__()
        turn = asyncio.create_task(events_of(agent, said("hello")))
        await asyncio.sleep(0)
        assert model.requests == []
        await held.__aexit__(None, None, None)
        events = await turn

    assert isinstance(events[-1], ReplyReady)
    assert not [event for event in events if isinstance(event, Warned)]
