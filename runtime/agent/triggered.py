"""Messages that nobody said: what a model reads of them, and how a heartbeat leaves no trace.

A heartbeat that found nothing is taken out of the model's view, so that a day of them fills no window. Its
words stay in the transcript, on a branch that was left.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import PurePosixPath

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.prompts import render
from nacre.runtime.agent.opening.parts import AgentParts
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.lanes.flush_records import FLUSH_ENTRY
from nacre.runtime.lanes.routing import Route, workspace_access
from nacre.runtime.turn.inbound.heartbeat import HEARTBEAT_FILE, asks_for_nothing, worth_saying
from nacre.runtime.turn.prompt_parts.own_lines import own_lines
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.messages import UserMessage
from nacre.sessions.entries.entries import Compaction, CustomRecord, Entry

NO_LIST = f"There is no {HEARTBEAT_FILE}. Look after whatever you know that the owner is waiting for."


async def worded(parts: AgentParts, inbound: Inbound, where: Route) -> Inbound | None:
    """A message with the words that a model reads; `None` for a heartbeat that there is nothing to ask in.

    Raises:
        OSError, PathOutsideRoot: the list of a heartbeat is there and cannot be read.
    """
    now = _told(parts.turn.now())
    if inbound.trigger == "schedule":
        prompt = "session/scheduled_of_others" if inbound.quoted else "session/scheduled"
        return replace(inbound, text=render(prompt, now=now, text=inbound.text.strip()))
    if inbound.trigger != "heartbeat":
        return inbound
    access = workspace_access(where.key, parts.turn.settings)
    policy = replace(where.policy, access=access)
    if not policy.may_read(PurePosixPath(HEARTBEAT_FILE)):
        return None
    checklist = await _checklist(parts.turn.workspace, parts.turn.window.sources)
    if checklist is None:
        return None
    return replace(inbound, text=render("session/heartbeat", now=now, checklist=checklist))


async def heartbeat_ended(turn: Turn, inbound: Inbound, reply: Reply | None) -> Reply | None:
    """What is delivered of a heartbeat's answer. One that found nothing is out of view afterwards.

    Raises:
        SessionError: the disk refused; the heartbeat stays in view.
    """
    most = turn.parts.settings.agent.heartbeat.ack_max_chars
    text = worth_saying(reply.text, ack_max_chars=most) if reply is not None else ""
    if reply is not None and text:
        return replace(reply, text=text)
    behind = _since(turn, inbound.inbound_id)
    # What a compaction or a flush did holds for the whole conversation.
    if behind and not any(_is_upkeep(entry) for entry in behind):
        await turn.session.journal.rewind(behind[0].parent_id)
    return None


async def _checklist(workspace: Workspace, sources: Sources) -> str | None:
    """What the owner's list says in lines of the owner's, `None` where it asks for nothing."""
    if not workspace.is_there:
        return None
    try:
        file = await workspace.read(HEARTBEAT_FILE)
    except FileNotFoundError:
        return NO_LIST
    text = await own_lines(sources, HEARTBEAT_FILE, file.data.decode("utf-8", "replace"))
    return None if asks_for_nothing(text) else f"{HEARTBEAT_FILE} says:\n\n{text.strip()}"


def _since(turn: Turn, inbound_id: str) -> list[Entry]:
    """The entries of the branch from a message on; none where it does not stand there."""
    branch = turn.session.branch
    for place, entry in reversed(list(enumerate(branch))):
        if isinstance(entry.body, UserMessage) and entry.body.inbound_id == inbound_id != "":
            return list(branch[place:])
    return []


def _is_upkeep(entry: Entry) -> bool:
    body = entry.body
    return isinstance(body, Compaction) or (
        isinstance(body, CustomRecord) and body.custom_type == FLUSH_ENTRY
    )


def _told(now: datetime) -> str:
    return f"{now:%A, %Y-%m-%d %H:%M} {now.tzname()}"
