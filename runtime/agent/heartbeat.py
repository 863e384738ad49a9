"""Heartbeats and scheduled messages: what the model reads, and what of its answer is delivered."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import PurePosixPath

from nacre.memory.contracts.workspace import Workspace
from nacre.memory.files.sources.sources import Sources
from nacre.prompts import render
from nacre.runtime.agent.opening.agent_parts import AgentParts
from nacre.runtime.contracts.inbound import Inbound, Reply
from nacre.runtime.open_sessions.open_session import FLUSH_ENTRY
from nacre.runtime.open_sessions.routing import Route, workspace_access
from nacre.runtime.turn.system_prompt import own_lines
from nacre.runtime.turn.turn import Turn
from nacre.sessions.contracts.messages import UserMessage
from nacre.sessions.entries.entries import Compaction, CustomRecord, Entry

HEARTBEAT_TOKEN = "HEARTBEAT_OK"
HEARTBEAT_FILE = "HEARTBEAT.md"
"""The owner's list of what to look at, in the workspace."""

NO_LIST = f"There is no {HEARTBEAT_FILE}. Look after whatever you know that the owner is waiting for."

_MARKUP = " \t\r\n\f\v*_`~\u200b\ufeff"
_STOPS = ".!。！,:;-–—"
_TAG = re.compile(r"<[^<>]{0,40}>|&nbsp;")
_TAG_AT_END = re.compile(r"(?:<[^<>]{0,40}>|&nbsp;)\Z")
_LONGEST_TAG = 42
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_ASKS_FOR_NOTHING = re.compile(r"\s*(?:#+(?:\s.*)?|[-*+](?:\s+\[[ xX]?\])?|\s*)\s*")


async def triggered_message(parts: AgentParts, inbound: Inbound, route: Route) -> Inbound | None:
    """A triggered message with the text that a model reads; `None` for a heartbeat without a task.

    Raises:
        OSError, PathOutsideRoot: HEARTBEAT.md exists and cannot be read.
    """
    moment = parts.turn.now()
    now = f"{moment:%A, %Y-%m-%d %H:%M} {moment.tzname()}"
    if inbound.trigger == "schedule":
        prompt = "session/scheduled_of_others" if inbound.quoted else "session/scheduled"
        return replace(inbound, text=render(prompt, now=now, text=inbound.text.strip()))
    policy = replace(route.policy, access=workspace_access(route.key, parts.turn.settings))
    if not policy.may_read(PurePosixPath(HEARTBEAT_FILE)):
        return None
    checklist = await _checklist(parts.turn.workspace, parts.turn.sources)
    if checklist is None:
        return None
    return replace(inbound, text=render("session/heartbeat", now=now, checklist=checklist))


async def heartbeat_reply(turn: Turn, inbound: Inbound, reply: Reply | None) -> Reply | None:
    """What is delivered of a heartbeat's answer. A heartbeat that found nothing leaves the model's view.

    Raises:
        SessionError: the disk refused; the heartbeat stays in view.
    """
    most = turn.parts.settings.agent.heartbeat.ack_max_chars
    text = worth_saying(reply.text, ack_max_chars=most) if reply is not None else ""
    if reply is not None and text:
        return replace(reply, text=text)
    behind = _since(turn, inbound.inbound_id)
    # A compaction or a flush is about the whole conversation, so it stays in view.
    if behind and not any(_is_upkeep(entry) for entry in behind):
        await turn.session.journal.rewind(behind[0].parent_id)
    return None


async def _checklist(workspace: Workspace, sources: Sources) -> str | None:
    """The owner's own lines of the list; `None` when it contains no task."""
    if not workspace.is_there:
        return None
    try:
        file = await workspace.read(HEARTBEAT_FILE)
    except FileNotFoundError:
        return NO_LIST
    text = await own_lines(sources, HEARTBEAT_FILE, file.data.decode("utf-8", "replace"))
    return None if asks_for_nothing(text) else f"{HEARTBEAT_FILE} says:\n\n{text.strip()}"


def _since(turn: Turn, inbound_id: str) -> list[Entry]:
    """The entries of the branch from a message on; none if it is not there."""
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


def worth_saying(text: str, *, ack_max_chars: int) -> str:
    """What is delivered of a heartbeat's answer; empty for nothing.

    The token is cut off at both ends, with the markup around it. If the answer had one, a rest of at most
    `ack_max_chars` is dropped. A token in the middle is a word like any other.

    >>> worth_saying("**HEARTBEAT_OK**", ack_max_chars=300)
    ''
    >>> worth_saying("HEARTBEAT_OK is what I would say, but the disk is full.", ack_max_chars=10)
    'is what I would say, but the disk is full.'
    """
    rest, had_token = text.strip(), False
    for cut in (_without_leading, _without_trailing):
        while (shorter := cut(rest)) is not None:
            rest, had_token = shorter, True
    return "" if had_token and len(rest) <= ack_max_chars else rest


def asks_for_nothing(checklist: str) -> bool:
    """Whether a list has nothing but headings, comments, empty lines and empty items."""
    return all(_ASKS_FOR_NOTHING.fullmatch(line) for line in _COMMENT.sub("", checklist).splitlines())


def _without_leading(text: str) -> str | None:
    """The text after a leading token; `None` if there is none."""
    rest = text.lstrip(_MARKUP)
    while tag := _TAG.match(rest):
        rest = rest[tag.end() :].lstrip(_MARKUP)
    token, behind = rest[: len(HEARTBEAT_TOKEN)], rest[len(HEARTBEAT_TOKEN) :]
    if token.upper() != HEARTBEAT_TOKEN or behind[:1].isalnum():
        return None
    behind = behind.lstrip("*_`~").lstrip(_STOPS)
    while tag := re.match(r"</[^<>]{0,40}>", behind):
        behind = behind[tag.end() :]
    return behind.strip()


def _without_trailing(text: str) -> str | None:
    """The text before a trailing token; `None` if there is none."""
    rest = text.rstrip(_MARKUP + _STOPS)
    while tag := _TAG_AT_END.search(rest[-_LONGEST_TAG:]):
        rest = rest[: len(rest) - len(tag[0])].rstrip(_MARKUP + _STOPS)
    before, token = rest[: -len(HEARTBEAT_TOKEN)], rest[-len(HEARTBEAT_TOKEN) :]
    if token.upper() != HEARTBEAT_TOKEN or before[-1:].isalnum():
        return None
    before = before.rstrip("*_`~")
    while tag := re.search(r"<[a-zA-Z][^<>]{0,40}>\Z", before[-_LONGEST_TAG:]):
        before = before[: len(before) - len(tag[0])]
    return before.rstrip()
