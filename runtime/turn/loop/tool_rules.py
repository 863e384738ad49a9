"""Which tools a chat is offered, by their authors' word and then by the owner's rules. Pure.

The owner's word is the last: a rule may offer a bot author's tool in groups, or take it from there. Nacre's
own tools keep to the chat's policy whatever a rule says, so a rule can only take them away.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from nacre.runtime.contracts.policy import ChatPolicy
from nacre.runtime.settings.sections.hooks import ToolRule
from nacre.runtime.tools.function import FunctionTool, ToolChat, audience
from nacre.runtime.tools.toolbox import Tool


def offered_tools(
    built_in: Sequence[Tool],
    own: Sequence[FunctionTool[..., Any]],
    chat: ToolChat,
    rules: Mapping[str, ToolRule],
) -> tuple[Tool, ...]:
    """Nacre's tools and then the bot author's, without those that may not be called here."""
    policy = chat.policy
    found = [
        *(tool for tool in built_in if _in_chats(tool.name, policy, rules) is not False),
        *(tool.bound(chat) for tool in own if _is_offered(tool, policy, rules)),
    ]
    return tuple(_confirmed(tool, rules) for tool in found)


def _is_offered(tool: FunctionTool[..., Any], policy: ChatPolicy, rules: Mapping[str, ToolRule]) -> bool:
    ruled = _in_chats(tool.name, policy, rules)
    return tool.is_offered(policy) if ruled is None else ruled


def _in_chats(name: str, policy: ChatPolicy, rules: Mapping[str, ToolRule]) -> bool | None:
    """What the tool's rule says of such a chat; `None` where there is none."""
    rule = rules.get(name)
    return None if rule is None or rule.chats is None else audience(policy) in rule.chats


def _confirmed(tool: Tool, rules: Mapping[str, ToolRule]) -> Tool:
    rule = rules.get(tool.name)
    if rule is None or rule.confirm is None:
        return tool
    return replace(tool, needs_approval=rule.confirm)
