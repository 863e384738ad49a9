"""`memory.secrets: "ask"`: the owner decides about a key in their chats; elsewhere it is redacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.events import ApprovalAsked, FlushEnded, ToolEnded
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import TODAY, events_of, opened, said, write_settings
from tests.runtime.tools.approvals.approving import answered

KEY = "sk-proj-abcdEFGH1234567890xyz"
GROUP = Inbound(text="Note the key.", chat_kind="group", channel="telegram", chat_id="7", is_owner=True)


def _asks(state_dir: Path, **more: Any) -> None:
    write_settings(state_dir, {"memory": {"secrets": "ask"}, **more})


@pytest.mark.parametrize(("answer", "is_kept"), [("yes", True), ("Not into notes.", False)])
async def test_the_owner_is_asked_before_a_key_is_written(tmp_path: Path, answer: str, is_kept: bool) -> None:
    """Approved it stands there as it is; denied nothing does; what has no key is not asked about."""
    _asks(tmp_path)
    model = ScriptedModel(
        calls(("append", {"path": TODAY, "text": f"- The key is {KEY}"})),
        calls(("append", {"path": TODAY, "text": "- The gate is green"})),
        says("done"),
    )
    async with opened(tmp_path, model) as agent:
        events = await answered(agent, said("Note it."), answer)
    asked = [event for event in events if isinstance(event, ApprovalAsked)]
    log = (tmp_path / "workspace" / TODAY).read_text(encoding="utf-8")

    assert [TODAY in event.why for event in asked] == [True]
    assert (KEY in log, "[redacted]" in log) == (is_kept, False)
    assert "- The gate is green" in log


async def test_an_edit_and_a_whole_file_are_asked_about_too(tmp_path: Path) -> None:
    """Each tool that writes."""
    _asks(tmp_path)
    model = ScriptedModel(
        calls(("write", {"path": "notes.md", "content": f"- {KEY}\n- a\n"})),
        calls(("edit", {"path": "notes.md", "old_text": "- a", "new_text": f"- b {KEY}"})),
        says("done"),
    )
    async with opened(tmp_path, model) as agent:
        events = await answered(agent, said("Note it."), "yes")

    assert sum(isinstance(event, ApprovalAsked) for event in events) == 2
    assert (tmp_path / "workspace/notes.md").read_text(encoding="utf-8") == f"- {KEY}\n- b {KEY}\n"


@pytest.mark.parametrize("tool", ["append", "write", "edit"])
async def test_a_rule_that_asks_for_nothing_lets_no_key_in(tmp_path: Path, tool: str) -> None:
    """With `confirm: false` nobody approved the call: the gate redacts, and model and owner are told."""
    _asks(tmp_path, tools={"rules": {tool: {"confirm": False}}})
    arguments: dict[str, dict[str, str]] = {
        "append": {"text": f"- {KEY}"},
        "write": {"content": f"- {KEY}"},
        "edit": {"old_text": "- a", "new_text": f"- {KEY}"},
    }
    model = ScriptedModel(calls((tool, {"path": "notes.md", **arguments[tool]})), says("done"))
    async with opened(tmp_path, model) as agent:
        (tmp_path / "workspace/notes.md").write_text("- a\n", encoding="utf-8")
        events = await events_of(agent, said("Note it."))
    [ended] = [event for event in events if isinstance(event, ToolEnded)]

    assert "became [redacted]" in ended.summary
    assert "became [redacted]" in message_text(model.requests[-1].messages[-1])
    assert KEY not in (tmp_path / "workspace/notes.md").read_text(encoding="utf-8")


async def test_in_a_group_nobody_is_asked(tmp_path: Path) -> None:
    """There the key is redacted, though the owner speaks: others read along."""
    _asks(tmp_path)
    path = "chats/telegram-group-7/notes.md"
    model = ScriptedModel(calls(("append", {"path": path, "text": f"- {KEY}"})), says("done"))
    async with opened(tmp_path, model) as agent:
        events = await events_of(agent, GROUP)
    [ended] = [event for event in events if isinstance(event, ToolEnded)]

    assert not any(isinstance(event, ApprovalAsked) for event in events)
    assert "became [redacted]" in ended.summary
    assert (tmp_path / "workspace" / path).read_text(encoding="utf-8").endswith("- [redacted]\n")


async def test_a_flush_redacts_and_its_line_says_so(tmp_path: Path) -> None:
    """Nobody can be asked while notes are saved silently."""
    _asks(tmp_path)
    model = ScriptedModel(
        says("Kept."),
        calls(("append", {"text": f"- The key is {KEY}\n- Tea"}), purpose="flush"),
        says("NO_REPLY", purpose="flush"),
    )
    async with opened(tmp_path, model) as agent:
        await events_of(agent, said(f"The key is {KEY}. I drink tea."))
        events = await events_of(agent, said("/compact"))
    [ended] = [event for event in events if isinstance(event, FlushEnded)]

    assert ended.notes.endswith("- The key is [redacted]\n- Tea")
    assert KEY not in (tmp_path / "workspace" / TODAY).read_text(encoding="utf-8")
