"""Which tool result answers which call. Pure; works on places in a sequence of messages.

Some providers use the same call id again in a later turn, so a result belongs to the nearest message
before it that made the call, not simply to its id.
"""

from __future__ import annotations

from collections.abc import Sequence

from nacre.sessions.contracts.messages import AssistantMessage, Message, ToolResultMessage


def paired_results(messages: Sequence[Message]) -> dict[int, int]:
    """For each tool result that answers a call, its index and the index of the calling message.

    Left out are results without a call before them, and every second answer to one call.
    """
    callers: dict[str, int] = {}
    pairs: dict[int, int] = {}
    for index, message in enumerate(messages):
        if isinstance(message, AssistantMessage):
            callers.update({call.id: index for call in message.tool_calls if call.id})
        elif isinstance(message, ToolResultMessage) and message.tool_call_id in callers:
            pairs[index] = callers.pop(message.tool_call_id)
    return pairs
