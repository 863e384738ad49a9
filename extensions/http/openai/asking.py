"""From a client's request to a turn: whose it is, in which session, and what of it is new there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from starlette.requests import Request

from nacre.extensions.http.openai.history import (
    CHANNEL,
    NO_NAMES,
    OPEN_WEBUI_HEADER,
    SESSION_HEADER,
    Plan,
    owners_key,
    plan,
    worded,
)
from nacre.extensions.http.openai.wire import BadRequest, Said
from nacre.records.record import Record
from nacre.runtime.agent.agent import Agent
from nacre.runtime.contracts.clock import Clock
from nacre.runtime.contracts.errors import PrivacyError
from nacre.runtime.contracts.ids import NewId
from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.extensions.service import Token, caller_of
from nacre.sessions.contracts.errors import SessionKeyInvalid, SessionNotFound

MAIN = "main"
"""The short key of the chat in the terminal."""
PLAIN = "plain"
"""Behind an agent's id: its model without its memory and transcript, for titles and tags of front ends."""


class Asked(Record):
    """An agent, and whether its model alone is meant."""

    agent: Agent
    is_plain: bool
    model_id: str


class Conversation(Record):
    """What a client sent: its rules, all that was said, and the name of the session, empty for none.

    `is_raw_key` says that the name is a session's key. `kept_turns` is set where the client names a place and
    sends no history: so many turns of the session are before this one.
    """

    rules: str
    said: tuple[Said, ...]
    session_name: str
    is_raw_key: bool = False
    kept_turns: int | None = None


class Begun(Record):
    """A turn that can be run: its message, and how many turns the session has before it."""

    inbound: Inbound
    turns_before: int


def asked_agent(agents: Mapping[str, Agent], request: Request, model: str) -> Asked:
    """Which agent a request is for: that of the token, by its id; anything else is told.

    Raises:
        BadRequest: the agent is not open, or the model is not one of the ids of `/v1/models`.
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
    return Asked(agent=agent, is_plain=names[model], model_id=model or agent.id)


def session_of(request: Request, *names: str | None) -> tuple[str, bool]:
    """The session's name and whether it is a key of the owner's: of a header first, then of the fields."""
    own = request.headers.get(SESSION_HEADER, "").strip()
    if caller_of(request.scope).is_owner and (own == MAIN or own.startswith("agent:")):
        return own, True
    given = (own, request.headers.get(OPEN_WEBUI_HEADER, "").strip(), *names)
    return next((name for name in given if name is not None and name not in NO_NAMES), ""), False


class Talks:
    """The conversations of programs with the agents of one process."""

    def __init__(self, agents: Mapping[str, Agent], *, now: Clock, new_id: NewId) -> None:
        self.agents = agents
        self.now = now
        self.new_id = new_id
        self._lanes = WeakValueDictionary[tuple[str, str], asyncio.Lock]()

    async def begin(self, agent: Agent, token: Token, talk: Conversation) -> Begun:
        """Takes the session to where the client is.

        Raises:
            BadRequest: the session may not be named, cannot be, or has no such place.
            AgentError, SessionError: the session cannot be taken there.
        """
        inbound = _inbound(agent, token, talk, self.new_id)
        try:
            key = agent.session_key(inbound)
        except (PrivacyError, SessionKeyInvalid) as error:
            raise BadRequest(str(error), SESSION_HEADER, status=403) from error
        *before, last = talk.said
        async with self._lanes.setdefault((agent.id, key), asyncio.Lock()):
            turns, untold = await _brought_to(agent, key, talk, before)
        text = worded(talk.rules if not turns else "", untold, last.text)
        asked = replace(inbound, text=text, attachments=last.attachments)
        return Begun(inbound=asked, turns_before=turns)


def _inbound(agent: Agent, token: Token, talk: Conversation, new_id: NewId) -> Inbound:
    name = talk.session_name or f"once-{new_id()}"
    if not token.is_owner:
        # No key of their own choice: one could be the owner's.
        return Inbound(
            text="", chat_kind="direct", channel=CHANNEL, account=token.name, sender_id=f"{token.name}/{name}"
        )
    key = name if talk.is_raw_key else f"agent:{agent.id}:{owners_key(name, token.name)}"
    return Inbound(
        text="", chat_kind="direct", channel=CHANNEL, account=token.name, is_owner=True, session_key=key
    )


async def _brought_to(
    agent: Agent, key: str, talk: Conversation, before: Sequence[Said]
) -> tuple[int, tuple[Said, ...]]:
    """How many turns the session has before this one, and what of the client's history it has not heard."""
    try:
        session = await agent.sessions.get(key)
    except SessionNotFound:
        if talk.kept_turns:
            raise BadRequest(
                "There is no such response of this token any more.", "previous_response_id", status=404
            ) from None
        return 0, tuple(before)
    turns = (await session.turns())[::-1]
    if talk.kept_turns is not None:
        found = Plan(kept=min(talk.kept_turns, len(turns)), untold=tuple(before))
    elif not before:  # only the message: the session alone knows what was before
        return len(turns), ()
    else:
        found = plan(before, [turn.text for turn in turns])
    if found.kept < len(turns):
        await session.rewind(turns[found.kept])
    return found.kept, found.untold
