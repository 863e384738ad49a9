"""An agent as a bot author sees it: events, replies, silence, commands, stopping, closing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nacre import Agent, Inbound, Reply
from nacre.runtime.agent.answering import EventQueue
from nacre.runtime.contracts.errors import (
    ConfigError,
    ModelAuthError,
    PrivacyError,
    TurnBroken,
    TurnCancelled,
)
from nacre.runtime.contracts.events import (
    ReplyReady,
    Silence,
    TextStreamed,
    ToolEnded,
    ToolStarted,
    TurnFailed,
)
from nacre.runtime.contracts.model import ModelRequest
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import (
    entries,
    events_of,
    kinds,
    opened,
    said,
    transcript_file,
    user_texts,
    write_settings,
)


@pytest.mark.covers("A17-1")
async def test_a_turn_streams_text_and_ends_with_the_reply(tmp_path: Path) -> None:
    """The pieces joined are the reply, and the reply names its session."""
    model = ScriptedModel(says("Good evening, Nora."))
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said("hello"))

    text = "".join(event.text for event in events if isinstance(event, TextStreamed))
    [last] = [event for event in events if isinstance(event, ReplyReady)]
    assert last is events[-1]
    assert text == last.reply.text == "Good evening, Nora."
    assert last.reply.session_key == "agent:main:main"


@pytest.mark.covers("A8-3")
async def test_the_words_are_on_disk_when_the_model_is_asked(tmp_path: Path) -> None:
    """A model that looks at the transcript file finds the question in it."""

    def look(request: ModelRequest) -> None:
        assert user_texts(transcript_file(tmp_path)) == ["where are my keys?"]
        assert message_text(request.messages[-1]) == "where are my keys?"

    async with opened(tmp_path, ScriptedModel(says("On the shelf.", check=look))) as agent:
        reply = await agent.respond(said("where are my keys?"))

    assert isinstance(reply, Reply)
    assert kinds(transcript_file(tmp_path)) == [
        "session",
        "nacre.session",
        "user",
        "nacre.prompt",
        "assistant",
    ]


async def test_tools_run_in_the_workspace_and_are_told(tmp_path: Path) -> None:
    """A call writes a real file; start and end are events; call and result are in the transcript."""
    model = ScriptedModel(
        calls(("append", {"path": "memory/2026-03-14.md", "text": "- Nora likes tea"})), says("Noted.")
    )
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, said("remember that I like tea"))

    assert "Nora likes tea" in (tmp_path / "workspace/memory/2026-03-14.md").read_text()
    assert [type(event) for event in events[:2]] == [ToolStarted, ToolEnded]
    written = kinds(transcript_file(tmp_path))[2:]
    assert written == ["user", "nacre.prompt", "assistant", "toolResult", "assistant"]


@pytest.mark.covers("A13-6")
async def test_silence_is_no_reply_and_nothing_is_streamed(tmp_path: Path) -> None:
    """`NO_REPLY` reaches nobody, and the turn still ends."""
    async with opened(tmp_path, ScriptedModel(says("NO_REPLY"), says("NO_REPLY"))) as agent:
        events = await events_of(agent, said("just thinking aloud"))
        assert await agent.respond(said("still thinking")) is None

    assert [type(event) for event in events] == [Silence]


@pytest.mark.covers("A8-3")
async def test_a_conversation_goes_on_after_reopening(tmp_path: Path) -> None:
    """The next process sends the whole transcript, under the same session id."""
    async with opened(tmp_path, ScriptedModel(says("Hello."))) as agent:
        first = await agent.respond(said("one"))
    model = ScriptedModel(says("Again."))
    async with opened(tmp_path, model, ids="second-") as agent:
        second = await agent.respond(said("two"))

    assert first is not None
    assert second is not None
    assert first.session_id == second.session_id
    assert [message_text(message) for message in model.requests[0].messages] == ["one", "Hello.", "two"]


@pytest.mark.covers("A5-17")
async def test_new_starts_a_fresh_session_and_keeps_the_old_file(tmp_path: Path) -> None:
    """`/new` answers by itself; without notes the next turn sees nothing of before; no line is lost."""
    write_settings(tmp_path, {"hooks": {"internal": {"enabled": False}}})
    model = ScriptedModel(says("Hi."), says("NO_REPLY", purpose="flush"), says("Fresh."))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("old words"))
        reply = await agent.respond(said("/new"))
        await agent.respond(said("new words"))

    assert reply is not None
    assert reply.is_command
    assert reply.text.startswith("✅ New session started")
    assert [message_text(message) for message in model.requests[-1].messages] == ["new words"]
    assert user_texts(transcript_file(tmp_path, 0)) == ["old words"]
    assert user_texts(transcript_file(tmp_path, 1)) == ["new words"]


async def test_new_with_text_goes_on_with_it(tmp_path: Path) -> None:
    """`/reset plan the week` opens the new session with `plan the week`."""
    model = ScriptedModel(says("Monday first."))
    async with opened(tmp_path, model) as agent:
        reply = await agent.respond(said("/reset plan the week"))

    assert reply is not None
    assert reply.text == "Monday first."
    assert user_texts(transcript_file(tmp_path, -1)) == ["plan the week"]


@pytest.mark.covers("CLI-11", "A9-7", "W7-6", "A15-3", "ASK-7")
async def test_status_shows_window_session_and_memory(tmp_path: Path) -> None:
    """The numbers an owner needs, without asking the model."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        reply = await agent.respond(said("/status"))

    assert reply is not None
    for part in (
        "scripted/model",
        "/128k",
        "flush at 104k",
        "Compactions: 0",
        "never in this session",
        "agent:main:main",
    ):
        assert part in reply.text


@pytest.mark.parametrize(("text", "part"), [("/help", "/compact [focus]"), ("/statsu", "no command /statsu")])
async def test_help_and_a_mistyped_command_list_the_commands(tmp_path: Path, text: str, part: str) -> None:
    """A slip is not sent to the model."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        reply = await agent.respond(said(text))
    assert reply is not None
    assert part in reply.text


@pytest.mark.covers("A5-2", "A15-1")
async def test_commands_of_others_are_words(tmp_path: Path) -> None:
    """A stranger's `/new` neither resets anything nor answers as a command."""
    model = ScriptedModel(says("No."))
    async with opened(tmp_path, model) as agent:
        reply = await agent.respond(said("/new", is_owner=False, sender_id="stranger", channel="chat"))
    assert reply is not None
    assert not reply.is_command
    assert "main:main" not in reply.session_key


@pytest.mark.covers("A8-3")
async def test_a_failing_model_fails_the_turn_and_keeps_the_words(tmp_path: Path) -> None:
    """The error is the provider edge's; the next turn sends the unanswered words again."""
    model = ScriptedModel(fails(ModelAuthError("The key was refused. Set OPENAI_API_KEY.")), says("Now."))
    async with opened(tmp_path, model) as agent:
        with pytest.raises(ModelAuthError, match="Set OPENAI_API_KEY"):
            await agent.respond(said("first"))
        await agent.respond(said("second"))

    assert [message_text(message) for message in model.requests[-1].messages] == ["first", "second"]


async def test_stopping_a_turn_keeps_what_was_said_so_far(tmp_path: Path) -> None:
    """`stop` ends the turn with `TurnCancelled`; words and partial answer are on disk."""
    model = ScriptedModel(says("a long story " * 40))
    async with opened(tmp_path, model) as agent:
        events = []
        async for event in agent.stream(said("tell me a story")):
            events.append(event)
            if isinstance(event, TextStreamed):
                agent.stop(said(""))
        assert agent.stop(said("")) is False

    assert isinstance(events[-1], TurnFailed)
    assert isinstance(events[-1].error, TurnCancelled)
    answer = entries(transcript_file(tmp_path))[-1]["message"]
    assert answer["stopReason"] == "aborted"
    assert answer["content"][0]["text"].startswith("a long")


@pytest.mark.covers("A17-1")
async def test_two_messages_at_once_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """Turns of one session never interleave."""
    model = ScriptedModel(says("first answer"), says("second answer"))
    async with opened(tmp_path, model) as agent:
        await asyncio.gather(agent.respond(said("one")), agent.respond(said("two")))

    roles = kinds(transcript_file(tmp_path))[2:]
    assert roles == ["user", "nacre.prompt", "assistant", "user", "assistant"]


async def test_a_group_message_cannot_name_a_private_session(tmp_path: Path) -> None:
    """Nothing is written and no model is asked."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        with pytest.raises(PrivacyError, match="private session"):
            await agent.respond(Inbound(text="hi", chat_kind="group", session_key="main"))


async def test_a_closed_agent_says_so(tmp_path: Path) -> None:
    """Use after close is a sentence, and closing twice is harmless."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        pass
    await agent.close()
    with pytest.raises(TurnBroken, match="closed"):
        await agent.respond(said("hello"))


async def test_another_event_loop_is_told_so(tmp_path: Path) -> None:
    """Locks and connections belong to the loop of the opening; the sentence names what to call instead."""
    async with opened(tmp_path, ScriptedModel()) as agent:

        async def elsewhere() -> None:
            with pytest.raises(TurnBroken, match=r"another event loop.*BlockingAgent"):
                await agent.ask("Hi")

        await asyncio.to_thread(asyncio.run, elsewhere())


async def test_settings_that_do_not_fit_are_refused_with_their_name(tmp_path: Path) -> None:
    """The file, the key and what is wrong."""
    write_settings(tmp_path, {"agents": {"defaults": {"contextTokens": -5}}})
    with pytest.raises(ConfigError, match=r"nacre.json5.*contextTokens"):
        await Agent.open(state_dir=tmp_path, environment={})


async def test_an_empty_message_is_not_a_turn(tmp_path: Path) -> None:
    """Blank text without attachments is silence and begins no transcript."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        assert await agent.respond(said("  \n ")) is None
    assert list(tmp_path.rglob("*.jsonl")) == []


async def test_text_that_waits_is_read_at_once_and_keeps_its_place() -> None:
    """No character is lost or passes a tool; a reader who waits gets each piece as it comes."""
    queue = EventQueue()
    tool = ToolStarted(call_id="1", tool_name="read", arguments={})
    for event in (
        TextStreamed(text="I "),
        TextStreamed(text="look."),
        tool,
        TextStreamed(text="Done."),
        None,
    ):
        queue.put(event)
    assert [await queue.get() for _ in range(4)] == [
        TextStreamed(text="I look."),
        tool,
        TextStreamed(text="Done."),
        None,
    ]
    waiting = asyncio.ensure_future(queue.get())
    await asyncio.sleep(0)
    queue.put(TextStreamed(text="a"))
    assert await waiting == TextStreamed(text="a")
