"""What is computed of a transcript's branch, a step at the cost of what is new. Pure, given the tree."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from nacre.sessions.entries.tree import EntryTree
from nacre.sessions.view.sent_view import SentView
from nacre.sessions.view.transcript import TranscriptItem
from nacre.sessions.view.transcript_view import TranscriptView

T = TypeVar("T")


class BranchViews:
    """The views of one transcript, whatever keeps it. Asked from one thread at a time."""

    def __init__(self) -> None:
        self._view = TranscriptView()
        self._sent = SentView()
        self._kept: dict[Callable[[], object], object] = {}

    def transcript(self, tree: EntryTree) -> tuple[TranscriptItem, ...]:
        """What a model is to see of the present branch; the same object as long as that did not change."""
        return self._view.follow(tree.branch())

    def sent(self, tree: EntryTree) -> SentView:
        """What models are sent of that, brought up to the branch by this call."""
        branch = tree.branch()
        self._sent.follow(self._view.followed(branch), branch, is_compacted=tree.compaction_count > 0)
        return self._sent

    def kept(self, make: Callable[[], T]) -> T:
        """What `make` made when it was first asked for; kept as long as the views are."""
        if make not in self._kept:
            self._kept[make] = make()
        return cast(T, self._kept[make])
