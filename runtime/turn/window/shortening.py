"""Decides which messages are too large for the window, and how much of each is shown instead. Pure.

A compaction cannot help against two things: one message that fills the window alone, and what every
compaction keeps (the newest step, and the words that it answers). Both are bounded here, before anything is
asked, so that no message can make a session unusable.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Mapping, Sequence

from nacre.records.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.contracts.events import Emit
from nacre.runtime.lanes.open_session import OpenSession
from nacre.runtime.tools.results import CHARS_PER_TOKEN, RESULT_PREFIX, left_out_note
from nacre.runtime.turn.window.parts import WindowParts
from nacre.runtime.turn.window.pruning.plan import message_chars
from nacre.runtime.turn.window.pruning.session import recorded_projections
from nacre.sessions.contracts.errors import SessionError
from nacre.sessions.contracts.messages import (
    Image,
    Message,
    ToolResultMessage,
    UserMessage,
)
from nacre.sessions.entries.entries import Entry
from nacre.sessions.view.sent_view import (
    PRUNE_TYPE,
    Projection,
    Shortened,
    projected,
    record_data,
    shortened,
    whole_text,
)
from nacre.sessions.view.tokens import IMAGE_TOKENS, estimate_message_tokens, last_counted_place
from nacre.sessions.view.transcript import TranscriptItem

SHOWN_SHARE = 0.25
"""Of the room: what is shown of a message that does not fit into it. The conversation before it stays."""
HEAD_SHARE = 0.75
LEAST_SHOWN_TOKENS = 64
LEAST_SHOWN_CHARS = 40
MOST_TOKENS_PER_CHAR = 3
LEAST_ROOM_SHARE = 8
"""A window whose prompt leaves next to nothing still gives an eighth to the conversation."""


class Room(Record):
    """`message_tokens` is the most of one message, `kept_tokens` of all that a compaction must keep."""

    message_tokens: int
    kept_tokens: int


def room_in(budget: ContextBudget, *, overhead_tokens: int, refused_tokens: int | None) -> Room:
    """What the window has beside its prompt and a summary.

    A provider that refused a context of `refused_tokens` has less than that, or counts otherwise: what must
    be kept gets half of what it had.
    """
    least_tokens = budget.window_tokens // LEAST_ROOM_SHARE
    taken_tokens = overhead_tokens + budget.summary_tokens
    message_tokens = max(budget.compact_at - taken_tokens, least_tokens)
    # Half of the reserve is enough for an answer; what must stay may have the other half.
    kept_tokens = max((budget.compact_at + budget.window_tokens) // 2 - taken_tokens, least_tokens)
    if refused_tokens is not None:
        kept_tokens = min(kept_tokens, max(refused_tokens - overhead_tokens, 0)) // 2
    return Room(message_tokens=message_tokens, kept_tokens=kept_tokens)


def plan_shortening(
    shown: Sequence[TranscriptItem],
    *,
    room: Room,
    newest_said_id: str,
    count_tokens: Callable[[str], int],
) -> Mapping[int, int]:
    """Places in the transcript as it is shown, and how many tokens the message there may take.

    `newest_said_id` is the entry of what a person said last.
    """
    limits: dict[int, int] = {}
    sizes: dict[int, int] = {}
    limit_tokens = int(room.message_tokens * SHOWN_SHARE)
    kept = _kept_places(shown, newest_said_id)
    for place, item in enumerate(shown):
        if place not in kept and _is_surely_small(item.message, room.message_tokens):
            continue
        sizes[place] = estimate_message_tokens(item.message, count_tokens)
        if sizes[place] > room.message_tokens:
            limits[place] = sizes[place] = limit_tokens
    level_tokens = _level([sizes[place] for place in kept], room.kept_tokens)
    for place in kept:
        if sizes[place] > max(level_tokens, LEAST_SHOWN_TOKENS):
            limits[place] = level_tokens
    return {place: max(limit, LEAST_SHOWN_TOKENS) for place, limit in limits.items()}


def fitted(
    message: Message, limit_tokens: int, *, path: str, problem: str, count_tokens: Callable[[str], int]
) -> Shortened:
    """How a message is to be shown in about that many tokens; `path` and `problem` as for `cut`."""
    text = whole_text(message)
    images = sum(isinstance(block, Image) for block in message.content)
    if images * IMAGE_TOKENS > limit_tokens // 2:
        images = limit_tokens // 2 // IMAGE_TOKENS
    chars = min(len(text), limit_tokens * CHARS_PER_TOKEN)
    while True:
        head_chars = int(chars * HEAD_SHARE)
        tail_chars = chars - head_chars
        how = Shortened(
            head_chars=head_chars,
            tail_chars=tail_chars,
            images=images,
            note=left_out_note(text, head_chars, tail_chars, path=path, problem=problem),
        )
        tokens = estimate_message_tokens(shortened(message, how), count_tokens)
        if tokens <= limit_tokens or chars <= LEAST_SHOWN_CHARS:
            return how
        chars = max(LEAST_SHOWN_CHARS, min(chars * 9 // 10, chars * limit_tokens // tokens))


def _kept_places(shown: Sequence[TranscriptItem], newest_said_id: str) -> Sequence[int]:
    """What stays in view whatever is compacted: the newest step, what it answers, and the recalled notes."""
    start = next(
        (
            place
            for place in range(len(shown) - 1, -1, -1)
            if not shown[place].is_recall and not isinstance(shown[place].message, ToolResultMessage)
        ),
        0,
    )
    places = {place for place in range(start, len(shown)) if not shown[place].is_recall}
    before = range(start - 1, -1, -1)
    places |= {place for place in before if shown[place].entry_id == newest_said_id}
    recalled = [place for place in range(len(shown) - 1, -1, -1) if shown[place].is_recall]
    places |= {place for place in recalled if shown[place].has_place}
    places |= set([place for place in recalled if not shown[place].has_place][:1])
    return sorted(places)


def _level(sizes: Sequence[int], room_tokens: int) -> int:
    """The size to which the largest are cut so that all fit together; the small ones stay as they are."""
    left_tokens = room_tokens
    for number, size in enumerate(sorted(sizes)):
        share_tokens = left_tokens // (len(sizes) - number)
        if size > share_tokens:
            return share_tokens
        left_tokens -= size
    return max(sizes, default=0)


def _is_surely_small(message: Message, limit_tokens: int) -> bool:
    """Whether there is no need to count."""
    return MOST_TOKENS_PER_CHAR * message_chars(message) < limit_tokens


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
