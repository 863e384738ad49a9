"""Runs sub-agents: each task is a turn in a session of its own, and its final text is the result.

The session belongs to the program (`agent:<id>:subagent:…`): it is never reset or flushed into the notes,
no session end is reported, and upkeep removes it first. It sees what the calling chat may see, but nothing
of what was said there unless it is a hand-off.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from nacre.record import Record
from nacre.runtime.agent.opening.agent_parts import Running
from nacre.runtime.agent.opening.shared import World
from nacre.runtime.commands.conversation.chosen_models import ChosenModels
from nacre.runtime.contracts.errors import AgentError
from nacre.runtime.contracts.events import (
    ApprovalAsked,
    Emit,
    Event,
    FallbackAnswered,
    ModelRetried,
    ModelSlow,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from nacre.runtime.contracts.model import ChatModel
from nacre.runtime.open_sessions.routing import Route, SessionLocks
from nacre.runtime.tools.session_sources import SUB_AGENT_ENTRY
from nacre.runtime.tools.toolbox import CallScope, ToolFailed
from nacre.runtime.turn.loop import TurnBounds
from nacre.runtime.turn.sub_agent import AuthorTool, SubAgent
from nacre.runtime.turn.turn import Turn
from nacre.runtime.turn.turn_parts import CallingTurn, TurnOptions
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.keys import key_kind
from nacre.sessions.contracts.messages import AssistantMessage, Message, Text, UserMessage, message_text
from nacre.sessions.entries.entries import Entry
from nacre.sessions.index.record import Origin
from nacre.sessions.view.transcript import build_transcript

log = logging.getLogger(__name__)


def is_sub_agent_key(key: str) -> bool:
    return key_kind(key) == "subagent"


class _Task(Record):
    """A task for a sub-agent, and its caller."""

    caller: CallingTurn
    sub_agent: SubAgent
    text: str
    scope: CallScope


class SubAgents:
    """The sub-agents of one agent. Models that their author passed are closed with the agent."""

    def __init__(
        self,
        tools: Iterable[AuthorTool],
        *,
        chosen: ChosenModels,
        locks: SessionLocks,
        running: Running,
        world: World,
    ) -> None:
        self._chosen = chosen
        self._locks = locks
        self._running = running
        for model in _author_models(tools):
            world.author_model(model)

    async def run(self, caller: CallingTurn, sub_agent: SubAgent, text: str, scope: CallScope) -> str:
        """Runs a task and returns its final text.

        Raises:
            ToolFailed: there is none; the message says why, and the transcript has what was done until then.
        """
        task, name = _Task(caller=caller, sub_agent=sub_agent, text=text, scope=scope), sub_agent.name
        key = f"agent:{caller.parts.agent_id}:subagent:{caller.parts.new_id()}"
        log.info("the sub-agent %s works in %s for %s", name, key, caller.session.key)
        try:
            return await self._running.start(key, self._in_session(key, task))
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise
            raise ToolFailed(f"The sub-agent {name!r} was stopped.") from None
        except (AgentError, SessionError, OSError) as error:
            log.warning("the sub-agent %s ended without an answer: %s", name, error)
            raise ToolFailed(f"The sub-agent {name!r} ended without an answer. {error}") from error

    async def _in_session(self, key: str, task: _Task) -> str:
        async with self._locks.enter(key, on_wait=log.info):
            caller, name, model = task.caller.session, task.sub_agent.name, task.sub_agent.model
            parts = replace(
                task.caller.parts,
                sub_agent=task.sub_agent,
                tools=task.sub_agent.tools,
                options=TurnOptions(output=task.sub_agent.output),
                models=task.caller.parts.models if model is None else self._chosen.chain(model),
            )
            origin = Origin(
                chat_kind=caller.policy.chat_kind, channel=caller.route.origin.channel, chat_name=name
            )
            route = Route(key=key, policy=caller.policy, origin=origin, context=caller.route.context)
            session = await parts.sessions.open(route)
            called_by = {
                "name": name,
                "sessionKey": caller.key,
                "sessionId": caller.session_id,
                "callId": task.scope.call_id,
                # The task is the owner's if only the owner has spoken in the calling session.
                "isOwnersTask": (await caller.sources(parts.sources).begin("tool"))("").is_owners_word,
            }
            await session.journal.append_custom(SUB_AGENT_ENTRY, called_by)
            bounds = TurnBounds(task.sub_agent.limits, within=task.caller.bounds)
            turn = Turn(session, parts, _forward_events(task), bounds)
            try:
                for message in said_in(caller.branch) if task.sub_agent.hand_off else ():
                    await session.journal.append(message)
                await turn.write_down(task.text, ())
                reply = await turn.answer()
            finally:
                if turn.usage is not None:
                    task.caller.spend(turn.usage)
                # An owner who answers later finds no waiting turn.
                for approval in await parts.approvals.of_session(key):
                    await parts.approvals.store.remove(approval.id)
            if reply is None:
                raise ToolFailed(f"The sub-agent {name!r} ended without a word.")
            return reply.text


def said_in(branch: Sequence[Entry]) -> Iterator[Message]:
    """What people and the assistant said on a branch, without tool calls, results, and recalled notes."""
    for item in build_transcript(branch):
        message = item.message
        if isinstance(message, UserMessage) and not item.is_recall:
            yield replace(message, inbound_id="", speaker="")  # the text names the speaker
        elif isinstance(message, AssistantMessage) and (text := message_text(message)).strip():
            yield replace(message, content=(Text(text=text),), stop_reason="stop", usage=None)


def _author_models(tools: Iterable[AuthorTool]) -> Iterator[ChatModel]:
    for tool in tools:
        if isinstance(tool, SubAgent):
            if tool.model is not None and not isinstance(tool.model, str):
                yield tool.model
            yield from _author_models(tool.tools)


def _forward_events(task: _Task) -> Emit:
    """Forwards events to the caller: tools as progress, and what concerns the owner unchanged."""

    def emit(event: Event) -> None:
        match event:
            case ToolStarted():
                task.scope.progress(event.tool_name)
            case ToolProgressed():
                task.scope.progress(f"{event.tool_name}: {event.text}")
            case ApprovalAsked() | FallbackAnswered() | ModelRetried() | ModelSlow() | Warned():
                task.caller.emit(event)
            case _:
                log.debug("the sub-agent %s: %s", task.sub_agent.name, type(event).__name__)

    return emit
