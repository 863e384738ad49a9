"""A session's note holds what is new: nothing that was recalled, and nothing that another note has."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nacre.runtime.models.scripted import Clock, ScriptedModel, says
from nacre.runtime.session_lifecycle.session_memory import KnownNotes
from nacre.sessions.contracts.messages import Text, ToolCall, ToolResultMessage
from tests.runtime.agents import START, opened, said
from tests.runtime.session_lifecycle.spoken import assistant, entry

FLUSH = says("NO_REPLY", purpose="flush")


def found(*snippets: str) -> ToolResultMessage:
    """What `memory_search` gave."""
    results = [{"path": "MEMORY.md", "snippet": snippet} for snippet in snippets]
    return ToolResultMessage(
        tool_call_id="a",
        tool_name="memory_search",
        content=(Text(text=json.dumps({"results": results})),),
        is_error=False,
        timestamp_ms=1,
    )


def notes(state_dir: Path) -> list[str]:
    folder = state_dir / "workspace/memory"
    return [path.read_text() for path in sorted(folder.glob("*-*-*-*.md"))]


@pytest.mark.covers("ATT-10")
async def test_a_fork_and_its_origin_note_each_message_once(tmp_path: Path) -> None:
    """What both sessions have said is in the first note, and the second has what came after it."""
    clock = Clock(START)
    first_steps = (says("Noted."), FLUSH, says("boats", purpose="slug"))
    last_steps = (says("Noted again."), FLUSH, says("more", purpose="slug"))
    for ids, texts, steps in (
        ("a", ("We sail at nine.", "/fork here", "/new"), first_steps),
        ("b", ("/resume 1", "/new"), ()),
        ("c", ("/resume 1", "We sail at ten.", "/new"), last_steps),
    ):
        # Closing waits for the notes of an ended session; one that is resumed before them is not ended.
        model = ScriptedModel(*steps)
        async with opened(tmp_path, model, clock=clock, ids=ids) as agent:
            for text in texts:
                await agent.respond(said(text))
                clock.advance(minutes=1)
        model.assert_complete()

    first, second = notes(tmp_path)
    assert first.count("We sail at nine.") == 1
    assert "> User: We sail at ten.\n>\n> Assistant: Noted again.\n" in second
    assert "nine" not in second


@pytest.mark.covers("ATT-10")
async def test_an_answer_from_the_notes_is_not_noted(tmp_path: Path) -> None:
    """The offline responder's quotations stay out of the session's note; their places stay in it."""
    async with opened(tmp_path, None) as agent:
        for text in ("Remember that the gate code of the garage is 4711.", "/new"):
            await agent.respond(said(text))
        for text in ("What is the gate code of the garage?", "/new"):
            await agent.respond(said(text))

    told, asked = sorted(notes(tmp_path), key=lambda note: "User: What is" in note)
    assert told.count("4711") == 1
    assert "4711" not in asked
    assert "> > — `memory/2026-03-14" in asked


async def test_what_the_offline_responder_says_of_itself_is_not_noted(tmp_path: Path) -> None:
    """Its description of what it is and can do says nothing about the conversation."""
    async with opened(tmp_path, None) as agent:
        for text in ("The heron nests by the mill.", "What can you do?", "/new"):
            await agent.respond(said(text))

    [note] = notes(tmp_path)
    assert "> User: The heron nests by the mill." in note
    assert "Assistant" not in note


def test_what_an_answer_repeats_of_the_notes_is_left_out() -> None:
    """Quoted lines, whole sentences and quoted words go; what the model says of its own stays."""
    recalled = KnownNotes(
        [entry(found("## House\n\n- The gate code is 4711.\n- Yes.", "犬の名前はポチです。"))]
    )

    assert recalled.remove_from(
        "Yes. The gate code is 4711. I would change it.\n"
        "> - The gate code is 4711.\n> — `MEMORY.md#L3`\n\n"
        "Your note says: “The gate code is 4711.” Shall I?\n"
        "犬の名前はポチです。そうですね。"
    ) == ("Yes. […] I would change it.\n> — `MEMORY.md#L3`\n\nYour note says: […] Shall I?\n[…] そうですね。")


def test_what_was_written_into_the_notes_is_not_noted_again() -> None:
    """A confirmation that repeats the text of an `append` is cut short; without recall nothing changes."""
    call = ToolCall(id="a", name="append", arguments={"path": "x.md", "text": "- my dentist is Dr. Rossi"})
    confirmed = "I wrote down “my dentist is Dr. Rossi”."

    assert KnownNotes([assistant("", call)]).remove_from(confirmed) == "I wrote down […]."
    assert KnownNotes([assistant("Hello.")]).remove_from(confirmed) == confirmed
