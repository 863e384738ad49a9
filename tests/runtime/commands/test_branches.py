"""`/rewind`, `/fork` and `/label` as their user meets them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nacre import Agent
from nacre.runtime.models.scripted import Clock, ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from nacre.sessions.journal.journal import ResultFiles
from tests.runtime.agents import START, TODAY, entries, opened, said, transcript_file

QUIET = says("NO_REPLY", purpose="flush")
GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club", "is_owner": False, "sender_id": "eve"}


async def told(agent: Agent, text: str) -> str:
    reply = await agent.respond(said(text))
    assert reply is not None
    return reply.text


def seen(model: ScriptedModel) -> list[str]:
    return [message_text(message) for message in model.requests[-1].messages]


async def test_the_preview_says_what_there_is_to_go_back_to(tmp_path: Path) -> None:
    """`/rewind` alone lists the last words with time and what they would take along, and changes nothing."""
    clock = Clock(START)
    async with opened(tmp_path, ScriptedModel(says("First."), says("Second.")), clock=clock) as agent:
        await told(agent, "Plan the garden")
        clock.advance(minutes=5)
        await told(agent, "Now\nthe bees " + "and more " * 20)
        before = transcript_file(tmp_path).read_bytes()
        lines = (await told(agent, "/rewind")).split("\n")

    assert lines[1].startswith("  1 · 2026-03-14 23:35 · “Now the bees and more")
    assert lines[1].endswith("…” · leaves 2 messages")
    assert lines[2] == "  2 · 2026-03-14 23:30 · “Plan the garden” · leaves 4 messages"
    assert transcript_file(tmp_path).read_bytes() == before


@pytest.mark.covers("A6-10")
async def test_rewind_goes_back_and_the_model_does_not_see_what_was_left(tmp_path: Path) -> None:
    """After `/rewind 1` the conversation stands before the last words, saved as notes; the file has all."""
    model = ScriptedModel(
        says("Roses."),
        says("Bees it is."),
        calls(("append", {"text": "- bees"}), purpose="flush"),
        QUIET,
    )
    async with opened(tmp_path, model) as agent:
        await told(agent, "Plan the garden")
        await told(agent, "Now the bees")
        answer = await told(agent, "/rewind 1")
        model.add(says("Tulips."))
        await told(agent, "Other flowers")

    assert "Went back: 2 messages left." in answer
    assert "The last words are now: Assistant: “Roses.”" in answer
    planned, answered, changed, asked = seen(model)
    assert (planned, answered, asked) == ("Plan the garden", "Roses.", "Other flowers")
    assert f"END CHANGES OF {TODAY}" in changed
    assert "Now the bees" not in changed
    assert b"Now the bees" in transcript_file(tmp_path).read_bytes()
    assert "bees" in (tmp_path / "workspace" / TODAY).read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["/rewind 1", "/fork 1"])
async def test_what_was_saved_once_is_not_saved_again(tmp_path: Path, command: str) -> None:
    """The notes of what stays in view were written before; `/new` asks for no other flush."""
    model = ScriptedModel(says("Roses."), says("Bees."), QUIET)
    async with opened(tmp_path, model) as agent:
        await told(agent, "Plan the garden")
        await told(agent, "Now the bees")
        await told(agent, command)
        assert "New session started" in await told(agent, "/new")
    model.assert_complete()


async def test_one_can_return_to_where_one_was(tmp_path: Path) -> None:
    """The answer to `/rewind` names the way back, also for the next process."""
    model = ScriptedModel(says("Roses."), says("Bees."), QUIET)
    async with opened(tmp_path, model) as agent:
        await told(agent, "Plan the garden")
        await told(agent, "Now the bees")
        answer = await told(agent, "/rewind 2")
    assert "The conversation is empty now." in answer
    [back] = [line.split()[1] for line in answer.split("\n") if line.endswith("returns to where you were.")]

    model = ScriptedModel(says("Honey."))
    async with opened(tmp_path, model, ids="later-") as agent:
        assert "4 messages back in view" in await told(agent, f"/rewind {back}")
        await told(agent, "And?")
    assert seen(model) == ["Plan the garden", "Roses.", "Now the bees", "Bees.", "And?"]


@pytest.mark.covers("A6-8")
async def test_a_note_and_changed_files_are_told_to_the_model(tmp_path: Path) -> None:
    """Going back does not undo files: the model hears which changed, and what the user wants remembered."""
    model = ScriptedModel(calls(("write", {"path": "plan.md", "content": "bees"})), says("Done."), QUIET)
    async with opened(tmp_path, model) as agent:
        await told(agent, "Write the plan")
        answer = await told(agent, "/rewind 1\nthe plan had the wrong year")
        model.add(says("I see."))
        await told(agent, "Again")

    assert "Files stay as they are: plan.md." in answer
    assert "Went back: 2 messages left." in answer  # the call and its result are none
    summary, asked = seen(model)
    assert "the plan had the wrong year" in summary
    assert "plan.md" in summary
    assert asked == "Again"
    assert (tmp_path / "workspace/plan.md").exists()


async def test_an_unknown_place_changes_nothing(tmp_path: Path) -> None:
    """A number that is not listed is answered with the list."""
    async with opened(tmp_path, ScriptedModel(says("Roses."))) as agent:
        await told(agent, "Plan the garden")
        before = transcript_file(tmp_path).read_bytes()
        for command in ("/rewind 7", "/fork nowhere"):
            assert "There is no place" in await told(agent, command)
    assert transcript_file(tmp_path).read_bytes() == before


@pytest.mark.covers("A6-11")
async def test_a_fork_goes_on_in_a_copy(tmp_path: Path) -> None:
    """`/fork here` gives the chat a new session with all of it; the old file is not touched any more."""
    model = ScriptedModel(says("Roses."), says("Tulips."))
    async with opened(tmp_path, model) as agent:
        first = await agent.respond(said("Plan the garden"))
        before = transcript_file(tmp_path).read_bytes()
        forked = await agent.respond(said("/fork here"))
        second = await agent.respond(said("Other flowers"))

    assert first is not None
    assert forked is not None
    assert second is not None
    assert first.session_id in forked.text
    assert first.session_id != forked.session_id == second.session_id
    assert seen(model) == ["Plan the garden", "Roses.", "Other flowers"]
    folder = tmp_path / "agents/main/sessions"
    assert (folder / f"{first.session_id}.jsonl").read_bytes() == before
    header = json.loads((folder / f"{second.session_id}.jsonl").read_text(encoding="utf-8").split("\n")[0])
    assert Path(header["parentSession"]).name == f"{first.session_id}.jsonl"
    index = json.loads((folder / "sessions.json").read_text(encoding="utf-8"))["agent:main:main"]
    assert (index["sessionId"], index["previousSessionIds"]) == (second.session_id, [first.session_id])


async def test_the_session_that_was_forked_can_be_gone_on_with(tmp_path: Path) -> None:
    """The answer to `/fork` names the way back to the old session."""
    model = ScriptedModel(says("Roses."), says("Tulips."), QUIET)
    async with opened(tmp_path, model) as agent:
        await told(agent, "Plan the garden")
        answer = await told(agent, "/fork here")
        await told(agent, "Other flowers")
        [command] = re.findall(r"/resume \S+", answer)
        await told(agent, command)
        model.add(says("Bees."))
        await told(agent, "Now the bees")
    assert seen(model) == ["Plan the garden", "Roses.", "Now the bees"]


async def test_a_fork_from_an_older_place_leaves_the_rest_to_the_old_session(tmp_path: Path) -> None:
    """`/fork 1` saves notes and goes on before the last words, in a session that is as private as the old."""
    model = ScriptedModel(says("Roses."), says("Bees."), QUIET)
    async with opened(tmp_path, model) as agent:
        (tmp_path / "workspace/MEMORY.md").write_text("The owner likes bees.")
        await told(agent, "Plan the garden")
        await told(agent, "Now the bees")
        await told(agent, "/fork 1")
        model.add(says("Tulips."))
        await told(agent, "Other flowers")
    assert seen(model) == ["Plan the garden", "Roses.", "Other flowers"]
    assert "The owner likes bees." in model.requests[-1].system.joined()


async def test_a_fork_of_words_that_were_not_saved_saves_them_when_it_is_left(tmp_path: Path) -> None:
    """`/fork here` leaves nothing out of view, so it saves nothing; `/new` does, once."""
    model = ScriptedModel(says("Roses."))
    async with opened(tmp_path, model) as agent:
        await told(agent, "Plan the garden")
        await told(agent, "/fork here")
        model.add(QUIET)
        await told(agent, "/new")
    model.assert_complete()


async def test_a_fork_can_page_through_the_results_it_took_along(tmp_path: Path) -> None:
    """A long tool result that is kept whole beside the old transcript is there for the new one, too."""
    model = ScriptedModel(says("Roses."))
    async with opened(tmp_path, model) as agent:
        first = await agent.respond(said("Look"))
        assert first is not None
        folder = tmp_path / "agents/main/sessions"
        await ResultFiles(folder / f"{first.session_id}.jsonl").keep("r1", "all of it")
        forked = await agent.respond(said("/fork here"))
    assert forked is not None
    assert await ResultFiles(folder / f"{forked.session_id}.jsonl").read("r1") == "all of it"
    assert await ResultFiles(folder / f"{first.session_id}.jsonl").read("r1") == "all of it"


async def test_a_fork_stays_whose_the_session_was(tmp_path: Path) -> None:
    """Also where the entry that tells it stands behind the place that the fork begins at."""
    async with opened(tmp_path, ScriptedModel(says("Roses."))) as agent:
        await told(agent, "Plan the garden")
    file = transcript_file(tmp_path)
    header, own, asked, *others = entries(file)
    asked["parentId"] = None
    own["parentId"] = others[-1]["id"]
    lines = [header, asked, *others, own]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    async with opened(tmp_path, ScriptedModel(QUIET), ids="later-") as agent:
        forked = await agent.respond(said("/fork 1"))

    assert forked is not None
    begun = entries(file.with_name(f"{forked.session_id}.jsonl"))[1:]
    assert [entry["customType"] for entry in begun] == ["nacre.session"]
    assert begun[0]["data"]["private"] is True


@pytest.mark.covers("A6-12")
async def test_a_named_place_is_found_again(tmp_path: Path) -> None:
    """`/label` names a place, `/rewind` lists it and goes there; the same name again means the new place."""
    model = ScriptedModel(says("Roses."), says("Bees."), says("Honey."), QUIET)
    async with opened(tmp_path, model) as agent:
        assert "nothing" in (await told(agent, "/label draft")).lower()
        await told(agent, "Plan the garden")
        await told(agent, "/label draft")
        await told(agent, "Now the bees")
        assert "named another place" in await told(agent, "/label draft")
        await told(agent, "And honey")
        assert "Names: draft (" in await told(agent, "/rewind")
        await told(agent, "/rewind draft")
        model.add(says("Wax."))
        await told(agent, "And wax")
        for name in ("12", "two words", "here"):
            assert "one word" in await told(agent, f"/label {name}")
    assert seen(model) == ["Plan the garden", "Roses.", "Now the bees", "Bees.", "And wax"]


async def test_others_cannot_rewind_a_group(tmp_path: Path) -> None:
    """Only the owner's commands are commands; for others they are words."""
    model = ScriptedModel(says("Hello."), says("What do you mean?"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("hi", **GROUP))
        await agent.respond(said("/rewind 1", **GROUP))
    assert seen(model) == ["[id eve]\nhi", "Hello.", "[id eve]\n/rewind 1"]


async def test_nothing_said_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    """In an empty session the commands say so."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        for command in ("/rewind", "/fork", "/fork here"):
            assert "Nothing has been said here yet" in await told(agent, command)
