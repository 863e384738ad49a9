"""What a model is sent of an open session: its newest turns, without the bulk of old tool results."""

from __future__ import annotations

from collections.abc import Sequence

from nacre.sessions.journal.journal import Journal
from nacre.sessions.view.pruned_view import PrunedView
from nacre.sessions.view.transcript import TranscriptItem, newest_turns


class ModelView:
    """The view of one journal. `history_turns` is how many turns are sent; `None`, zero and less are all."""

    def __init__(self, journal: Journal, *, history_turns: int | None) -> None:
        self.history_turns = history_turns
        self._journal = journal
        self._pruned = PrunedView()

    def unpruned(self) -> Sequence[TranscriptItem]:
        """What the branch says: its newest turns, or all of it."""
        is_compacted = self._journal.tree.compaction_count > 0
        return newest_turns(self._journal.transcript(), self.history_turns, is_compacted=is_compacted)

    def transcript(self) -> Sequence[TranscriptItem]:
        """What a model is sent of that."""
        return self._pruned.of(self.unpruned(), self._journal.branch())
