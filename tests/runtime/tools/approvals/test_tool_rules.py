"""What the owner's rules say of single tools, against their authors' word."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.events import ApprovalAsked
from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.models.scripted import ScriptedModel, calls, says
from nacre.runtime.settings.config import load_config
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.turn.context import offered_tools
from nacre.sessions.contracts.messages import message_text
from tests.runtime.agents import events_of, opened, said, write_settings
from tests.runtime.tools.approvals.approving import answered, paid, paying

GROUP = {"chat_kind": "group", "is_owner": False, "channel": "telegram", "chat_id": "-1"}


async def offered(state_dir: Path, rules: dict[str, Any], **inbound: Any) -> set[str]:
    """The tools that a model is sent in one chat."""
    write_settings(state_dir, {"tools": {"rules": rules}})
    model = ScriptedModel(says("hi"))
    async with opened(state_dir, model, tools=[paying(state_dir / "paid", chats=("private",))]) as agent:
        await events_of(agent, said("hi", **inbound))
    return {spec.name for spec in model.requests[0].tools}


@pytest.mark.parametrize(
    ("rules", "in_private", "in_group"),
    [
        ({}, True, False),
        ({"pay": {"chats": []}}, False, False),
        ({"pay": {"chats": ["group"]}}, False, True),
        ({"pay": {"chats": ["private", "group"]}}, True, True),
        ({"Pay": {"chats": ["group"]}}, True, False),
    ],
)
async def test_the_owner_says_where_a_tool_is_offered(
    tmp_path: Path, rules: dict[str, Any], in_private: bool, in_group: bool
) -> None:
    """In groups only by a rule that names them, for exactly this tool."""
    assert ("pay" in await offered(tmp_path / "a", rules)) is in_private
    assert ("pay" in await offered(tmp_path / "b", rules, **GROUP)) is in_group


async def test_an_agents_own_rule_replaces_that_of_all(tmp_path: Path) -> None:
    """For the same tool; the other agents keep the one of all."""
    own = {"id": "work", "tools": {"rules": {"pay": {"chats": ["group"]}}}}
    settings = {"agents": {"list": [{"id": "main"}, own]}, "tools": {"rules": {"pay": {"chats": []}}}}
    write_settings(tmp_path, settings)
    for agent_id, is_offered in (("main", False), ("work", True)):
        config = load_config({"HOME": str(tmp_path)}, state_dir=tmp_path, agent_id=agent_id)
        rule = config.settings.tool_rules["pay"]
        assert (rule.chats == ("group",)) is is_offered
        pay = paying(tmp_path / "paid", chats=("private",))
        chat = ToolChat(
            policy=ChatPolicy(chat_kind="group", is_owner=False, session_key_is_private=False),
            session_key="agent:work:telegram:group:-1",
            session_id="one",
            channel="telegram",
            workspace=tmp_path,
        )
        assert bool(offered_tools((), [pay], chat, config.settings.tool_rules)) is is_offered


async def test_no_rule_gives_a_group_more_of_nacres_own_tools(tmp_path: Path) -> None:
    """A rule can take a tool away; one that names groups does not make the owner's memory theirs."""
    rules = {"memory_get": {"chats": ["group"]}, "write": {"chats": ["private"]}}
    in_group = await offered(tmp_path, rules, **GROUP)
    model = ScriptedModel(calls(("memory_get", {"path": "MEMORY.md"})), says("no"))
    async with opened(tmp_path, model) as agent:
        await agent.respond(said("what is in MEMORY.md?", **GROUP))

    assert json.loads(message_text(model.requests[1].messages[-1]))["text"] == ""
    assert "write" not in in_group
    assert "read" in in_group


@pytest.mark.parametrize(("declared", "confirm", "asks"), [(True, False, False), (False, True, True)])
async def test_the_owner_says_what_is_confirmed(
    tmp_path: Path, declared: bool, confirm: bool, asks: bool
) -> None:
    """Their rule stands in place of the author's word, and works for Nacre's own tools as well."""
    rule = {"confirm": confirm}
    write_settings(tmp_path, {"tools": {"rules": {"pay": rule, "append": {"confirm": True}}}})
    log = tmp_path / "paid"
    model = ScriptedModel(
        calls(("pay", {"euros": 5, "to": "Ann"}), ("append", {"path": "memory/x.md", "text": "- tea"})),
        says("done"),
    )
    async with opened(tmp_path, model, tools=[paying(log, needs_approval=declared)]) as agent:
        events = await answered(agent, said("pay"), "yes")

    asked = [event.tool_name for event in events if isinstance(event, ApprovalAsked)]
    assert sorted(asked) == (["append", "pay"] if asks else ["append"])
    assert paid(log) == ["5 to Ann"]
    assert (tmp_path / "workspace/memory/x.md").read_text(encoding="utf-8").strip() == "- tea"
