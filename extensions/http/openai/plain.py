"""An agent's model without its memory and transcript: front ends ask it for titles and tags."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from nacre.extensions.http.openai.asking import Conversation
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.errors import ModelError
from nacre.runtime.contracts.events import AnswerDiscarded, Event, ReplyReady, TextStreamed, TurnFailed
from nacre.runtime.contracts.inbound import Reply
from nacre.runtime.contracts.model import AnswerRestarted, ModelRequest, SystemPrompt, TextDelta
from nacre.sessions.contracts.messages import AssistantMessage, Message, Text, message_text, user_message


async def plain_events(
    agent: Agent, talk: Conversation, most_tokens: int | None, *, at_ms: int
) -> AsyncGenerator[Event, None]:
    """The model's answer to a client's whole history, as the events of a turn."""
    request = ModelRequest(
        system=SystemPrompt(stable=talk.rules),
        messages=tuple(_message(said.role, said.text, at_ms) for said in talk.said),
        max_output_tokens=most_tokens,
        purpose="background",
    )
    try:
        async for item in agent.ask_model(request):
            if isinstance(item, TextDelta):
                yield TextStreamed(text=item.text)
            elif isinstance(item, AnswerRestarted):
                yield AnswerDiscarded(problem=item.problem)
            elif isinstance(item, AssistantMessage):
                reply = Reply(text=message_text(item), session_key="", session_id="", usage=item.usage)
                yield ReplyReady(reply=reply)
    except ModelError as error:
        yield TurnFailed(error=error)


def _message(role: str, text: str, at_ms: int) -> Message:
    if role == "user":
        return user_message(text, timestamp_ms=at_ms)
    return AssistantMessage(
        content=(Text(text=text),),
        api="",
        provider="",
        model="",
        usage=None,
        stop_reason="stop",
        timestamp_ms=at_ms,
    )
