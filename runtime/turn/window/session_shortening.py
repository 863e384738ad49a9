"""Has the messages of a session that are too large for its window shown shortened: looks, keeps, records."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence

from nacre.runtime.contracts.events import Emit
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.tools.results import RESULT_PREFIX
from nacre.runtime.turn.window.parts import WindowParts
from nacre.runtime.turn.window.pruning.session import recorded_projections
from nacre.runtime.turn.window.shortening import Room, fitted, plan_shortening
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import Message, UserMessage
from nacre.sessions.entries.entries import Entry
from nacre.sessions.view.sent_view import PRUNE_TYPE, Projection, projected, record_data, whole_text
from nacre.sessions.view.tokens import estimate_message_tokens, last_counted_place
from nacre.sessions.view.transcript import TranscriptItem

log = logging.getLogger(__name__)

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class SessionShortening:
    """What is too large of one open session."""

    def __init__(self, session: OpenSession, parts: WindowParts, emit: Emit) -> None:
        self._session = session
        self._parts = parts
        self._emit = emit

    async def run(self, room: Room) -> bool:
        """Records what is shown shortened from now on; `True` when that is more than before.

        The transcript keeps every word. The text stands beside it, too, where `read` pages through it.
        """
        session, count_tokens = self._session, self._parts.count_tokens
        items, shown, branch = session.view.unpruned(), session.view.transcript(), session.branch
        limits = await asyncio.to_thread(
            plan_shortening,
            shown,
            room=room,
            newest_said_id=_newest_said_id(branch),
            count_tokens=count_tokens,
        )
        if not limits:
            return False
        recorded = recorded_projections(items, branch)
        ways: dict[str, Projection] = dict(recorded)
        for place, limit_tokens in limits.items():
            item = items[place]
            path, problem = await self._kept(item)
            ways[item.entry_id] = await asyncio.to_thread(
                fitted, item.message, limit_tokens, path=path, problem=problem, count_tokens=count_tokens
            )
        if ways == recorded:
            return False
        saved_tokens = await asyncio.to_thread(self._saved_tokens, items, shown, ways, limits)
        data = record_data(ways, saved_tokens=saved_tokens, reason="size of a message")
        await session.journal.append_custom(PRUNE_TYPE, data)
        log.info("shortened %d messages of %s: %s", len(limits), session.key, room)
        self._tell([items[place].message for place in limits if items[place].entry_id not in recorded])
        return True

    async def _kept(self, item: TranscriptItem) -> tuple[str, str]:
        """Where `read` finds the text of a message, or why it does not."""
        entry_id = item.entry_id
        if not _NAME.fullmatch(entry_id):  # another program's
            entry_id = hashlib.sha256(entry_id.encode("utf-8", "replace")).hexdigest()[:32]
        name, results = f"message-{entry_id}", self._session.journal.results
        try:
            if await results.read(name) is None:
                await results.keep(name, whole_text(item.message))
        except SessionError as error:
            log.warning("the text of a long message could not be kept beside the transcript: %s", error)
            return "", "The rest could not be kept for reading"
        return f"{RESULT_PREFIX}{name}", ""

    def _saved_tokens(
        self,
        items: Sequence[TranscriptItem],
        shown: Sequence[TranscriptItem],
        ways: Mapping[str, Projection],
        limits: Mapping[int, int],
    ) -> int:
        """What a usage still counts that was reported behind these messages."""
        counted_to = last_counted_place(items)
        saved_tokens = 0
        for place in limits:
            if counted_to is not None and place <= counted_to:
                now = projected(items[place].message, ways[items[place].entry_id])
                saved_tokens += estimate_message_tokens(shown[place].message, self._parts.count_tokens)
                saved_tokens -= estimate_message_tokens(now, self._parts.count_tokens)
        return max(0, saved_tokens)

    def _tell(self, messages: Sequence[Message]) -> None:
        sizes = [len(whole_text(message)) for message in messages if isinstance(message, UserMessage)]
        notices = [
            f"A message of {size} characters is too long to be read at once: the model sees its beginning "
            "and its end, and can read the rest page by page. Every word of it is kept."
            for size in sizes
        ]
        self._parts.told.once(self._session.session_id, notices, self._emit)


def _newest_said_id(branch: Sequence[Entry]) -> str:
    said = (entry.id for entry in reversed(branch) if isinstance(entry.body, UserMessage))
    return next(said, "")
