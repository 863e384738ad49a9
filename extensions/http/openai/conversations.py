"""Turns a client's request into a turn: finds its agent, its session, and the messages that are new there.

Clients send the whole conversation with each request. The session has its own record, including the tools'
work. So only new messages are passed on, and where a client's history differs, the session is rewound to the
last common message and continues as another branch.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from starlette.requests import Request

from nacre.bridges.answering.turns import TurnRunner
from nacre.extensions.http.openai.requests import BadRequest, ClientMessage
from nacre.prompts import quoted, render
from nacre.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock, NewId, epoch_ms
from nacre.runtime.contracts.errors import ModelError, PrivacyError
from nacre.runtime.contracts.events import AnswerDiscarded, Event, ReplyReady, TextStreamed, TurnFailed
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.contracts.model import AnswerRestarted, ModelRequest, SystemPrompt, TextDelta
from nacre.runtime.extensions.service import Token, caller_of
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound
from nacre.sessions.contracts.messages import AssistantMessage, Message, Text, message_text, user_message

SESSION_HEADER = "x-nacre-session"
OPEN_WEBUI_HEADER = "x-openwebui-chat-id"
"""Open WebUI sends this header if `ENABLE_FORWARD_USER_INFO_HEADERS` is set."""
NO_NAMES = ("", "new", "null", "undefined")
"""What front ends send as the name of a conversation that has none yet."""
CHANNEL = "openai"
MAIN = "main"
"""The short key of the terminal's chat."""
PLAIN = "plain"
"""The suffix of an agent's ID for its model without memory and transcript: for titles and tags."""


def match_history(
    history: Sequence[ClientMessage], known: Sequence[str]
) -> tuple[int, tuple[ClientMessage, ...]]:
    """The number of turns of a session that fit a client's history, and the messages that are new to it.

    `history` lacks the last message. `known` has the messages of people in the session, the oldest first. The
    assistant's messages are not compared, because clients change them and remove reasoning.
    """
    kept, differs_at = 0, None
    for position, message in enumerate(history):
        if message.role != "user":
            continue
        if kept < len(known) and _squeezed(message.text) in _squeezed(known[kept]):
            kept += 1
        elif not message.text.startswith("/"):  # a command is not a turn of the session
            differs_at = position
            break
    return kept, () if differs_at is None else tuple(history[differs_at:])


def with_context(rules: str, unseen: Sequence[ClientMessage], text: str) -> str:
    history = "\n\n".join(f"{one.role}: {one.text}" for one in unseen)
    before = [
        render("session/client_rules", rules=quoted(rules)) if rules.strip() else "",
        render("session/client_said", conversation=quoted(history)) if history else "",
    ]
    return "\n\n".join((*filter(None, before), text))


def owner_session_key(name: str, token_name: str) -> str:
    """The session key for a name of the owner's client. The key contains a digest of the name only."""
    digest = hashlib.sha256(f"{token_name}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    return f"{CHANNEL}:direct:{digest[:24]}"


def _squeezed(text: str) -> str:
    return " ".join(text.split())


class RequestedModel(Record):
    agent: Agent
    is_plain: bool
    model_id: str


class Conversation(Record):
    """A client's request: its rules, its messages, and the name of the session, which may be empty.

    `is_raw_key` says that the name is a session key. `kept_turns` is set by clients that name a position
    instead of sending the history: the number of turns of the session before this one. `answer` is the type
    of the answer, or `None` for plain text.
    """

    rules: str
    messages: tuple[ClientMessage, ...]
    session_name: str
    is_raw_key: bool = False
    kept_turns: int | None = None
    answer: Any = None


def requested_model(agents: Mapping[str, Agent], request: Request, model: str) -> RequestedModel:
    """The agent of the request's token; `model` must name it.

    Raises:
        BadRequest: the agent is not open, or the model is not one of the IDs of `/v1/models`.
    """
    token = caller_of(request.scope)
    agent = agents.get(token.agent_id)
    if agent is None:
        raise BadRequest(f"The agent {token.agent_id!r} of this token is not open here.", status=404)
    names = {"": False, agent.id: False, f"{agent.id}/{PLAIN}": True}
    if model not in names:
        raise BadRequest(
            f"There is no model {model!r} here. Use {agent.id!r} or '{agent.id}/{PLAIN}'.",
            "model",
            status=404,
        )
    return RequestedModel(agent=agent, is_plain=names[model], model_id=model or agent.id)


def session_name_of(request: Request, *names: str | None) -> tuple[str, bool]:
    """The name of the session, and whether it is a key of the owner's. Headers precede `names`."""
    named = request.headers.get(SESSION_HEADER, "").strip()
    if caller_of(request.scope).is_owner and (named == MAIN or named.startswith("agent:")):
        return named, True
    candidates = (named, request.headers.get(OPEN_WEBUI_HEADER, "").strip(), *names)
    return next((name for name in candidates if name is not None and name not in NO_NAMES), ""), False


class Conversations:
    def __init__(self, agents: Mapping[str, Agent], runner: TurnRunner, *, now: Clock, new_id: NewId) -> None:
        self.agents = agents
        self._runner = runner
        self.now = now
        self.new_id = new_id
        self._locks = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    async def events(
        self, model: RequestedModel, token: Token, conversation: Conversation, most_tokens: int | None
    ) -> tuple[AsyncGenerator[Event, None], int]:
        """The events of the requested turn, and the number of turns before it. Raises like `_prepare`."""
        if model.is_plain and conversation.answer is not None:
            raise BadRequest(f"Only {model.agent.id!r} gives an answer as JSON.", "model")
        if model.is_plain:
            events = plain_events(model.agent, conversation, most_tokens, at_ms=epoch_ms(self.now()))
            return self._runner.limited(model.agent, events), 0
        inbound, turns_before = await self._prepare(model.agent, token, conversation)
        if conversation.answer is None:
            return self._runner.stream(model.agent, inbound), turns_before
        typed = model.agent.stream(inbound, output_type=conversation.answer)  # workers return texts
        return self._runner.limited(model.agent, typed), turns_before

    async def _prepare(self, agent: Agent, token: Token, conversation: Conversation) -> tuple[Inbound, int]:
        """Rewinds the session to the client's position. Returns the message and the turns before it.

        Raises:
            BadRequest: the session is not accessible, is not valid, or has no such position.
            AgentError, SessionError: the agent refuses the message, or the session cannot be rewound.
        """
        inbound = _inbound(agent, token, conversation, self.new_id)
        try:
            key = agent.session_key(inbound)
        except (PrivacyError, SessionKeyInvalid) as error:
            raise BadRequest(str(error), SESSION_HEADER, status=403) from error
        *before, last = conversation.messages
        await self._runner.admit(agent, replace(inbound, text=last.text))
        async with self._locks.setdefault((agent.id, key), asyncio.Lock()):
            turns, unseen = await _rewind_to_client(agent, key, conversation, before)
        text = with_context(conversation.rules if not turns else "", unseen, last.text)
        return replace(inbound, text=text, attachments=last.attachments), turns


def _inbound(agent: Agent, token: Token, conversation: Conversation, new_id: NewId) -> Inbound:
    name = conversation.session_name or f"once-{new_id()}"
    if not token.is_owner:
        # A stranger may not choose a key: it could be one of the owner's. The control character, which no
        # token's name has, keeps "b/c" of the token "a" apart from "c" of the token "a/b".
        sender = token.name.replace("/", "\x1f") + f"/{name}"
        return Inbound(text="", chat_kind="direct", channel=CHANNEL, account=token.name, sender_id=sender)
    key = name if conversation.is_raw_key else f"agent:{agent.id}:{owner_session_key(name, token.name)}"
    return Inbound(
        text="", chat_kind="direct", channel=CHANNEL, account=token.name, is_owner=True, session_key=key
    )


async def _rewind_to_client(
    agent: Agent, key: str, conversation: Conversation, before: Sequence[ClientMessage]
) -> tuple[int, tuple[ClientMessage, ...]]:
    """Returns the number of turns before this one, and the client's messages that are new to the session."""
    try:
        session = await agent.sessions.get(key)
    except SessionNotFound:
        if conversation.kept_turns:
            raise BadRequest(
                "This token has no such response, or the response no longer exists.",
                "previous_response_id",
                status=404,
            ) from None
        return 0, tuple(before)
    turns = (await session.turns())[::-1]
    if conversation.kept_turns is not None:
        kept, unseen = min(conversation.kept_turns, len(turns)), tuple(before)
    elif not before:  # only the message: the session has the history
        return len(turns), ()
    else:
        kept, unseen = match_history(before, [turn.text for turn in turns])
    if kept < len(turns):
        await session.rewind(turns[kept])
    return kept, unseen


async def plain_events(
    agent: Agent, conversation: Conversation, most_tokens: int | None, *, at_ms: int
) -> AsyncGenerator[Event, None]:
    """The model's answer to a client's whole history, as the events of a turn."""
    request = ModelRequest(
        system=SystemPrompt(stable=conversation.rules),
        messages=tuple(_message(message.role, message.text, at_ms) for message in conversation.messages),
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
