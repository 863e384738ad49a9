"""A branch's transcript, kept up to date while the branch grows. Pure.

Computing it anew for each model call would cost more the longer a session is. Here an entry that goes
on where the last one ended costs the same in any session; only a compaction, or a move to another
branch, has the view computed once from the latest compaction on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from nacre.sessions.contracts.messages import AssistantMessage, Text, ToolCall, ToolResultMessage, UserMessage
from nacre.sessions.entries.entries import Compaction, CustomMessage, Entry
from nacre.sessions.view.following import Follower
from nacre.sessions.view.transcript import (
    RECALL_TYPE,
    TranscriptItem,
    entry_item,
    last_compaction_place,
    last_prompt_place,
    summary_item,
)

MISSING_RESULT = "No result of this call was recorded; the run was interrupted before it was done."


def build_transcript(branch: Sequence[Entry]) -> tuple[TranscriptItem, ...]:
    """The messages of a branch, root to leaf, as the model is to see them.

    After a compaction: its summary, then what was kept, then what came later; earlier compactions
    say nothing any more. When the kept part begins in the middle of a turn and holds no word of the
    user, the message that opened the turn stands between summary and kept part, so that the newest
    request is always there in full. What changed of the system prompt is left out once a newer record of
    the prompt has taken it in, and so are the notes that were recalled before the newest ones. Tool calls
    and results are paired, see `PairedItems`.
    """
    return TranscriptView().follow(branch)


class TranscriptView:
    """What `build_transcript` gives, for one branch after the other of a session's tree."""

    def __init__(self) -> None:
        self._follower = Follower()
        self._paired = PairedItems()

    def follow(self, branch: Sequence[Entry]) -> tuple[TranscriptItem, ...]:
        """The transcript of a branch; the same object as before when nothing changed in it."""
        return self.followed(branch).items()

    def followed(self, branch: Sequence[Entry]) -> PairedItems:
        """The same, for readers who look at what is new of it: another object when all of it may be."""
        fresh = self._follower.fresh(branch)
        if fresh is None or last_compaction_place(fresh) is not None or last_prompt_place(fresh) is not None:
            self._paired = PairedItems(_shown_from(branch))
        else:
            for entry in fresh:
                self._paired.add(entry_item(entry))
        return self._paired


class PairedItems:
    """Messages in which each call is followed by exactly one result, in the order of the calls.

    Providers refuse anything else. A call has the place of its result at once, with an error result in
    it; the result takes that place whenever it comes, also when others spoke in between. Results
    without a call, and second answers to one, are left out. A result belongs to the nearest call of its
    id before it, because some providers use the same ids again in each turn. Nothing else is moved,
    and no user message is ever dropped.
    """

    def __init__(self, items: Iterable[TranscriptItem | None] = ()) -> None:
        self.grown: list[TranscriptItem] = []
        """All of them so far; for readers who look at what is new."""
        self.replaced: list[int] = []
        """The places whose item is another one by now, in the order in which that happened."""
        self._open: dict[str, int] = {}
        self._shown: tuple[TranscriptItem, ...] | None = None
        for item in items:
            self.add(item)

    def add(self, item: TranscriptItem | None) -> None:
        """Takes the next message; `None` is an entry that says nothing."""
        if item is None:
            return
        if isinstance(item.message, ToolResultMessage):
            place = self._open.pop(item.message.tool_call_id, None)
            if place is not None:
                self.grown[place] = item
                self.replaced.append(place)
                self._shown = None
            return
        self._shown = None
        self.grown.append(item)
        if isinstance(item.message, AssistantMessage):
            for call in item.message.tool_calls:
                self._open[call.id] = len(self.grown)
                self.grown.append(_missing_result(item, call))

    def items(self) -> tuple[TranscriptItem, ...]:
        """All of them so far; the same object as long as nothing changed."""
        if self._shown is None:
            self._shown = tuple(self.grown)
        return self._shown


def _shown_from(branch: Sequence[Entry]) -> Iterable[TranscriptItem | None]:
    """What a branch shows, not yet paired; looks no further back than it must."""
    at = last_compaction_place(branch)
    if at is None:
        yield from _items(branch)
        return
    compaction = branch[at].body
    assert isinstance(compaction, Compaction), "its place was looked up"
    kept_id = compaction.first_kept_entry_id
    kept_from = next((place for place in range(at - 1, -1, -1) if branch[place].id == kept_id), at)
    kept = branch[kept_from:at]
    yield summary_item(branch[at], compaction)
    if kept and not any(isinstance(entry.body, UserMessage) for entry in kept):
        before = (branch[place] for place in range(kept_from - 1, -1, -1))
        asked = (entry for entry in before if isinstance(entry.body, UserMessage))
        yield from map(entry_item, islice(asked, 1))
    yield from _items([*kept, *branch[at + 1 :]])


def _items(entries: Sequence[Entry]) -> Iterable[TranscriptItem | None]:
    taken_in = last_prompt_place(entries) or 0
    recalls = [place for place, entry in enumerate(entries[:taken_in]) if _is_recall(entry)]
    outdated = set(recalls[:-1])
    for place, entry in enumerate(entries):
        item = entry_item(entry)
        is_outdated = place in outdated or (item is not None and item.has_place and place < taken_in)
        yield None if is_outdated else item


def _is_recall(entry: Entry) -> bool:
    return isinstance(entry.body, CustomMessage) and entry.body.custom_type == RECALL_TYPE


def _missing_result(caller: TranscriptItem, call: ToolCall) -> TranscriptItem:
    message = ToolResultMessage(
        tool_call_id=call.id,
        tool_name=call.name,
        content=(Text(text=MISSING_RESULT),),
        is_error=True,
        timestamp_ms=caller.message.timestamp_ms,
    )
    return TranscriptItem(entry_id=caller.entry_id, message=message, is_recall=False)
