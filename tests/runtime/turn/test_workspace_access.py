"""What `sandbox.workspaceAccess` takes from a session: writing, or the notes as a whole."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.events import CompactionEnded, FlushEnded, ReplyReady, Warned
from nacre.runtime.models.scripted import Clock, ScriptedModel, ScriptedStep, calls, says
from nacre.sessions.contracts.messages import ToolResultMessage, message_text
from tests.runtime.agents import (
    LONG,
    START,
    TODAY,
    entries,
    events_of,
    kinds,
    opened,
    said,
    transcript_file,
    used,
    window_settings,
    write_settings,
)

pytestmark = pytest.mark.usefixtures("steady_frame")

GROUP = {"chat_kind": "group", "channel": "chat", "chat_id": "club"}
EVERY_TOOL = ("read", "write", "edit", "append", "list", "memory_search", "memory_get")


def settings(**sandbox: str) -> dict[str, Any]:
    found = window_settings()
    found["agents"]["defaults"]["sandbox"] = sandbox
    return found


def filling() -> list[ScriptedStep]:
    """Three answers that fill the window, and what follows when nobody may be asked for notes."""
    return [
        *[says("ok", usage=used(tokens)) for tokens in (1_000, 3_000, 13_000)],
        says("## Goal\nBees", purpose="compaction"),
        says("done", usage=used(5_000)),
    ]


@pytest.mark.parametrize("access", ["ro", "none"])
@pytest.mark.covers("A12-6", "SEED-16", "PART-9")
async def test_nobody_is_asked_for_notes(tmp_path: Path, access: str) -> None:
    """No flush, no extract and no last note; history is compacted, and the reason is told once."""
    write_settings(tmp_path, settings(workspaceAccess=access))
    model = ScriptedModel(*filling(), says("again", usage=used(5_100)))
    events = []
    async with opened(tmp_path, model) as agent:
        for text in (LONG, LONG, LONG, "and now?", "/new", "hello"):
            events += await events_of(agent, said(text))
    model.assert_complete()

    assert [event.problem for event in events if isinstance(event, CompactionEnded)] == [""]
    assert not [event for event in events if isinstance(event, FlushEnded)]
    told = [event.message for event in events if isinstance(event, Warned) and "notes" in event.message]
    assert told == [
        "No notes are saved of this conversation: the settings make the workspace read-only "
        "(agents.defaults.sandbox.workspaceAccess)."
    ]
    assert not (tmp_path / "workspace" / TODAY).exists()
    assert "nacre.flush" not in kinds(transcript_file(tmp_path))


async def test_read_only_shows_notes_and_refuses_to_change_them(tmp_path: Path) -> None:
    """Every writing tool says that the settings forbid it; reading, recall and search stay."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        (agent.workspace / TODAY).write_text("- The boat is called Wren.\n")
    write_settings(tmp_path, settings(workspaceAccess="ro"))
    model = ScriptedModel(
        calls(
            ("write", {"path": "a.md", "content": "x"}),
            ("edit", {"path": TODAY, "old_text": "Wren", "new_text": "Heron"}),
            ("append", {"path": TODAY, "text": "- more"}),
            ("read", {"path": TODAY}),
        ),
        says("done"),
    )
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("note that"))
    model.assert_complete()

    results = [message for message in model.requests[-1].messages if isinstance(message, ToolResultMessage)]
    refusals = [message_text(result) for result in results[:3]]
    assert all(path in told for path, told in zip(("a.md", TODAY, TODAY), refusals, strict=True))
    assert [result.is_error for result in results] == [True, True, True, False]
    assert "Wren" in message_text(results[3])
    assert [tool.name for tool in model.requests[0].tools] == list(EVERY_TOOL)
    assert "can be read and not changed" in model.requests[0].system.stable
    assert "A promise to remember is not a memory" not in model.requests[0].system.stable
    assert any("Wren" in message_text(message) for message in model.requests[0].messages)
    assert (tmp_path / "workspace" / TODAY).read_text() == "- The boat is called Wren.\n"


@pytest.mark.covers("SEED-16")
async def test_without_access_no_note_is_seen(tmp_path: Path) -> None:
    """No memory in the prompt, no log, no tool that leads to a file; who the assistant is stays."""
    async with opened(tmp_path, ScriptedModel()) as agent:
        (agent.workspace / TODAY).write_text("- The boat is called Wren.\n")
        (agent.workspace / "MEMORY.md").write_text("Nora lives in Kiel.\n")
        (agent.workspace / "SOUL.md").write_text("Dry humour.\n")
    write_settings(tmp_path, settings(workspaceAccess="none"))
    model = ScriptedModel(calls(("read", {"path": "MEMORY.md"})), says("done"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("what do you know?"))
    model.assert_complete()

    sent = [request.system.joined() for request in model.requests]
    sent += [message_text(message) for request in model.requests for message in request.messages]
    assert not [text for text in sent if "Wren" in text or "Kiel" in text]
    assert [tool.name for tool in model.requests[0].tools] == ["read"]
    assert "Dry humour." in model.requests[0].system.stable
    assert "can be neither read nor changed" in model.requests[0].system.stable
    [result] = [message for message in model.requests[-1].messages if isinstance(message, ToolResultMessage)]
    assert result.is_error
    assert "MEMORY.md" in message_text(result)


@pytest.mark.parametrize(
    ("mode", "main", "group"), [("off", True, True), ("non-main", True, False), ("all", False, False)]
)
@pytest.mark.covers("PART-33")
async def test_the_mode_says_whom_it_binds(tmp_path: Path, mode: str, main: bool, group: bool) -> None:
    """As in OpenClaw, `non-main` leaves the owner's main session alone, and `off` everybody."""
    write_settings(tmp_path, settings(mode=mode, workspaceAccess="ro"))
    write = calls(("write", {"path": "shared/list.md", "content": "milk"}))
    model = ScriptedModel(write, says("done"), write, says("done"))
    async with opened(tmp_path, model, clock=Clock(START)) as agent:
        for chat in ({}, GROUP):
            events = await events_of(agent, said("write it", **chat))
            assert isinstance(events[-1], ReplyReady)
    model.assert_complete()

    results = [
        entry["message"]["isError"]
        for number in (0, 1)
        for entry in entries(transcript_file(tmp_path, number))
        if entry["type"] == "message" and entry["message"]["role"] == "toolResult"
    ]
    assert results == [not main, not group]
