"""`/new` and `/reset`: which words they are, what they leave behind, and what they carry over."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.commands.registry import Commands
from nacre.runtime.contracts.errors import ModelAuthError
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.scripted import ScriptedModel, fails, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import events_of, kinds, opened, said, transcript_file, user_texts, write_settings

QUIET = {
    "agents": {"defaults": {"compaction": {"memoryFlush": {"enabled": False}}}},
    "hooks": {"internal": {"enabled": False}},
}
GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}
OWNER = ChatPolicy(chat_kind="direct", is_owner=True, session_key_is_private=True)


def called(commands: Commands, text: str) -> tuple[str, str] | None:
    """The name of the command that the owner calls, and the text behind it."""
    found = commands.called(text, OWNER)
    return None if found is None else (found.command.name, found.rest)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/new", ("new", "")),
        ("  /NEW  ", ("new", "")),
        ("/New: Plan The Week", ("new", "Plan The Week")),
        ("/new\nline one\nline two", ("new", "line one\nline two")),
        ("/reset soft", ("reset", "soft")),
        ("@nacre /new hello", ("new", "hello")),
        ("<@!4711>, /reset", ("reset", "")),
        ("/new@nacre_bot hello", ("new", "hello")),
        ("/status@nacre_bot", ("status", "")),
        ("/newer", ("unknown", "/newer")),
        ("/newer than what?", None),
        ("what does /new do?", None),
        ("@nacre what does /new do?", None),
        ("mail a@b.example /new", None),
    ],
)
@pytest.mark.covers("A5-4", "A5-5")
def test_which_words_begin_a_fresh_session(text: str, command: tuple[str, str] | None) -> None:
    """Whole or before a text, in any case, also where a group's members must address the assistant."""
    assert called(Commands(), text) == command


def test_the_owner_chooses_the_words() -> None:
    """Only these; `/new` is a slip then, and what follows keeps its case."""
    commands = Commands(reset_triggers=("neu", "/frisch"))

    assert called(commands, "Neu Was steht an?") == ("new", "Was steht an?")
    assert called(commands, "/FRISCH") == ("new", "")
    assert called(commands, "neugierig") is None
    assert called(commands, "/new") == ("unknown", "/new")


@pytest.mark.covers("A5-4")
async def test_the_words_of_the_settings_count(tmp_path: Path) -> None:
    """`session.resetTriggers`, trimmed and in any case."""
    write_settings(tmp_path, {**QUIET, "session": {"resetTriggers": [" Neu "]}})
    async with opened(tmp_path, ScriptedModel(says("one"), says("two"))) as agent:
        first = await agent.respond(said("hello"))
        second = await agent.respond(said("neu und weiter"))

    assert first is not None
    assert second is not None
    assert first.session_id != second.session_id
    assert user_texts(transcript_file(tmp_path, 1)) == ["und weiter"]


@pytest.mark.covers("A1-21")
async def test_a_soft_reset_reads_the_notes_again_in_the_same_session(tmp_path: Path) -> None:
    """No new session and no flush: the log as it is now stands before the conversation."""
    write_settings(tmp_path, QUIET)
    model = ScriptedModel(says("one"), says("two"))
    async with opened(tmp_path, model) as agent:
        first = await agent.respond(said("hello"))
        log = tmp_path / "workspace/memory/2026-03-14.md"
        log.write_text("- Written by hand just now.\n", encoding="utf-8")
        soft = await agent.respond(said("/reset SOFT"))
        second = await agent.respond(said("/reset soft And now?"))
    model.assert_complete()

    assert first is not None
    assert soft is not None
    assert second is not None
    assert soft.text.startswith("♻️")
    assert {first.session_id, soft.session_id, second.session_id} == {first.session_id}
    assert "Written by hand just now." in message_text(model.requests[1].messages[0])
    assert kinds(transcript_file(tmp_path)).count("nacre.recall") == 2
    assert user_texts(transcript_file(tmp_path)) == ["hello", "And now?"]


@pytest.mark.covers("A5-18", "W12-3")
async def test_overrides_survive_and_counters_do_not(tmp_path: Path) -> None:
    """What the owner chose for a chat stays over `/new`; what a fallback chose, and the counts, go."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(says("one"))) as agent:
        await agent.respond(said("hello"))
    path = tmp_path / "agents/main/sessions/sessions.json"
    index = json.loads(path.read_text(encoding="utf-8"))
    index["agent:main:main"] |= {
        "thinkingLevel": "high",
        "sendPolicy": "allow",
        "authProfileOverride": "spare",
        "authProfileOverrideSource": "auto",
        "compactionCount": 3,
        "totalTokens": 900,
        "memoryFlushAt": 1,
        "skillsSnapshot": {"prompt": "old"},
        "abortedLastRun": True,
    }
    path.write_text(json.dumps(index), encoding="utf-8")
    async with opened(tmp_path, ScriptedModel(), ids="b") as agent:
        await agent.respond(said("/new"))

    line: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))["agent:main:main"]
    assert (line["thinkingLevel"], line["sendPolicy"], line["compactionCount"]) == ("high", "allow", 0)
    assert not line.keys() & {
        "authProfileOverride",
        "totalTokens",
        "memoryFlushAt",
        "skillsSnapshot",
        "abortedLastRun",
    }


async def test_the_words_after_new_are_kept_when_no_model_can_be_asked(tmp_path: Path) -> None:
    """They are on disk in the fresh session before the old one's notes are saved."""
    model = ScriptedModel(
        says("one"),
        fails(ModelAuthError("No key."), purpose="flush"),
        fails(ModelAuthError("No key."), purpose="turn"),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("The boat is called Halcyon."))
        with pytest.raises(ModelAuthError):
            await agent.respond(said("/new Where is it?"))

    texts = [user_texts(transcript_file(tmp_path, number)) for number in (0, 1)]
    assert sorted(texts) == [["The boat is called Halcyon."], ["Where is it?"]]


@pytest.mark.covers("A5-1", "A5-3")
async def test_an_owner_resets_a_group(tmp_path: Path) -> None:
    """The words behind the address and the command become the first ones of the fresh session."""
    write_settings(tmp_path, QUIET)
    async with opened(tmp_path, ScriptedModel(says("one"), says("two"))) as agent:
        await events_of(agent, said("hello", **GROUP))
        await events_of(agent, said("@nacre /new Who Comes?", **GROUP))

    assert user_texts(transcript_file(tmp_path, 1)) == ["Who Comes?"]
