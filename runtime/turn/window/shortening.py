"""Decides which messages are too large for the window, and how much of each is shown instead. Pure.

A compaction cannot help against two things: one message that fills the window alone, and what every
compaction keeps (the newest step, and the words that it answers). Both are bounded here, before anything is
asked, so that no message can make a session unusable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nacre.records.record import Record
from nacre.runtime.contracts.budget import ContextBudget
from nacre.runtime.tools.results import CHARS_PER_TOKEN, left_out_note
from nacre.runtime.turn.window.pruning.plan import message_chars
from nacre.sessions.contracts.messages import Image, Message, ToolResultMessage
from nacre.sessions.view.sent_view import Shortened, shortened, whole_text
from nacre.sessions.view.tokens import IMAGE_TOKENS, estimate_message_tokens
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
