"""How much of a long conversation is sent: the newest turns of it. Pure; the transcript keeps the rest."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.sessions.contracts.messages import UserMessage
from nacre.sessions.view.transcript import TranscriptItem


def newest_turns(
    items: Sequence[TranscriptItem], turns: int | None, *, is_compacted: bool
) -> Sequence[TranscriptItem]:
    """The items from the `turns`-th last user message on; `None`, zero and less mean all of them.

    A turn is a user message with all that followed it, so no call is parted from its result. The
    summary in front of a compacted transcript stays, and so do recalled notes: neither is a turn.
    `items` itself when nothing is left out.
    """
    if turns is None or turns <= 0:
        return items
    first_turn = 1 if is_compacted else 0
    asked = [
        place
        for place in range(first_turn, len(items))
        if isinstance(items[place].message, UserMessage) and not items[place].is_recall
    ]
    if len(asked) <= turns:
        return items
    kept_from = asked[-turns]
    recalled = (item for item in items[first_turn:kept_from] if item.is_recall)
    return (*items[:first_turn], *recalled, *items[kept_from:])
