"""What is done for a session that is over: by whom, how often, and with which transcript."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nacre.runtime.contracts.model import ModelRequest, TextDelta
from nacre.runtime.hooks.events import SessionEnded
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.runtime.open_sessions.routing import SessionLocks
from nacre.runtime.session_lifecycle.session_memory import last_quotes
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import AssistantMessage, message_text
from nacre.sessions.disk.durable import TurnLockFiles
from nacre.sessions.stores.files import EndedSessionFiles
from tests.runtime.agents import START, opened, said, transcript_file, user_texts, write_settings

QUIET = {
    "agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}},
    "hooks": {"internal": {"enabled": False}},
}


def endings(state_dir: Path) -> list[Path]:
    return sorted((state_dir / "agents/main/endings").glob("*.json"))


class Seen:
    """A handler that keeps its events and fails as often as it is told to."""

    def __init__(self, *, failures: int = 0) -> None:
        self.events: list[SessionEnded] = []
        self._failures = failures

    async def __call__(self, event: SessionEnded) -> None:
        self.events.append(event)
        if len(self.events) <= self._failures:
            raise LookupError("out of order")


@pytest.mark.covers("A15-1", "W12-4")
async def test_a_hook_reads_the_transcript_that_ended_where_it_lies(tmp_path: Path) -> None:
    """The path in the event is the old file, whole, although its key names the next session already."""
    write_settings(tmp_path, QUIET)
    seen, new_only, daily_only = Seen(), Seen(), Seen()
    async with opened(tmp_path, ScriptedModel(says("one"), says("two"))) as agent:
        agent.hooks.on("session_end", seen)
        agent.hooks.on("session_end:new", new_only)
        agent.hooks.on("session_end:daily", daily_only)
        first = await agent.respond(said("hello"))
        await agent.respond(said("/new and on"))

    assert first is not None
    [event] = seen.events
    assert new_only.events == [event]
    assert daily_only.events == []
    assert (event.session_id, event.reason, event.action) == (first.session_id, "new", "new")
    assert (event.is_private, event.channel, event.session_key) == (True, "terminal", "agent:main:main")
    assert event.ended_at == START
    assert user_texts(Path(event.transcript)) == ["hello"]
    assert [quote.text for quote in last_quotes(event.entries, 15)] == ["hello", "one"]
    assert endings(tmp_path) == []


@pytest.mark.covers("W14-1")
async def test_a_hook_gets_only_the_branch_that_goes_on(tmp_path: Path) -> None:
    """What `/rewind` left is in the file, and not in the note."""
    write_settings(tmp_path, QUIET)
    seen = Seen()
    model = ScriptedModel(says("Roses."), says("Bees."), says("Boats."))
    async with opened(tmp_path, model) as agent:
        agent.hooks.on("session_end", seen)
        for text in ("one", "a wrong turn", "/rewind 1", "three", "/new"):
            await agent.respond(said(text))

    [event] = seen.events
    assert "a wrong turn" in user_texts(Path(event.transcript))
    assert "a wrong turn" not in [quote.text for quote in last_quotes(event.entries, 15)]


async def test_a_hook_that_fails_is_tried_at_the_next_starts_and_not_for_ever(tmp_path: Path) -> None:
    """Three times in all; then the ending is struck off, and the log has the traces."""
    write_settings(tmp_path, QUIET)
    seen = Seen(failures=9)
    left = []
    for number in range(4):
        model = ScriptedModel(*([says("one")] if number == 0 else []))
        async with opened(tmp_path, model, ids=f"{number}-") as agent:
            agent.hooks.on("session_end", seen)
            if number == 0:
                await agent.respond(said("hello"))
                await agent.respond(said("/new"))
        left.append(len(endings(tmp_path)))

    assert left == [1, 1, 0, 0]
    assert len(seen.events) == 3
    assert len({(event.session_id, event.ended_at) for event in seen.events}) == 1


async def test_closing_waits_for_the_hooks(tmp_path: Path) -> None:
    """A program that ends right behind `/new` still does what is due."""
    write_settings(tmp_path, QUIET)
    begun, may_end, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow(_event: SessionEnded) -> None:
        begun.set()
        await may_end.wait()
        ended.set()

    async with opened(tmp_path, ScriptedModel(says("one"))) as agent:
        agent.hooks.on("session_end", slow)
        await agent.respond(said("hello"))
        await agent.respond(said("/new"))
        await begun.wait()
        closing = asyncio.create_task(agent.close())
        await asyncio.sleep(0)
        assert not closing.done()
        may_end.set()
        await closing
        assert ended.is_set()


@pytest.mark.parametrize("stands", [True, False])
async def test_an_ending_that_did_not_come_or_has_no_transcript_is_struck_off(
    tmp_path: Path, stands: bool
) -> None:
    """A kill before the key changed hands, or the owner's deleting hand: no hook runs for a guess."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(says("one"))) as agent:
        reply = await agent.respond(said("hello"))
    assert reply is not None
    ended = EndedSession(
        key="agent:main:main" if stands else "agent:main:other",
        session_id=reply.session_id if stands else "gone",
        transcript=transcript_file(tmp_path).name if stands else "gone.jsonl",
        reason="daily",
        ended_at_ms=1_773_500_000_000,
    )
    await EndedSessionFiles(tmp_path / "agents/main/endings", now=lambda: START).put(ended)

    seen = Seen()
    async with opened(tmp_path, ScriptedModel(), ids="b") as agent:
        agent.hooks.on("session_end", seen)

    assert seen.events == []
    assert endings(tmp_path) == []
    assert len(list((tmp_path / "agents/main/sessions").glob("*.jsonl"))) == 1


async def test_what_another_process_is_about_to_end_is_left_to_it(tmp_path: Path) -> None:
    """An ending is written down before the key changes hands; who starts in between must not judge it."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(says("one"))) as agent:
        reply = await agent.respond(said("hello"))
    assert reply is not None
    ended = EndedSession(
        key="agent:main:main",
        session_id=reply.session_id,
        transcript=transcript_file(tmp_path).name,
        reason="daily",
        ended_at_ms=1_773_500_000_000,
    )
    await EndedSessionFiles(tmp_path / "agents/main/endings", now=lambda: START).put(ended)
    lanes = SessionLocks(TurnLockFiles(tmp_path / "locks/lanes"), sleep=asyncio.sleep, wait_seconds=0)

    async with lanes.enter(ended.key, on_wait=print):
        async with opened(tmp_path, ScriptedModel(), ids="b"):
            pass
        left = len(endings(tmp_path))
    async with opened(tmp_path, ScriptedModel(), ids="c"):
        pass

    assert (left, len(endings(tmp_path))) == (1, 0)


@pytest.mark.covers("W12-2")
async def test_a_session_begun_by_another_process_is_not_missed(tmp_path: Path) -> None:
    """The index is read anew for each message: no agent goes on with a session that another one ended."""
    write_settings(tmp_path, QUIET)
    here = ScriptedModel(says("one"), says("three"))
    async with opened(tmp_path, here) as agent:
        await agent.respond(said("hello"))
        async with opened(tmp_path, ScriptedModel(says("two")), ids="there-") as other:
            fresh = await other.respond(said("/new from the other one"))
        after = await agent.respond(said("and from here"))

    assert fresh is not None
    assert after is not None
    assert after.session_id == fresh.session_id
    words = [message_text(message) for message in here.requests[-1].messages]
    assert words == ["from the other one", "two", "and from here"]


@pytest.mark.covers("W13-1")
async def test_messages_that_wait_behind_a_compaction_are_answered(tmp_path: Path) -> None:
    """Nothing is dropped: each gets its answer, in order, once the compaction is over."""
    write_settings(tmp_path, QUIET)
    compacting, go_on = asyncio.Event(), asyncio.Event()

    class Slow(ScriptedModel):
        async def stream(self, request: ModelRequest) -> AsyncIterator[TextDelta | AssistantMessage]:
            if request.purpose == "compaction":
                compacting.set()
                await go_on.wait()
            async for item in super().stream(request):
                yield item

    long = "The hive needs sugar before the frost comes. " * 2_000
    model = Slow(
        *[says(f"noted {number}", purpose="turn") for number in range(3)],
        says("## Goal\nBees", purpose="compaction"),
        says("four", purpose="turn"),
        says("five", purpose="turn"),
    )
    async with opened(tmp_path, model) as agent:
        for _ in range(3):
            await agent.respond(said(long))
        compaction = asyncio.create_task(agent.respond(said("/compact")))
        await compacting.wait()
        waiting = [asyncio.create_task(agent.respond(said(text))) for text in ("fourth", "fifth")]
        await asyncio.sleep(0)
        go_on.set()
        replies = await asyncio.gather(compaction, *waiting)
    model.assert_complete()

    assert [reply.text for reply in replies[1:] if reply is not None] == ["four", "five"]
    assert replies[0] is not None
    assert replies[0].text.startswith("⚙️ Compacted")
    assert user_texts(transcript_file(tmp_path))[-2:] == ["fourth", "fifth"]
