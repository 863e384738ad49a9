"""What the owner forgot, undid or rejected in a chat is not noted again by a flush, a tool or an extract."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nacre import Agent
from nacre.runtime.contracts.errors import ModelAuthError
from nacre.runtime.contracts.events import FlushEnded
from nacre.runtime.models.scripted import ScriptedModel, calls, fails, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import LONG, TODAY, events_of, opened, said, write_settings

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
FORCED = {"agents": {"defaults": {"compaction": {"memoryFlush": {"forceFlushTranscriptBytes": 20_000}}}}}
PHONE = "Anna's phone: 555-1234"


def log_of(state_dir: Path) -> str:
    path = state_dir / "workspace" / TODAY
    return path.read_text(encoding="utf-8") if path.exists() else ""


async def rejected(agent: Agent, how: str) -> None:
    """Remembers the phone, and takes it back."""
    await agent.ask(f"/remember {PHONE}")
    await agent.ask("/undo" if how == "undo" else "/forget 555-1234 --yes")


@pytest.mark.parametrize("how", ["undo", "forget"])
async def test_a_flush_leaves_out_what_was_taken_back(tmp_path: Path, how: str) -> None:
    """In other words too; the model is told, and the other line is written."""
    write_settings(tmp_path, FORCED)
    model = ScriptedModel(
        says("ok"),
        calls(("append", {"path": "x.md", "text": "- Anna phone: 555-1234\n- Buy sugar."}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
        says("ok"),
    )
    async with opened(tmp_path, model) as agent:
        await rejected(agent, how)
        await agent.ask(LONG)
        [flushed] = [each for each in await events_of(agent, said(LONG)) if isinstance(each, FlushEnded)]
        assert "- Buy sugar." in log_of(tmp_path)
        assert "555" not in log_of(tmp_path) + flushed.notes
        told = message_text(model.requests[-2].messages[-1])
        assert TODAY in told
        assert "555" not in told


async def test_the_offline_extract_leaves_it_out(tmp_path: Path) -> None:
    """No model can be asked for notes, and the conversation says it once more."""
    write_settings(tmp_path, FORCED)
    model = ScriptedModel(
        says("ok"),
        fails(ModelAuthError("no key"), purpose="flush"),
        says("ok"),
    )
    async with opened(tmp_path, model) as agent:
        await agent.ask("/remember Gate code: 4711")
        await agent.ask("/forget 4711 --yes")
        await agent.ask(f"My gate code is 4711. We decided to sell the boat. {LONG}")
        await agent.ask(LONG)

    assert "sell the boat" in log_of(tmp_path)
    assert "4711" not in log_of(tmp_path)


async def test_a_tool_is_refused_until_the_owner_asks(tmp_path: Path) -> None:
    """A model that notes it by itself is told; what the owner asks to remember is kept, by either."""
    write = calls(("append", {"path": TODAY, "text": f"- {PHONE}"}))
    whole = calls(("write", {"path": "memory/anna.md", "content": f"- {PHONE}\n"}))
    model = ScriptedModel(write, whole, says("ok"), write, says("Noted."), says("A story."))
    async with opened(tmp_path, model) as agent:
        await rejected(agent, "forget")
        await agent.ask("Anna called.")
        assert log_of(tmp_path) == ""
        assert not (tmp_path / "workspace/memory/anna.md").exists()
        told = [message_text(message) for message in model.requests[2].messages]
        assert "Left out" in "\n".join(told)
        assert "rejected" in told[-1]

        await agent.ask("Remember that Anna's phone is 555-1234.")
        assert f"- {PHONE}" in log_of(tmp_path)
        (tmp_path / "workspace" / TODAY).unlink()
        await rejected(agent, "forget")
        await agent.ask("Please remember that Anna's phone is 555-1234.")
        assert "- Anna's phone is 555-1234." in log_of(tmp_path)
