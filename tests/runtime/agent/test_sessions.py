"""Sessions as objects: what a bot author can do with one, and what stands on disk after it."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from nacre import Agent, Session
from nacre.runtime.contracts.errors import ConfigError, PlaceUnknown, PrivacyError, TurnBroken, TurnCancelled
from nacre.runtime.contracts.events import TextStreamed
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.messages import Usage, message_text
from tests.runtime.agents import (
    START,
    TODAY,
    kinds,
    opened,
    said,
    transcript_file,
    user_texts,
    window_settings,
    write_settings,
)

QUIET = says("NO_REPLY", purpose="flush")
GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}


def seen(model: ScriptedModel) -> list[str]:
    return [message_text(message) for message in model.requests[-1].messages]


async def two_turns(agent: Agent) -> Session:
    await agent.ask("Plan the garden")
    await agent.ask("Now the bees")
    return await agent.sessions.get()


async def test_the_history_is_what_was_said(tmp_path: Path) -> None:
    """Words of people and assistant with their times, the last ones with a limit; tools are left out."""
    clock = Clock(START)
    model = ScriptedModel(says("Roses."), calls(("list", {})), says("Two hives."), says("NO_REPLY"))
    async with opened(tmp_path, model, clock=clock) as agent:
        session = await two_turns(agent)
        await session.ask("Say nothing")
        history = await session.history()
        last = await session.history(limit=2)

    assert [(message.speaker, message.text) for message in history] == [
        ("person", "Plan the garden"),
        ("assistant", "Roses."),
        ("person", "Now the bees"),
        ("assistant", "Two hives."),
        ("person", "Say nothing"),
    ]
    assert last == history[-2:]
    assert history[0].said_at == START


async def test_going_back_by_a_call_is_what_the_chat_word_does(tmp_path: Path) -> None:
    """Notes are saved first, the model does not see what was left but is told the note, the file has all."""
    model = ScriptedModel(
        says("Roses."), says("Two hives."), calls(("append", {"text": "- bees"}), purpose="flush"), QUIET
    )
    async with opened(tmp_path, model) as agent:
        session = await two_turns(agent)
        turns = await session.turns()
        rewound = await session.rewind(turns[0], note="The bees are decided.")
        model.add(says("Tulips."))
        reply = await session.ask("Other flowers")

    assert [(turn.text, turn.leaves) for turn in turns] == [("Now the bees", 2), ("Plan the garden", 4)]
    assert (rewound.left, rewound.regained) == (2, 0)
    assert rewound.last_said is not None
    assert rewound.last_said.text == "Roses."
    assert reply is not None
    shown = seen(model)
    assert shown[:2] == ["Plan the garden", "Roses."]
    assert "The bees are decided." in shown[2]
    assert "Now the bees" not in "".join(shown)
    assert user_texts(transcript_file(tmp_path)) == ["Plan the garden", "Now the bees", "Other flowers"]
    assert "bees" in (tmp_path / "workspace" / TODAY).read_text(encoding="utf-8")


async def test_a_place_is_found_by_its_name_and_the_way_back_is_told(tmp_path: Path) -> None:
    """Labels are listed, and one can return to where one was."""
    model = ScriptedModel(says("Roses."), says("Two hives."), QUIET)
    async with opened(tmp_path, model) as agent:
        await agent.ask("Plan the garden")
        session = await agent.sessions.get("main")
        await session.label("garden")
        await session.ask("Now the bees")
        back = await session.rewind("garden")
        labels = await session.labels()
        assert back.return_place is not None
        again = await session.rewind(back.return_place)
        stayed = await session.rewind((await session.history())[-1].place)

    assert [label.name for label in labels] == ["garden"]
    assert (back.left, again.regained) == (2, 2)
    assert stayed.left == 0


@pytest.mark.parametrize("place", ["nowhere", "1", "00000000"])
async def test_a_place_that_does_not_exist_is_refused(tmp_path: Path, place: str) -> None:
    """The error names it, and nothing changes."""
    async with opened(tmp_path, ScriptedModel(says("Roses."))) as agent:
        await agent.ask("Plan the garden")
        session = await agent.sessions.get()
        before = transcript_file(tmp_path).read_bytes()
        for work in (session.rewind(place), session.fork(place)):
            with pytest.raises(PlaceUnknown, match=f"no place '{place}'"):
                await work
        with pytest.raises(PlaceUnknown, match="is not a valid label"):
            await session.label("two words")

    assert transcript_file(tmp_path).read_bytes() == before


async def test_a_fork_goes_on_in_the_key_and_the_other_session_can_be_resumed(tmp_path: Path) -> None:
    """As `/fork` and `/resume`: nothing is lost, and the handle follows."""
    model = ScriptedModel(says("Roses."), says("Two hives."), QUIET, says("Tulips."), QUIET)
    async with opened(tmp_path, model) as agent:
        session = await two_turns(agent)
        first_id = session.session_id
        fork = await session.fork((await session.turns())[0])
        await fork.ask("Other flowers")
        earlier = await session.earlier()
        forked_history = [message.text for message in await fork.history()]
        await session.resume(first_id)
        history = [message.text for message in await session.history()]

    assert fork.session_id != first_id
    assert forked_history == ["Plan the garden", "Roses.", "Other flowers", "Tulips."]
    assert [(item.session_id, item.last_said) for item in earlier] == [(first_id, "Now the bees")]
    assert history[-1] == "Two hives."
    assert session.session_id == first_id


async def test_a_fork_with_a_key_of_its_own_stands_beside_the_session(tmp_path: Path) -> None:
    """Both go on, each with what was said in it."""
    model = ScriptedModel(says("Roses."), says("Two hives."), says("A third one."), says("Fine."))
    async with opened(tmp_path, model) as agent:
        session = await two_turns(agent)
        idea = await session.fork(key="idea")
        await idea.ask("And another hive")
        shown = seen(model)
        await session.ask("Back to work")
        keys = [info.key for info in await agent.sessions.list()]
        with pytest.raises(SessionKeyInvalid, match="already"):
            await session.fork(key="idea")
        with pytest.raises(PrivacyError, match="would not be private"):
            await session.fork(key="chat:group:club")

    assert shown == ["Plan the garden", "Roses.", "Now the bees", "Two hives.", "And another hive"]
    assert seen(model)[-2:] == ["Two hives.", "Back to work"]
    assert sorted(keys) == ["agent:main:direct:idea", "agent:main:main"]
    assert idea.key == "agent:main:direct:idea"


async def test_compacting_by_a_call_says_what_came_of_it(tmp_path: Path) -> None:
    """The summary stands for the older history; a second time there is nothing to do, and it says so."""
    write_settings(tmp_path, window_settings())
    long = "The hive needs sugar before the frost comes. " * 300
    model = ScriptedModel(
        *[says("noted", usage=Usage(input_tokens=1_000))] * 4,
        QUIET,
        says("## Goal\nBees", purpose="compaction", check=lambda request: _asks_for(request, "varroa")),
    )
    async with opened(tmp_path, model) as agent:
        for _ in range(4):
            await agent.ask(long)
        session = await agent.sessions.get()
        first = await session.compact("varroa")
        second = await session.compact()
        status = await session.status()
        words = len(await session.history())
    model.assert_complete()

    assert first.problem == ""
    assert second.problem.startswith("Nothing to compact")
    assert (status.compaction_count, status.model_name) == (1, "scripted/model")
    assert words == 8
    assert kinds(transcript_file(tmp_path)).count("compaction") == 1


def _asks_for(request: object, word: str) -> None:
    assert word in str(request)


async def test_a_group_compacted_by_a_call_keeps_its_notes(tmp_path: Path) -> None:
    """In the group's own folder, as a compaction in the chat itself does."""
    write_settings(tmp_path, window_settings())
    log = "chats/chat-group-club/2026-03-14.md"
    note = calls(("append", {"path": log, "text": "- bees"}), purpose="flush")
    noted = [says("noted", usage=Usage(input_tokens=1_000))] * 4
    model = ScriptedModel(*noted, note, QUIET, says("## Goal\nBees", purpose="compaction"))
    async with opened(tmp_path, model) as agent:
        for _ in noted:
            text = "The hive needs sugar before the frost comes. " * 300
            await agent.respond(said(text, is_owner=False, sender_id="ann", **GROUP))
        session = await agent.sessions.get("agent:main:chat:group:club")
        await session.compact()

    model.assert_complete()
    assert "- bees" in (tmp_path / "workspace" / log).read_text(encoding="utf-8")


async def test_usage_sums_what_providers_reported(tmp_path: Path) -> None:
    """All calls of the transcript, those of the branch that was left and of the flush too."""
    model = ScriptedModel(
        says("Roses.", usage=Usage(input_tokens=10, output_tokens=2, cost_usd=0.5)),
        says("Two hives.", usage=Usage(input_tokens=20, output_tokens=3, cost_usd=0.25)),
        says("NO_REPLY", purpose="flush", usage=Usage(input_tokens=5, output_tokens=1, cost_usd=0.125)),
    )
    async with opened(tmp_path, model) as agent:
        session = await two_turns(agent)
        await session.rewind((await session.turns())[0])
        usage = await session.usage()

    assert usage == Usage(input_tokens=35, output_tokens=6, cost_usd=0.875)


async def test_a_fresh_session_by_a_call(tmp_path: Path) -> None:
    """The key names another transcript, the old one stays; a model that nobody knows is refused."""
    async with opened(tmp_path, ScriptedModel(says("Roses."), QUIET, says("Hello."))) as agent:
        await agent.ask("Plan the garden")
        session = await agent.sessions.get()
        first_id = session.session_id
        with pytest.raises(ConfigError, match="is not a known model"):
            await session.new(model="no-such-model")
        await session.new()
        assert await session.history() == ()
        await session.ask("Good morning")

    assert session.session_id != first_id
    assert user_texts(transcript_file(tmp_path, 0)) == ["Plan the garden"]
    assert user_texts(transcript_file(tmp_path, 1)) == ["Good morning"]


async def test_only_keys_with_a_session_have_one(tmp_path: Path) -> None:
    """Asking for another begins nothing; the sentence says how one begins."""
    async with opened(tmp_path, ScriptedModel(says("Hello."))) as agent:
        with pytest.raises(SessionNotFound, match="first message starts one"):
            await agent.sessions.get()
        with pytest.raises(SessionKeyInvalid):
            await agent.sessions.get("  ")
        assert await agent.sessions.list() == ()
        await agent.ask("Hi", session="anna")
        session = await agent.sessions.get("Anna")
        assert [message.text for message in await session.history()] == ["Hi", "Hello."]

    with pytest.raises(TurnBroken, match="closed"):
        await session.history()


async def test_a_group_stays_a_group_in_the_hands_of_its_owner(tmp_path: Path) -> None:
    """Looking at it changes neither where its replies go nor what it may see."""
    model = ScriptedModel(says("Hello club."), says("Still here."))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("Hi all", **GROUP, is_owner=False, sender_id="eve", chat_name="Bee club"))
        (info,) = await agent.sessions.list()
        before = (await agent.sessions.get(info.key)).session_id
        session = await agent.sessions.get(info.key)
        await session.status()
        await session.label("start")
        (after,) = await agent.sessions.list()
        await agent.respond(said("Me again", **GROUP, is_owner=False, sender_id="eve"))

    assert (info.chat_kind, info.channel, info.name) == ("group", "chat", "Bee club")
    assert (after.chat_kind, after.channel, after.name) == ("group", "chat", "Bee club")
    assert session.session_id == before
    assert all("chats/chat-group-" in request.system.stable for request in model.requests)
    assert all("MEMORY.md\n" not in request.system.stable for request in model.requests)


async def test_a_call_waits_for_the_turn_and_a_stop_ends_it(tmp_path: Path) -> None:
    """The lane is the session's; whoever waits can be stopped by the key, and gets an error of its own."""
    async with opened(tmp_path, ScriptedModel(says("a long story " * 50))) as agent:
        async with aclosing(agent.stream(said("tell me"))) as events:
            async for event in events:
                if not isinstance(event, TextStreamed):
                    continue
                session = await agent.sessions.get()
                reading = asyncio.create_task(session.history())
                await asyncio.to_thread(int)
                assert not reading.done()
                assert agent.stop("main")
                with pytest.raises(TurnCancelled, match="was stopped"):
                    await reading
                break
        assert agent.stop("main") is False
        assert (await session.history())[0].text == "tell me"
