"""What stands between a model's tool call and the tool: the hooks of the agent."""

from __future__ import annotations

import copy

from pydantic import BaseModel

from nacre.runtime.hooks.around import guarded
from nacre.runtime.hooks.events import AfterTool, BeforeTool, Deny
from nacre.runtime.hooks.hooks import Hooks
from nacre.runtime.tools.function import ToolChat
from nacre.runtime.tools.toolbox import Tool, ToolFailed, ToolOutcome
from nacre.sessions.contracts.messages import ToolCall, message_text


class TurnGuard:
    """The guard of one turn's calls."""

    def __init__(self, hooks: Hooks, chat: ToolChat) -> None:
        self._hooks = hooks
        self._chat = chat

    async def before(self, call: ToolCall, _tool: Tool, _arguments: BaseModel) -> None:
        """Returns when the call may run.

        Raises:
            ToolFailed: a hook said no.
        """
        if not self._hooks.hears("before_tool"):
            return
        # A copy: what a handler does to it reaches neither the tool nor the transcript.
        answer = await guarded(
            self._hooks,
            BeforeTool(
                chat=self._chat,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
            ),
        )
        if isinstance(answer, Deny):
            raise ToolFailed(f"Not run: {answer.reason}")

    async def after(self, call: ToolCall, outcome: ToolOutcome) -> None:
        """Tells the hooks how a call ended."""
        if not self._hooks.hears("after_tool"):
            return
        await self._hooks.trigger(
            AfterTool(
                chat=self._chat,
                call_id=call.id,
                tool_name=call.name,
                arguments=copy.deepcopy(dict(call.arguments)),
                text=message_text(outcome.message),
                is_error=outcome.message.is_error,
            )
        )
