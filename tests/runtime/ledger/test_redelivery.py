"""A message that is handed in again, because a program ended over it, is neither lost nor answered twice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.runtime.agents import START, kinds, opened, said, transcript_file, user_texts

ASKED = {"channel": "line", "chat_id": "c", "message_id": "7"}


async def test_an_answer_that_was_had_is_given_again(tmp_path: Path) -> None:
    """No model is asked, nothing is written, and another message between changes nothing."""
    async with opened(tmp_path, ScriptedModel(says("Blue."), says("Red."))) as agent:
        first = await agent.respond(said("colour?", **ASKED))
        await agent.respond(said("and another?", **{**ASKED, "message_id": "8"}))
    before = transcript_file(tmp_path).read_bytes()
    async with opened(tmp_path, ScriptedModel(), ids="later-") as agent:
        again = await agent.respond(said("colour?", **ASKED, redelivered=True))

    assert first is not None
    assert again is not None
    assert again.text == first.text == "Blue."
    assert transcript_file(tmp_path).read_bytes() == before


async def test_a_silence_that_was_had_is_kept(tmp_path: Path) -> None:
    """An answer of `NO_REPLY` is an answer."""
    async with opened(tmp_path, ScriptedModel(says("NO_REPLY"))) as agent:
        assert await agent.respond(said("psst", **ASKED)) is None
        assert await agent.respond(said("psst", **ASKED, redelivered=True)) is None


async def test_words_before_the_last_tool_call_are_found_again(tmp_path: Path) -> None:
    """Where the last answer was empty, what was said on the way is the reply the second time, too."""
    model = ScriptedModel(calls(("read", {"path": "TOOLS.md"}), text="Looking."), says(""))
    async with opened(tmp_path, model) as agent:
        first = await agent.respond(said("look", **ASKED))
        again = await agent.respond(said("look", **ASKED, redelivered=True))

    assert first is not None
    assert again is not None
    assert (first.text, again.text) == ("Looking.", "Looking.")


async def test_a_turn_that_was_cut_off_goes_on_where_it_was(tmp_path: Path) -> None:
    """The words stand there once, a tool that ran is not run again, and the model reads what there is."""
    model = ScriptedModel(
        calls(("append", {"path": "memory/2026-03-14.md", "text": "- once"})), says("Noted.")
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("note it", **ASKED))
    file = transcript_file(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    last = next(number for number, line in enumerate(lines) if b"Noted." in line)
    file.write_bytes(b"".join(lines[:last]))  # as if it had been killed before the last answer

    more = ScriptedModel(says("It is noted."))
    async with opened(tmp_path, more, ids="later-") as agent:
        reply = await agent.respond(said("note it", **ASKED, redelivered=True))

    assert reply is not None
    assert reply.text == "It is noted."
    assert user_texts(file) == ["note it"]
    *_, result, changed = more.requests[0].messages
    assert isinstance(result, ToolResultMessage)
    assert message_text(changed).startswith("[Nacre adds this; nobody said it."), "what was noted meanwhile"


async def test_what_never_arrived_is_written_down(tmp_path: Path) -> None:
    """A message that is handed in again and stands nowhere is like a first one."""
    async with opened(tmp_path, ScriptedModel(says("Hi."))) as agent:
        reply = await agent.respond(said("hello", **ASKED, redelivered=True))

    assert reply is not None
    assert user_texts(transcript_file(tmp_path)) == ["hello"]
    assert '"inboundId":"line/default/c/7"' in transcript_file(tmp_path).read_text()


async def test_an_answer_that_was_broken_off_comes_anew_behind_the_words(tmp_path: Path) -> None:
    """No model is asked to go on with half an answer."""
    stuck = asyncio.Event()

    class Stuck(ScriptedModel):
        async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def, override]
            async for item in super().stream(request):
                yield item
                stuck.set()
                await asyncio.Event().wait()

    async with opened(tmp_path, Stuck(says("It begins and"))) as agent:
        turn = asyncio.create_task(agent.respond(said("tell me", **ASKED)))
        await stuck.wait()
        turn.cancel()
        await asyncio.gather(turn, return_exceptions=True)
    model = ScriptedModel(says("All of it."))
    async with opened(tmp_path, model, ids="later-") as agent:
        reply = await agent.respond(said("tell me", **ASKED, redelivered=True))

    assert reply is not None
    assert reply.text == "All of it."
    assert message_text(model.requests[0].messages[-1]) == "tell me"
    assert kinds(transcript_file(tmp_path)).count("user") == 2


async def test_a_session_whose_time_has_come_is_not_left_over_it(tmp_path: Path) -> None:
    """What was asked before the daily reset and not answered is answered in its own session."""
    async with opened(tmp_path, ScriptedModel(says("First."))) as agent:
        await agent.respond(said("first", **ASKED))
    file = transcript_file(tmp_path)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(line for line in lines if b"First." not in line))
    clock = Clock(START)
    clock.advance(days=2)
    async with opened(tmp_path, ScriptedModel(says("At last.")), clock=clock, ids="later-") as agent:
        reply = await agent.respond(said("first", **ASKED, redelivered=True))

    assert reply is not None
    assert (reply.text, reply.session_id) == ("At last.", file.stem)


async def test_a_command_is_not_carried_out_twice(tmp_path: Path) -> None:
    """The owner is told that nobody knows, and nothing is done."""
    async with opened(tmp_path, ScriptedModel(says("Hi."))) as agent:
        await agent.respond(said("hello"))
        reply = await agent.respond(said("/new", **ASKED, redelivered=True))
        status = await agent.respond(said("/status"))

    assert reply is not None
    assert "/new" in reply.text
    assert status is not None
    assert status.session_id == transcript_file(tmp_path).stem


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"chat_id": "a/b", "message_id": "c"}, {"chat_id": "a", "message_id": "b/c"}),
        ({"account": "x"}, {"account": "y"}),
        ({"channel": "line"}, {"channel": "LINE"}),
    ],
)
def test_ids_of_different_chats_are_different(one: dict[str, str], other: dict[str, str]) -> None:
    """No spelling of one chat's ids is that of another's."""
    first, second = (Inbound(text="", chat_kind="group", **{**ASKED, **ids}) for ids in (one, other))
    assert first.inbound_id != second.inbound_id
    assert Inbound(text="", chat_kind="group").inbound_id == ""
