"""Sessions opened again after they have ended: with the privacy that they began with."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from nacre.runtime.contracts.inbound import Inbound
from nacre.runtime.models.scripted import Clock, CountingIds
from nacre.runtime.open_sessions.open_session import SessionOpener
from nacre.runtime.open_sessions.routing import SessionLocks, route
from nacre.runtime.settings.sections.session import SessionSettings
from nacre.sessions.contracts.keys import EndedSession
from nacre.sessions.contracts.messages import message_text, user_message
from tests.sessions.stores.places import file_store
from tests.sessions.stores.remembered import RememberedStore
from tests.sessions.stores.remembered_transcript import Everything


@pytest.mark.parametrize(
    ("chat", "kind", "private"),
    [
        ({"chat_kind": "direct", "is_owner": True}, "direct", True),
        ({"chat_kind": "group", "chat_id": "club", "is_owner": True}, "group", False),
        ({"chat_kind": "direct", "sender_id": "ben"}, "group", False),
    ],
)
async def test_a_session_that_ended_is_what_it_was(
    tmp_path: Path, chat: dict[str, Any], kind: str, private: bool
) -> None:
    """The owner's own is private; every other one shows what a group may see, and keeps its channel."""
    clock, ids = Clock(), CountingIds()
    opener = SessionOpener(
        file_store(tmp_path, now=clock, new_id=ids),
        now=clock,
        new_id=ids,
    )
    where = route(Inbound(text="", **chat), agent_id="main", settings=SessionSettings())
    session = await opener.open(where)
    await session.say(user_message("hi", timestamp_ms=1))

    ended = EndedSession(
        key=session.key,
        session_id=session.session_id,
        transcript=session.journal.name,
        reason="new",
        ended_at_ms=1,
        channel="chat",
    )
    again = await opener.open_ended(ended)

    assert again is not None
    assert (again.policy.chat_kind, again.policy.is_private) == (kind, private)
    assert again.route.origin.channel == "chat"
    Path(session.journal.place).unlink()
    assert await opener.open_ended(ended) is None


async def test_what_an_ended_session_records_leaves_the_next_one_alone(tmp_path: Path) -> None:
    """Its notes are saved after the key has its new session, whose line in the index stays as it is."""
    clock, ids = Clock(), CountingIds()
    opener = SessionOpener(file_store(tmp_path, now=clock, new_id=ids), now=clock, new_id=ids)
    where = route(
        Inbound(text="", chat_kind="direct", is_owner=True), agent_id="main", settings=SessionSettings()
    )
    ended = await opener.open(where)
    await ended.say(user_message("hi", timestamp_ms=1))
    fresh = await opener.open(where, fresh=True)
    before = await opener.index.get(where.key)

    clock.advance(minutes=1)
    await ended.flushes.record("written", path="memory/a.md", problem="", is_forced=False)
    await ended.line.save_abort()
    await ended.line.choose_model("openai/gpt-5")

    assert before is not None
    assert before.session_id == fresh.session_id != ended.session_id
    assert await opener.index.get(where.key) == before


async def test_sessions_open_on_a_store_without_files() -> None:
    """What the runtime does between a message and its turn needs no path: opened, said, opened again."""
    everything = Everything(now=Clock(), new_id=CountingIds())
    where = route(
        Inbound(text="", chat_kind="direct", is_owner=True), agent_id="main", settings=SessionSettings()
    )
    texts = []
    for text in ("one", "two"):
        store = RememberedStore(everything)
        opener = SessionOpener(store, now=Clock(), new_id=CountingIds())
        lanes = SessionLocks(store, sleep=asyncio.sleep, wait_seconds=0)
        async with lanes.enter(where.key, on_wait=print):
            session = await opener.open(where)
            await session.say(user_message(text, timestamp_ms=1))
            texts = [message_text(item.message) for item in session.view.transcript()]
    assert texts == ["one", "two"]


@pytest.mark.parametrize("strange", [7, {"sessionId": "nobodys"}])
@pytest.mark.covers("ATT-16")
async def test_a_strange_line_of_the_index_does_not_begin_the_conversation_anew(
    tmp_path: Path, strange: object
) -> None:
    """A main session whose line is a number, or names nobody's transcript, goes on, and that is told."""
    clock, ids = Clock(), CountingIds()
    where = route(
        Inbound(text="", chat_kind="direct", is_owner=True), agent_id="main", settings=SessionSettings()
    )

    def opener() -> SessionOpener:
        return SessionOpener(file_store(tmp_path, now=clock, new_id=ids), now=clock, new_id=ids)

    first = opener()
    begun = await first.open(where)
    await begun.say(user_message("hi", timestamp_ms=1))
    await first.store.close()
    (tmp_path / "sessions.json").write_text(json.dumps({where.key: strange}))

    again = opener()
    session = await again.open(where)

    assert session.session_id == begun.session_id
    assert len(again.index.notices) == 1
    assert begun.session_id in again.index.notices[0]
