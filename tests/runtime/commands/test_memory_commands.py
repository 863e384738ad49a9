"""`/search`, `/remember`, `/forget`, `/undo`, `/model` and `/usage`, typed into a chat."""

from __future__ import annotations

from pathlib import Path

import pytest

from nacre import Agent
from nacre.runtime.models.scripted import ScriptedModel, says
from nacre.sessions.contracts.messages import Usage
from tests.runtime.agents import opened, said

GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}
BOAT = "The boat is called Pilot"
DENTIST = "The dentist is on Tuesday"


async def told(agent: Agent, text: str, **chat: str) -> str:
    reply = await agent.respond(said(text, **chat))
    assert reply is not None
    assert reply.is_command
    return reply.text


def notes_of(state_dir: Path) -> str:
    return (state_dir / "workspace" / "MEMORY.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "# Memory\r\n\r\n## Facts\r\n\r\n- a\x0cb\r\n\r\n## Ideas\r\n",
            "- a\x0cb\r\n{}\r\n\r\n## Ideas\r\n",
        ),
        ("## Facts", "## Facts\n\n{}\n"),
        ("\n# Memory\r\n- a\r\n\r\n", "\n# Memory\r\n- a\r\n\r\n{}\r\n"),
        (" \n", "{}\n"),
    ],
)
async def test_what_is_remembered_leaves_all_other_lines_as_they_are(
    tmp_path: Path, before: str, after: str
) -> None:
    """Their ends too, in a file from Windows."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        (agent.workspace / "MEMORY.md").write_bytes(before.encode())
        await told(agent, f"/remember {BOAT}")
        found = (agent.workspace / "MEMORY.md").read_bytes().decode()

    assert found.endswith(after.format(f"- {BOAT}"))
    assert found.replace(f"- {BOAT}", "").split() == before.split()


async def test_what_is_remembered_is_found_forgotten_and_brought_back(tmp_path: Path) -> None:
    """Each step is on disk when its answer comes, and no model is asked."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        assert "/undo takes it back" in await told(agent, f"/remember  {BOAT}")
        await told(agent, f"/remember {DENTIST}")
        facts = notes_of(tmp_path).partition("## Facts")[2].partition("##")[0]
        assert facts.split("\n") == ["", "", f"- {BOAT}", f"- {DENTIST}", "", ""]
        assert await told(agent, f"/remember {BOAT}") == "MEMORY.md has this already."

        found = (await told(agent, "/search dentist")).splitlines()
        assert found[0].endswith(" · 2026-03-14 · written by you")
        assert found[1:] == [f"  {DENTIST}"]

        plan = await told(agent, "/forget DENTIST tuesday")
        assert f"MEMORY.md: - {DENTIST}" in plan
        assert DENTIST in notes_of(tmp_path)
        await told(agent, "/forget DENTIST tuesday --yes")
        assert DENTIST not in notes_of(tmp_path)
        assert "memory forget 'dentist' --transcripts" in await told(agent, "/forget dentist")
        assert BOAT in notes_of(tmp_path)

        assert (await told(agent, "/undo")).splitlines()[1:] == [f"+ - {DENTIST}"]
        assert DENTIST in notes_of(tmp_path)


async def test_a_search_says_which_line_is_out_of_date(tmp_path: Path) -> None:
    """Also where the newer line is in other words, and only for the line that it replaces."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        for line in ("Anna's phone: 555-1234", "Anna phone: +351 2", DENTIST):
            await told(agent, f"/remember {line}")
        number = notes_of(tmp_path).splitlines().index("- Anna's phone: 555-1234") + 1
        found = (await told(agent, "/search 555-1234")).splitlines()

    marks = [line for line in found if "out of date" in line]
    assert marks == [f"  Line {number} is out of date: see MEMORY.md."]


async def test_the_notes_of_the_owner_are_not_reached_from_a_group(tmp_path: Path) -> None:
    """Not even by the owner: others read along."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        before = notes_of(tmp_path)
        for line in ("/search boat", "/remember boat", "/forget Facts --yes", "/undo", "/usage", "/model"):
            assert "can be used in a private chat" in await told(agent, line, **GROUP)
        assert notes_of(tmp_path) == before


@pytest.mark.parametrize("line", ["/search", "/remember", "/forget", "/forget --yes"])
async def test_a_command_without_words_says_how_it_is_used(tmp_path: Path, line: str) -> None:
    """Nothing is searched, written or removed."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        assert line.split()[0] in await told(agent, line)


async def test_a_misspelled_command_is_answered_with_one_line(tmp_path: Path) -> None:
    """The list of all commands would push the conversation off the screen."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        answer = await told(agent, "/remeber")

        hello, listed = await told(agent, "/start"), await told(agent, "/help")

    assert answer == "There is no command /remeber. Did you mean /remember? /help lists the commands."
    assert hello == listed  # Telegram's button in a new chat sends it


async def test_the_model_changes_in_the_middle_of_a_conversation(tmp_path: Path) -> None:
    """The session goes on; a name that nothing has changes nothing."""
    model = ScriptedModel(says("Hello."))
    async with opened(tmp_path, model) as agent:
        first = await agent.respond(said("hi"))
        assert "No model is called" in await told(agent, "/model nonsense")
        assert "Did you mean 'openai/gpt-5-mini'?" in await told(agent, "/model opnai/gpt-5-mini")
        changed = await agent.respond(said("/model openai/gpt-5-mini"))
        assert "Model: openai/gpt-5-mini" in await told(agent, "/model")
        await told(agent, "/model default")
        assert f"Model: {model.name}" in await told(agent, "/model")

    assert first is not None
    assert changed is not None
    assert changed.session_id == first.session_id


async def test_usage_counts_the_last_answer_and_the_session(tmp_path: Path) -> None:
    """What the provider read from its cache is part of what was sent."""
    model = ScriptedModel(
        says("One.", usage=Usage(input_tokens=1_000, output_tokens=20)),
        says("Two.", usage=Usage(input_tokens=200, cache_read_tokens=1_000, output_tokens=30)),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("one"))
        await agent.respond(said("two"))
        lines = (await told(agent, "/usage")).splitlines()

    assert lines[0].startswith("Last answer   1.2k in (1.0k cached), 30 out")
    assert lines[1].startswith("This session  2.2k in (1.0k cached), 50 out")
